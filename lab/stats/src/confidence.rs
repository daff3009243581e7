use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::mean;

/// Batches per run: enough for the t distribution to be near normal, few enough for long batches (Law & Kelton,
/// Simulation Modeling and Analysis, 9.5.3, advise 10 to 30).
pub const BATCHES: usize = 20;

/// Fewer values in a batch say nothing about how they hang together.
pub(crate) const BATCH_VALUES_MIN: usize = 10;

/// A mean and half the width of its confidence interval; the function that made it says of how many per cent.
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
    Some(Interval {
        mean: mean(values)?,
        half_width: student_t(0.95, BATCHES - 1) * (sample_variance / BATCHES as f64).sqrt(),
    })
}

/// Returns the 99 % confidence interval of the mean of independent values (replications, or batches long enough to be
/// nearly so) by Student's t, or `None` for fewer than two.
pub fn interval_99(values: &[f64]) -> Option<Interval> {
    let degrees = values.len().checked_sub(1).filter(|&degrees| degrees > 0)?;
    let centre = mean(values)?;
    let sample_variance = values.iter().map(|value| (value - centre).powi(2)).sum::<f64>() / degrees as f64;
    Some(Interval {
        mean: centre,
        half_width: student_t(0.99, degrees) * (sample_variance / values.len() as f64).sqrt(),
    })
}

/// The degrees of freedom of published tables, with three decimals: theirs are in the intervals of kept results, which stay the same.
const DEGREES_TABULATED: usize = 30;

/// The two-sided point of Student's t.
pub(crate) fn student_t(level: f64, degrees: usize) -> f64 {
    let distribution = StudentsT::new(0.0, 1.0, degrees as f64).expect("at least one degree of freedom");
    let t = distribution.inverse_cdf((1.0 + level) / 2.0);
    if degrees <= DEGREES_TABULATED { (t * 1e3).round() / 1e3 } else { t }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::test_runner::{RngAlgorithm, TestRng};

    #[test]
    fn replications_by_hand() {
        // Mean 2, sample variance 1: 9.925 × sqrt(1/3).
        let interval = interval_99(&[1.0, 2.0, 3.0]).unwrap();
        assert!((interval.mean, interval.half_width) == (2.0, 9.925 * (1.0f64 / 3.0).sqrt()));
        assert_eq!((interval_99(&[]), interval_99(&[1.0])), (None, None));
    }

    /// Published two-sided points for 1 to 30 degrees of freedom, then for 31, 40, 60 and 120.
    #[test]
    fn students_t_is_that_of_tables() {
        let t_95 = [
            12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
            2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
        ];
        let t_99 = [
            63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.106, 3.055, 3.012, 2.977, 2.947,
            2.921, 2.898, 2.878, 2.861, 2.845, 2.831, 2.819, 2.807, 2.797, 2.787, 2.779, 2.771, 2.763, 2.756, 2.750,
        ];
        for (at, (t_95, t_99)) in t_95.into_iter().zip(t_99).enumerate() {
            assert_eq!((student_t(0.95, at + 1), student_t(0.99, at + 1)), (t_95, t_99), "{} degrees", at + 1);
        }
        // The last are the normal distribution's.
        let further = [
            (31, 2.040, 2.744),
            (40, 2.021, 2.704),
            (60, 2.000, 2.660),
            (120, 1.980, 2.617),
            (1_000_000, 1.960, 2.576),
        ];
        for (degrees, t_95, t_99) in further {
            for (level, t) in [(0.95, t_95), (0.99, t_99)] {
                let found = student_t(level, degrees);
                assert!((found - t).abs() < 0.5e-3, "{degrees} degrees, {level}: {found}");
            }
        }
    }

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
