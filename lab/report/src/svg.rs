//! A plot as SVG without fonts: what every picture of ours is. The legend stands beside it, never on data.

use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::ReportError;
use crate::axis::{Axis, Scale, bytes_label, millis_label, number_label, percent_label};
use crate::plot::{AxisTitle, Line, Look, Plot, Point, Unit};

const WIDTH_PX: u32 = 1120;
const HEIGHT_PX: u32 = 640;
const LEGEND_WIDTH_PX: u32 = 250;
const TITLE_HEIGHT_PX: u32 = 64;

/// One per measured line, then again from the start with another mark: the colours of Okabe & Ito (2008), which
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

impl Plot {
    pub fn svg(&self) -> Result<String, ReportError> {
        let mut svg = String::new();
        {
            let root = SVGBackend::with_string(&mut svg, (WIDTH_PX, HEIGHT_PX)).into_drawing_area();
            self.draw(&root).map_err(|error| ReportError::Picture(error.to_string()))?;
        }
        Ok(svg)
    }

    fn draw(&self, root: &Area) -> DrawResult {
        let lines = self.drawn();
        root.fill(&WHITE)?;
        let (heading, below) = root.split_vertically(TITLE_HEIGHT_PX);
        heading.draw(&Text::new(self.title.clone(), (20, 14), text(22, INK)))?;
        heading.draw(&Text::new(self.note.clone(), (20, 42), text(14, ORACLE_COLOUR)))?;
        let (plot, legend) = below.split_horizontally(WIDTH_PX - LEGEND_WIDTH_PX);
        self.draw_plot(&plot, &lines)?;
        draw_legend(&legend, &lines)?;
        root.present()?;
        Ok(())
    }

    /// The lines with their colours, and only the points that can be drawn.
    fn drawn(&self) -> Vec<Drawn<'_>> {
        let mut measured = 0;
        let drawn = |line| {
            let drawn = Drawn::new(line, self.points(line).collect(), measured, &self.y);
            measured += usize::from(drawn.dash.is_none());
            drawn
        };
        self.lines.iter().map(drawn).collect()
    }

    fn draw_plot(&self, area: &Area, lines: &[Drawn]) -> DrawResult {
        let points = || lines.iter().flat_map(|line| &line.points);
        let x = Axis::covering(self.x.scale, points().map(|p| p.x));
        let y = Axis::covering(self.y.scale, points().flat_map(|p| [p.y].into_iter().chain(bar_ends(p, self.y.unit))));
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
        // Computed lines and the last ones first, so that the first measured one lies on top; then what lies upon those.
        let (upon, below): (Vec<&Drawn>, Vec<&Drawn>) = lines.iter().partition(|line| line.line.look == Look::Overlay);
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

/// The ends of a bar as far as they may widen the axis: an interval from too few runs must not flatten the lines.
fn bar_ends(point: &Point, unit: Unit) -> Vec<f64> {
    let within = |end: &f64| (point.y / 3.0..=point.y * 3.0).contains(end);
    ends(point, unit).into_iter().flatten().filter(within).collect()
}

/// Of the confidence interval, drawn as a bar. There is nothing above a share of 1.
fn ends(point: &Point, unit: Unit) -> Option<[f64; 2]> {
    let most = if unit == Unit::Percent && point.y <= 1.0 { 1.0 } else { f64::INFINITY };
    point.half_width.map(|half| [point.y - half, (point.y + half).min(most)])
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type DrawResult = Result<(), Box<dyn std::error::Error>>;
type Canvas<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Axis, Axis>>;

/// A line as it is drawn.
struct Drawn<'l> {
    line: &'l Line,
    points: Vec<Point>,
    y_scale: Scale,
    y_unit: Unit,
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

impl<'l> Drawn<'l> {
    /// `number` counts the measured lines before this one.
    fn new(line: &'l Line, points: Vec<Point>, number: usize, y: &AxisTitle) -> Drawn<'l> {
        let (colour, dash) = match line.look {
            Look::Measured | Look::Marks | Look::Smooth => (COLOURS[number % COLOURS.len()], None),
            Look::Dashed => (ORACLE_COLOUR, Some(Dash(9, 5))),
            Look::Dotted => (ORACLE_COLOUR, Some(Dash(2, 4))),
            Look::Overlay => (INK, Some(Dash(5, 4))),
        };
        let mark = match line.look {
            Look::Measured | Look::Marks if (number / COLOURS.len()).is_multiple_of(2) => Mark::Disc,
            Look::Measured | Look::Marks => Mark::Triangle,
            _ => Mark::None,
        };
        Drawn { line, points, y_scale: y.scale, y_unit: y.unit, colour, mark, dash }
    }

    fn stroke(&self) -> ShapeStyle {
        self.colour.stroke_width(if self.line.look == Look::Overlay { 1 } else { 2 })
    }

    fn draw(&self, plot: &mut Canvas) -> DrawResult {
        let path = self.points.iter().map(|point| (point.x, point.y));
        if let Some(Dash(dash, gap)) = self.dash {
            plot.draw_series(DashedLineSeries::new(path, dash, gap, self.stroke()))?;
            return Ok(());
        }
        for point in &self.points {
            if let Some(ends) = ends(point, self.y_unit) {
                self.draw_bar(plot, point, ends)?;
            }
        }
        if self.line.look != Look::Marks {
            plot.draw_series(LineSeries::new(path.clone(), self.stroke()))?;
        }
        match self.mark {
            Mark::None => return Ok(()),
            Mark::Disc => plot.draw_series(path.map(|at| Circle::new(at, 3, self.colour.filled())))?,
            Mark::Triangle => plot.draw_series(path.map(|at| TriangleMarker::new(at, 5, self.colour.filled())))?,
        };
        Ok(())
    }

    /// An end that the scale has no place for, such as one below zero, is not drawn: no bar through half the picture.
    fn draw_bar(&self, plot: &mut Canvas, point: &Point, ends: [f64; 2]) -> DrawResult {
        const CAP_PX: i32 = 4;
        for end in ends.into_iter().filter(|end| self.y_scale.has(*end)) {
            plot.draw_series([PathElement::new([(point.x, point.y), (point.x, end)], self.colour)])?;
            let cap = PathElement::new([(-CAP_PX, 0), (CAP_PX, 0)], self.colour);
            plot.draw_series([EmptyElement::at((point.x, end)) + cap])?;
        }
        Ok(())
    }
}

/// One entry per line, in their order: its mark, its name, its note.
fn draw_legend(area: &Area, lines: &[Drawn]) -> DrawResult {
    const ENTRY_HEIGHT_PX: i32 = 26;
    const NOTE_HEIGHT_PX: i32 = 20;
    const NAME_CHARS_MAX: usize = 27;
    let mut y = 12;
    for line in lines.iter().filter(|line| !line.line.name.is_empty()) {
        let mark = [(6, y), (36, y)];
        match (line.dash, line.mark) {
            (Some(Dash(dash, gap)), _) => area.draw(&DashedPathElement::new(mark, dash, gap, line.stroke()))?,
            (None, Mark::None) => {}
            (None, Mark::Disc) => area.draw(&Circle::new((21, y), 3, line.colour.filled()))?,
            (None, Mark::Triangle) => area.draw(&TriangleMarker::new((21, y), 5, line.colour.filled()))?,
        }
        if line.dash.is_none() && line.line.look != Look::Marks {
            area.draw(&PathElement::new(mark, line.stroke()))?;
        }
        area.draw(&Text::new(cut(&line.line.name, NAME_CHARS_MAX), (46, y), text(15, INK)))?;
        if let Some(note) = &line.line.note {
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

    fn plot(scale: Scale, points: &[(f64, f64, Option<f64>)]) -> Plot {
        let points = points.iter().map(|&(x, y, half_width)| Point { x, y, half_width }).collect();
        let (x, y) = (("offered load rho", scale, Unit::Number), ("mean response time", scale, Unit::Millis));
        let plot = Plot::new("id", "title <here>", x, y);
        Plot { note: "note".into(), ..plot.with_points(vec![(Line::new("srpt", Look::Measured), points)]) }
    }

    #[test]
    fn a_bar_has_two_halves_and_two_caps() {
        let lines = |plot: Plot| {
            let svg = plot.svg().unwrap();
            svg.lines().filter(|line| line.contains("<polyline") && line.contains("#D55E00")).count()
        };
        let without = lines(plot(Scale::Linear, &[(0.5, 10.0, None), (0.8, 20.0, None)]));
        let with = lines(plot(Scale::Linear, &[(0.5, 10.0, None), (0.8, 20.0, Some(2.0))]));
        assert_eq!(with, without + 4);
    }

    #[test]
    fn no_interval_of_a_share_goes_beyond_the_whole() {
        let point = Point { x: 1.0, y: 0.99, half_width: Some(0.05) };
        let of = |unit| ends(&point, unit).unwrap().map(|end| (100.0 * end).round());
        assert_eq!((of(Unit::Percent), of(Unit::Number)), ([94.0, 100.0], [94.0, 104.0]));
    }

    #[test]
    fn marks_have_no_line_between_them() {
        let mut plot = plot(Scale::Linear, &[(0.5, 10.0, None), (0.8, 20.0, None)]);
        plot.lines[0].look = Look::Marks;
        let svg = plot.svg().unwrap();
        let of_line = |kind: &str| svg.lines().filter(|line| line.contains(kind) && line.contains("#D55E00")).count();
        // With the legend's.
        assert_eq!((of_line("<polyline"), of_line("<circle")), (0, 3));
    }

    #[test]
    fn what_has_no_place_is_left_out() {
        let svg = plot(Scale::Log, &[(0.0, 1.0, None), (1.0, f64::NAN, None), (2.0, 0.0, None)]).svg().unwrap();
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert!(!svg.contains("<here>"), "text is escaped");
    }

    #[test]
    fn an_interval_beyond_zero_has_its_upper_half_only() {
        let lines = |half: f64| {
            let svg = plot(Scale::Log, &[(1.0, 10.0, Some(half)), (2.0, 20.0, None)]).svg().unwrap();
            svg.lines().filter(|line| line.contains("<polyline") && line.contains("#D55E00")).count()
        };
        assert_eq!(lines(12.0), lines(2.0) - 2);
    }

    #[test]
    fn a_long_name_is_cut() {
        assert_eq!(cut("srpt-bands:1000,2000,5000,50000", 27), "srpt-bands:1000,2000,5000,…");
    }
}
