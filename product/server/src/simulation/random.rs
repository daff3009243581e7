//! Seeded randomness: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).

use units::Nanos;

#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from 0 up to, but not including, `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.word() % end.max(1)
    }

    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    /// Returns true once in `times` calls on average.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    /// Returns a number near a power of two at which sums and products wrap, or floating-point numbers lose precision.
    pub fn near_power(&mut self) -> u128 {
        let power = 1u128 << self.one_of(&[31, 32, 53, 63, 64]);
        power + u128::from(self.below(140_000)) - 70_000
    }

    pub fn micros(&mut self, least: u64, most: u64) -> Nanos {
        Nanos::from_micros(self.between(least, most))
    }
}
