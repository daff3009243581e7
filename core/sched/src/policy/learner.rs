//! Cut points learned from observed values: sizes, or estimated response times.
//!
//! A histogram of buckets at most an eighth wide counts the values. The counts are halved from time to time, so that
//! old values lose weight and memory is bounded. The learner applies a rule to the histogram, and replaces the cuts in
//! force only if the gain is large enough: cuts that followed every fluctuation of a heavy tail would reorder the queue
//! for nothing.

use super::cuts::{Sizes, rule_of_thumb, spaced};

/// The rule by which cut points are found from observed values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The values are sizes in bytes; the cuts are the best ones by formula.
    Sizes,
    /// The values are times, for which no formula is known; the cuts follow the rule of thumb.
    Times,
}

/// Cut points of sizes are replaced if their cost exceeds the lowest possible cost by this factor.
const WORTH: f64 = 1.1;
/// Cut points of times are replaced if one of them has moved by more than this factor, given as a fraction: (3, 2) is
/// 1.5. The 99.25th percentile of a heavy tail (alpha 1.1) has a standard error of about 8 % here.
const MOVE_FACTOR: (u128, u128) = (3, 2);
/// The number of values after which the cut points are checked again. With more queued jobs it is larger, so that the
/// cost of reordering stays constant per arrival.
const CHECK_EVERY: u64 = 256;
/// The number of values before the first cut points are learned.
const FIRST_AT: u64 = 64;
/// The number of values after which all counts are halved, so that about the last 16,000 to 32,000 values are
/// remembered.
const AGE_EVERY: u64 = 16_384;

/// The number of buckets per octave. A bucket's width is at most its value divided by this.
const STEPS: u64 = 8;
const BUCKETS: usize = (64 - STEPS.ilog2() as usize + 1) * STEPS as usize;

#[derive(Debug)]
pub struct Learner {
    bands: usize,
    rule: Rule,
    counts: Box<[u32; BUCKETS]>,
    /// The sum of `counts`.
    total: u64,
    since_aged: u64,
    until_check: u64,
}

impl Learner {
    pub fn new(bands: usize, rule: Rule) -> Learner {
        Learner { bands, rule, counts: Box::new([0; BUCKETS]), total: 0, since_aged: 0, until_check: FIRST_AT }
    }

    /// Returns the initial cut points, spaced evenly on a logarithmic scale between these two values.
    pub fn cuts_at_first(&self, between: (u64, u64)) -> Vec<u64> {
        spaced(between.0 as f64, between.1 as f64, self.bands)
    }

    /// Counts a value. Returns new cut points if the present ones no longer fit.
    pub fn observe(&mut self, value: u64, cuts: &[u64], queued: usize) -> Option<Vec<u64>> {
        self.counts[bucket(value)] += 1;
        self.total += 1;
        self.since_aged += 1;
        if self.since_aged == AGE_EVERY {
            self.age();
        }
        self.until_check -= 1;
        if self.until_check > 0 {
            return None;
        }
        self.until_check = CHECK_EVERY.max(queued as u64);
        self.wanted(cuts)
    }

    /// Returns new cut points if they are worth a change from these.
    fn wanted(&self, cuts: &[u64]) -> Option<Vec<u64>> {
        match self.rule {
            Rule::Sizes => {
                let sizes = Sizes::of(|u| self.quantile(u));
                let best = sizes.cuts(self.bands);
                (sizes.cost(cuts) > WORTH * sizes.cost(&best)).then_some(best)
            }
            Rule::Times => {
                let wanted = rule_of_thumb(|u| self.quantile(u), self.bands);
                has_moved(cuts, &wanted).then_some(wanted)
            }
        }
    }

    fn age(&mut self) {
        self.since_aged = 0;
        self.counts.iter_mut().for_each(|count| *count /= 2);
        self.total = self.counts.iter().map(|count| u64::from(*count)).sum();
    }

    /// Returns the quantile, linear within a bucket; 1 if nothing was observed.
    fn quantile(&self, u: f64) -> f64 {
        let mut left = u * self.total as f64;
        for (at, &count) in self.counts.iter().enumerate() {
            let count = f64::from(count);
            if left <= count && count > 0.0 {
                let (low, high) = (low_end(at) as f64, low_end(at + 1) as f64);
                return low + (high - low) * left / count;
            }
            left -= count;
        }
        1.0
    }
}

fn has_moved(cuts: &[u64], wanted: &[u64]) -> bool {
    let (more, less) = MOVE_FACTOR;
    let is_far = |(a, b): (&u64, &u64)| u128::from(*a.max(b)) * less > u128::from(*a.min(b)) * more;
    cuts.len() != wanted.len() || cuts.iter().zip(wanted).any(is_far)
}

/// Returns the bucket of a value. Each value below [`STEPS`] has its own bucket; above, each octave has [`STEPS`]
/// buckets.
fn bucket(value: u64) -> usize {
    if value < STEPS {
        return value as usize;
    }
    let octave = u64::from(value.ilog2() - STEPS.ilog2());
    ((octave + 1) * STEPS + (value >> octave) - STEPS) as usize
}

/// The lowest value of a bucket.
fn low_end(bucket: usize) -> u64 {
    let (octave, step) = (bucket as u64 / STEPS, bucket as u64 % STEPS);
    if octave == 0 {
        return step;
    }
    // The end of the last bucket does not fit.
    u64::try_from(u128::from(STEPS + step) << (octave - 1)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_value_lies_in_its_bucket(value in prop_oneof![0u64..100, any::<u64>()]) {
            let at = bucket(value);
            prop_assert!(at < BUCKETS);
            prop_assert!(low_end(at) <= value);
            prop_assert!(at + 1 == BUCKETS || value < low_end(at + 1));
        }
    }

    #[test]
    fn the_last_bucket_is_for_the_largest_value() {
        assert_eq!((bucket(u64::MAX), low_end(BUCKETS)), (BUCKETS - 1, u64::MAX));
        assert_eq!([0, 7, 8, 15, 16, 17, 18].map(bucket), [0, 7, 8, 15, 16, 16, 17]);
    }

    #[test]
    fn quantiles_are_linear_within_a_bucket() {
        let mut learner = Learner::new(2, Rule::Times);
        assert_eq!(learner.quantile(0.5), 1.0);
        for value in [4, 16, 4, 16, 4, 16, 4, 16] {
            learner.observe(value, &[], 0);
        }
        // The values: four in the bucket from 4 to 5 and four in the bucket from 16 to 18.
        let quantiles = [0.125, 0.25, 0.5, 0.625, 0.75, 1.0].map(|u| learner.quantile(u));
        assert_eq!(quantiles, [4.25, 4.5, 5.0, 16.5, 17.0, 18.0]);
    }

    #[test]
    fn the_past_fades() {
        let mut learner = Learner::new(2, Rule::Times);
        let mut total_after = |values: u64| {
            (0..values).for_each(|_| drop(learner.observe(100, &[100], 0)));
            (learner.total, learner.counts[bucket(100)])
        };
        assert_eq!(total_after(AGE_EVERY - 1), (16_383, 16_383));
        assert_eq!(total_after(1), (8192, 8192));
        assert_eq!(total_after(AGE_EVERY - 1), (24_575, 24_575));
        assert_eq!(total_after(1), (12_288, 12_288));
    }

    /// Cuts are checked first after 64 values, then after 256, or after as many values as jobs are queued.
    #[test]
    fn cuts_are_looked_at_now_and_then() {
        let mut learner = Learner::new(2, Rule::Times);
        let mut until_moved =
            |value: u64, cuts: &[u64], queued| (1..).find(|_| learner.observe(value, cuts, queued).is_some()).unwrap();
        // No cut in force fits, so every check finds others.
        assert_eq!(until_moved(100, &[], 0), 64);
        assert_eq!(until_moved(100, &[], 0), 256);
        assert_eq!(until_moved(100, &[], 1000), 256);
        assert_eq!(until_moved(100, &[], 0), 1000);
    }

    /// Uniform numbers in (0, 1) by a fixed linear congruence.
    fn uniform() -> impl FnMut() -> f64 {
        let mut state = 7u64;
        move || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64
        }
    }

    /// Feeds values and applies the learned cuts; returns how often the cuts were replaced.
    fn feed(learner: &mut Learner, cuts: &mut Vec<u64>, values: impl Iterator<Item = u64>) -> usize {
        values.filter_map(|value| learner.observe(value, cuts, 0).map(|new| *cuts = new)).count()
    }

    fn pareto(u: f64, scale: f64) -> u64 {
        (scale * u.powf(-1.0 / 1.1)).min(1e12) as u64
    }

    /// The sizes have a maximum that a few of 16,000 jobs still reach, because values that never came cannot be
    /// learned.
    #[test]
    fn cuts_converge_to_the_best_and_stay() {
        let size = |u: f64| pareto(u, 500.0).min(2_000_000);
        let mut learner = Learner::new(5, Rule::Sizes);
        let mut cuts = learner.cuts_at_first((1000, 50_000));
        let mut next = uniform();
        feed(&mut learner, &mut cuts, (0..50_000).map(|_| size(next())));
        let exact = Sizes::of(|u| size(1.0 - u) as f64);
        let (learned, best) = (exact.cost(&cuts), exact.cost(&exact.cuts(5)));
        assert!(learned < 1.1 * best, "{cuts:?} costs {learned}, the best {best}");
        // A million more values of the same kind make 3,900 checks: the cuts wanted then move only by noise, and are
        // seldom replaced.
        let moves = feed(&mut learner, &mut cuts, (0..1_000_000).map(|_| size(next())));
        assert!(moves <= 5, "the cuts were replaced {moves} times");
    }

    #[test]
    fn cuts_of_times_converge_to_the_quantiles_and_stay() {
        let mut learner = Learner::new(5, Rule::Times);
        let mut cuts = learner.cuts_at_first((1000, 50_000));
        let mut next = uniform();
        feed(&mut learner, &mut cuts, (0..50_000).map(|_| pareto(next(), 500.0)));
        let exact = rule_of_thumb(|u| pareto(1.0 - u, 500.0) as f64, 5);
        assert_eq!(cuts.len(), exact.len());
        for (cut, exact) in cuts.iter().zip(&exact) {
            let ratio = *cut as f64 / *exact as f64;
            assert!((0.6..1.7).contains(&ratio), "{cuts:?} is far from {exact:?}");
        }
        let moves = feed(&mut learner, &mut cuts, (0..1_000_000).map(|_| pareto(next(), 500.0)));
        assert!(moves <= 3, "the cuts were replaced {moves} times");
    }

    #[test]
    fn cuts_follow_when_sizes_change() {
        for rule in [Rule::Sizes, Rule::Times] {
            let mut learner = Learner::new(3, rule);
            let mut cuts = learner.cuts_at_first((1000, 50_000));
            let mut next = uniform();
            feed(&mut learner, &mut cuts, (0..100_000).map(|_| pareto(next(), 500.0)));
            let before = cuts.clone();
            feed(&mut learner, &mut cuts, (0..200_000).map(|_| pareto(next(), 5000.0)));
            for (before, after) in before.iter().zip(&cuts) {
                let ratio = *after as f64 / *before as f64;
                assert!((3.0..30.0).contains(&ratio), "{rule:?}, ten times the sizes: {before} became {after}");
            }
        }
    }

    /// A constant offset between wanted and present cuts that stays just inside the factor changes nothing.
    #[test]
    fn small_moves_are_ignored() {
        assert!(!has_moved(&[1000, 2000], &[1500, 2000]));
        assert!(!has_moved(&[1500], &[1000]));
        assert!(has_moved(&[1000, 2000], &[1501, 2000]) && has_moved(&[1501], &[1000]));
        assert!(has_moved(&[1000], &[1000, 2000]));
    }
}
