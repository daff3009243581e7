//! Classes of responses: the shares of the link that a hoster guarantees to customers.
//!
//! A class is a leaf of the tree with a minimum rate, a maximum rate, and turns in proportion to its weight. Below the
//! leaf is another HTB with the response bands. The bands cannot be in the root HTB, because its priorities apply to
//! the whole link: the rate that an idle class leaves would go to the class with the smallest responses, regardless of
//! weights.

use std::fmt;
use std::fs;
use std::io;
use std::str::FromStr;

use units::Rate;

use super::leftovers::{self, path};
use super::{CONTROL_BAND, OTHER_BAND, Plan, RATE_MIN_BITS_PER_S, build};
use crate::constants::CLASSES_MAX;
use crate::{Error, Interface};

pub const WEIGHT_MAX: u16 = 1000;
/// The prefix of the file names.
const KIND: &str = "classes";
/// The divisor of the link's bytes per second that gives the minimum length of a turn in bytes: one packet, as limited
/// by `segments.rs`.
const TURN_PARTS: u64 = 1000;
const TURN_BYTES_MAX: u64 = 65_536;

/// A rate, or a part of the line's rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Rate(Rate),
    /// A percentage, 1 to 100.
    Percent(u8),
}

impl Part {
    /// Returns this part of `link_bytes_per_s`, in bytes per second.
    pub fn of(self, link_bytes_per_s: u64) -> u64 {
        match self {
            Part::Rate(rate) => build::bytes_per_s(rate),
            Part::Percent(percent) => (u128::from(link_bytes_per_s) * u128::from(percent) / 100) as u64,
        }
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Part, String> {
        let Some(percent) = text.trim().strip_suffix('%') else {
            return text.parse().map(Part::Rate).map_err(|error: units::ParseError| format!("{error}, or a part, 20%"));
        };
        let percent = percent.trim().parse().ok().filter(|percent| (1..=100).contains(percent));
        percent.map(Part::Percent).ok_or_else(|| format!("`{text}` is not a part of the rate: write 1% to 100%"))
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Rate(rate) => write!(f, "{rate}"),
            Part::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// The part of the link that a class has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassShare {
    /// The weight, 1 to [`WEIGHT_MAX`].
    pub weight: u16,
    pub min_rate: Option<Part>,
    pub max_rate: Option<Part>,
}

impl Default for ClassShare {
    fn default() -> ClassShare {
        ClassShare { weight: 1, min_rate: None, max_rate: None }
    }
}

/// The rates of a class on a link, in bytes per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassRates {
    /// The guaranteed rate, above 0.
    pub guaranteed: u64,
    pub ceiling: u64,
    /// The rate of the class, in bytes per second, if all classes have something to send.
    pub nominal: u64,
    /// The bytes that the class sends before another class gets its turn.
    pub turn_bytes: u32,
}

/// Returns the maximum sum of the classes' minimum rates, in bytes per second: the link's rate without the shares of
/// other traffic, of control packets and of each class.
pub fn room(plan: &Plan) -> u64 {
    let shares = [CONTROL_BAND, OTHER_BAND].map(|band| build::share_bytes_per_s(plan, band));
    let all = shares.iter().sum::<u64>() + plan.classes.len() as u64 * least(plan);
    build::bytes_per_s(plan.rate).saturating_sub(all)
}

/// Returns the rate guaranteed to each class in addition to its minimum rate: the share of one band. HTB makes a class
/// that has sent a packet wait for as long as the packet takes at the guaranteed rate before another rate counts.
fn least(plan: &Plan) -> u64 {
    build::share_bytes_per_s(plan, CONTROL_BAND)
}

/// Returns the rates of the plan's classes. If the sum of the minimum rates is too high, as on a line that has become
/// slower, they are reduced in proportion: a tree that guarantees more than the link's rate would exceed it.
pub fn rates(plan: &Plan, packet_bytes: u64) -> Vec<ClassRates> {
    let (link, room) = (build::bytes_per_s(plan.rate), room(plan));
    let least_ceiling = (RATE_MIN_BITS_PER_S / 8).min(link);
    let ceiling = |share: &ClassShare| share.max_rate.map_or(link, |max| max.of(link).clamp(least_ceiling, link));
    let floor = |share: &ClassShare| share.min_rate.map_or(0, |min| min.of(link)).min(ceiling(share));
    let floors: u64 = plan.classes.iter().map(floor).fold(0, u64::saturating_add);
    let weights: u64 = plan.classes.iter().map(|share| u64::from(share.weight)).sum();
    let least_weight = plan.classes.iter().map(|share| share.weight).min().unwrap_or(1).max(1);
    let turn = packet_bytes.max((link / TURN_PARTS).min(TURN_BYTES_MAX));
    let part = |of: u64, share: u64, all: u64| (u128::from(of) * u128::from(share) / u128::from(all.max(1))) as u64;
    let of = |share: &ClassShare| {
        let floor = part(floor(share), room.min(floors), floors);
        let free = part(room.saturating_sub(floors), share.weight.into(), weights);
        ClassRates {
            guaranteed: (floor + least(plan)).min(ceiling(share)),
            ceiling: ceiling(share),
            nominal: (floor + least(plan) + free).min(ceiling(share)),
            turn_bytes: u32::try_from(part(turn, share.weight.into(), least_weight.into())).unwrap_or(u32::MAX),
        }
    };
    plan.classes.iter().map(of).collect()
}

/// Returns an error if the plan has more classes than a tree can hold, or a class without weight.
pub fn check(plan: &Plan) -> Result<(), Error> {
    if plan.classes.len() > CLASSES_MAX {
        return Err(Error::new(format!("{} classes: a tree takes {CLASSES_MAX}", plan.classes.len())));
    }
    match plan.classes.iter().find(|share| !(1..=WEIGHT_MAX).contains(&share.weight)) {
        Some(share) => Err(Error::new(format!("weight {}: a class takes 1 to {WEIGHT_MAX}", share.weight))),
        None if plan.classes.is_empty() || plan.kind == super::Kind::Htb => Ok(()),
        None => Err(Error::new("classes need --qdisc htb: the bands of prio know no rates")),
    }
}

/// Fails if the sum of the minimum rates is too high for this rate.
pub fn check_floors(plan: &Plan) -> Result<(), Error> {
    let (link, room) = (build::bytes_per_s(plan.rate), room(plan));
    let floors = plan.classes.iter().filter_map(|share| share.min_rate).map(|min| min.of(link));
    let floors: u64 = floors.fold(0, u64::saturating_add);
    if floors <= room {
        return Ok(());
    }
    let said = |bytes_per_s: u64| {
        Rate::from_bits_per_s(bytes_per_s.saturating_mul(8)).map_or(0.0, |rate| rate.bits_per_s() as f64 / 1e6)
    };
    let (rate, other) = (plan.rate, f64::from(plan.other_share_permille) / 10.0);
    Err(Error::new(format!(
        "minimum rates of {} Mbit/s together: write at most {} Mbit/s, which {rate} has without the {other} % of other traffic",
        said(floors),
        said(room)
    )))
}

/// Stores the shares, because the kernel stores only rates and a percentage must follow the line's rate.
pub fn keep(interface: &Interface, classes: &[ClassShare]) -> io::Result<()> {
    if classes.is_empty() {
        forget(interface);
        return Ok(());
    }
    let part = |part: Option<Part>| part.map_or("-".to_string(), |part| part.to_string());
    let text: Vec<String> = classes
        .iter()
        .map(|share| format!("{} {} {}", share.weight, part(share.min_rate), part(share.max_rate)))
        .collect();
    leftovers::write(&path(KIND, interface)?, interface, &text.join(";"))
}

/// Returns the shares stored for this interface.
pub fn kept(interface: &Interface) -> Option<Vec<ClassShare>> {
    parse(&leftovers::read(&path(KIND, interface).ok()?, interface)?)
}

pub fn forget(interface: &Interface) {
    if let Ok(path) = path(KIND, interface) {
        // Usually there is no such file.
        let _ = fs::remove_file(path);
    }
}

fn parse(text: &str) -> Option<Vec<ClassShare>> {
    let part = |word: &str| if word == "-" { Some(None) } else { word.parse().ok().map(Some) };
    let share = |words: &str| {
        let mut words = words.split(' ');
        let (weight, min, max) = (words.next()?, words.next()?, words.next()?);
        Some(ClassShare { weight: weight.parse().ok()?, min_rate: part(min)?, max_rate: part(max)? })
    };
    text.split(';').map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Kind;

    fn share(weight: u16, min: &str, max: &str) -> ClassShare {
        let part = |text: &str| (text != "-").then(|| text.parse().unwrap());
        ClassShare { weight, min_rate: part(min), max_rate: part(max) }
    }

    fn plan(rate: &str, classes: &[ClassShare]) -> Plan {
        Plan { classes: classes.to_vec(), ..Plan::new(Kind::Htb, rate.parse().unwrap()) }
    }

    /// Other traffic is guaranteed a fifth of the 10 Mbit/s, and packets without data 0.5 %.
    #[test]
    fn what_the_minimum_rates_leave_is_divided_by_weight() {
        let classes = [share(1, "-", "-"), share(3, "2mbit", "-"), share(2, "-", "500kbit")];
        let rates = rates(&plan("10mbit", &classes), 1514);
        // Each class is guaranteed as much as packets without data.
        let free = (1_250_000 - 250_000 - 6250) - 3 * 6250 - 250_000;
        assert_eq!(rates.iter().map(|rates| rates.guaranteed).collect::<Vec<_>>(), [6250, 256_250, 6250]);
        assert_eq!(rates.iter().map(|rates| rates.ceiling).collect::<Vec<_>>(), [1_250_000, 1_250_000, 62_500]);
        assert_eq!(
            rates.iter().map(|rates| rates.nominal).collect::<Vec<_>>(),
            [6250 + free / 6, 256_250 + free / 2, 62_500]
        );
        assert_eq!(rates.iter().map(|rates| rates.turn_bytes).collect::<Vec<_>>(), [1514, 3 * 1514, 2 * 1514]);
        // Turns are in proportion to the least weight, and no shorter than a packet of a fast link.
        assert_eq!(
            super::rates(&plan("100mbit", &[share(1000, "-", "-"), share(999, "-", "-")]), 1514)[0].turn_bytes,
            12_512
        );
    }

    #[test]
    fn parts_follow_the_line_and_guarantee_no_more_than_it_has() {
        let classes = [share(1, "40%", "50%"), share(1, "4mbit", "-")];
        let at = |rate: &str| {
            let plan = plan(rate, &classes);
            let rates = rates(&plan, 1514);
            assert!(
                rates.iter().map(|rates| rates.guaranteed).sum::<u64>() <= room(&plan) + 2 * least(&plan),
                "{rate}: {rates:?}"
            );
            (rates[0].guaranteed, rates[0].ceiling, rates[1].guaranteed)
        };
        assert_eq!(at("20mbit"), (1_012_500, 1_250_000, 512_500));
        assert_eq!(at("10mbit").1, 625_000);
        // The minimum rates are 4 and 4 of 10, of which 7.85 are available; a maximum rate takes precedence over a
        // minimum rate.
        assert_eq!(at("10mbit"), (496_875, 625_000, 496_875));
        assert_eq!(at("1mbit").1, 62_500);
        let capped = [share(1, "3mbit", "1mbit")];
        assert_eq!(rates(&plan("10mbit", &capped), 1514)[0].guaranteed, 125_000);
    }

    /// The maximum rate is a part of a line that has become slow.
    #[test]
    fn no_maximum_rate_is_below_that_of_a_tree() {
        let ceiling = |rate: &str| rates(&plan(rate, &[share(1, "-", "1%")]), 1514)[0].ceiling;
        assert_eq!(["12kbit", "100kbit", "10mbit"].map(ceiling), [1500, 1500, 12_500]);
    }

    #[test]
    fn no_number_wraps() {
        let classes = vec![share(1000, "10tbit", "10tbit"); CLASSES_MAX];
        for rate in ["12kbit", "10tbit"] {
            let plan = plan(rate, &classes);
            assert!(
                rates(&plan, 1 << 20).iter().map(|rates| rates.guaranteed).sum::<u64>()
                    <= room(&plan) + 16 * least(&plan),
                "{rate}"
            );
        }
        let said = |classes: Vec<ClassShare>| plan("1mbit", &classes).check().unwrap_err().to_string();
        assert_eq!(said(vec![share(0, "-", "-")]), "weight 0: a class takes 1 to 1000");
        assert_eq!(said(vec![share(1001, "-", "-")]), "weight 1001: a class takes 1 to 1000");
        assert_eq!(said(vec![share(1, "-", "-"); 17]), "17 classes: a tree takes 16");
    }

    #[test]
    fn shares_read_back() {
        let classes = [share(1000, "20%", "-"), share(1, "5000001bit", "100%")];
        assert_eq!(parse("1000 20% -;1 5000.001kbit 100%").unwrap(), classes);
        for broken in ["", "1", "1 -", "x - -", "1 20 -", "1 0% -", "1 - 101%"] {
            assert_eq!(parse(broken), None, "{broken}");
        }
    }
}
