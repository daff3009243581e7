//! Bins of sizes [x, 1.2 x) that are the same for every run. A run whose sizes are not known in advance has no smallest
//! size to start from, and two runs are compared bin by bin.

/// Sizes from 2^60 on share the last bin.
const SIZE_BITS: u32 = 60;

/// The number of bits below the leading one that the first guess uses. Sizes that share them differ by less than a
/// sixteenth, which is less than a bin, so at most one bin boundary lies among them.
const GUESS_BITS: u32 = 4;

/// The bins. The first contains sizes 0 and 1. Each following bin begins at 1.2 times the beginning of its predecessor,
/// rounded up, and at least one byte later.
#[derive(Debug, Clone)]
pub struct GrowthBins {
    /// The first size of each bin.
    starts: Vec<u64>,
    /// The guesses: for each leading bit and the [`GUESS_BITS`] after it, the bin of the smallest such size.
    guesses: Vec<u16>,
}

impl GrowthBins {
    pub fn new() -> GrowthBins {
        let mut starts = vec![0, 2];
        while let Some(&last) = starts.last()
            && last < 1 << SIZE_BITS
        {
            starts.push((u128::from(last) * 6).div_ceil(5) as u64);
        }
        let guess = |cell: u32| {
            let (bits, fraction) = (cell >> GUESS_BITS, u64::from(cell) & ((1 << GUESS_BITS) - 1));
            let smallest = (1u64 << bits) + ((fraction << bits) >> GUESS_BITS);
            starts.partition_point(|&start| start <= smallest) as u16 - 1
        };
        let guesses = (0..SIZE_BITS << GUESS_BITS).map(guess).collect();
        GrowthBins { starts, guesses }
    }

    /// The number of bins.
    pub fn count(&self) -> usize {
        self.starts.len()
    }

    /// The first size of a bin; the bin ends before the first size of the next.
    pub fn start(&self, bin: usize) -> Option<u64> {
        self.starts.get(bin).copied()
    }

    /// The bin of a size, without a logarithm.
    pub fn bin_of(&self, size_bytes: u64) -> usize {
        let size = size_bytes.clamp(1, (1 << SIZE_BITS) - 1);
        let bits = size.ilog2();
        let fraction = if bits >= GUESS_BITS { size >> (bits - GUESS_BITS) } else { size << (GUESS_BITS - bits) };
        let cell = (u64::from(bits) << GUESS_BITS) | (fraction & ((1 << GUESS_BITS) - 1));
        let guess = usize::from(self.guesses[cell as usize]);
        guess + usize::from(self.starts[guess + 1] <= size)
    }
}

impl Default for GrowthBins {
    fn default() -> GrowthBins {
        GrowthBins::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bins_grow_by_a_fifth() {
        let bins = GrowthBins::new();
        assert_eq!((0..9).map(|bin| bins.start(bin).unwrap()).collect::<Vec<_>>(), [0, 2, 3, 4, 5, 6, 8, 10, 12]);
        assert!((200..260).contains(&bins.count()), "{}", bins.count());
    }

    #[test]
    fn every_small_size_is_in_its_bin() {
        let bins = GrowthBins::new();
        for size in 0..100_000 {
            let bin = bins.bin_of(size);
            assert!(bins.start(bin).unwrap() <= size && size < bins.start(bin + 1).unwrap(), "{size} in bin {bin}");
        }
        assert!(bins.bin_of(u64::MAX) < bins.count());
    }

    proptest! {
        #[test]
        fn every_size_is_in_its_bin(bits in 0u32..60, noise in any::<u64>()) {
            let size = (1 << bits) | (noise & ((1 << bits) - 1));
            let bins = GrowthBins::new();
            let bin = bins.bin_of(size);
            prop_assert!(bins.start(bin).unwrap() <= size && size < bins.start(bin + 1).unwrap());
        }
    }
}
