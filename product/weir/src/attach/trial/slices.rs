//! The slices of a trial, in pairs: one with the order and one without it. A coin decides which comes first in each
//! pair, so that a load that rises or fluctuates favours neither.

use std::time::Duration;

use units::Nanos;

/// The minimum number of pairs. With fewer the interval is useless: with one degree of freedom, Student's t is 13.
pub const PAIRS_MIN: u32 = 3;
const PAIRS_MAX: u32 = 500;
/// The preferred number of slices, unless they would be too short or too long.
const SLICES: u32 = 10;
const SLICE_MIN: Duration = Duration::from_secs(3);
const SLICE_MAX: Duration = Duration::from_secs(20);
/// Responses that begin this close to the end of a slice do not count, because most small ones would end in the next
/// slice.
const TAIL: Duration = Duration::from_millis(250);

/// A duration that is too short or too long for a trial, with the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfit {
    Short(Duration),
    Long(Duration),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slices {
    /// True for each slice with the order. Each pair has two slices.
    pub are_ordered: Vec<bool>,
    pub each: Duration,
}

impl Slices {
    /// Returns the slices of a trial of this duration. `toss` decides which slice of a pair comes first.
    pub fn new(time: Duration, mut toss: impl FnMut() -> bool) -> Result<Slices, Unfit> {
        let longest = SLICE_MAX * 2 * PAIRS_MAX;
        if time > longest {
            return Err(Unfit::Long(longest));
        }
        let wanted = (time / SLICES).clamp(SLICE_MIN, SLICE_MAX);
        let pairs = u32::try_from(time.as_nanos() / (wanted * 2).as_nanos()).unwrap_or(PAIRS_MAX);
        if pairs < PAIRS_MIN {
            return Err(Unfit::Short(SLICE_MIN * 2 * PAIRS_MIN));
        }
        let are_ordered = (0..pairs)
            .flat_map(|_| {
                let is_first = toss();
                [is_first, !is_first]
            })
            .collect();
        Ok(Slices { are_ordered, each: time / (pairs * 2) })
    }

    pub fn each_ns(&self) -> Nanos {
        nanos(self.each)
    }

    /// Returns the part of a slice in which responses must begin to count. The first half does not count: at a rate of
    /// 0.95 of the line's, a queue of 150 KB in a router takes 2.4 s at 10 Mbit/s to drain.
    pub fn counted(&self, from: Nanos, to: Nanos) -> (Nanos, Nanos) {
        (Nanos(from.0.saturating_add(nanos(self.each / 2).0)), Nanos(to.0.saturating_sub(nanos(TAIL).0)))
    }
}

fn nanos(time: Duration) -> Nanos {
    Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slices(seconds: u64) -> Result<Slices, Unfit> {
        Slices::new(Duration::from_secs(seconds), || true)
    }

    #[test]
    fn a_trial_has_as_many_pairs_as_fit() {
        let of = |seconds| slices(seconds).map(|slices| (slices.are_ordered.len(), slices.each.as_millis()));
        let short = Err(Unfit::Short(Duration::from_secs(18)));
        assert_eq!([17, 18, 20, 60].map(of), [short, Ok((6, 3000)), Ok((6, 3333)), Ok((10, 6000))]);
        assert_eq!([600, 3600, 20_000].map(of), [Ok((30, 20_000)), Ok((180, 20_000)), Ok((1000, 20_000))]);
        let long = Err(Unfit::Long(Duration::from_secs(20_000)));
        assert_eq!([0, 20_001, 360_000_000].map(of), [short, long, long]);
    }

    #[test]
    fn each_pair_has_one_of_each_in_the_order_drawn() {
        let tosses = [true, false, false, true, true];
        let mut left = tosses.into_iter();
        let slices = Slices::new(Duration::from_secs(60), || left.next().unwrap()).unwrap();
        let pairs: Vec<&[bool]> = slices.are_ordered.chunks(2).collect();
        let expected: Vec<[bool; 2]> = tosses.iter().map(|first| [*first, !first]).collect();
        assert_eq!(pairs, expected);
    }

    #[test]
    fn responses_soon_after_a_switch_do_not_count() {
        let (at, slices) = (Nanos::from_millis, slices(60).unwrap());
        assert_eq!(slices.counted(at(10_000), at(16_000)), (at(13_000), at(15_750)));
        // Ended at once: nothing counts.
        let (from, to) = slices.counted(at(10_000), at(10_000));
        assert!(from > to);
    }
}
