use std::fmt;

use serde::Deserialize;
use units::{Nanos, Rate};

/// The maximum round-trip time, above that of any path on earth, including satellites; a larger value is a wrong unit.
const RTT_MAX: Nanos = Nanos::from_secs(10);

/// The distribution of delays around their mean, in netem's terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// Uniform within one jitter of the mean, netem's default.
    Uniform,
    /// Normal, with the jitter as the standard deviation, bounded at four standard deviations from the mean.
    #[default]
    Normal,
}

impl Shape {
    pub fn name(self) -> &'static str {
        match self {
            Shape::Uniform => "uniform",
            Shape::Normal => "normal",
        }
    }

    /// The longest delay, in jitters above the mean.
    fn bound(self) -> f64 {
        match self {
            Shape::Uniform => 1.0,
            Shape::Normal => 4.0,
        }
    }
}

/// The directions in which a path affects packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ways {
    /// Packets to the client and packets to the server, with half the delay each way, and loss and rate each way, as in
    /// 003 (section 5.1 B: Dummynet's behaviour, incoming and outgoing packets).
    #[default]
    Both,
    /// Only packets to the client, which then have the whole delay, as in 002 (section 5.1: netem on incoming packets).
    In,
}

/// The direction of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    ToClient,
    ToServer,
}

/// The effect of a path on packets in one direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Conditions {
    /// The mean delay.
    pub delay: Nanos,
    /// The spread of the delay around its mean, as defined by its shape.
    pub jitter: Nanos,
    pub shape: Shape,
    /// The probability that a packet is lost, independently of other packets.
    pub loss: f64,
    /// The rate of the narrowest link of the path, if any.
    pub rate: Option<Rate>,
    /// True if packets may overtake each other according to their delays.
    pub reorder: bool,
}

impl Conditions {
    /// Returns true if the path has no effect.
    pub fn is_plain(&self) -> bool {
        self.delay == Nanos::ZERO && self.jitter == Nanos::ZERO && self.loss == 0.0 && self.rate.is_none()
    }

    /// The maximum delay, without the wait for the rate.
    pub fn delay_max(&self) -> Nanos {
        self.delay + Nanos((self.jitter.0 as f64 * self.shape.bound()) as u64)
    }
}

/// The effect of a path between server and client, as specified by users.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PathSpec {
    /// The mean round-trip time that it adds.
    pub rtt: Nanos,
    /// The spread of that round-trip time.
    pub jitter: Nanos,
    pub shape: Shape,
    /// The probability that a packet is lost, in each affected direction.
    pub loss: f64,
    pub rate: Option<Rate>,
    pub ways: Ways,
    /// True if packets may overtake each other, as with netem's own jitter; otherwise each waits for all packets before
    /// it.
    pub reorder: bool,
}

impl PathSpec {
    /// Checks the path. Returns a fault in words for the author of the file.
    pub fn check(&self) -> Result<(), String> {
        if self.rtt > RTT_MAX {
            return Err(format!("rtt `{}` is too long: write at most {}", text(self.rtt), text(RTT_MAX)));
        }
        if self.jitter > self.rtt {
            let (jitter, rtt) = (text(self.jitter), text(self.rtt));
            return Err(format!(
                "jitter `{jitter}` is larger than the rtt `{rtt}`: no packet arrives before it was sent"
            ));
        }
        if !(0.0..1.0).contains(&self.loss) {
            return Err(format!(
                "`{}` is not a loss: write the probability that a packet is lost, from 0 and below 1, for example 0.05",
                self.loss
            ));
        }
        Ok(())
    }

    /// Returns true if the path has no effect.
    pub fn is_plain(&self) -> bool {
        self.one_way(Way::ToClient).is_plain()
    }

    /// The delay and loss of packets in this direction.
    ///
    /// The two directions together have the round-trip time and its spread: two independent normal delays each have
    /// 1/sqrt(2) of the spread of their sum.
    pub fn one_way(&self, way: Way) -> Conditions {
        let &PathSpec { rtt, jitter, shape, loss, rate, ways, reorder } = self;
        let plain = Conditions { delay: Nanos::ZERO, jitter: Nanos::ZERO, shape, loss: 0.0, rate: None, reorder };
        match (ways, way) {
            (Ways::In, Way::ToServer) => plain,
            (Ways::In, Way::ToClient) => Conditions { delay: rtt, jitter, loss, rate, ..plain },
            (Ways::Both, _) => {
                let jitter = Nanos((jitter.0 as f64 * std::f64::consts::FRAC_1_SQRT_2) as u64);
                Conditions { delay: Nanos(rtt.0 / 2), jitter, loss, rate, ..plain }
            }
        }
    }
}

/// The text of manifests: `rtt=100ms,jitter=20ms,shape=normal,loss=0.01,rate=1mbit,ways=in,reorder`.
impl fmt::Display for PathSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rtt={},jitter={}", text(self.rtt), text(self.jitter))?;
        write!(f, ",shape={},loss={}", self.shape.name(), self.loss)?;
        if let Some(rate) = self.rate {
            write!(f, ",rate={rate}")?;
        }
        f.write_str(match self.ways {
            Ways::Both => ",ways=both",
            Ways::In => ",ways=in",
        })?;
        if self.reorder { f.write_str(",reorder") } else { Ok(()) }
    }
}

/// Formats a span in the largest unit in which it is a whole number.
fn text(span: Nanos) -> String {
    let Nanos(ns) = span;
    for (unit_ns, unit) in [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")] {
        if ns.is_multiple_of(unit_ns) {
            return format!("{}{unit}", ns / unit_ns);
        }
    }
    format!("{ns}ns")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(ways: Ways) -> PathSpec {
        let (rtt, jitter) = (Nanos::from_millis(100), Nanos::from_millis(20));
        PathSpec { rtt, jitter, loss: 0.05, rate: Rate::from_bits_per_s(1_000_000), ways, ..PathSpec::default() }
    }

    #[test]
    fn both_ways_share_the_delay_and_have_each_the_loss() {
        for way in [Way::ToClient, Way::ToServer] {
            let one = path(Ways::Both).one_way(way);
            assert_eq!((one.delay, one.loss), (Nanos::from_millis(50), 0.05));
            assert_eq!(one.rate.map(Rate::bits_per_s), Some(1_000_000));
            assert!(one.jitter.0.abs_diff(14_142_136) < 2, "{:?}", one.jitter);
        }
    }

    #[test]
    fn incoming_packets_have_it_all() {
        let spec = path(Ways::In);
        let incoming = spec.one_way(Way::ToClient);
        assert_eq!((incoming.delay, incoming.jitter), (Nanos::from_millis(100), Nanos::from_millis(20)));
        assert!(spec.one_way(Way::ToServer).is_plain() && !spec.is_plain());
        assert!(PathSpec::default().is_plain());
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        let ms = Nanos::from_millis;
        for (spec, says) in [
            (PathSpec { loss: 1.0, ..PathSpec::default() }, "`1` is not a loss"),
            (PathSpec { loss: -0.1, ..PathSpec::default() }, "`-0.1` is not a loss"),
            (PathSpec { loss: f64::NAN, ..PathSpec::default() }, "`NaN` is not a loss"),
            (PathSpec { rtt: ms(11_000), ..PathSpec::default() }, "rtt `11s` is too long: write at most 10s"),
            (
                PathSpec { rtt: ms(10), jitter: Nanos(10_500_000), ..PathSpec::default() },
                "jitter `10500us` is larger than the rtt `10ms`",
            ),
        ] {
            let said = spec.check().unwrap_err();
            assert!(said.starts_with(says), "{said}");
        }
    }
}
