//! The gain over all trials of the last day, for `weir top`, `--list` and `--prometheus`.
//!
//! A trial has few pairs of slices, and disables the order for half of its time. With a trial every eight hours, that
//! is 0.4 % of the time, and the pairs of a day are evaluated together. Slices with and without the order show what the
//! order changes. A few unordered flows among ordered ones would not show that, because they would wait for the ordered
//! ones.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ::uplink::classify::{self, Settings};
use ::uplink::{Error, Interface};
use serde_json::{Value, json};
use units::Rate;

use super::judge::{Judgement, Pair, SMALL_BYTES, Sums};

/// The time for which a pair is used.
const KEPT_S: u64 = 24 * 3600;
/// Maximum number of pairs, 150 KB; the oldest go.
const PAIRS_MAX: usize = 500;
/// Between the policy with the ports, and the pairs.
const BETWEEN: char = ';';

/// The pairs of slices of the last day.
#[derive(Debug, Default, PartialEq)]
struct Kept(Vec<(u64, Pair)>);

/// The gain of an attach according to its trials.
#[derive(Debug, Clone, PartialEq)]
pub struct Gain {
    pub judgement: Judgement,
    /// The time since the last trial.
    pub age: Duration,
    /// The length, in seconds, of the slices in which responses counted.
    seconds: u64,
}

/// Adds the pairs of a trial to those of earlier trials.
pub fn add(interface: &Interface, settings: &Settings, pairs: &[Pair]) -> Result<(), Error> {
    let text = classify::kept_gain(interface).unwrap_or_default();
    let mut kept = Kept::parsed(&text, &key(settings), unix_now()).unwrap_or_default();
    kept.0.extend(pairs.iter().map(|pair| (unix_now(), *pair)));
    kept.0.drain(..kept.0.len().saturating_sub(PAIRS_MAX));
    classify::keep_gain(interface, &kept.text(&key(settings)))
}

/// Returns the gain of this attach in the last day's trials; `None` without trials, or if they had other settings.
pub fn read(interface: &Interface, settings: &Settings, rate: Rate) -> Option<Gain> {
    let now = unix_now();
    Kept::parsed(&classify::kept_gain(interface)?, &key(settings), now)?.gain(rate, now)
}

fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Returns the settings on which a gain depends most. A followed rate is left out, because it varies.
fn key(settings: &Settings) -> String {
    format!("{} {:?} {:?}", settings.policy.name(), settings.ports, settings.cuts)
}

impl Kept {
    fn text(&self, key: &str) -> String {
        let pair = |(at, pair): &(u64, Pair)| {
            let numbers = pair.iter().flat_map(Sums::numbers).map(|number| format!(" {number}"));
            format!("{BETWEEN}{at}{}", numbers.collect::<String>())
        };
        format!("{key}{}", self.0.iter().map(pair).collect::<String>())
    }

    /// Parses a text with this key, leaving out pairs that are too old.
    fn parsed(text: &str, key: &str, now: u64) -> Option<Kept> {
        let mut parts = text.split(BETWEEN);
        if parts.next()? != key {
            return None;
        }
        let pair = |text: &str| {
            let (at, numbers) = text.split_once(' ')?;
            let numbers: Vec<f64> = numbers.split(' ').map(|number| number.parse().ok()).collect::<Option<_>>()?;
            let (sums, rest) = numbers.as_chunks();
            let pair = <[[f64; 6]; 3]>::try_from(sums).ok().filter(|_| rest.is_empty())?;
            Some((at.parse().ok()?, pair.map(Sums::of_numbers)))
        };
        let all: Vec<(u64, Pair)> = parts.map(pair).collect::<Option<_>>()?;
        Some(Kept(all.into_iter().filter(|(at, _)| now.abs_diff(*at) <= KEPT_S).collect()))
    }

    fn gain(&self, rate: Rate, now: u64) -> Option<Gain> {
        let last = self.0.iter().map(|(at, _)| *at).max()?;
        let pairs: Vec<Pair> = self.0.iter().map(|(_, pair)| *pair).collect();
        let seconds = pairs.iter().map(|[_, _, carried]| carried.numbers()[2..4].iter().sum::<f64>()).sum::<f64>();
        let age = Duration::from_secs(now.saturating_sub(last));
        Some(Gain { judgement: Judgement::of_pairs(&pairs, rate), age, seconds: seconds.round() as u64 })
    }
}

impl Gain {
    /// Describes in a sentence the gain over all trials of the last day.
    pub fn said(&self) -> String {
        let minutes = self.age.as_secs() / 60;
        format!("trials of the last day, the latest {minutes} min ago: {}", self.judgement.said(self.seconds))
    }

    pub fn described(&self) -> Value {
        let small = self.judgement.small.as_ref();
        json!({
            "said": self.said(),
            "age_s": self.age.as_secs(),
            "small_bytes_max": SMALL_BYTES,
            "small_counts": self.judgement.small_counts,
            "small": small.map(|it| json!({ "with": it.with, "without": it.without, "factor": it.factor(), "low": it.low, "high": it.high })),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate() -> Rate {
        "10mbit".parse().unwrap()
    }

    /// A pair whose 20 small responses took these milliseconds in the mean, with and without the order.
    fn pair(with: f64, without: f64) -> Pair {
        let small = Sums::of_numbers([with * 0.02, without * 0.02, 20.0, 20.0, 20.0, 20.0]);
        let carried = Sums::of_numbers([9e6, 1e7, 1.25, 1.5, 1.0, 1.0]);
        [small, Sums::default(), carried]
    }

    #[test]
    fn what_is_kept_is_read_back_without_what_is_old() {
        let kept = Kept(vec![(1000, pair(4.0, 1.0 / 3.0)), (90_000, pair(0.1, 7e-9))]);
        let text = kept.text("psjf [80]");
        assert_eq!(Kept::parsed(&text, "psjf [80]", 87_400).as_ref(), Some(&kept));
        assert_eq!(Kept::parsed(&text, "psjf [80]", 87_401), Some(Kept(kept.0[1..].to_vec())));
        // A clock that was set back.
        assert_eq!(Kept::parsed(&text, "psjf [80]", 3000), Some(Kept(kept.0[..1].to_vec())));
        assert_eq!(Kept::parsed(&Kept(vec![]).text("las"), "las", 0), Some(Kept(vec![])));
        for broken in [
            "",
            "psjf [80",
            "psjf [80];",
            "psjf [80];1",
            "psjf [80];1 2 3",
            &(text.clone() + " 1"),
            &text.replace('9', "x"),
        ] {
            assert_eq!(Kept::parsed(broken, "psjf [80]", 1000), None, "{broken}");
        }
        assert_eq!(Kept::parsed(&text, "las [80]", 1000), None);
    }

    /// Three pairs may say nothing; those of a day do.
    #[test]
    fn trials_of_a_day_are_judged_together() {
        let noise = [0.2, 1.0, 2.2];
        let of = |trials: u64| {
            let pairs = (0..trials).flat_map(|trial| noise.map(|by| (3600 * trial, pair(4.0, 12.0 * by))));
            Kept(pairs.collect()).gain(rate(), 3600 * (trials - 1) + 130).unwrap()
        };
        let [one, many] = [of(1), of(20)];
        assert!(
            one.said().starts_with("trials of the last day, the latest 2 min ago: no gain shown: "),
            "{}",
            one.said()
        );
        assert!(
            many.said().starts_with("trials of the last day, the latest 2 min ago: the order helps: "),
            "{}",
            many.said()
        );
        assert_eq!((many.judgement.small_counts, many.seconds), ([1200, 1200], 165));
        assert_eq!(Kept::default().gain(rate(), 5), None);
        assert_eq!(many.described()["age_s"], 130);
    }
}
