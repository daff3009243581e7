//! Moments of values that are seen once and not kept: a simulation of a hundred million jobs has room only for their
//! sums.

use units::Nanos;

/// Computes count, mean and variance of numbers that arrive one by one.
///
/// It sums the differences from the first value instead of the values. Equal values then have a variance of exactly 0,
/// and no division per value is needed, as in Welford's recurrence.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Moments {
    count: u64,
    origin: f64,
    sum: f64,
    squares: f64,
}

impl Moments {
    pub fn record(&mut self, value: f64) {
        if self.count == 0 {
            self.origin = value;
        }
        self.count += 1;
        let difference = value - self.origin;
        self.sum += difference;
        self.squares += difference * difference;
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.origin + self.sum / self.count as f64)
    }

    /// The variance of exactly these values (divided by their number, not by one less).
    pub fn variance(&self) -> Option<f64> {
        let count = self.count as f64;
        (self.count > 0).then(|| ((self.squares - self.sum * self.sum / count) / count).max(0.0))
    }
}

/// Computes count, mean and variance of spans of time in integers, so that their order does not matter.
///
/// The sum of squares has room for 10^11 spans of 10^13 ns (nearly three hours) each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpanMoments {
    count: u64,
    sum: u128,
    squares: u128,
    max: Nanos,
}

impl SpanMoments {
    pub fn record(&mut self, span: Nanos) {
        self.count += 1;
        self.sum += u128::from(span.0);
        self.squares = self.squares.saturating_add(u128::from(span.0) * u128::from(span.0));
        self.max = self.max.max(span);
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn max(&self) -> Nanos {
        self.max
    }

    /// The mean in nanoseconds.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The variance in square nanoseconds. It is exact to about 16 digits of the mean square. Relative to a variance
    /// that is much smaller than the mean square (spans that hardly differ), fewer digits are exact.
    pub fn variance_ns2(&self) -> Option<f64> {
        let mean = self.mean_ns()?;
        Some((self.squares as f64 / self.count as f64 - mean * mean).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_has_no_mean() {
        assert_eq!((Moments::default().mean(), Moments::default().variance()), (None, None));
        assert_eq!((SpanMoments::default().mean_ns(), SpanMoments::default().variance_ns2()), (None, None));
    }

    #[test]
    fn equal_values_do_not_vary() {
        let mut moments = Moments::default();
        (0..1000).for_each(|_| moments.record(1.1));
        assert_eq!((moments.mean(), moments.variance()), (Some(1.1), Some(0.0)));
    }

    proptest! {
        /// Values added one by one give the results of two passes over all of them.
        #[test]
        fn agrees_with_the_slice(values in prop::collection::vec(1u64..1_000_000_000, 1..200)) {
            let (mut moments, mut spans) = (Moments::default(), SpanMoments::default());
            for &value in &values {
                moments.record(value as f64);
                spans.record(Nanos(value));
            }
            let floats: Vec<f64> = values.iter().map(|&value| value as f64).collect();
            let mean = crate::mean(&floats).unwrap();
            let variance = floats.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / floats.len() as f64;
            for found in [moments.mean(), spans.mean_ns()] {
                prop_assert!((found.unwrap() - mean).abs() <= 1e-9 * mean);
            }
            for found in [moments.variance(), spans.variance_ns2()] {
                prop_assert!((found.unwrap() - variance).abs() <= 1e-9 * (variance + mean * mean));
            }
            prop_assert_eq!(spans.max().0, *values.iter().max().unwrap());
        }
    }
}
