//! What the page's script works with: every plot's numbers once, what plots share once for all of them, and the figures of every
//! run for comparing any two. A number costs 5 bytes and there are hundreds of thousands, so nothing is said twice.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use crate::axis::Scale;
use crate::chapter::{Chapter, Extras, PointReport};
use crate::plot::{AxisTitle, Line, Look, Plot, Unit};
use crate::summary::RunSummary;

/// To so many significant digits: what a plot can show, and a page has room for. Places of x are fewer, and close to 1 as
/// percentiles.
const DIGITS: usize = 4;
const X_DIGITS: usize = 6;

/// Values kept once, named by their places.
#[derive(Default)]
struct Kept {
    values: Vec<Value>,
    places: HashMap<String, usize>,
}

/// The plots of a page, by their keys, and what they share.
#[derive(Default)]
pub(super) struct Plots {
    /// Titles, notes and axes.
    kinds: Kept,
    /// Places of x, and their names.
    xs: Kept,
    /// Stretches of overload.
    shades: Kept,
    /// Names of lines, and how they look.
    lines: Kept,
    plots: Map<String, Value>,
}

impl Kept {
    fn place(&mut self, value: Value) -> usize {
        let next = self.values.len();
        let place = *self.places.entry(value.to_string()).or_insert(next);
        if place == next {
            self.values.push(value);
        }
        place
    }
}

impl Plots {
    pub fn add(&mut self, key: &str, plot: &Plot) {
        let axis = |of: &AxisTitle| json!({ "t": of.title, "s": scale(of.scale), "u": unit(of.unit) });
        let kind = json!({ "t": plot.title, "note": plot.note, "x": axis(&plot.x), "y": axis(&plot.y) });
        let mut xs = json!({ "v": plot.xs.iter().map(|x| number_of(*x, X_DIGITS)).collect::<Vec<Value>>() });
        if !plot.labels.is_empty() {
            xs["names"] = json!(plot.labels);
        }
        let mut value = json!({ "k": self.kinds.place(kind), "x": self.xs.place(xs) });
        if !plot.shaded.is_empty() {
            value["s"] = json!(self.shades.place(json!(plot.shaded)));
        }
        value["l"] = plot.lines.iter().map(|line| self.line(line)).collect();
        self.plots.insert(key.into(), value);
    }

    fn line(&mut self, line: &Line) -> Value {
        let mut value = json!({ "n": self.lines.place(json!([line.name, look(line)])), "y": numbers(&line.ys) });
        if line.half_widths.iter().any(Option::is_some) {
            value["h"] = numbers(&line.half_widths);
        }
        if !line.voids.is_empty() {
            value["v"] = json!(line.voids);
        }
        value
    }

    /// Everything, for the script; `more` are the page's other parts.
    pub fn into_json(self, more: Value) -> Value {
        let Plots { kinds, xs, shades, lines, plots } = self;
        let mut all = more;
        for (name, kept) in [("kinds", kinds), ("xs", xs), ("shades", shades), ("lines", lines)] {
            all[name] = Value::Array(kept.values);
        }
        all["plots"] = Value::Object(plots);
        all
    }
}

/// Classes of the style sheet: colour by run, the same everywhere; where colours are used up, dashes.
fn look(line: &Line) -> String {
    const COLOURS: usize = 7;
    let void = if line.is_void { " void" } else { "" };
    match line.look {
        Look::Dotted => "oracle d2".into(),
        Look::Dashed | Look::Overlay => "oracle d1".into(),
        Look::Measured | Look::Marks | Look::Smooth => {
            let run = line.run.unwrap_or_default();
            format!("c{} d{}{void}", run % COLOURS, (run / COLOURS).min(2))
        }
    }
}

/// A run for the comparison; the keys of the plots of its point begin with `prefix`.
pub(super) fn run(chapter: &Chapter, point: &PointReport, at: usize, prefix: &str) -> Value {
    let (run, extras) = (&point.summary.runs[at], &point.extras[at]);
    let figures: Vec<Value> = figures(run, extras).into_iter().map(|(_, value)| number(value)).collect();
    json!({ "e": chapter.name, "p": point.name, "n": run.name, "v": run.void, "w": run.not_a_wire, "c": run.conditions, "f": figures, "k": prefix })
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
        ("mean / bound", Some(run.bound_ratio)),
        ("mean / packet bound", Some(run.packet_bound_ratio)),
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
        ("dropped for a full accept queue", extras.accept_drops),
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
