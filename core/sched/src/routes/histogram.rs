//! The sizes of a route's responses, including responses of which only a lower bound is known.
//!
//! The size of an aborted response is larger than the bytes sent. If such responses were left out, large sizes would
//! look rare, because large responses are aborted most; if they counted as finished, large responses would look small.
//! So they are censored samples: the actuarial estimate of survival counts such a response up to the bucket in which it
//! was aborted, and for half of that bucket (Cutler & Ederer, "Maximum utilization of the life table method in
//! analyzing survival", 1958; it equals Kaplan & Meier's estimate for values in buckets).
//!
//! All counts are halved when they exceed [`SAMPLES_MAX`], so that old samples lose weight and memory is bounded.

/// The number of buckets. Bucket k holds the sizes from 2^k up to 2^(k+1) bytes; the first also holds 0, the last
/// everything larger.
pub const BUCKETS: usize = 32;
/// The number of samples at which all counts are halved. Between half this number and this number of samples are
/// remembered.
pub const SAMPLES_MAX: u32 = 1024;
/// The units that one sample adds to a count, so that halving loses no sample.
const UNITS: u16 = 16;

/// The share of sizes that are at least as large as each bucket's lower edge, and as the end of the last bucket.
pub type Survival = [f64; BUCKETS + 1];

/// Counts of sizes by power of two.
#[derive(Debug, Clone, Default)]
pub struct Histogram {
    finished: [u16; BUCKETS],
    censored: [u16; BUCKETS],
    /// The sum of both kinds of counts, in units.
    total: u32,
}

impl Histogram {
    /// Counts a complete response of this size.
    pub fn note(&mut self, bytes: u64) {
        self.finished[bucket(bytes)] += UNITS;
        self.count();
    }

    /// Counts a response that ended early, after `bytes` were sent; its size is larger.
    pub fn note_censored(&mut self, bytes: u64) {
        self.censored[bucket(bytes)] += UNITS;
        self.count();
    }

    fn count(&mut self) {
        self.total += u32::from(UNITS);
        if self.total >= SAMPLES_MAX * u32::from(UNITS) {
            let counts = self.finished.iter_mut().chain(&mut self.censored);
            self.total = counts
                .map(|count| {
                    *count /= 2;
                    u32::from(*count)
                })
                .sum();
        }
    }

    /// Returns the number of remembered samples of complete responses.
    pub fn finished(&self) -> u32 {
        self.finished.iter().map(|count| u32::from(*count)).sum::<u32>() / u32::from(UNITS)
    }

    /// Returns the index after the last bucket in which a response ended.
    pub fn top(&self) -> usize {
        self.finished.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1)
    }

    /// Returns the survival estimate, with `larger` extra samples that are larger than all others.
    pub fn survival(&self, larger: f64) -> Survival {
        let mut survival = [1.0; BUCKETS + 1];
        survival[1..].iter_mut().zip(self.edges(larger)).for_each(|(edge, (_, upper))| *edge = upper);
        survival
    }

    /// Iterates over the buckets; yields the survival at the lower and upper edge of each.
    fn edges(&self, larger: f64) -> impl Iterator<Item = (f64, f64)> {
        let (mut survival, mut at_risk) = (1.0, f64::from(self.total) + larger * f64::from(UNITS));
        self.finished.iter().zip(&self.censored).map(move |(ended, cut)| {
            let lower = survival;
            if (*ended, *cut) != (0, 0) {
                let (ended, cut) = (f64::from(*ended), f64::from(*cut));
                let exposed = at_risk - cut / 2.0;
                let hazard = if ended > 0.0 { (ended / exposed).min(1.0) } else { 0.0 };
                survival *= 1.0 - hazard;
                at_risk -= ended + cut;
            }
            (lower, survival)
        })
    }

    /// Returns the share of sizes below `bytes`, with `larger` extra samples that are larger than all others,
    /// interpolated linearly within its bucket.
    pub fn share_below(&self, larger: f64, bytes: u64) -> f64 {
        let k = bucket(bytes);
        let (lower, upper) = self.edges(larger).nth(k).expect("it is one of the buckets");
        let part = ((bytes - low_end(k)) as f64 / width(k)).min(1.0);
        1.0 - (lower + part * (upper - lower))
    }

    /// Returns the size that this share of responses (0 to 1) does not exceed; the upper edge of the known sizes if
    /// most responses ended early, and 0 if nothing is known.
    pub fn quantile(&self, share: f64) -> u64 {
        let wanted = 1.0 - share;
        let top = self.top();
        let mut buckets = self.edges(0.0).take(top).enumerate();
        let Some((k, (lower, upper))) = buckets.find(|(_, (lower, upper))| upper < lower && *upper <= wanted) else {
            return if top == 0 { 0 } else { low_end(top) };
        };
        let part = (lower - wanted) / (lower - upper);
        (low_end(k) as f64 + part.clamp(0.0, 1.0) * width(k)) as u64
    }
}

pub fn bucket(bytes: u64) -> usize {
    (bytes.max(1).ilog2() as usize).min(BUCKETS - 1)
}

/// Returns the smallest size of a bucket, or, for [`BUCKETS`], the end of the last one.
pub fn low_end(bucket: usize) -> u64 {
    if bucket == 0 { 0 } else { 1 << bucket }
}

/// Returns the bytes from a bucket's lower edge to its upper edge.
pub fn width(bucket: usize) -> f64 {
    (low_end(bucket + 1) - low_end(bucket)) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_lie_in_their_buckets() {
        assert_eq!([0, 1, 2, 3, 4, u64::MAX].map(bucket), [0, 0, 1, 1, 2, BUCKETS - 1]);
        assert_eq!([0, 1, 2, 32].map(low_end), [0, 2, 4, 1 << 32]);
        assert_eq!((width(0), width(1), width(10)), (2.0, 2.0, 1024.0));
    }

    fn of(finished: &[u64], censored: &[u64]) -> Histogram {
        let mut histogram = Histogram::default();
        finished.iter().for_each(|bytes| histogram.note(*bytes));
        censored.iter().for_each(|bytes| histogram.note_censored(*bytes));
        histogram
    }

    #[test]
    fn without_censoring_survival_is_the_share_of_larger_ones() {
        let survival = of(&[5, 6, 20, 300], &[]).survival(0.0);
        assert_eq!([2, 3, 4, 5, 8, 9].map(|k: usize| survival[k]), [1.0, 0.5, 0.5, 0.25, 0.25, 0.0]);
        // There is one more sample, larger than all.
        assert!((of(&[5, 6, 20, 300], &[]).survival(1.0)[32] - 0.2).abs() < 1e-12);
    }

    /// The values by hand: of four responses, one is cut below the first end, so it counts for half of its bucket; the
    /// others are in the tail.
    #[test]
    fn an_aborted_response_says_only_that_its_size_is_larger() {
        let survival = of(&[4, 20, 20], &[5]).survival(0.0);
        assert!((survival[3] - (1.0 - 1.0 / 3.5)).abs() < 1e-12);
        assert_eq!(survival[5], 0.0);
        // All were cut after the last end: they make up the tail, and its end is not known.
        let survival = of(&[4], &[1000, 1000, 1000]).survival(0.0);
        assert_eq!((survival[3], survival[32]), (0.75, 0.75));
        assert_eq!(of(&[4], &[1000, 1000, 1000]).quantile(0.5), 8);
        // Without them, the estimate would be that no size is larger than 8.
        assert_eq!(of(&[4], &[]).survival(0.0)[3], 0.0);
    }

    #[test]
    fn quantiles_are_linear_within_a_bucket() {
        let histogram = of(&[4, 4, 16, 16], &[]);
        assert_eq!([0.25, 0.5, 0.75, 1.0].map(|share| histogram.quantile(share)), [6, 8, 24, 32]);
        assert_eq!(Histogram::default().quantile(0.5), 0);
        assert_eq!([0, 6, 10, 24, 99].map(|bytes| histogram.share_below(0.0, bytes)), [0.0, 0.25, 0.5, 0.75, 1.0]);
    }

    #[test]
    fn the_past_fades_and_a_rare_size_is_kept_for_a_while() {
        let mut histogram = of(&[1 << 20], &[1 << 10]);
        (2..1023).for_each(|_| histogram.note(100));
        assert_eq!(histogram.finished(), 1022);
        histogram.note(100);
        assert_eq!((histogram.finished(), histogram.total), (511, 512 * 16));
        assert_eq!((histogram.top(), histogram.finished[20], histogram.censored[10]), (21, 8, 8));
        (0..100_000).for_each(|_| histogram.note(100));
        assert_eq!(histogram.top(), 7);
        assert!(histogram.total < SAMPLES_MAX * u32::from(UNITS));
    }
}
