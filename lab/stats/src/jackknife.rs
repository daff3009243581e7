use std::ops::Range;

use crate::confidence::{BATCH_VALUES_MIN, student_t};
use crate::{BATCHES, Interval};

/// The 95 % confidence interval of any figure of values in order of arrival, by leaving out one of 20 consecutive batches at a
/// time (the grouped jackknife: Miller, "The jackknife - a review", Biometrika 1974).
///
/// What batch means do for a mean, this does for a ratio of means, a variance or a percentile: `figure(None)` is the figure
/// of all values, `figure(Some(k))` without batch `k` of [`batch`]. Of a mean it gives what `batch_means` gives. Of the two
/// runs of a ratio the same batch is left out of both, so that what they have in common (the same jobs) does not count as
/// doubt. `None` where the figure does not exist.
pub fn jackknife(figure: impl Fn(Option<usize>) -> Option<f64>) -> Option<Interval> {
    let mean = figure(None)?;
    let without: Vec<f64> = (0..BATCHES).map(|batch| figure(Some(batch))).collect::<Option<_>>()?;
    let centre = crate::mean(&without)?;
    let spread: f64 = without.iter().map(|value| (value - centre).powi(2)).sum();
    let variance = spread * (BATCHES - 1) as f64 / BATCHES as f64;
    Some(Interval { mean, half_width: student_t(0.95, BATCHES - 1) * variance.sqrt() })
}

/// The places of a batch among `count` values; `None` where there are too few for an interval.
pub fn batch(count: usize, batch: usize) -> Option<Range<usize>> {
    let cut = |batch: usize| count * batch / BATCHES;
    (count >= BATCHES * BATCH_VALUES_MIN).then(|| cut(batch)..cut(batch + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{batch_means, mean};
    use proptest::prelude::Rng;
    use proptest::test_runner::{RngAlgorithm, TestRng};

    fn without(values: &[f64], left_out: Option<usize>) -> Option<Vec<f64>> {
        let Some(left_out) = left_out else { return Some(values.to_vec()) };
        let left_out = batch(values.len(), left_out)?;
        Some([&values[..left_out.start], &values[left_out.end..]].concat())
    }

    #[test]
    fn of_a_mean_it_is_batch_means() {
        let values: Vec<f64> = (0..400).map(|i| f64::from((i * i) % 37)).collect();
        let found = jackknife(|left_out| mean(&without(&values, left_out)?)).unwrap();
        let wanted = batch_means(&values).unwrap();
        assert!((found.mean - wanted.mean).abs() < 1e-12 && (found.half_width - wanted.half_width).abs() < 1e-9);
    }

    #[test]
    fn too_few_values() {
        let values = [1.0; 199];
        assert_eq!(jackknife(|left_out| mean(&without(&values, left_out)?)), None);
        assert_eq!(jackknife(|_| None), None);
    }

    /// Two runs of the same uniform values, one a tenth of the other with noise of its own: of 400 intervals of the ratio
    /// 95 % should cover 10; 92 to 98 % is ± 3 standard errors.
    #[test]
    fn covers_a_ratio_as_often_as_it_says() {
        let mut random = TestRng::from_seed(RngAlgorithm::ChaCha, &[5; 32]);
        let mut uniform = || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let covering = (0..400).filter(|_| {
            let slow: Vec<f64> = (0..600).map(|_| 1.0 + uniform()).collect();
            let fast: Vec<f64> = slow.iter().map(|value| value * 0.1 * (0.5 + uniform())).collect();
            let ratio = |left_out| Some(mean(&without(&slow, left_out)?)? / mean(&without(&fast, left_out)?)?);
            let interval = jackknife(ratio).unwrap();
            (interval.mean - 10.0).abs() <= interval.half_width
        });
        let covering = covering.count();
        assert!((368..=392).contains(&covering), "{covering} of 400 intervals cover the ratio");
    }
}
