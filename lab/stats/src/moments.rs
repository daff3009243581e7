use units::Nanos;

/// The arithmetic mean.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The mean of spans of time in nanoseconds, summed as integers, so that the order of summation does not change it.
pub fn mean_nanos(spans: &[Nanos]) -> Option<f64> {
    let sum: u128 = spans.iter().map(|span| u128::from(span.0)).sum();
    (!spans.is_empty()).then(|| sum as f64 / spans.len() as f64)
}

/// The variance of exactly these values (divided by their number, not by one less).
///
/// In two passes: subtracting the mean first keeps large values with a small spread exact.
pub fn variance(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    Some(values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64)
}

/// Squared coefficient of variation, variance / mean²: 1 for exponential, large for heavy tails.
pub fn scv(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    (mean != 0.0).then_some(variance(values)? / (mean * mean))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_cases() {
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert_eq!((mean(&values), variance(&values), scv(&values)), (Some(5.0), Some(4.0), Some(0.16)));
        assert_eq!(variance(&[3.0]), Some(0.0));
    }

    #[test]
    fn nothing_has_no_mean() {
        assert_eq!((mean(&[]), variance(&[]), scv(&[]), mean_nanos(&[])), (None, None, None, None));
        assert_eq!(scv(&[0.0, 0.0]), None);
    }

    #[test]
    fn a_sum_beyond_64_bits() {
        assert_eq!(mean_nanos(&[Nanos::MAX, Nanos::MAX]), Some(u64::MAX as f64));
    }

    #[test]
    fn a_large_offset_costs_nothing() {
        assert_eq!(variance(&[1e9 + 1.0, 1e9 + 3.0]), Some(1.0));
    }
}
