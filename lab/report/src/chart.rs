//! Lines over two axes, as SVG without fonts: what every picture of ours is. The legend stands beside the plot, never on
//! data.

use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::ReportError;
use crate::axis::{Axis, Scale, bytes_label, millis_label, number_label, percent_label};

const WIDTH_PX: u32 = 1120;
const HEIGHT_PX: u32 = 640;
const LEGEND_WIDTH_PX: u32 = 250;
const TITLE_HEIGHT_PX: u32 = 64;

/// One per measured curve, then again from the start with another mark: the colours of Okabe & Ito (2008), which
/// colour-blind readers can tell apart, without their yellow, which is too pale for a line.
const COLOURS: [RGBColor; 7] = [
    RGBColor(213, 94, 0),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];
const ORACLE_COLOUR: RGBColor = RGBColor(120, 120, 120);
const INK: RGBColor = RGBColor(40, 40, 40);
const GRID: RGBColor = RGBColor(205, 205, 205);
const GRID_FINE: RGBColor = RGBColor(236, 236, 236);

/// A picture of one or more curves.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    pub title: String,
    /// What was the same for all curves.
    pub subtitle: String,
    pub x: AxisTitle,
    pub y: AxisTitle,
    pub curves: Vec<Curve>,
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

#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// In the legend; a curve without a name is not in it.
    pub name: String,
    /// A second line in the legend.
    pub note: Option<String>,
    /// In the order in which they are joined; points that have no place on the scales are left out.
    pub points: Vec<Point>,
    pub look: Look,
}

/// How sure a curve is shows in how it is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// A line with a mark at each point, in a colour of its own.
    Measured,
    /// A line without marks, in a colour of its own: for points so many that marks would hide it.
    Smooth,
    /// Computed: grey.
    Dashed,
    /// Computed, another one: grey.
    Dotted,
    /// Computed, to be compared with a measured curve that it lies upon: thin, dark, on top of all.
    Overlay,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    pub x: f64,
    pub y: f64,
    /// Ends of the confidence interval, drawn as a bar.
    pub ends: Option<[f64; 2]>,
}

impl Point {
    /// Without a confidence interval.
    pub fn exact(x: f64, y: f64) -> Point {
        Point { x, y, ends: None }
    }
}

impl Chart {
    pub fn svg(&self) -> Result<String, ReportError> {
        let mut svg = String::new();
        {
            let root = SVGBackend::with_string(&mut svg, (WIDTH_PX, HEIGHT_PX)).into_drawing_area();
            self.draw(&root).map_err(|error| ReportError::Picture(error.to_string()))?;
        }
        Ok(svg)
    }

    fn draw(&self, root: &Area) -> DrawResult {
        let lines = self.lines();
        root.fill(&WHITE)?;
        let (heading, below) = root.split_vertically(TITLE_HEIGHT_PX);
        heading.draw(&Text::new(self.title.clone(), (20, 14), text(22, INK)))?;
        heading.draw(&Text::new(self.subtitle.clone(), (20, 42), text(14, ORACLE_COLOUR)))?;
        let (plot, legend) = below.split_horizontally(WIDTH_PX - LEGEND_WIDTH_PX);
        self.draw_plot(&plot, &lines)?;
        draw_legend(&legend, &lines)?;
        root.present()?;
        Ok(())
    }

    /// The curves with their colours, and only the points that can be drawn.
    fn lines(&self) -> Vec<Line<'_>> {
        let mut measured = 0;
        let line = |curve| {
            let mut line = Line::new(curve, measured, self.y.scale);
            measured += usize::from(line.dash.is_none());
            line.points.retain(|point| self.x.scale.has(point.x) && self.y.scale.has(point.y));
            line
        };
        self.curves.iter().map(line).collect()
    }

    fn draw_plot(&self, area: &Area, lines: &[Line]) -> DrawResult {
        let points = || lines.iter().flat_map(|line| &line.points);
        let x = Axis::covering(self.x.scale, points().map(|p| p.x));
        let y = Axis::covering(self.y.scale, points().flat_map(|p| [p.y].into_iter().chain(bar_ends(p))));
        let mut chart = ChartBuilder::on(area)
            .margin_right(12)
            .margin_left(10)
            .margin_bottom(8)
            .x_label_area_size(52)
            .y_label_area_size(76)
            .build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .bold_line_style(GRID)
            .light_line_style(GRID_FINE)
            .axis_style(INK)
            .x_desc(&self.x.title)
            .y_desc(&self.y.title)
            .axis_desc_style(text(15, INK))
            .label_style(text(14, INK))
            .x_label_formatter(&|value| self.x.unit.label(*value))
            .y_label_formatter(&|value| self.y.unit.label(*value))
            .draw()?;
        // Computed curves and the last ones first, so that the first measured one lies on top; then what lies upon those.
        let (upon, below): (Vec<&Line>, Vec<&Line>) = lines.iter().partition(|line| line.curve.look == Look::Overlay);
        below.into_iter().rev().chain(upon).try_for_each(|line| line.draw(&mut chart))
    }
}

impl Unit {
    pub(crate) fn label(self, value: f64) -> String {
        match self {
            Unit::Bytes => bytes_label(value),
            Unit::Millis => millis_label(value),
            Unit::Percent => percent_label(value),
            Unit::Number => number_label(value),
        }
    }
}

/// The ends of a bar as far as they may widen the axis: an interval from too few runs must not flatten the curves.
fn bar_ends(point: &Point) -> Vec<f64> {
    let within = |end: &f64| (point.y / 3.0..=point.y * 3.0).contains(end);
    point.ends.into_iter().flatten().filter(within).collect()
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type DrawResult = Result<(), Box<dyn std::error::Error>>;
type Plot<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Axis, Axis>>;

/// A curve as it is drawn.
struct Line<'c> {
    curve: &'c Curve,
    points: Vec<Point>,
    y_scale: Scale,
    colour: RGBColor,
    mark: Mark,
    dash: Option<Dash>,
}

/// Length of dash and gap in pixels.
#[derive(Clone, Copy)]
struct Dash(i32, i32);

#[derive(Clone, Copy)]
enum Mark {
    None,
    Disc,
    Triangle,
}

impl<'c> Line<'c> {
    /// `number` counts the measured curves before this one.
    fn new(curve: &'c Curve, number: usize, y_scale: Scale) -> Line<'c> {
        let (colour, dash) = match curve.look {
            Look::Measured | Look::Smooth => (COLOURS[number % COLOURS.len()], None),
            Look::Dashed => (ORACLE_COLOUR, Some(Dash(9, 5))),
            Look::Dotted => (ORACLE_COLOUR, Some(Dash(2, 4))),
            Look::Overlay => (INK, Some(Dash(5, 4))),
        };
        let mark = match curve.look {
            Look::Measured if (number / COLOURS.len()).is_multiple_of(2) => Mark::Disc,
            Look::Measured => Mark::Triangle,
            _ => Mark::None,
        };
        Line { curve, points: curve.points.clone(), y_scale, colour, mark, dash }
    }

    fn stroke(&self) -> ShapeStyle {
        self.colour.stroke_width(if self.curve.look == Look::Overlay { 1 } else { 2 })
    }

    fn draw(&self, plot: &mut Plot) -> DrawResult {
        let path = self.points.iter().map(|point| (point.x, point.y));
        if let Some(Dash(dash, gap)) = self.dash {
            plot.draw_series(DashedLineSeries::new(path, dash, gap, self.stroke()))?;
            return Ok(());
        }
        for point in &self.points {
            if let Some(ends) = point.ends {
                self.draw_bar(plot, point, ends)?;
            }
        }
        plot.draw_series(LineSeries::new(path.clone(), self.stroke()))?;
        match self.mark {
            Mark::None => return Ok(()),
            Mark::Disc => plot.draw_series(path.map(|at| Circle::new(at, 3, self.colour.filled())))?,
            Mark::Triangle => plot.draw_series(path.map(|at| TriangleMarker::new(at, 5, self.colour.filled())))?,
        };
        Ok(())
    }

    /// An end that the scale has no place for, such as one below zero, is not drawn: no bar through half the picture.
    fn draw_bar(&self, plot: &mut Plot, point: &Point, ends: [f64; 2]) -> DrawResult {
        const CAP_PX: i32 = 4;
        for end in ends.into_iter().filter(|end| self.y_scale.has(*end)) {
            plot.draw_series([PathElement::new([(point.x, point.y), (point.x, end)], self.colour)])?;
            let cap = PathElement::new([(-CAP_PX, 0), (CAP_PX, 0)], self.colour);
            plot.draw_series([EmptyElement::at((point.x, end)) + cap])?;
        }
        Ok(())
    }
}

/// One entry per curve, in their order: its mark, its name, its note.
fn draw_legend(area: &Area, lines: &[Line]) -> DrawResult {
    const ENTRY_HEIGHT_PX: i32 = 26;
    const NOTE_HEIGHT_PX: i32 = 20;
    const NAME_CHARS_MAX: usize = 27;
    let mut y = 12;
    for line in lines.iter().filter(|line| !line.curve.name.is_empty()) {
        let mark = [(6, y), (36, y)];
        match (line.dash, line.mark) {
            (Some(Dash(dash, gap)), _) => area.draw(&DashedPathElement::new(mark, dash, gap, line.stroke()))?,
            (None, Mark::None) => {}
            (None, Mark::Disc) => area.draw(&Circle::new((21, y), 3, line.colour.filled()))?,
            (None, Mark::Triangle) => area.draw(&TriangleMarker::new((21, y), 5, line.colour.filled()))?,
        }
        if line.dash.is_none() {
            area.draw(&PathElement::new(mark, line.stroke()))?;
        }
        area.draw(&Text::new(cut(&line.curve.name, NAME_CHARS_MAX), (46, y), text(15, INK)))?;
        if let Some(note) = &line.curve.note {
            area.draw(&Text::new(note.clone(), (46, y + 18), text(13, ORACLE_COLOUR)))?;
            y += NOTE_HEIGHT_PX;
        }
        y += ENTRY_HEIGHT_PX;
    }
    Ok(())
}

fn cut(name: &str, chars_max: usize) -> String {
    if name.chars().count() <= chars_max {
        return name.into();
    }
    name.chars().take(chars_max - 1).chain(['…']).collect()
}

/// Text to the right of its point, centred on it in height. The family is the reader's own, so the file needs no font.
fn text<'a>(size_px: i32, colour: RGBColor) -> TextStyle<'a> {
    ("sans-serif", size_px).into_font().color(&colour).pos(Pos::new(HPos::Left, VPos::Center))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(scale: Scale, points: &[(f64, f64, Option<[f64; 2]>)]) -> Chart {
        let points = points.iter().map(|&(x, y, ends)| Point { x, y, ends }).collect();
        let axis = |title: &str, unit| AxisTitle { title: title.into(), scale, unit };
        Chart {
            title: "title <here>".into(),
            subtitle: "subtitle".into(),
            x: axis("offered load rho", Unit::Number),
            y: axis("mean response time", Unit::Millis),
            curves: vec![Curve { name: "srpt".into(), note: None, points, look: Look::Measured }],
        }
    }

    #[test]
    fn a_bar_has_two_halves_and_two_caps() {
        let lines = |chart: Chart| {
            let svg = chart.svg().unwrap();
            svg.lines().filter(|line| line.contains("<polyline") && line.contains("#D55E00")).count()
        };
        let without = lines(chart(Scale::Linear, &[(0.5, 10.0, None), (0.8, 20.0, None)]));
        let with = lines(chart(Scale::Linear, &[(0.5, 10.0, None), (0.8, 20.0, Some([18.0, 22.0]))]));
        assert_eq!(with, without + 4);
    }

    #[test]
    fn what_has_no_place_is_left_out() {
        let svg = chart(Scale::Log, &[(0.0, 1.0, None), (1.0, f64::NAN, None), (2.0, 0.0, None)]).svg().unwrap();
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert!(!svg.contains("<here>"), "text is escaped");
    }

    #[test]
    fn an_interval_beyond_zero_has_its_upper_half_only() {
        let lines = |low: f64| {
            let svg = chart(Scale::Log, &[(1.0, 10.0, Some([low, 12.0])), (2.0, 20.0, None)]).svg().unwrap();
            svg.lines().filter(|line| line.contains("<polyline") && line.contains("#D55E00")).count()
        };
        assert_eq!(lines(-50.0), lines(8.0) - 2);
    }

    #[test]
    fn a_long_name_is_cut() {
        assert_eq!(cut("srpt-bands:1000,2000,5000,50000", 27), "srpt-bands:1000,2000,5000,…");
    }
}
