//! Logarithmic axes with the labels a reader expects: 100 B, 1 KB, 10 KB; 1 ms, 10 ms, 100 ms, 1 s.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};

/// Axes of at most this many decades are also labelled at 2 and 5.
const DECADES_FEW: f64 = 2.5;

/// One logarithmic axis: how far it goes and where its lines are, all in its own unit.
pub(crate) struct LogAxis {
    range: Range<f64>,
    labelled: Vec<f64>,
    unlabelled: Vec<f64>,
}

impl LogAxis {
    /// Covers these values with a little room; values that have no logarithm are left out.
    pub fn covering(values: impl Iterator<Item = f64>) -> LogAxis {
        let logs = values.filter(|value| value.is_finite() && *value > 0.0).map(f64::log10);
        let (low, high) = logs.fold((f64::MAX, f64::MIN), |(low, high), log| (low.min(log), high.max(log)));
        let (low, high) = if low > high { (0.0, 1.0) } else { (low, high) };
        let room = (0.04 * (high - low)).max(0.15);
        let (low, high) = (low - room, high + room);
        let mut axis =
            LogAxis { range: 10f64.powf(low)..10f64.powf(high), labelled: Vec::new(), unlabelled: Vec::new() };
        for decade in low.floor() as i32..=high.ceil() as i32 {
            axis.mark_decade(decade, high - low <= DECADES_FEW);
        }
        axis
    }

    fn mark_decade(&mut self, decade: i32, few: bool) {
        for digit in [1, 2, 3, 4, 5, 6, 7, 8, 9] {
            let tick = f64::from(digit) * 10f64.powi(decade);
            let is_labelled = digit == 1 || (few && (digit == 2 || digit == 5));
            if self.range.contains(&tick) {
                if is_labelled { &mut self.labelled } else { &mut self.unlabelled }.push(tick);
            }
        }
    }
}

impl Ranged for LogAxis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from_px, to_px): (i32, i32)) -> i32 {
        let part = (value / self.range.start).ln() / (self.range.end / self.range.start).ln();
        from_px + (f64::from(to_px - from_px) * part).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { self.unlabelled.clone() } else { self.labelled.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

/// A size in powers of 1000.
pub(crate) fn bytes_label(bytes: f64) -> String {
    label(bytes, &[(1e9, "GB"), (1e6, "MB"), (1e3, "KB"), (1.0, "B")])
}

pub(crate) fn millis_label(ms: f64) -> String {
    label(ms, &[(1e3, "s"), (1.0, "ms"), (1e-3, "µs"), (1e-6, "ns")])
}

/// The value to three significant digits in the largest of these units that it reaches, else in the smallest.
fn label(value: f64, units: &[(f64, &str)]) -> String {
    // Rounded first, so that 999.9 becomes 1 of the next unit; through text, which rounds in decimal.
    let rounded: f64 = format!("{value:.2e}").parse().unwrap_or(value);
    let &(scale, unit) = units.iter().find(|(scale, _)| rounded >= *scale).unwrap_or(&units[units.len() - 1]);
    let in_unit: f64 = format!("{:.2e}", rounded / scale).parse().unwrap_or(rounded / scale);
    format!("{in_unit} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_as_people_write_them() {
        let sizes = [0.0, 1.0, 100.0, 999.9, 20_000.0, 1e6, 5e9, 1e13].map(bytes_label);
        assert_eq!(sizes, ["0 B", "1 B", "100 B", "1 KB", "20 KB", "1 MB", "5 GB", "10000 GB"]);
        let times = [0.0002, 0.05, 1.0, 8.4321, 200.0, 1000.0, 2e5].map(millis_label);
        assert_eq!(times, ["200 ns", "50 µs", "1 ms", "8.43 ms", "200 ms", "1 s", "200 s"]);
    }

    fn labels(values: &[f64]) -> Vec<String> {
        LogAxis::covering(values.iter().copied()).labelled.into_iter().map(millis_label).collect()
    }

    #[test]
    fn many_decades_are_labelled_at_powers_of_ten_only() {
        assert_eq!(labels(&[0.5, 20_000.0]), ["1 ms", "10 ms", "100 ms", "1 s", "10 s"]);
    }

    #[test]
    fn few_decades_are_labelled_at_two_and_five_as_well() {
        assert_eq!(labels(&[3.0, 55.0]), ["5 ms", "10 ms", "20 ms", "50 ms"]);
    }

    #[test]
    fn zero_and_nothing_have_no_place_on_it() {
        assert_eq!(labels(&[0.0, f64::NAN, 10.0, 100.0]), ["10 ms", "20 ms", "50 ms", "100 ms"]);
        assert_eq!(labels(&[]), ["1 ms", "2 ms", "5 ms", "10 ms"]);
        assert_eq!(labels(&[20.0; 3]), ["20 ms"]);
    }

    #[test]
    fn a_decade_is_the_same_length_everywhere() {
        let axis = LogAxis { range: 1.0..1000.0, labelled: Vec::new(), unlabelled: Vec::new() };
        assert_eq!([1.0, 10.0, 100.0, 1000.0].map(|value| axis.map(&value, (0, 300))), [0, 100, 200, 300]);
        assert_eq!(axis.map(&10.0, (300, 0)), 200);
    }
}
