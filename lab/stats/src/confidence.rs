use crate::mean;

/// Batches per run: enough for the t distribution to be near normal, few enough for long batches (Law & Kelton,
/// Simulation Modeling and Analysis, 9.5.3, advise 10 to 30).
pub const BATCHES: usize = 20;

/// Fewer values in a batch say nothing about how they hang together.
pub(crate) const BATCH_VALUES_MIN: usize = 10;

/// Student's t for 95 %, two-sided, 19 degrees of freedom.
pub(crate) const T_95: f64 = 2.093;

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
    Some(Interval { mean: mean(values)?, half_width: T_95 * (sample_variance / BATCHES as f64).sqrt() })
}

/// The 95 % confidence interval of the mean of independent values (replications, or batches long enough to be nearly so),
/// by Student's t. `None` for fewer than two.
pub fn interval_95(values: &[f64]) -> Option<Interval> {
    interval(values, student_t_95)
}

/// The same of 99 %.
pub fn interval_99(values: &[f64]) -> Option<Interval> {
    interval(values, student_t_99)
}

fn interval(values: &[f64], student_t: fn(usize) -> f64) -> Option<Interval> {
    let degrees = values.len().checked_sub(1).filter(|&degrees| degrees > 0)?;
    let centre = mean(values)?;
    let sample_variance = values.iter().map(|value| (value - centre).powi(2)).sum::<f64>() / degrees as f64;
    Some(Interval { mean: centre, half_width: student_t(degrees) * (sample_variance / values.len() as f64).sqrt() })
}

/// Two-sided 95 % points of Student's t for 1 to 30 degrees of freedom.
const T_95_TABLE: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// Two-sided 99 % points of the same.
const T_99_TABLE: [f64; 30] = [
    63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.106, 3.055, 3.012, 2.977, 2.947, 2.921,
    2.898, 2.878, 2.861, 2.845, 2.831, 2.819, 2.807, 2.797, 2.787, 2.779, 2.771, 2.763, 2.756, 2.750,
];

fn student_t_95(degrees: usize) -> f64 {
    student_t(degrees, &T_95_TABLE, 1.959_964_0)
}

pub(crate) fn student_t_99(degrees: usize) -> f64 {
    student_t(degrees, &T_99_TABLE, 2.575_829_3)
}

/// Beyond the table by the first terms of the Cornish-Fisher expansion around `z`, the normal distribution's point: right to
/// three decimals there.
fn student_t(degrees: usize, table: &[f64; 30], z: f64) -> f64 {
    let v = degrees as f64;
    match table.get(degrees.wrapping_sub(1)) {
        Some(&t) => t,
        None => z + (z.powi(3) + z) / (4.0 * v) + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * v * v),
    }
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
        let interval = interval_95(&[1.0, 2.0, 3.0]).unwrap();
        assert!((interval.mean, interval.half_width) == (2.0, 4.303 * (1.0f64 / 3.0).sqrt()));
        assert_eq!((interval_95(&[]), interval_95(&[1.0])), (None, None));
    }

    /// Published points: 40, 60 and 120 degrees of freedom.
    #[test]
    fn students_t_goes_on_beyond_the_table() {
        for (degrees, t) in [(1, 12.706), (19, T_95), (30, 2.042), (31, 2.040), (40, 2.021), (60, 2.000), (120, 1.980)]
        {
            assert!((student_t_95(degrees) - t).abs() < 1e-3, "{degrees}: {}", student_t_95(degrees));
        }
        for (degrees, t) in [(30, 2.750), (31, 2.744), (40, 2.704), (60, 2.660), (120, 2.617)] {
            assert!((student_t_99(degrees) - t).abs() < 1e-3, "{degrees}: {}", student_t_99(degrees));
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
