//! A plot as data: one x for all its lines, so that the picture, the table behind it, its CSV and what a pointer shows all come
//! from the same numbers.

use crate::axis::Scale;
use crate::chart::{AxisTitle, Unit};

/// Lines over one axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Plot {
    /// Short, of letters and `-`: names the plot's CSV and its place on the page.
    pub id: &'static str,
    pub title: String,
    /// What a point is.
    pub note: String,
    pub x: AxisTitle,
    pub y: AxisTitle,
    /// Ascending.
    pub xs: Vec<f64>,
    /// What stands at each x, where that is no number; x then counts from 0.
    pub labels: Vec<String>,
    pub lines: Vec<Line>,
    /// Stretches of x to be shaded: overload.
    pub shaded: Vec<[f64; 2]>,
}

/// One value for each x, where there is one.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    pub name: String,
    /// Which run of its experiment, in order of appearance; `None` for an oracle.
    pub run: Option<usize>,
    pub is_void: bool,
    /// Places of x at which its run is void, where it is not so at all of them.
    pub voids: Vec<usize>,
    pub ys: Vec<Option<f64>>,
    /// Half of a confidence interval for each value; empty where none is known.
    pub half_widths: Vec<Option<f64>>,
}

impl Line {
    pub(crate) fn oracle(name: &str, ys: Vec<Option<f64>>) -> Line {
        Line { name: name.into(), run: None, is_void: false, voids: vec![], ys, half_widths: vec![] }
    }
}

impl Plot {
    /// A plot without lines yet.
    pub(crate) fn new(
        id: &'static str,
        title: impl Into<String>,
        x: (&str, Scale, Unit),
        y: (&str, Scale, Unit),
    ) -> Plot {
        let axis = |(title, scale, unit): (&str, Scale, Unit)| AxisTitle { title: title.into(), scale, unit };
        let (x, y, title) = (axis(x), axis(y), title.into());
        Plot { id, title, note: String::new(), x, y, xs: vec![], labels: vec![], lines: vec![], shaded: vec![] }
    }

    /// Whether there is anything to see.
    pub fn is_empty(&self) -> bool {
        let has = |y: &Option<f64>| y.is_some_and(|y| self.y.scale.has(y));
        !self.lines.iter().any(|line| line.ys.iter().any(has))
    }
}

/// `count` values from `low` to `high`, equally far apart as logarithms.
pub(crate) fn log_steps(low: f64, high: f64, count: usize) -> Vec<f64> {
    if !(low > 0.0 && high > low) || count < 2 {
        return vec![low];
    }
    let step = (high / low).ln() / (count - 1) as f64;
    (0..count).map(|n| if n + 1 == count { high } else { low * (step * n as f64).exp() }).collect()
}
