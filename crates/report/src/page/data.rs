//! What the page's script works with: every plot's numbers once, and the figures of every run for comparing any two.

use serde_json::{Value, json};

use super::svg::{Axes, BOTTOM, LEFT, RIGHT, TOP};
use crate::axis::Scale;
use crate::chapter::{Chapter, Extras, PointReport};
use crate::chart::{AxisTitle, Unit};
use crate::plot::Plot;
use crate::summary::RunSummary;
use plotters::coord::ranged1d::Ranged;

/// To so many significant digits: what a plot can show, and a page has room for. Places of x are fewer, and close to 1 as
/// percentiles.
const DIGITS: usize = 4;
const X_DIGITS: usize = 6;

/// Numbers of a plot, its axes, and how they are written.
pub(super) fn plot(plot: &Plot, axes: &Axes) -> Value {
    let axis = |title: &AxisTitle, range: std::ops::Range<f64>, places: [i32; 2]| json!({ "t": title.title, "s": scale(title.scale), "u": unit(title.unit), "r": [range.start, range.end], "p": places });
    let line = |line: &crate::plot::Line| {
        let mut value = json!({ "n": line.name, "k": super::svg::class(line), "y": numbers(&line.ys) });
        if line.half_widths.iter().any(Option::is_some) {
            value["h"] = numbers(&line.half_widths);
        }
        value
    };
    let mut value = json!({
        "t": plot.title,
        "x": axis(&plot.x, axes.x.range(), [LEFT, RIGHT]),
        "y": axis(&plot.y, axes.y.range(), [BOTTOM, TOP]),
        "xs": plot.xs.iter().map(|x| number_of(*x, X_DIGITS)).collect::<Vec<Value>>(),
        "l": plot.lines.iter().map(line).collect::<Vec<_>>(),
    });
    if !plot.labels.is_empty() {
        value["names"] = json!(plot.labels);
    }
    value
}

/// A run for the comparison: `plots` is where its distribution and its sizes are drawn.
pub(super) fn run(chapter: &Chapter, point: &PointReport, at: usize, plots: &[(String, &Plot)]) -> Value {
    let (run, extras) = (&point.summary.runs[at], &point.extras[at]);
    let line_of = |id: &str| {
        let (key, plot) = plots.iter().find(|(_, plot)| plot.id == id)?;
        let line = plot.lines.iter().position(|line| line.run.is_some() && line.name == run.name)?;
        Some(json!([key, line]))
    };
    let figures: Vec<Value> = figures(run, extras).into_iter().map(|(_, value)| number(value)).collect();
    json!({
        "e": chapter.name, "p": point.name, "n": run.name, "s": run.server, "o": run.policy, "d": run.drain,
        "v": run.void, "f": figures, "ccdf": line_of("ccdf"), "size": line_of("by-size"),
    })
}

/// What is compared of two runs, in this order.
pub(super) fn figures(run: &RunSummary, extras: &Extras) -> Vec<(&'static str, Option<f64>)> {
    let times = &run.response_time_ms;
    let sizes = &run.size_class_ms;
    vec![
        ("mean response time, ms", Some(times.mean)),
        ("median, ms", Some(times.p50)),
        ("90th percentile, ms", Some(times.p90)),
        ("99th percentile, ms", Some(times.p99)),
        ("99.9th percentile, ms", extras.p999_ms),
        ("longest, ms", Some(times.max)),
        ("variance, ms²", extras.variance_ms2),
        ("SCV", extras.scv),
        ("mean slowdown", Some(run.slowdown_mean)),
        ("mean time to first byte, ms", extras.first_byte_ms),
        ("smallest 50 % of requests, ms", sizes.p0_50),
        ("50 to 80 %, ms", sizes.p50_80),
        ("80 to 99 %, ms", sizes.p80_99),
        ("99 to 99.5 %, ms", sizes.p99_995),
        ("largest 0.5 %, ms", sizes.p995_100),
        ("largest 1 %, ms", extras.top_1_percent_ms),
        ("completed", Some(run.completed as f64)),
        ("incomplete", Some(run.incomplete as f64)),
        ("bytes of body", Some(run.bytes as f64)),
        ("most connections", extras.connections_max),
        ("SYNs dropped", extras.syn_drops),
    ]
}

/// Of a point's runs, request by request: [base, run, gaining, starved, median, p99, largest stretch, that of the largest].
pub(super) fn pairs(point: &PointReport) -> Value {
    let pair = |pair: &crate::Pair| {
        let figures = [
            pair.share_gaining,
            pair.share_starved,
            pair.stretch_median,
            pair.stretch_p99,
            pair.stretch_max,
            pair.stretch_largest,
        ];
        let places = [pair.base, pair.run].map(|place| json!(place));
        Value::Array(places.into_iter().chain(figures.map(|figure| number(Some(figure)))).collect())
    };
    point.pairs.iter().map(pair).collect()
}

fn scale(scale: Scale) -> &'static str {
    match scale {
        Scale::Linear => "linear",
        Scale::Log => "log",
        Scale::Nines => "nines",
    }
}

fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Bytes => "bytes",
        Unit::Millis => "ms",
        Unit::Percent => "percent",
        Unit::Number => "number",
    }
}

fn numbers(values: &[Option<f64>]) -> Value {
    values.iter().map(|value| number(*value)).collect()
}

fn number(value: Option<f64>) -> Value {
    value.filter(|value| value.is_finite()).map_or(Value::Null, |value| number_of(value, DIGITS))
}

/// Whole numbers in full and without a point: `12` and not `12.0`.
fn number_of(value: f64, digits: usize) -> Value {
    let rounded: f64 = format!("{value:.*e}", digits - 1).parse().unwrap_or(value);
    let exact = if value.fract() == 0.0 && value.abs() < 1e15 { value } else { rounded };
    if exact.fract() == 0.0 && exact.abs() < 1e15 { json!(exact as i64) } else { json!(exact) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let values = [Some(0.123456), Some(12.0), Some(1234567.8), Some(90001.0), None, Some(f64::NAN), Some(99.9999)];
        assert_eq!(numbers(&values).to_string(), "[0.1235,12,1235000,90001,null,null,100]");
    }
}
