//! A plot as SVG for the page: colours and fonts are the style sheet's, so that it follows light, dark and print; values are
//! shown by the page's script, which reads the same axes from the plot's data.

use std::fmt::Write as _;

use plotters::coord::ranged1d::{BoldPoints, LightPoints, Ranged};

use super::html::escape;
use crate::axis::Axis;
use crate::plot::{Line, Plot};

/// The picture's size and where its axes are, in units of the drawing.
pub(super) const WIDTH: i32 = 760;
pub(super) const HEIGHT: i32 = 400;
pub(super) const LEFT: i32 = 66;
pub(super) const RIGHT: i32 = 748;
pub(super) const TOP: i32 = 10;
pub(super) const BOTTOM: i32 = 346;

/// Lines are drawn on a raster this many times finer.
const FINE: i32 = 4;

/// Lines with at most so many points have marks at them.
const MARKS_MAX: usize = 24;

/// Lines with more points than this are drawn thinner.
const DENSE: usize = 120;

/// At most so many labels fit along each axis.
const X_LABELS_MAX: usize = 16;
const Y_LABELS_MAX: usize = 16;

/// The axes of a plot.
pub(super) struct Axes {
    pub x: Axis,
    pub y: Axis,
}

impl Axes {
    pub fn of(plot: &Plot) -> Axes {
        let is_drawn = |at: usize| plot.lines.iter().any(|line| line.ys[at].is_some());
        let xs = plot.xs.iter().enumerate().filter(|(at, _)| is_drawn(*at)).map(|(_, x)| *x);
        let ys = plot.lines.iter().flat_map(|line| line.ys.iter().flatten().copied());
        Axes { x: Axis::covering(plot.x.scale, xs), y: Axis::covering(plot.y.scale, ys) }
    }
}

/// `key` names the plot among all of the page.
pub(super) fn svg(plot: &Plot, axes: &Axes, key: &str) -> String {
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" tabindex=\"0\" data-plot=\"{key}\" aria-label=\"{0}\"><title>{0}</title>",
        escape(plot.title)
    );
    for stretch in &plot.shaded {
        let [from, to] = stretch.map(|x| axes.x.map(&x, (LEFT, RIGHT)));
        let _ = write!(
            svg,
            "<rect class=\"shade\" x=\"{from}\" y=\"{TOP}\" width=\"{}\" height=\"{}\"/>",
            to - from,
            BOTTOM - TOP
        );
    }
    grid(&mut svg, plot, axes);
    titles(&mut svg, plot);
    let _ = write!(svg, "<g transform=\"scale({})\">", 1.0 / f64::from(FINE));
    // The first run lies on top.
    for (at, line) in plot.lines.iter().enumerate().rev() {
        draw(&mut svg, plot, axes, line, at);
    }
    svg.push_str("</g><line class=\"cursor\" hidden=\"\"/></svg>");
    svg
}

fn grid(svg: &mut String, plot: &Plot, axes: &Axes) {
    let mut path = |class: &str, xs: Vec<f64>, ys: Vec<f64>| {
        let vertical = xs.iter().map(|x| format!("M{} {TOP}V{BOTTOM}", axes.x.map(x, (LEFT, RIGHT))));
        let level = ys.iter().map(|y| format!("M{LEFT} {}H{RIGHT}", axes.y.map(y, (BOTTOM, TOP))));
        let _ = write!(svg, "<path class=\"{class}\" d=\"{}\"/>", vertical.chain(level).collect::<String>());
    };
    path("fine", axes.x.key_points(LightPoints::new(100, 100)), axes.y.key_points(LightPoints::new(100, 100)));
    let (xs, ys) = labels(plot, axes);
    path("grid", xs.iter().map(|(x, _)| *x).collect(), ys.iter().map(|(y, _)| *y).collect());
    for (x, label) in &xs {
        let _ = write!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            axes.x.map(x, (LEFT, RIGHT)),
            BOTTOM + 18,
            escape(label)
        );
    }
    for (y, label) in &ys {
        let _ = write!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            LEFT - 6,
            axes.y.map(y, (BOTTOM, TOP)) + 4,
            escape(label)
        );
    }
}

type Labels = Vec<(f64, String)>;

/// Where there are names for the places of x, those; every n-th, so many that they do not touch.
fn labels(plot: &Plot, axes: &Axes) -> (Labels, Labels) {
    let every = |labels: Labels, most: usize| -> Labels {
        let step = labels.len().div_ceil(most).max(1);
        labels.into_iter().step_by(step).collect()
    };
    let numbers = |axis: &Axis, unit: crate::Unit| -> Labels {
        axis.key_points(BoldPoints(100)).into_iter().map(|value| (value, unit.label(value))).collect()
    };
    let named: Labels = plot.xs.iter().copied().zip(plot.labels.iter().cloned()).collect();
    let xs = if named.is_empty() { numbers(&axes.x, plot.x.unit) } else { named };
    (every(xs, X_LABELS_MAX), every(numbers(&axes.y, plot.y.unit), Y_LABELS_MAX))
}

fn titles(svg: &mut String, plot: &Plot) {
    let (x, y) = ((LEFT + RIGHT) / 2, (TOP + BOTTOM) / 2);
    let _ = write!(
        svg,
        "<text class=\"axis\" x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
        HEIGHT - 12,
        escape(&plot.x.title)
    );
    let _ = write!(
        svg,
        "<text class=\"axis\" x=\"14\" y=\"{y}\" text-anchor=\"middle\" transform=\"rotate(-90 14 {y})\">{}</text>",
        escape(&plot.y.title)
    );
}

/// A line in one path, relative and in whole steps of the fine raster: a few bytes a point.
fn draw(svg: &mut String, plot: &Plot, axes: &Axes, line: &Line, at: usize) {
    let place =
        |x: f64, y: f64| (axes.x.map(&x, (LEFT * FINE, RIGHT * FINE)), axes.y.map(&y, (BOTTOM * FINE, TOP * FINE)));
    let has_place = |x: f64, y: f64| plot.x.scale.has(x) && plot.y.scale.has(y);
    let mut path = String::new();
    let mut marks = String::new();
    let mut before: Option<(i32, i32)> = None;
    for (n, (x, y)) in plot.xs.iter().zip(&line.ys).enumerate() {
        let Some(y) = y.filter(|y| has_place(*x, *y)) else { continue };
        let (px, py) = place(*x, y);
        let _ = match before {
            None => write!(path, "M{px} {py}"),
            Some((bx, by)) => write!(path, "l{} {}", px - bx, py - by),
        };
        before = Some((px, py));
        let _ = write!(marks, "M{px} {py}h0");
        if let Some(half) = line.half_widths.get(n).copied().flatten() {
            let ends =
                [y - half, y + half].map(|end| if plot.y.scale.has(end) { place(*x, end).1 } else { BOTTOM * FINE });
            let _ = write!(path, "M{px} {}V{}M{px} {py}", ends[0], ends[1]);
        }
    }
    let mark = if line.ys.iter().flatten().count() <= MARKS_MAX {
        format!("<path class=\"marks\" d=\"{marks}\"/>")
    } else {
        String::new()
    };
    let dense = if line.ys.len() > DENSE { " dense" } else { "" };
    let _ = write!(
        svg,
        "<g class=\"line {}{dense}\" data-line=\"{at}\"><title>{}</title><path d=\"{path}\"/>{mark}</g>",
        class(line),
        escape(&line.name)
    );
}

/// Colour by run, the same everywhere; where colours are used up, dashes.
pub(super) fn class(line: &Line) -> String {
    const COLOURS: usize = 7;
    let void = if line.is_void { " void" } else { "" };
    match line.run {
        Some(run) => format!("c{} d{}{void}", run % COLOURS, (run / COLOURS).min(2)),
        None => format!("oracle {}", if line.name == crate::figure::BOUND { "d2" } else { "d1" }),
    }
}
