//! Axes with the labels a reader expects: 100 B, 1 KB, 10 KB; 1 ms, 10 ms, 100 ms, 1 s; 50 %, 90 %, 99 %.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};

/// Axes of at most this many decades are also labelled at 2 and 5.
const DECADES_FEW: f64 = 2.5;

/// About so many labels on a linear axis.
const LINEAR_LABELS: f64 = 7.0;

/// How values are spread along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    Linear,
    Log,
    /// Shares below 1 by how little is missing: 0, 0.9, 0.99 and 0.999 are equally far apart. For percentiles, whose top
    /// matters most.
    Nines,
}

/// One axis: how far it goes and where its lines are, all in its own unit.
pub(crate) struct Axis {
    scale: Scale,
    range: Range<f64>,
    labelled: Vec<f64>,
    unlabelled: Vec<f64>,
}

impl Scale {
    /// Whether the scale has a place for this value.
    pub(crate) fn has(self, value: f64) -> bool {
        let is_within = match self {
            Scale::Linear => true,
            Scale::Log => value > 0.0,
            Scale::Nines => (0.0..1.0).contains(&value),
        };
        is_within && value.is_finite()
    }

    /// Linear on the paper.
    fn of(self, value: f64) -> f64 {
        match self {
            Scale::Linear => value,
            Scale::Log => value.log10(),
            Scale::Nines => -(1.0 - value).log10(),
        }
    }

    fn back(self, place: f64) -> f64 {
        match self {
            Scale::Linear => place,
            Scale::Log => 10f64.powf(place),
            Scale::Nines => 1.0 - 10f64.powf(-place),
        }
    }
}

impl Axis {
    /// Covers these values with a little room; values that have no place on the scale are left out.
    pub fn covering(scale: Scale, values: impl Iterator<Item = f64>) -> Axis {
        let places = values.filter(|value| scale.has(*value)).map(|value| scale.of(value));
        let (low, high) = places.fold((f64::MAX, f64::MIN), |(low, high), place| (low.min(place), high.max(place)));
        let (low, high) = if low > high { (0.0, 1.0) } else { (low, high) };
        let least_room = if scale == Scale::Linear { 0.04 * high.abs().max(1e-9) } else { 0.15 };
        let room = if high > low && scale == Scale::Linear {
            0.04 * (high - low)
        } else {
            (0.04 * (high - low)).max(least_room)
        };
        // A linear axis of what is near zero or reaches far above it begins there: heights compare.
        let reaches_zero = scale == Scale::Linear && low >= 0.0 && low < 0.3 * high;
        let low = if reaches_zero || (scale == Scale::Nines && low < 1.0) { 0.0 } else { low - room };
        let high = high + room;
        let range = scale.back(low)..scale.back(high);
        let mut axis = Axis { scale, range, labelled: Vec::new(), unlabelled: Vec::new() };
        match scale {
            Scale::Linear => axis.mark_linear(),
            Scale::Log => (low.floor() as i32..=high.ceil() as i32).for_each(|d| axis.mark_decade(d, high - low)),
            Scale::Nines => axis.mark_nines(high),
        }
        axis
    }

    /// At round steps of 1, 2 or 5 times a power of ten.
    fn mark_linear(&mut self) {
        let Range { start, end } = self.range;
        let wanted = (end - start) / LINEAR_LABELS;
        let decade = 10f64.powf(wanted.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * decade).into_iter().find(|step| *step >= wanted);
        let step = step.unwrap_or(10.0 * decade);
        let (first, last) = ((start / step).ceil() as i64, (end / step).floor() as i64);
        // Divided by a whole number where the step is a fraction, so that labels are 0.3 and not 0.30000000000000004.
        let tick = |n: i64| if step < 1.0 { n as f64 / (1.0 / step).round() } else { n as f64 * step };
        self.labelled = (first..=last).map(tick).collect();
    }

    fn mark_decade(&mut self, decade: i32, decades: f64) {
        for digit in [1, 2, 3, 4, 5, 6, 7, 8, 9] {
            let tick = f64::from(digit) * 10f64.powi(decade);
            let is_labelled = digit == 1 || (decades <= DECADES_FEW && (digit == 2 || digit == 5));
            if self.range.contains(&tick) {
                if is_labelled { &mut self.labelled } else { &mut self.unlabelled }.push(tick);
            }
        }
    }

    /// At 0, 0.5, 0.9, 0.99, ...
    fn mark_nines(&mut self, nines: f64) {
        for decade in 0..=nines.ceil() as i32 {
            for missing in [10, 9, 8, 7, 6, 5, 4, 3, 2] {
                let tick = 1.0 - f64::from(missing) * 10f64.powi(-decade - 1);
                let is_labelled = missing == 10 || (decade == 0 && missing == 5);
                if self.range.contains(&tick) {
                    if is_labelled { &mut self.labelled } else { &mut self.unlabelled }.push(tick);
                }
            }
        }
    }
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    /// What lies outside is drawn at the edge.
    fn map(&self, value: &f64, (from_px, to_px): (i32, i32)) -> i32 {
        let [value, start, end] = [value.clamp(self.range.start, self.range.end), self.range.start, self.range.end]
            .map(|value| self.scale.of(value));
        from_px + (f64::from(to_px - from_px) * (value - start) / (end - start)).round() as i32
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

/// A share as a percentage, with as many digits as it needs up to 99.9999 %.
pub(crate) fn percent_label(share: f64) -> String {
    let text = format!("{:.4}", share * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// A plain number to three significant digits: 0.01, 5, 20000, 1e7.
pub(crate) fn number_label(value: f64) -> String {
    let rounded: f64 = format!("{value:.2e}").parse().unwrap_or(value);
    if rounded != 0.0 && !(1e-3..1e5).contains(&rounded.abs()) { format!("{rounded:e}") } else { rounded.to_string() }
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
        Axis::covering(Scale::Log, values.iter().copied()).labelled.into_iter().map(millis_label).collect()
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
        let axis = Axis { scale: Scale::Log, range: 1.0..1000.0, labelled: Vec::new(), unlabelled: Vec::new() };
        assert_eq!([1.0, 10.0, 100.0, 1000.0].map(|value| axis.map(&value, (0, 300))), [0, 100, 200, 300]);
        assert_eq!(axis.map(&10.0, (300, 0)), 200);
        assert_eq!([0.0, 1e9].map(|value| axis.map(&value, (0, 300))), [0, 300], "at the edge");
    }

    fn marks(scale: Scale, values: &[f64], label: fn(f64) -> String) -> Vec<String> {
        Axis::covering(scale, values.iter().copied()).labelled.into_iter().map(label).collect()
    }

    #[test]
    fn linear_axes_have_round_steps() {
        assert_eq!(marks(Scale::Linear, &[0.5, 0.95], number_label), ["0.5", "0.6", "0.7", "0.8", "0.9"]);
        assert_eq!(marks(Scale::Linear, &[70.0, 700.0], number_label), ["0", "200", "400", "600"]);
        assert_eq!(marks(Scale::Linear, &[3.0], number_label), ["2.9", "2.95", "3", "3.05", "3.1"]);
        assert!(marks(Scale::Linear, &[0.0], number_label).contains(&"0".into()));
    }

    #[test]
    fn percentiles_are_spread_towards_the_top() {
        let labels = marks(Scale::Nines, &[0.01, 0.9995], percent_label);
        assert_eq!(labels, ["0 %", "50 %", "90 %", "99 %", "99.9 %"]);
        let axis = Axis::covering(Scale::Nines, [0.0, 0.99].into_iter());
        assert_eq!(axis.map(&0.9, (0, 1000)) * 2, axis.map(&0.99, (0, 1000)));
    }

    #[test]
    fn plain_numbers() {
        let labels = [0.0, 0.001, 0.05, 1.0, 20_000.0, 1e5, 2.5e-6].map(number_label);
        assert_eq!(labels, ["0", "0.001", "0.05", "1", "20000", "1e5", "2.5e-6"]);
    }
}
