//! A plot as data: one x for all its lines, so that the picture, the table behind it, its CSV and what a pointer shows all come
//! from the same numbers. Drawn as SVG by [`Plot::svg`], on a page by its script.

use crate::axis::Scale;

/// Lines over one axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Plot {
    /// Short: names the plot's file and its place on the page.
    pub id: String,
    pub title: String,
    /// What a point is, and what was the same for all lines.
    pub note: String,
    pub x: AxisTitle,
    pub y: AxisTitle,
    /// Ascending.
    pub xs: Vec<f64>,
    /// What stands at each x, where that is no number; x then counts from 0. On a page only.
    pub labels: Vec<String>,
    pub lines: Vec<Line>,
    /// Stretches of x to be shaded: overload. On a page only.
    pub shaded: Vec<[f64; 2]>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct AxisTitle {
    pub title: String,
    pub scale: Scale,
    pub unit: Unit,
}

/// What the numbers on an axis are, which decides how they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Bytes,
    Millis,
    /// Shares of 1, written as percentages.
    Percent,
    /// The title says it, if there is one.
    Number,
}

/// One value for each x, where there is one.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// In the legend; a line without a name is not in it.
    pub name: String,
    /// A second line in the legend of an SVG.
    pub note: Option<String>,
    pub look: Look,
    /// Which run of its experiment, in order of appearance: its colour on a page.
    pub run: Option<usize>,
    pub is_void: bool,
    /// Places of x at which its run is void, where it is not so at all of them.
    pub voids: Vec<usize>,
    /// What has no place on the scales is not drawn.
    pub ys: Vec<Option<f64>>,
    /// Half of a confidence interval for each value; empty where none is known.
    pub half_widths: Vec<Option<f64>>,
}

/// How sure a line is shows in how it is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// A line with a mark at each point, in a colour of its own.
    Measured,
    /// Marks alone, in a colour of their own: for points between which there is nothing.
    Marks,
    /// A line without marks, in a colour of its own: for points so many that marks would hide it.
    Smooth,
    /// Computed: grey.
    Dashed,
    /// Computed, another one: grey.
    Dotted,
    /// Computed, to be compared with a measured line that it lies upon: thin, dark, on top of all.
    Overlay,
}

/// A point of a line whose places of x are its own.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    pub x: f64,
    pub y: f64,
    pub half_width: Option<f64>,
}

impl Point {
    /// Without a confidence interval.
    pub fn exact(x: f64, y: f64) -> Point {
        Point { x, y, half_width: None }
    }
}

impl Line {
    /// Without values yet.
    pub fn new(name: impl Into<String>, look: Look) -> Line {
        let (name, note, run, is_void) = (name.into(), None, None, false);
        Line { name, note, look, run, is_void, voids: vec![], ys: vec![], half_widths: vec![] }
    }
}

impl Plot {
    /// A plot without lines yet.
    pub fn new(
        id: impl Into<String>,
        title: impl Into<String>,
        x: (&str, Scale, Unit),
        y: (&str, Scale, Unit),
    ) -> Plot {
        let axis = |(title, scale, unit): (&str, Scale, Unit)| AxisTitle { title: title.into(), scale, unit };
        let (id, x, y, title) = (id.into(), axis(x), axis(y), title.into());
        Plot { id, title, note: String::new(), x, y, xs: vec![], labels: vec![], lines: vec![], shaded: vec![] }
    }

    /// The same with lines whose places of x are their own, over the places of all of them.
    pub fn with_points(mut self, lines: Vec<(Line, Vec<Point>)>) -> Plot {
        self.xs = lines.iter().flat_map(|(_, points)| points).map(|point| point.x).collect();
        self.xs.sort_by(f64::total_cmp);
        self.xs.dedup_by(|a, b| a.total_cmp(b).is_eq());
        for (mut line, points) in lines {
            (line.ys, line.half_widths) = (vec![None; self.xs.len()], vec![None; self.xs.len()]);
            for Point { x, y, half_width } in points {
                let at = self.xs.partition_point(|before| before.total_cmp(&x).is_lt());
                (line.ys[at], line.half_widths[at]) = (Some(y), half_width);
            }
            self.lines.push(line);
        }
        self
    }

    /// Whether there is anything to see.
    pub fn is_empty(&self) -> bool {
        let has = |y: &Option<f64>| y.is_some_and(|y| self.y.scale.has(y));
        !self.lines.iter().any(|line| line.ys.iter().any(has))
    }

    /// What of a line can be drawn.
    pub(crate) fn points<'a>(&'a self, line: &'a Line) -> impl Iterator<Item = Point> + 'a {
        let half_width = |at: usize| line.half_widths.get(at).copied().flatten();
        let all = self.xs.iter().zip(&line.ys).enumerate();
        let all = all.filter_map(move |(at, (x, y))| Some(Point { x: *x, y: (*y)?, half_width: half_width(at) }));
        all.filter(|point| self.x.scale.has(point.x) && self.y.scale.has(point.y))
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
