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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_cases() {
        assert_eq!(mean(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]), Some(5.0));
    }

    #[test]
    fn nothing_has_no_mean() {
        assert_eq!((mean(&[]), mean_nanos(&[])), (None, None));
    }

    #[test]
    fn a_sum_beyond_64_bits() {
        assert_eq!(mean_nanos(&[Nanos::MAX, Nanos::MAX]), Some(u64::MAX as f64));
    }
}
