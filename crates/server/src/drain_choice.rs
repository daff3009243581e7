//! Which drain this machine allows, found once at the start.

use std::net::SocketAddr;

use sched::{Drain, Guard, Pace, policy};
use units::{Nanos, Rate};
use uplink::{Interface, Shaper};

use crate::transmit::Gauge;

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrainKind {
    /// The best there is.
    Auto,
    /// At the pace of the uplink, exact order.
    Paced,
    /// As fast as sockets take it.
    Off,
}

/// What was found.
pub struct DrainChoice {
    /// A spec that [`sched::policy::parse`] takes.
    pub policy: String,
    pub pace: Pace,
    pub guard_permille: u32,
    /// Reads the queue below, where there is one to be read.
    pub gauge: Option<Gauge>,
    /// One line for the operator: which drain, and why.
    pub why: String,
}

/// Of a rate somebody told us this much is used: where the queue below cannot be read, the rest is what keeps it
/// empty when our count of the bytes on the wire is a little short.
const BLIND_PERMILLE: u32 = 980;
/// A grant is made this long before the link falls idle: about what a wake-up takes on a busy machine.
const AHEAD: Nanos = Nanos::from_micros(300);
/// How much lag may be caught up: about one full segment at 10 Mbit/s, which every shaper's burst allows.
const BEHIND: Nanos = Nanos::from_millis(1);
/// Link time of one grant.
const GRANT_FOR: Nanos = Nanos::from_millis(1);

impl DrainChoice {
    /// `policy` is a spec that was found right. Never fails: where the uplink cannot be found out, the drain is off and `why` says so.
    pub fn find(
        kind: DrainKind,
        policy: &str,
        guard_permille: u32,
        uplink: Option<Rate>,
        listen: SocketAddr,
    ) -> DrainChoice {
        let off = |reason: &str| DrainChoice {
            policy: policy.to_string(),
            pace: Pace::UNLIMITED,
            guard_permille,
            gauge: None,
            why: format!("drain off, policy {policy} within each turn: {reason}"),
        };
        if kind == DrainKind::Off {
            return off("asked for");
        }
        let shaper = Interface::serving(listen.ip()).and_then(|found| found.map_or(Ok(None), Shaper::of));
        match (uplink, shaper) {
            (asked, Ok(Some(shaper))) if is_bottleneck(shaper.rate, asked) => {
                DrainChoice::over(shaper, policy, guard_permille)
            }
            (Some(rate), _) => DrainChoice {
                policy: policy.to_string(),
                pace: pace(rate.permille(BLIND_PERMILLE)),
                guard_permille,
                gauge: None,
                why: format!("drain paced at 98 % of {rate}, policy {policy}: the uplink's rate was given"),
            },
            (None, Ok(_)) => off("no --uplink was given and the interface has no shaper to read a rate from"),
            (None, Err(error)) => off(&format!("no --uplink was given and the interface cannot be asked: {error}")),
        }
    }

    /// With a shaper of our own host below, its queue tells how we are doing, and no margin is needed.
    fn over(mut shaper: Shaper, policy: &str, guard_permille: u32) -> DrainChoice {
        let rate = shaper.rate;
        let (kind, interface) = (shaper.kind.clone(), shaper.interface.name.clone());
        let why = format!("drain paced at {rate}, policy {policy}: {interface} is shaped by {kind}");
        let gauge = Gauge::new(move || shaper.backlog_bytes().ok());
        DrainChoice { policy: policy.to_string(), pace: pace(rate), guard_permille, gauge: Some(gauge), why }
    }

    pub fn is_paced(&self) -> bool {
        self.pace.rate.is_some()
    }

    /// A drain as chosen.
    pub fn drain(&self) -> Drain {
        let policy = policy::parse(&self.policy).expect("specs were checked when they were read");
        Drain::new(policy, self.pace).with_guard(Guard::new(self.guard_permille))
    }
}

/// Whether the shaper is what limits us. Below a slower uplink somewhere else its queue is always empty, and would
/// tell us to send faster than that uplink can.
fn is_bottleneck(shaper: Rate, asked: Option<Rate>) -> bool {
    asked.is_none_or(|asked| asked >= shaper)
}

fn pace(rate: Rate) -> Pace {
    Pace { rate: Some(rate), grant_for: GRANT_FOR, ahead: AHEAD, behind: BEHIND }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(kind: DrainKind, uplink: Option<&str>) -> DrainChoice {
        let uplink = uplink.map(|rate| rate.parse().unwrap());
        DrainChoice::find(kind, "srpt", 0, uplink, "127.0.0.1:0".parse().unwrap())
    }

    #[test]
    fn a_given_rate_is_paced_with_a_margin() {
        let choice = find(DrainKind::Auto, Some("10mbit"));
        assert_eq!(choice.pace.rate, "9.8mbit".parse().ok());
    }

    #[test]
    fn a_shaper_faster_than_the_uplink_is_not_the_bottleneck() {
        let rate = |text: &str| text.parse::<Rate>().unwrap();
        let shaper = rate("1gbit");
        assert!(is_bottleneck(shaper, None));
        assert!(is_bottleneck(shaper, Some(rate("1gbit"))) && is_bottleneck(shaper, Some(rate("2gbit"))));
        assert!(!is_bottleneck(shaper, Some(rate("999mbit"))));
    }

    #[test]
    fn without_a_rate_it_is_off_and_says_why() {
        for kind in [DrainKind::Auto, DrainKind::Paced, DrainKind::Off] {
            let choice = find(kind, None);
            assert!(!choice.is_paced());
            assert!(choice.why.starts_with("drain off"), "{}", choice.why);
        }
        assert!(!find(DrainKind::Off, Some("10mbit")).is_paced());
    }
}
