use crate::mean;

/// Batches per run: enough for the t distribution to be near normal, few enough for long batches (Law & Kelton,
/// Simulation Modeling and Analysis, 9.5.3, advise 10 to 30).
pub const BATCHES: usize = 20;

/// Fewer values in a batch say nothing about how they hang together.
const BATCH_VALUES_MIN: usize = 10;

/// Student's t for 95 %, two-sided, 19 degrees of freedom.
const T_95: f64 = 2.093;

/// A mean and half the width of its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    pub mean: f64,
    pub half_width: f64,
}

/// The 95 % confidence interval of a mean, by batch means.
///
/// Response times of neighbours are alike (they met the same queue), so the plain formula for independent values would
/// promise far too much. The values, in order of arrival, are cut into 20 consecutive batches of equal length (within
/// one); batch means are nearly independent when a batch outlasts the busy periods, and Student's t with 19 degrees of
/// freedom does the rest. `None` for fewer than 200 values.
pub fn batch_means(values: &[f64]) -> Option<Interval> {
    if values.len() < BATCHES * BATCH_VALUES_MIN {
        return None;
    }
    let cut = |batch: usize| values.len() * batch / BATCHES;
    let means: Vec<f64> = (0..BATCHES).map(|batch| mean(&values[cut(batch)..cut(batch + 1)])).collect::<Option<_>>()?;
    let centre = mean(&means)?;
    let sample_variance = means.iter().map(|m| (m - centre).powi(2)).sum::<f64>() / (BATCHES - 1) as f64;
    Some(Interval { mean: mean(values)?, half_width: T_95 * (sample_variance / BATCHES as f64).sqrt() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::test_runner::{RngAlgorithm, TestRng};

    #[test]
    fn too_few_values() {
        assert_eq!(batch_means(&[]), None);
        assert_eq!(batch_means(&[1.0; 199]), None);
        assert_eq!(batch_means(&[1.0; 200]), Some(Interval { mean: 1.0, half_width: 0.0 }));
    }

    #[test]
    fn by_hand() {
        // Batches alternate between means 0 and 2: sample variance 20/19, half width 2.093 × sqrt(1/19).
        let values: Vec<f64> = (0..400).map(|i| f64::from(i / 20 % 2 * 2)).collect();
        let interval = batch_means(&values).unwrap();
        assert_eq!(interval.mean, 1.0);
        assert!((interval.half_width - 2.093 / 19f64.sqrt()).abs() < 1e-12);
    }

    /// Of 400 intervals for independent uniform values, 95 % should cover the true mean; 92–98 % is ± 3 standard errors.
    #[test]
    fn covers_as_often_as_it_says() {
        let mut random = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
        let mut uniform = || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let covering = (0..400)
            .filter(|_| {
                let values: Vec<f64> = (0..600).map(|_| uniform()).collect();
                let interval = batch_means(&values).unwrap();
                (interval.mean - 0.5).abs() <= interval.half_width
            })
            .count();
        assert!((368..=392).contains(&covering), "{covering} of 400 intervals cover the mean");
    }
}
