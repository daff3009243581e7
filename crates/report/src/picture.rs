//! Response time by size: who gains and who pays, on one page.
//!
//! Both axes are logarithmic, as sizes and times span many powers of ten. Each line joins the means of the jobs in bins of
//! sizes [x, 1.2 x); the same jobs are in the same bin on every line. The legend stands beside the plot, never on data.

use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use record::Run;
use stats::growth_bins;
use units::Nanos;

use crate::ReportError;
use crate::axis::{LogAxis, bytes_label, millis_label};
use crate::jobs::Jobs;
use crate::validity::void_reason;

const WIDTH_PX: u32 = 1120;
const HEIGHT_PX: u32 = 640;
const LEGEND_WIDTH_PX: u32 = 250;
const TITLE_HEIGHT_PX: u32 = 64;

/// One per run, then again from the start: the colours of Okabe & Ito (2008), which colour-blind readers can tell apart,
/// without their yellow, which is too pale for a line.
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

/// Draws mean response time against size, one line per run, with ideal processor sharing and the bound dashed.
pub fn response_by_size_svg(experiment: &str, runs: &[Run]) -> Result<String, ReportError> {
    let jobs = Jobs::of(runs)?;
    let lines = lines(runs, &jobs);
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH_PX, HEIGHT_PX)).into_drawing_area();
        let subtitle = format!(
            "{} jobs, link {}, rho {}; mean of the jobs in each bin of sizes [x, 1.2 x)",
            jobs.sizes.len(),
            jobs.link,
            runs[0].manifest.rho
        );
        draw(&root, experiment, &subtitle, &lines).map_err(|error| ReportError::Picture(error.to_string()))?;
    }
    Ok(svg)
}

struct Line {
    name: String,
    mean_ms: f64,
    /// (size in bytes, mean response time in ms), ascending in size.
    points: Vec<(f64, f64)>,
    colour: RGBColor,
    dash: Option<Dash>,
}

/// Length of dash and gap in pixels.
#[derive(Clone, Copy)]
struct Dash(i32, i32);

fn lines(runs: &[Run], jobs: &Jobs) -> Vec<Line> {
    let measured = runs.iter().zip(COLOURS.iter().cycle()).map(|(run, &colour)| {
        let responses: Vec<Nanos> = run.records.iter().map(|record| record.response_time()).collect();
        let mark = if void_reason(run).is_some() { " VOID" } else { "" };
        line(&format!("{}{mark}", run.manifest.name), jobs, &responses, colour, None)
    });
    let oracles =
        [("ideal processor sharing", &jobs.ideal_ps, Dash(9, 5)), ("clairvoyant bound", &jobs.bound, Dash(2, 4))];
    measured
        .chain(oracles.map(|(name, responses, dash)| line(name, jobs, responses, ORACLE_COLOUR, Some(dash))))
        .collect()
}

fn line(name: &str, jobs: &Jobs, responses: &[Nanos], colour: RGBColor, dash: Option<Dash>) -> Line {
    let millis: Vec<f64> = responses.iter().map(|response| response.as_millis_f64()).collect();
    let points = growth_bins(&jobs.sizes, &millis)
        .into_iter()
        .map(|bin| (bin.size_bytes_mean, bin.value_mean))
        .filter(|&(size, ms)| size > 0.0 && ms > 0.0)
        .collect();
    Line { name: name.into(), mean_ms: stats::mean(&millis).unwrap_or_default(), points, colour, dash }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type DrawResult = Result<(), Box<dyn std::error::Error>>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<LogAxis, LogAxis>>;

fn draw(root: &Area, title: &str, subtitle: &str, lines: &[Line]) -> DrawResult {
    root.fill(&WHITE)?;
    let (heading, below) = root.split_vertically(TITLE_HEIGHT_PX);
    heading.draw(&Text::new(format!("{title}: response time by size"), (20, 14), text(22, INK)))?;
    heading.draw(&Text::new(subtitle.to_string(), (20, 42), text(14, ORACLE_COLOUR)))?;
    let (plot, legend) = below.split_horizontally(WIDTH_PX - LEGEND_WIDTH_PX);
    draw_plot(&plot, lines)?;
    draw_legend(&legend, lines)?;
    root.present()?;
    Ok(())
}

fn draw_plot(area: &Area, lines: &[Line]) -> DrawResult {
    let points = || lines.iter().flat_map(|line| &line.points);
    let (x, y) = (LogAxis::covering(points().map(|p| p.0)), LogAxis::covering(points().map(|p| p.1)));
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
        .x_desc("size of the response body")
        .y_desc("mean response time")
        .axis_desc_style(text(15, INK))
        .label_style(text(14, INK))
        .x_label_formatter(&|bytes| bytes_label(*bytes))
        .y_label_formatter(&|ms| millis_label(*ms))
        .draw()?;
    // Oracles first, so that measured lines lie on top.
    for line in lines.iter().rev() {
        draw_line(&mut chart, line)?;
    }
    Ok(())
}

fn draw_line(chart: &mut Chart, line: &Line) -> DrawResult {
    if let Some(Dash(dash, gap)) = line.dash {
        chart.draw_series(DashedLineSeries::new(line.points.iter().copied(), dash, gap, stroke(line)))?;
    } else {
        chart.draw_series(LineSeries::new(line.points.iter().copied(), stroke(line)))?;
        chart.draw_series(line.points.iter().map(|&point| Circle::new(point, 3, line.colour.filled())))?;
    }
    Ok(())
}

fn stroke(line: &Line) -> ShapeStyle {
    line.colour.stroke_width(2)
}

/// One entry per line, in the order of the runs: its mark, its name, its mean over all jobs.
fn draw_legend(area: &Area, lines: &[Line]) -> DrawResult {
    const ENTRY_HEIGHT_PX: i32 = 46;
    const NAME_CHARS_MAX: usize = 26;
    for (line, y) in lines.iter().zip((12..).step_by(ENTRY_HEIGHT_PX as usize)) {
        let mark = [(6, y), (36, y)];
        match line.dash {
            Some(Dash(dash, gap)) => area.draw(&DashedPathElement::new(mark, dash, gap, stroke(line)))?,
            None => {
                area.draw(&PathElement::new(mark, stroke(line)))?;
                area.draw(&Circle::new((21, y), 3, line.colour.filled()))?;
            }
        }
        let name: String = line.name.chars().take(NAME_CHARS_MAX).collect();
        area.draw(&Text::new(name, (46, y), text(15, INK)))?;
        area.draw(&Text::new(format!("mean {}", millis_label(line.mean_ms)), (46, y + 18), text(13, ORACLE_COLOUR)))?;
    }
    Ok(())
}

/// Text to the right of its point, centred on it in height. The family is the reader's own, so the file needs no font.
fn text<'a>(size_px: i32, colour: RGBColor) -> TextStyle<'a> {
    ("sans-serif", size_px).into_font().color(&colour).pos(Pos::new(HPos::Left, VPos::Center))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{experiment, run};

    #[test]
    fn says_what_it_shows() {
        let svg = response_by_size_svg("first-light", &experiment()).unwrap();
        for words in [
            "first-light: response time by size",
            "nginx-fair",
            "weir-paced-srpt",
            "ideal processor sharing",
            "clairvoyant bound",
            "size of the response body",
            "mean response time",
            "1 KB",
            "10 ms",
        ] {
            assert!(svg.contains(words), "`{words}` is not in the picture");
        }
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>") && !svg.contains("NaN"));
    }

    #[test]
    fn marks_a_void_run() {
        let mut void = run("a", &[(0, 1000, 5)]);
        void.manifest.void = Some("why".into());
        assert!(response_by_size_svg("e", &[void]).unwrap().contains("a VOID"));
    }

    #[test]
    fn names_cannot_break_out_of_the_text() {
        let svg = response_by_size_svg("<script>", &[run("a<b&c", &[(0, 1000, 5)])]).unwrap();
        assert!(!svg.contains("<script>") && !svg.contains("a<b"), "{svg}");
    }

    #[test]
    fn draws_what_has_no_logarithm() {
        let svg = response_by_size_svg("empty bodies", &[run("a", &[(0, 0, 0), (1, 0, 0)])]).unwrap();
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn refuses_what_cannot_be_compared() {
        assert_eq!(response_by_size_svg("none", &[]), Err(ReportError::NoRuns));
    }
}
