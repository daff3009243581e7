//! Batch means of a run whose length is not known, in constant memory.

use crate::Interval;
use crate::confidence::interval_99;

/// Batches are merged two by two when there are this many: between 32 and 63 full ones always stand.
const BATCHES_MAX: usize = 64;

/// The mean of values that come one by one and hang together, with its confidence interval.
///
/// Values are summed in consecutive batches of equal length; when 64 batches are full, neighbours are merged and the
/// length doubles (Steiger & Wilson, "Convergence properties of the batch means method for simulation output
/// analysis", 2001, discuss why long batches are nearly independent). The values of the last, unfinished batch count in
/// the mean but not in the width.
#[derive(Debug, Clone)]
pub struct BatchMeans {
    sums: Vec<f64>,
    /// Values per batch.
    length: u64,
    /// Of the batch that is being filled.
    sum: f64,
    filled: u64,
}

impl BatchMeans {
    pub fn new() -> BatchMeans {
        BatchMeans { sums: Vec::with_capacity(BATCHES_MAX), length: 1, sum: 0.0, filled: 0 }
    }

    pub fn record(&mut self, value: f64) {
        self.sum += value;
        self.filled += 1;
        if self.filled == self.length {
            self.close_batch();
        }
    }

    /// The mean of all values with its 99 % confidence interval; `None` for fewer than 320 values, which say nothing about
    /// how they hang together.
    pub fn interval_99(&self) -> Option<Interval> {
        let count = self.sums.len() as u64 * self.length + self.filled;
        if count < 10 * BATCHES_MAX as u64 / 2 {
            return None;
        }
        let means: Vec<f64> = self.sums.iter().map(|sum| sum / self.length as f64).collect();
        let mean = (self.sums.iter().sum::<f64>() + self.sum) / count as f64;
        Some(Interval { mean, ..interval_99(&means)? })
    }

    fn close_batch(&mut self) {
        self.sums.push(self.sum);
        (self.sum, self.filled) = (0.0, 0);
        if self.sums.len() == BATCHES_MAX {
            for pair in 0..BATCHES_MAX / 2 {
                self.sums[pair] = self.sums[2 * pair] + self.sums[2 * pair + 1];
            }
            self.sums.truncate(BATCHES_MAX / 2);
            self.length *= 2;
        }
    }
}

impl Default for BatchMeans {
    fn default() -> BatchMeans {
        BatchMeans::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::Rng;
    use proptest::test_runner::{RngAlgorithm, TestRng};

    #[test]
    fn too_few_values() {
        let mut batches = BatchMeans::new();
        (0..319).for_each(|_| batches.record(1.0));
        assert_eq!(batches.interval_99(), None);
        batches.record(1.0);
        assert_eq!(batches.interval_99(), Some(Interval { mean: 1.0, half_width: 0.0 }));
    }

    #[test]
    fn every_value_counts_in_the_mean() {
        let mut batches = BatchMeans::new();
        (1..=12_345).for_each(|value| batches.record(f64::from(value)));
        assert_eq!(batches.interval_99().unwrap().mean, 6173.0);
    }

    /// Neighbours with a correlation of 0.9: the interval of independent values would cover a third as often. Of 400
    /// intervals 99 % should cover; 97 % is four standard errors below.
    #[test]
    fn covers_as_often_as_it_says() {
        let mut random = TestRng::from_seed(RngAlgorithm::ChaCha, &[3; 32]);
        let mut uniform = || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64 - 0.5;
        let covering = (0..400).filter(|_| {
            let (mut batches, mut value) = (BatchMeans::new(), 0.0);
            for _ in 0..5000 {
                value = 0.9 * value + uniform();
                batches.record(value);
            }
            let interval = batches.interval_99().unwrap();
            interval.mean.abs() <= interval.half_width
        });
        let covering = covering.count();
        assert!(covering >= 388, "{covering} of 400 intervals cover the mean");
    }
}
