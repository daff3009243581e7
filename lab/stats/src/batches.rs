//! Batch means of a run whose length is not known, in constant memory.

use std::fmt;

use crate::confidence::student_t;

/// Batches are merged two by two when there are this many: between 512 and 1,023 full ones always stand.
const BATCHES_MAX: usize = 1024;

/// Fewer batches have too few degrees of freedom to see that they hang together (Law & Kelton, 9.5.3).
const BATCHES_MIN: usize = 20;

/// Values without which nothing is said.
const VALUES_MIN: u64 = 10 * BATCHES_MIN as u64;

/// One-sided 10 % point of the normal distribution: batches whose correlation with the next is above this many standard
/// errors are too short.
const CORRELATED: f64 = 1.28;

/// The share of the sum of squares above which one value is most of what is known of the variance. It goes to 0 as there
/// are more values just where the variance is finite (Embrechts, Klüppelberg & Mikosch, Modelling Extremal Events, 6.2.6).
const SQUARE_SHARE_MAX: f64 = 0.05;

/// Half an interval's width over the mean beyond which the run has seen too few busy periods for its mean to be near normal.
const WIDTH_MAX: f64 = 1.0 / 3.0;

/// The mean of values that come one by one and hang together, with its confidence interval where the run is long enough
/// for one.
///
/// Values are summed in consecutive batches of equal length; when 1,024 batches are full, neighbours are merged and the
/// length doubles. The interval is found as Skart does (Tafazzoli & Wilson, "Skart: a skewness- and
/// autocorrelation-adjusted batch-means procedure for simulation analysis", IIE Transactions 2011): batches are made longer
/// until the correlation of one with the next is insignificant, what correlation is left widens the interval, and the
/// skewness of the batches moves it (Willink 2005). Where no length is enough with 20 batches left, there is none: an
/// interval of batches that hang together covers the mean as seldom as in a third of all runs.
#[derive(Debug, Clone)]
pub struct BatchMeans {
    sums: Vec<f64>,
    /// Values per batch.
    length: u64,
    /// The sum of the batch that is being filled.
    sum: f64,
    filled: u64,
    squares: f64,
    /// The greatest square of one value.
    square_max: f64,
}

/// The reason why a run has no confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NoInterval {
    TooFew {
        values: u64,
    },
    /// A value has this share of the sum of squares.
    Dominated {
        share: f64,
    },
    /// The correlation of one batch with the next, where 20 to 39 are left.
    Correlated {
        correlation: f64,
    },
    /// Half the width, over the mean.
    Wide {
        relative: f64,
    },
}

impl fmt::Display for NoInterval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            NoInterval::TooFew { values } => write!(f, "{values} values are fewer than {VALUES_MIN}"),
            NoInterval::Dominated { share } => {
                write!(
                    f,
                    "one value alone is {:.0} % of the sum of squares: the tail has hardly been seen",
                    100.0 * share
                )
            }
            NoInterval::Correlated { correlation } => {
                write!(f, "the longest batches still hang together, with a correlation of {correlation:.2}")
            }
            NoInterval::Wide { relative } => {
                write!(f, "it would be ± {:.0} % wide, and no mean of so few busy periods is normal", 100.0 * relative)
            }
        }
    }
}

impl BatchMeans {
    pub fn new() -> BatchMeans {
        BatchMeans { sums: Vec::new(), length: 1, sum: 0.0, filled: 0, squares: 0.0, square_max: 0.0 }
    }

    pub fn record(&mut self, value: f64) {
        self.sum += value;
        self.filled += 1;
        self.squares += value * value;
        self.square_max = self.square_max.max(value * value);
        if self.filled == self.length {
            self.close_batch();
        }
    }

    /// The ends of the 99 % confidence interval of the mean. The values of the last, unfinished batch count in the mean
    /// but not in the width.
    pub fn interval_99(&self) -> Result<[f64; 2], NoInterval> {
        let values = self.sums.len() as u64 * self.length + self.filled;
        if values < VALUES_MIN {
            return Err(NoInterval::TooFew { values });
        }
        let mean = (self.sums.iter().sum::<f64>() + self.sum) / values as f64;
        let share = self.square_max / self.squares;
        if share > SQUARE_SHARE_MAX {
            return Err(NoInterval::Dominated { share });
        }
        let batches = long_enough(self.sums.iter().map(|sum| sum / self.length as f64).collect())?;
        let [low, high] = batches.interval_around(mean);
        let relative = (high - low) / 2.0 / mean.abs();
        // Of differences, whose mean may be nothing, the width says nothing either.
        let is_positive = self.sums.iter().all(|&sum| sum >= 0.0);
        if is_positive && relative > WIDTH_MAX { Err(NoInterval::Wide { relative }) } else { Ok([low, high]) }
    }

    fn close_batch(&mut self) {
        self.sums.push(self.sum);
        (self.sum, self.filled) = (0.0, 0);
        if self.sums.len() == BATCHES_MAX {
            self.sums = merged(&self.sums, 1.0);
            self.length *= 2;
        }
    }
}

impl Default for BatchMeans {
    fn default() -> BatchMeans {
        BatchMeans::new()
    }
}

/// Means of batches and what they tell of each other.
struct Batches {
    count: usize,
    /// Sample variance.
    variance: f64,
    skewness: f64,
    /// The correlation of one batch with the next.
    correlation: f64,
}

/// The shortest batches of these and their merged neighbours whose correlation is insignificant.
fn long_enough(mut means: Vec<f64>) -> Result<Batches, NoInterval> {
    loop {
        let batches = Batches::of(&means);
        if batches.correlation <= CORRELATED / (batches.count as f64).sqrt() {
            return Ok(batches);
        }
        if means.len() / 2 < BATCHES_MIN {
            return Err(NoInterval::Correlated { correlation: batches.correlation });
        }
        means = merged(&means, 0.5);
    }
}

/// Neighbours added and weighted; an odd one at the end is dropped.
fn merged(values: &[f64], weight: f64) -> Vec<f64> {
    values.chunks_exact(2).map(|pair| weight * (pair[0] + pair[1])).collect()
}

impl Batches {
    fn of(means: &[f64]) -> Batches {
        let n = means.len() as f64;
        let centre = means.iter().sum::<f64>() / n;
        let power = |k: i32| means.iter().map(|mean| (mean - centre).powi(k)).sum::<f64>();
        let variance = power(2) / (n - 1.0);
        if variance <= 0.0 {
            return Batches { count: means.len(), variance: 0.0, skewness: 0.0, correlation: 0.0 };
        }
        let neighbours: f64 = means.windows(2).map(|two| (two[0] - centre) * (two[1] - centre)).sum();
        let skewness = n / ((n - 1.0) * (n - 2.0)) * power(3) / variance.powf(1.5);
        Batches { count: means.len(), variance, skewness, correlation: neighbours / (n - 1.0) / variance }
    }

    /// Skart's: the standard error widened as for a first-order autoregressive process, Student's t bent by the skewness.
    fn interval_around(&self, mean: f64) -> [f64; 2] {
        let correlation = self.correlation.max(0.0);
        let n = self.count as f64;
        let error = (self.variance / n * (1.0 + correlation) / (1.0 - correlation)).sqrt();
        let beta = self.skewness / (6.0 * n.sqrt());
        let bent = |t: f64| {
            if beta.abs() < 1e-6 { t } else { ((1.0 + 6.0 * beta * (t - beta)).cbrt() - 1.0) / (2.0 * beta) }
        };
        let t = student_t(0.99, self.count - 1);
        [mean - bent(t) * error, mean - bent(-t) * error]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::Rng;
    use proptest::test_runner::{RngAlgorithm, TestRng};

    fn of(values: impl IntoIterator<Item = f64>) -> BatchMeans {
        let mut batches = BatchMeans::new();
        values.into_iter().for_each(|value| batches.record(value));
        batches
    }

    /// Uniform values around 0, drawn from this seed.
    fn uniform(seed: u8) -> impl FnMut() -> f64 {
        let mut random = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
        move || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64 - 0.5
    }

    /// How many of 400 intervals there are, and how many cover a mean of 10, where each value is the one before times
    /// `memory` and something new.
    fn covering(memory: f64, values: usize) -> (usize, usize) {
        let mut uniform = uniform(3);
        let intervals = (0..400).filter_map(|_| {
            let mut value = 0.0;
            of((0..values).map(|_| {
                value = memory * value + uniform();
                10.0 + value
            }))
            .interval_99()
            .ok()
        });
        let intervals: Vec<[f64; 2]> = intervals.collect();
        (intervals.len(), intervals.iter().filter(|[low, high]| (*low..=*high).contains(&10.0)).count())
    }

    #[test]
    fn too_few_values() {
        assert_eq!(of(vec![1.0; 199]).interval_99(), Err(NoInterval::TooFew { values: 199 }));
        assert_eq!(of(vec![1.0; 200]).interval_99(), Ok([1.0, 1.0]));
        assert_eq!(of(vec![0.0; 200]).interval_99(), Ok([0.0, 0.0]));
    }

    #[test]
    fn every_value_counts_in_the_mean() {
        let [low, high] = of((1..=12_345).map(|value| f64::from(value * 7919 % 12_345))).interval_99().unwrap();
        assert!(low < 6172.0 && 6172.0 < high && high - low < 600.0, "{low} to {high}");
    }

    /// Without skewness and correlation it is Student's: batches of one value, alternating between 9 and 11.
    #[test]
    fn by_hand() {
        let [low, high] = of((0..400).map(|i| 9.0 + 2.0 * f64::from(i % 2))).interval_99().unwrap();
        let half = student_t(0.99, 399) * (400.0f64 / 399.0 / 400.0).sqrt();
        assert!((low - (10.0 - half)).abs() < 1e-12 && (high - (10.0 + half)).abs() < 1e-12, "{low} {high}");
    }

    /// A tail to the right moves the interval there: the mean of few values is too low more often than too high.
    #[test]
    fn skewness_moves_it() {
        let mut uniform = uniform(5);
        let batches = of((0..500).map(|_| -(0.5 - uniform()).ln()));
        let [low, high] = batches.interval_99().unwrap();
        let mean = (batches.sums.iter().sum::<f64>() + batches.sum) / 500.0;
        assert!(high - mean > 1.05 * (mean - low), "{low} {mean} {high}");
    }

    /// Of 400 intervals 99 % should cover; 97.5 % is three standard errors below.
    #[test]
    fn covers_as_often_as_it_says() {
        for (memory, values, there_min) in [(0.0, 600, 400), (0.9, 5000, 370), (0.99, 100_000, 390)] {
            let (there, covering) = covering(memory, values);
            assert!(there >= there_min && covering * 1000 >= there * 975, "{memory}: {covering} of {there}");
        }
    }

    /// Ten times as long as its memory, a run is too short for an interval, and the few there are may be wrong.
    #[test]
    fn says_that_a_run_is_too_short() {
        let (there, _) = covering(0.99, 1000);
        assert!(there <= 20, "{there} of 400 runs had an interval");
    }

    #[test]
    fn says_why() {
        let drift = of((0..1000).map(f64::from)).interval_99().unwrap_err();
        assert!(drift.to_string().contains("hang together, with a correlation of 0.9"), "{drift}");
        let giant = of((0..1000).map(|i| if i == 500 { 100.0 } else { 1.0 })).interval_99().unwrap_err();
        assert!(giant.to_string().starts_with("one value alone is 91 % of the sum of squares"), "{giant}");
        let mut uniform = uniform(1);
        let rare = of((0..300).map(|_| if uniform() > 0.41 { 10.0 } else { 0.0 })).interval_99().unwrap_err();
        assert!(rare.to_string().starts_with("it would be ± "), "{rare}");
    }
}
