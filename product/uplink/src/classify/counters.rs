//! The program's counters, and cut points learned from the response sizes that it has seen.

use super::program::{COUNTERS_MAP, Program, SIZES_MAP};
use crate::Error;
use crate::constants::{BANDS_MAX, COUNTERS_RESPONSES_AT, SIZE_BUCKETS, SIZE_STEPS};

/// The number of sizes seen before cut points are learned from them; `sched` requires the same number.
pub const SIZES_MIN: u64 = 64;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BandCounters {
    pub packets: u64,
    pub bytes: u64,
}

/// Counters since the program was attached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// Counters by band of the tree.
    pub bands: Vec<BandCounters>,
    pub responses: u64,
    /// Responses whose size was found in their head.
    pub sizes_read: u64,
    /// Responses ranked by the bytes sent, because their head had no plausible size.
    pub sizes_unknown: u64,
    /// Moves of a connection to a better band.
    pub promotions: u64,
    /// Packets kept in their connection's worse band because earlier packets were still queued there.
    pub held_back: u64,
    /// Packets of connections and flows that the kernel had no memory to track.
    pub no_storage: u64,
    /// Data packets ordered by their flow, because their TCP socket is not on this host.
    pub by_flow: u64,
    /// Packets of clients that were ahead of their share of the link by more than the allowance.
    pub behind: u64,
    /// Packets counted in `by_flow` that arrived over an interface: from a container, a router or a bridge.
    pub forwarded: u64,
}

impl Counters {
    pub fn read(program: &Program) -> Result<Counters, Error> {
        let words = program.sums(COUNTERS_MAP, 0)?;
        let word = |at: usize| words.get(at).copied().unwrap_or(0);
        let band = |band: usize| BandCounters { packets: word(band * 4), bytes: word(band * 4 + 1) };
        let of_all_bands = |at: usize| (0..BANDS_MAX).map(|band| word(band * 4 + at)).sum();
        let rest = COUNTERS_RESPONSES_AT;
        Ok(Counters {
            bands: (0..BANDS_MAX).map(band).collect(),
            responses: word(rest),
            sizes_read: word(rest + 1),
            sizes_unknown: word(rest + 2),
            promotions: word(rest + 3),
            held_back: word(rest + 4),
            no_storage: word(rest + 5),
            by_flow: of_all_bands(2),
            behind: word(rest + 6),
            forwarded: of_all_bands(3),
        })
    }
}

/// A histogram of response sizes.
pub struct Sizes {
    counts: Vec<u64>,
    total: u64,
}

impl Sizes {
    pub fn read(program: &Program) -> Result<Sizes, Error> {
        let count = |bucket| Ok(program.sums(SIZES_MAP, bucket)?.first().copied().unwrap_or(0));
        Ok(Sizes::of((0..SIZE_BUCKETS as u32).map(count).collect::<Result<_, Error>>()?))
    }

    fn of(counts: Vec<u64>) -> Sizes {
        let total = counts.iter().sum();
        Sizes { counts, total }
    }

    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the size in bytes that this fraction of the responses does not exceed, interpolated linearly within a
    /// bucket.
    pub fn quantile(&self, part: f64) -> f64 {
        let mut left = part * self.total as f64;
        for (bucket, &count) in self.counts.iter().enumerate() {
            let count = count as f64;
            if left <= count && count > 0.0 {
                let (low, high) = (low_end(bucket as u64), low_end(bucket as u64 + 1));
                return low + (high - low) * left / count;
            }
            left -= count;
        }
        1.0
    }
}

fn low_end(bucket: u64) -> f64 {
    let steps = SIZE_STEPS as u64;
    let (octave, step) = (bucket / steps, bucket % steps);
    (1.0 + step as f64 / SIZE_STEPS as f64) * (octave as f64).exp2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_in_the_buckets_of_the_sizes() {
        let mut counts = vec![0; SIZE_BUCKETS];
        // The sizes are 1024 to 1279 bytes, and 1 MiB to 1.25 MiB.
        counts[10 * 4] = 90;
        counts[20 * 4] = 10;
        let sizes = Sizes::of(counts);
        assert_eq!(sizes.total(), 100);
        assert_eq!(sizes.quantile(0.45), 1152.0);
        assert!((1048576.0..1310720.0).contains(&sizes.quantile(0.9925)));
        assert_eq!(Sizes::of(vec![0; 256]).quantile(0.5), 1.0);
    }
}
