use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use units::{Nanos, Rate, parse_duration};

use crate::{Conditions, Shape, Way};

/// Beyond any path on earth, by satellite too; a larger one is a mistake of units.
const RTT_MAX: Nanos = Nanos::from_secs(10);

/// Which packets of a path suffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ways {
    /// Those to the client and those to the server: half the delay each way, and loss and rate each way. What 003 does
    /// (section 5.1 B: Dummynet's behaviour, incoming and outgoing packets).
    #[default]
    Both,
    /// Only those to the client, which then have all the delay. What 002 does (section 5.1: netem on incoming packets).
    In,
}

/// What a path between server and client does, as people say it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PathSpec {
    /// Mean round-trip time it adds.
    pub rtt: Nanos,
    /// Spread of that round-trip time.
    pub jitter: Nanos,
    pub shape: Shape,
    /// Probability that a packet is lost, on each of the ways that suffer.
    pub loss: f64,
    pub rate: Option<Rate>,
    pub ways: Ways,
    /// Whether packets of one connection may overtake each other.
    pub reorder: bool,
}

impl PathSpec {
    /// What is wrong with it, in words for whoever wrote it.
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

    /// Whether packets pass as if there were no path.
    pub fn is_plain(&self) -> bool {
        self.one_way(Way::ToClient).is_plain()
    }

    /// What happens to packets that go this way.
    ///
    /// Both ways together have the round-trip time and its spread: of two independent normal delays each has 1/sqrt(2) of
    /// the spread of their sum.
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

/// As it stands on a command line: `rtt=100ms,jitter=20ms,shape=normal,loss=0.01,rate=1mbit,ways=in,reorder`.
impl FromStr for PathSpec {
    type Err = String;

    fn from_str(given: &str) -> Result<PathSpec, String> {
        let mut spec = PathSpec::default();
        for word in given.split(',').filter(|word| !word.is_empty()) {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            match key {
                "rtt" => spec.rtt = duration(value)?,
                "jitter" => spec.jitter = duration(value)?,
                "shape" => spec.shape = value.parse()?,
                "loss" => spec.loss = value.parse().map_err(|_| format!("`{value}` is not a number"))?,
                "rate" => spec.rate = Some(value.parse().map_err(|e: units::ParseError| e.to_string())?),
                "ways" if value == "both" => spec.ways = Ways::Both,
                "ways" if value == "in" => spec.ways = Ways::In,
                "reorder" if value.is_empty() => spec.reorder = true,
                _ => {
                    return Err(format!(
                        "`{word}` says nothing of a path: write rtt=, jitter=, shape=, loss=, rate=, ways=both, ways=in or reorder"
                    ));
                }
            }
        }
        spec.check().map(|()| spec)
    }
}

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

fn duration(value: &str) -> Result<Nanos, String> {
    parse_duration(value).map(Nanos::from).map_err(|e| e.to_string())
}

/// In the largest unit that keeps it whole.
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
    use proptest::prelude::*;

    #[test]
    fn both_ways_share_the_delay_and_have_each_the_loss() {
        let spec: PathSpec = "rtt=100ms,jitter=20ms,loss=0.05,rate=1mbit".parse().unwrap();
        for way in [Way::ToClient, Way::ToServer] {
            let one = spec.one_way(way);
            assert_eq!((one.delay, one.loss), (Nanos::from_millis(50), 0.05));
            assert_eq!(one.rate.map(Rate::bits_per_s), Some(1_000_000));
            assert!(one.jitter.0.abs_diff(14_142_136) < 2, "{:?}", one.jitter);
        }
    }

    #[test]
    fn incoming_packets_have_it_all() {
        let spec: PathSpec = "rtt=100ms,jitter=20ms,loss=0.05,ways=in".parse().unwrap();
        let incoming = spec.one_way(Way::ToClient);
        assert_eq!((incoming.delay, incoming.jitter), (Nanos::from_millis(100), Nanos::from_millis(20)));
        assert!(spec.one_way(Way::ToServer).is_plain() && !spec.is_plain());
        assert!("rtt=0ms,loss=0".parse::<PathSpec>().unwrap().is_plain());
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        for (given, says) in [
            ("loss=1.2", "`1.2` is not a loss"),
            ("loss=1", "`1` is not a loss"),
            ("loss=-0.1", "`-0.1` is not a loss"),
            ("loss=NaN", "`NaN` is not a loss"),
            ("rtt=-5ms", "`-5ms` is not a duration"),
            ("rtt=11s", "rtt `11s` is too long: write at most 10s"),
            ("rtt=10ms,jitter=10500us", "jitter `10500us` is larger than the rtt `10ms`"),
            ("rate=0mbit", "`0mbit` is not a rate"),
            ("rtt=1ms,ways=out", "`ways=out` says nothing of a path"),
            ("delay=1ms", "`delay=1ms` says nothing of a path"),
            ("shape=flat", "`flat` is not a shape"),
        ] {
            let said = given.parse::<PathSpec>().unwrap_err();
            assert!(said.starts_with(says), "{given}: {said}");
        }
    }

    proptest! {
        #[test]
        fn reads_back_what_it_writes(rtt in 0u64..=10_000_000_000, part in 0f64..=1.0, loss in 0f64..0.99,
                                     rate in prop::option::of(1u64..1_000_000_000), is_in: bool, reorder: bool) {
            let ways = if is_in { Ways::In } else { Ways::Both };
            let jitter = Nanos((rtt as f64 * part) as u64);
            let rate = rate.and_then(Rate::from_bits_per_s);
            let spec = PathSpec { rtt: Nanos(rtt), jitter, shape: Shape::Pareto, loss, rate, ways, reorder };
            prop_assert_eq!(spec.to_string().parse::<PathSpec>().unwrap(), spec);
        }
    }
}
