//! What a sweep looks like: against the grid's x, by size, by percentile of size, and how response times are distributed.
//!
//! A grid may have more axes than a picture has room for (x and one line for each value of another): then there is one
//! picture for every combination of the rest, a *panel*.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use report::{Line, Look, Plot, Point, Scale, Unit};

use crate::grid::{Axis, AxisValue};
use crate::model::TheoryAt;
use crate::results::{CellResult, Estimate, Results, SizeEstimate};
use crate::{Plan, SweepError};

/// From this ratio of the largest to the smallest value on, an axis is logarithmic.
const LOG_FROM_RATIO: f64 = 8.0;

/// How a picture says what its bars are.
const BARS: &str = ", bars: 99 % confidence";

/// Lines whose heights all differ by less than this share cannot be told apart: half a pixel or so.
const SAME_WITHIN: f64 = 0.01;

/// A CCDF ends where fewer than this share of the jobs are: a millionth is one job of a usual run.
const SHARE_MIN: f64 = 1e-6;

/// Draws everything the plan asks for into the folder `plots` in `out`, and gives the files in order.
pub fn write_pictures(plan: &Plan, results: &Results, out: &Path) -> Result<Vec<PathBuf>, SweepError> {
    let folder = out.join("plots");
    fs::create_dir_all(&folder).and_then(|()| remove_pictures(&folder)).map_err(|e| SweepError::path(&folder, e))?;
    let mut files = BTreeMap::new();
    for panel in panels(plan, results) {
        for plot in panel.plots().into_iter().filter(|plot| !plot.xs.is_empty()) {
            let id = &plot.id;
            let name = if panel.name.is_empty() { id.clone() } else { format!("{}-{id}", panel.name) };
            files.insert(unused_path(&folder, &name, &files), plot);
        }
    }
    for (path, plot) in &files {
        let svg = plot.svg().map_err(|e| SweepError::path(path, e))?;
        fs::write(path, svg).map_err(|e| SweepError::path(path, e))?;
    }
    Ok(files.into_keys().collect())
}

/// Pictures of an earlier plan would be taken for this one's. Whatever else is there is not ours to remove.
fn remove_pictures(folder: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "svg") {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Names made of labels can meet when letters that no file name should have are replaced.
fn unused_path(folder: &Path, name: &str, taken: &BTreeMap<PathBuf, Plot>) -> PathBuf {
    let plain = folder.join(format!("{name}.svg"));
    let numbered = (2..).map(|number| folder.join(format!("{name}-{number}.svg")));
    std::iter::once(plain).chain(numbered).find(|path| !taken.contains_key(path)).expect("numbers do not end")
}

/// All cells that differ in x and lines only.
struct Panel<'a> {
    plan: &'a Plan,
    /// For file names; empty if there is only one panel.
    name: String,
    /// What is the same in all its cells and differs between panels.
    title: String,
    cells: Vec<&'a CellResult>,
}

fn panels<'a>(plan: &'a Plan, results: &'a Results) -> Vec<Panel<'a>> {
    let others: Vec<usize> =
        (0..plan.axes.len()).filter(|axis| Some(*axis) != plan.plot.x && Some(*axis) != plan.plot.lines).collect();
    let mut panels: BTreeMap<Vec<usize>, Vec<&CellResult>> = BTreeMap::new();
    for cell in &results.cells {
        panels.entry(others.iter().map(|axis| cell.at[*axis]).collect()).or_default().push(cell);
    }
    let panel = |(at, cells): (Vec<usize>, Vec<&'a CellResult>)| {
        let labels =
            || others.iter().zip(&at).map(|(axis, at)| (&plan.axes[*axis], &plan.axes[*axis].values[*at].label));
        // A number says little without what it is of.
        let file_name = |(axis, label): (&Axis, &String)| match axis.is_numeric() {
            true => file_name(&format!("{}-{label}", axis.name)),
            false => file_name(label),
        };
        let varying: Vec<String> = labels().filter(|(axis, _)| axis.values.len() > 1).map(file_name).collect();
        let title: Vec<String> = labels().map(|(axis, label)| format!("{} {label}", axis.name)).collect();
        Panel { plan, name: varying.join("-"), title: title.join(", "), cells }
    };
    panels.into_iter().map(panel).collect()
}

fn file_name(label: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' || c == '_' { c } else { '-' };
    label.chars().map(plain).collect()
}

/// A line by its points.
type Points = (Line, Vec<Point>);

impl Panel<'_> {
    /// Everything that is drawn of this panel; the name of each is that of its file.
    fn plots(&self) -> Vec<Plot> {
        let mut plots = Vec::new();
        if let Some(x) = self.plan.plot.x.filter(|x| self.plan.axes[*x].values.len() > 1) {
            plots.extend(self.plan.plot.y.iter().map(|metric| self.against_x(x, metric)));
        }
        match self.plan.plot.x {
            None => plots.extend(self.at_one_x(None)),
            Some(x) => plots.extend(self.plan.plot.at.iter().flat_map(|at| self.at_one_x(Some((x, *at))))),
        }
        plots
    }

    fn against_x(&self, x: usize, metric: &str) -> Plot {
        let axis = &self.plan.axes[x];
        let point = |cell: &&CellResult| {
            let estimate = cell.metric(metric)?;
            Some(point(axis.values[cell.at[x]].number?, estimate))
        };
        let foretold = |cell: &&CellResult| Some(Point::exact(axis.values[cell.at[x]].number?, cell.foretold(metric)?));
        let mut lines = self.lines(None, |cells| cells.iter().filter_map(point).collect());
        lines.extend(theory(self.lines(None, |cells| cells.iter().filter_map(foretold).collect())));
        let (what, unit) = metric_title(metric);
        let id = format!("{}-vs-{}", file_name(metric), axis.name);
        let (title, x) = (format!("{what} against {}", axis.name), x_title(&axis.name));
        let (x, y) =
            ((x.as_str(), scale(&lines, |p| p.x), Unit::Number), (what.as_str(), scale(&lines, |p| p.y), unit));
        self.titled(Plot::new(id, title, x, y).with_points(lines), String::new(), BARS)
    }

    /// By size, by percentile and the distribution, where x has the value `at`; without an x there is but one place.
    fn at_one_x(&self, at: Option<(usize, usize)>) -> Vec<Plot> {
        let place = at.map(|(x, at)| (&self.plan.axes[x].name, &self.plan.axes[x].values[at].label));
        let where_ = place.map_or(String::new(), |(name, label)| format!("{name} {label}"));
        let suffix = place.map_or(String::new(), |(name, label)| format!("-{name}-{}", file_name(label)));
        let size = ("size of the response", Scale::Log, Unit::Bytes);
        let percentile = ("jobs that are smaller", Scale::Nines, Unit::Percent);
        let mut plots = Vec::new();
        for (short, title, in_unit, unit, of) in BY_SIZE {
            let y = format!("{title}{in_unit}");
            let points =
                |cells: &[&CellResult], by: Place| cells.iter().flat_map(|cell| bin_points(cell, of, by)).collect();
            let foretold =
                |cells: &[&CellResult], by: Place| cells.iter().flat_map(|cell| foretold(cell, short, by)).collect();
            let plot = |by: Place, name: &str, of_what: &str, x| {
                let mut lines = self.lines(at, |cells| points(cells, by));
                lines.extend(theory(self.lines(at, |cells| foretold(cells, by))));
                let (id, title) = (format!("{short}-by-{name}{suffix}"), format!("{title} by {of_what}"));
                let plot = Plot::new(id, title, x, (y.as_str(), Scale::Log, unit)).with_points(lines);
                self.titled(plot, where_.clone(), BARS)
            };
            plots.push(plot(size_places, "size", "size", size));
            plots.push(plot(rank_places, "percentile", "percentile of size", percentile));
        }
        plots.push(self.ccdf(at, where_, &suffix));
        plots
    }

    fn ccdf(&self, at: Option<(usize, usize)>, where_: String, suffix: &str) -> Plot {
        let shares = |cells: &[&CellResult]| {
            let points = cells.iter().flat_map(|cell| &cell.ccdf).filter(|point| point.share_above >= SHARE_MIN);
            points.map(|point| Point::exact(point.response_time_ms, point.share_above)).collect()
        };
        let mut lines = self.lines(at, shares);
        lines.iter_mut().for_each(|(line, _)| line.look = Look::Smooth);
        let x = ("response time", Scale::Log, Unit::Millis);
        let y = ("share of jobs that take longer", Scale::Log, Unit::Percent);
        let plot = Plot::new(format!("ccdf{suffix}"), "jobs that take longer (CCDF)", x, y).with_points(lines);
        self.titled(plot, where_, "")
    }

    /// One line per value of the plan's `lines`, of the panel's cells there (and at that x, if one is given).
    fn lines(&self, at: Option<(usize, usize)>, points: impl Fn(&[&CellResult]) -> Vec<Point>) -> Vec<Points> {
        let is_there = |cell: &&CellResult| at.is_none_or(|(x, at)| cell.at[x] == at);
        let here: Vec<&CellResult> = self.cells.iter().copied().filter(is_there).collect();
        let line = |name: &str, cells: &[&CellResult]| (Line::new(name, Look::Measured), points(cells));
        let Some(lines) = self.plan.plot.lines else { return vec![line(&self.plan.model, &here)] };
        let of_line = |(index, value): (usize, &AxisValue)| {
            let cells: Vec<&CellResult> = here.iter().copied().filter(|cell| cell.at[lines] == index).collect();
            line(&value.label, &cells)
        };
        let mut lines: Vec<Points> = self.plan.axes[lines].values.iter().enumerate().map(of_line).collect();
        note_hidden(&mut lines);
        lines
    }

    /// With the experiment's name before its title, and beside it what was the same for all lines; `bars` says what bars are.
    fn titled(&self, plot: Plot, where_: String, bars: &str) -> Plot {
        let runs = match self.plan.seeds.len() {
            1 => "one run".into(),
            runs => format!("mean of {runs} runs{bars}"),
        };
        let parts = [where_, self.title.clone(), format!("model {}", self.plan.model), runs];
        let note: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        Plot { title: format!("{}: {}", self.plan.name, plot.title), note: note.join("; "), ..plot }
    }
}

/// A line that lies beneath an earlier one is not seen: the legend says which.
fn note_hidden(lines: &mut [Points]) {
    let is_same = |a: &Point, b: &Point| a.x == b.x && (a.y - b.y).abs() <= SAME_WITHIN * a.y.abs();
    for number in 1..lines.len() {
        let (earlier, rest) = lines.split_at_mut(number);
        let (line, points) = &mut rest[0];
        let hides = |(_, other): &&Points| {
            !points.is_empty()
                && other.len() == points.len()
                && other.iter().zip(points.iter()).all(|(a, b)| is_same(a, b))
        };
        line.note = earlier.iter().find(hides).map(|(other, _)| format!("the same as {}", other.name));
    }
}

/// What is drawn of jobs of like size: a short name, the title, the unit for the axis, how its numbers
/// are written, and where it stands.
type OfSize = fn(&SizeEstimate) -> Option<Estimate>;
const BY_SIZE: [(&str, &str, &str, Unit, OfSize); 3] = [
    ("response-time", "mean response time", "", Unit::Millis, |bin| Some(bin.response_time_ms)),
    ("slowdown", "mean slowdown", "", Unit::Number, |bin| Some(bin.slowdown)),
    ("variance", "variance of response time", ", ms²", Unit::Number, |bin| bin.response_time_variance_ms2),
];

/// Where bins stand on the x axis.
type Place = fn(&[SizeEstimate]) -> Vec<f64>;

fn size_places(bins: &[SizeEstimate]) -> Vec<f64> {
    bins.iter().map(|bin| bin.size_bytes_mean).collect()
}

/// Each bin stands where the middle one of its jobs is among all.
fn rank_places(bins: &[SizeEstimate]) -> Vec<f64> {
    let all: u64 = bins.iter().map(|bin| bin.jobs).sum();
    let mut smaller = 0;
    let mut places = Vec::with_capacity(bins.len());
    for bin in bins {
        places.push((smaller as f64 + bin.jobs as f64 / 2.0) / all as f64);
        smaller += bin.jobs;
    }
    places
}

fn bin_points(cell: &CellResult, of: OfSize, by: Place) -> Vec<Point> {
    let bins = cell.by_size.iter().zip(by(&cell.by_size));
    bins.filter_map(|(bin, x)| Some(point(x, &of(bin)?))).collect()
}

/// What a closed form says of what is drawn under this short name; nothing of variances.
fn foretold(cell: &CellResult, short: &str, by: Place) -> Vec<Point> {
    let of: fn(&TheoryAt) -> f64 = match short {
        "response-time" => |at| at.response_time_ms,
        "slowdown" => |at| at.slowdown,
        _ => return Vec::new(),
    };
    let theory = cell.theory.iter().flat_map(|theory| &theory.by_size);
    by(&cell.by_size).into_iter().zip(theory).map(|(x, at)| Point::exact(x, of(at))).collect()
}

/// Lines of a closed form lie on those they foretell; the legend names them once.
fn theory(lines: Vec<Points>) -> impl Iterator<Item = Points> {
    let there = lines.into_iter().filter(|(_, points)| !points.is_empty()).enumerate();
    there.map(|(number, (_, points))| {
        let name = if number == 0 { "closed form" } else { "" };
        (Line::new(name, Look::Overlay), points)
    })
}

fn point(x: f64, estimate: &Estimate) -> Point {
    Point { x, y: estimate.mean, half_width: estimate.half_width }
}

/// Logarithmic where values are far apart, unless some have no logarithm.
fn scale(lines: &[Points], of: fn(&Point) -> f64) -> Scale {
    let values = lines.iter().flat_map(|(_, points)| points.iter().map(of));
    let (low, high) = values.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
    if low > 0.0 && high / low >= LOG_FROM_RATIO { Scale::Log } else { Scale::Linear }
}

/// What a metric is called on an axis. Names end in their unit.
fn metric_title(metric: &str) -> (String, Unit) {
    match metric {
        "response_time_ms" | "response_time_ms_mean" => ("mean response time".into(), Unit::Millis),
        "response_time_ms_variance" => ("variance of response time, ms²".into(), Unit::Number),
        "slowdown" | "slowdown_mean" => ("mean slowdown".into(), Unit::Number),
        other if other.ends_with("_variance") || other.ends_with("_scv") => (other.replace('_', " "), Unit::Number),
        other if other.contains("_ms") => (other.replacen("_ms", "", 1).replace('_', " "), Unit::Millis),
        other => (other.replace('_', " "), Unit::Number),
    }
}

fn x_title(axis: &str) -> String {
    match axis {
        "rho" => "offered load rho".into(),
        "users" => "user equivalents".into(),
        other => other.replace('_', " "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Model;
    use crate::grid::Cell;
    use crate::testing::{Folder, Formula, plan};

    fn results(plan: &Plan) -> Results {
        let run = |cell: &Cell, seed: &u64| (*seed, Formula::default().run(&cell.fields, *seed).unwrap());
        let cell =
            |cell: &Cell| CellResult::of(cell.at.clone(), plan.seeds.iter().map(|seed| run(cell, seed)).collect());
        Results { cells: plan.cells.iter().map(cell).collect() }
    }

    fn names(plan: &Plan, folder: &Path) -> Vec<String> {
        let files = write_pictures(plan, &results(plan), folder).unwrap();
        files.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn every_picture_once() {
        let (folder, mut plan) = (Folder::new("pictures"), plan());
        plan.plot.at = vec![1];
        let expected = [
            "ccdf-rho-0.8.svg",
            "response-time-by-percentile-rho-0.8.svg",
            "response-time-by-size-rho-0.8.svg",
            "response_time_ms-vs-rho.svg",
            "slowdown-by-percentile-rho-0.8.svg",
            "slowdown-by-size-rho-0.8.svg",
            "slowdown_mean-vs-rho.svg",
            "variance-by-percentile-rho-0.8.svg",
            "variance-by-size-rho-0.8.svg",
        ];
        assert_eq!(names(&plan, folder.path()), expected);
        let svg = fs::read_to_string(folder.path().join("plots/response_time_ms-vs-rho.svg")).unwrap();
        for words in ["offered load rho", "mean response time", "ps", "srpt", "mean of 4 runs, bars: 99 % confidence"] {
            assert!(svg.contains(words), "{words}");
        }
        assert!(!svg.contains("NaN"));
    }

    #[test]
    fn only_older_pictures_make_room() {
        let (folder, plan) = (Folder::new("older"), plan());
        let plots = folder.path().join("plots");
        fs::create_dir_all(&plots).unwrap();
        for name in ["older.svg", "mine.txt"] {
            fs::write(plots.join(name), "").unwrap();
        }
        write_pictures(&plan, &results(&plan), folder.path()).unwrap();
        assert!(plots.join("mine.txt").exists() && !plots.join("older.svg").exists());
    }

    #[test]
    fn a_closed_form_is_drawn_over_what_it_foretells() {
        let plan = plan();
        let mut results = results(&plan);
        let svg = |results: &Results| {
            let folder = Folder::new("theory");
            write_pictures(&plan, results, folder.path()).unwrap();
            ["slowdown_mean-vs-rho", "slowdown-by-size-rho-0.5", "variance-by-size-rho-0.5"]
                .map(|name| fs::read_to_string(folder.path().join(format!("plots/{name}.svg"))).unwrap())
        };
        let named = |svgs: [String; 3]| svgs.map(|svg| svg.matches("closed form").count());
        assert_eq!(named(svg(&results)), [0, 0, 0]);
        for cell in &mut results.cells {
            let at = TheoryAt { response_time_ms: 2.0, slowdown: 2.0 };
            let metrics = [("slowdown_mean".into(), 2.0)].into();
            cell.theory = Some(crate::Theory { metrics, by_size: vec![at; cell.by_size.len()] });
        }
        assert_eq!(named(svg(&results)), [1, 1, 0]);
    }

    #[test]
    fn a_third_axis_makes_panels() {
        let text = "question = \"which\"\nmodel = \"queue\"\nreplications = 1\n[grid]\npolicy = [\"ps\"]\nrho = [0.5]\n\
                    dist = [\"a:1\", \"a=1\", \"b\"]\n";
        let (folder, plan) = (Folder::new("panels"), Plan::parse(text, Path::new("p.toml")).unwrap());
        let names = names(&plan, folder.path());
        let ccdf: Vec<&str> = names.iter().map(String::as_str).filter(|name| name.contains("ccdf")).collect();
        assert_eq!(ccdf, ["a-1-ccdf-rho-0.5-2.svg", "a-1-ccdf-rho-0.5.svg", "b-ccdf-rho-0.5.svg"]);
        assert!(!names.iter().any(|name| name.contains("-vs-")), "one load makes no line");
    }

    #[test]
    fn panels_of_numbers_say_of_what() {
        let text = "question = \"which\"\nmodel = \"queue\"\nreplications = 1\n[grid]\nrho = [0.5, 0.8]\n\
                    internet.loss = [0, 0.05]\npolicy = [\"ps\"]\n[plot]\nat = []\n";
        let (folder, plan) = (Folder::new("numbers"), Plan::parse(text, Path::new("p.toml")).unwrap());
        let names = names(&plan, folder.path());
        assert_eq!(names[0], "internet.loss-0-response_time_ms-vs-rho.svg");
        assert_eq!((names.len(), &names[3][..18]), (4, "internet.loss-0.05"));
    }

    #[test]
    fn a_bin_stands_at_its_middle_job() {
        let plan = plan();
        let bins = results(&plan).cells.remove(0).by_size;
        // 500, 250, 125, 62 and 31 jobs of 968, four times.
        let shares: Vec<f64> = rank_places(&bins).iter().map(|share| (share * 968.0).round()).collect();
        assert_eq!(shares, [250.0, 625.0, 813.0, 906.0, 953.0]);
    }

    #[test]
    fn a_line_beneath_another_is_noted() {
        let line = |name: &str, y: f64| {
            (Line::new(name, Look::Measured), vec![Point::exact(0.5, y), Point::exact(0.8, 2.0 * y)])
        };
        let mut lines = [line("ps", 1.0), line("srpt", 0.5), line("las", 1.005), line("fcfs", 1.02)];
        note_hidden(&mut lines);
        let notes: Vec<Option<&str>> = lines.iter().map(|(line, _)| line.note.as_deref()).collect();
        assert_eq!(notes, [None, None, Some("the same as ps"), None]);
    }

    #[test]
    fn units_come_from_names() {
        assert_eq!(metric_title("response_time_ms_p99"), ("response time p99".into(), Unit::Millis));
        assert_eq!(metric_title("utilisation"), ("utilisation".into(), Unit::Number));
        assert_eq!(metric_title("class2_response_time_ms_mean").1, Unit::Millis);
    }
}
