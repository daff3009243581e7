//! The experiment file of a sweep, read and checked as far as it can be without a model; the shape is in the crate's page.

use std::path::Path;

use serde::Deserialize;

use crate::claim::{Claim, ClaimFile};
use crate::grid::{Axis, Cell, cells, fields, flat};
use crate::model::{Fields, Model};
use crate::{Store, SweepError};

/// Seeds of one cell: beyond, intervals narrow by less than a hundredth per cent with each.
pub const REPLICATIONS_MAX: usize = 10_000;

/// Runs of one sweep: that many small files in one folder, and half a gigabyte of them.
pub const RUNS_MAX: usize = 50_000;

/// Lines in one picture that an eye can still tell apart.
pub const LINES_MAX: usize = 14;

/// Names that mean something to the sweep itself.
const RESERVED: [&str; 3] = ["model", "replications", "seed"];

/// What to do: read by [`Plan::parse`], so its parts agree.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Name of the file without its ending.
    pub name: String,
    pub question: String,
    pub model: String,
    pub axes: Vec<Axis>,
    pub cells: Vec<Cell>,
    pub seeds: Vec<u64>,
    pub plot: PlotPlan,
    pub claims: Vec<Claim>,
}

/// What to draw. The axes are places in [`Plan::axes`].
#[derive(Debug, Clone, PartialEq)]
pub struct PlotPlan {
    /// `None` where no axis is of numbers: nothing is drawn against it then.
    pub x: Option<usize>,
    /// `None`: one line.
    pub lines: Option<usize>,
    /// Metrics to draw against x; `name` also stands for `name_mean`.
    pub y: Vec<String>,
    /// Which values of x to draw by size, percentile and CCDF at; all without an x.
    pub at: Vec<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    question: String,
    model: String,
    #[serde(default = "ten")]
    replications: usize,
    #[serde(default = "one")]
    seed: u64,
    #[serde(default)]
    fixed: toml::Table,
    grid: toml::Table,
    #[serde(default)]
    plot: PlotFile,
    #[serde(default)]
    claim: Vec<ClaimFile>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlotFile {
    x: Option<String>,
    lines: Option<String>,
    y: Option<Vec<String>>,
    at: Option<Vec<f64>>,
}

impl Plan {
    pub fn read(file: &Path) -> Result<Plan, SweepError> {
        let text = std::fs::read_to_string(file).map_err(|e| SweepError::path(file, e))?;
        Plan::parse(&text, file)
    }

    /// Reads the text of an experiment; `file` gives the name, and stands in messages.
    pub fn parse(text: &str, file: &Path) -> Result<Plan, SweepError> {
        let wrong = |line, reason| SweepError::Plan { file: file.into(), line, reason };
        let table: toml::Table = text.parse().map_err(|e| at_line(text, &e, &wrong))?;
        if table.contains_key("run") && !table.contains_key("grid") {
            return Err(wrong(None, "it has [[run]] and no [grid]: that is an experiment for weirlab run".into()));
        }
        let read: File = toml::from_str(text).map_err(|e| at_line(text, &e, &wrong))?;
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        plan(name, read).map_err(|reason| wrong(None, reason))
    }

    /// Changes how many seeds each cell is run with; those it has both before and after are the same.
    pub fn replicate(&mut self, replications: usize) -> Result<(), String> {
        self.seeds = seeds(&self.axes, self.seeds[0], replications)?;
        Ok(())
    }

    /// Runs in all.
    pub fn runs(&self) -> usize {
        self.cells.len() * self.seeds.len()
    }

    /// Checks with the model what it can check before anything is run; `file` stands in messages.
    pub fn check(&self, model: &dyn Model, file: &Path, out: &Path) -> Result<(), SweepError> {
        let wrong = |reason: String| SweepError::Plan { file: file.into(), line: None, reason };
        for cell in &self.cells {
            model.check(&cell.fields).map_err(wrong)?;
        }
        self.check_metrics(model).map_err(wrong)?;
        Store::check_room(out, self.runs()).map_err(|reason| wrong(format!("grid: {reason}")))
    }

    /// Whether there will be something to draw. All cells are of one model, so the first speaks for them.
    fn check_metrics(&self, model: &dyn Model) -> Result<(), String> {
        let (Some(cell), false) = (self.cells.first(), self.plot.y.is_empty() && self.claims.is_empty()) else {
            return Ok(());
        };
        let trial = model.trial(&cell.fields)?;
        self.claims.iter().try_for_each(|claim| claim.check(&trial))?;
        self.plot.y.iter().try_for_each(|name| trial.metric_name(name).map(drop))
    }

    /// What a cell is called: its place on each axis.
    pub fn label(&self, cell: &Cell) -> String {
        let parts =
            self.axes.iter().zip(&cell.at).map(|(axis, at)| format!("{} {}", axis.name, axis.values[*at].label));
        parts.collect::<Vec<_>>().join(", ")
    }
}

fn at_line(text: &str, error: &toml::de::Error, wrong: &impl Fn(Option<usize>, String) -> SweepError) -> SweepError {
    let line = error.span().map(|span| 1 + text.bytes().take(span.start).filter(|byte| *byte == b'\n').count());
    wrong(line, error.message().split_whitespace().collect::<Vec<_>>().join(" "))
}

fn plan(name: String, file: File) -> Result<Plan, String> {
    let fixed = fields(&file.fixed).map_err(|reason| format!("fixed.{reason}"))?;
    let grid = flat(&file.grid).map_err(|reason| format!("grid.{reason}"))?;
    let axis = |(name, list): &(String, toml::Value)| Axis::parse(name, list).map_err(|e| format!("grid.{name}: {e}"));
    let axes: Vec<Axis> = grid.iter().map(axis).collect::<Result<_, _>>()?;
    check_fields(&fixed, &axes)?;
    let seeds = seeds(&axes, file.seed, file.replications)?;
    let (plot, cells) = (plot_plan(&axes, file.plot)?, cells(&fixed, &axes));
    let claims = file.claim.into_iter().map(|claim| claim.resolve(&axes, &cells)).collect::<Result<_, _>>()?;
    Ok(Plan { name, question: file.question, model: file.model, axes, cells, seeds, plot, claims })
}

/// The seeds of every cell, if the runs are not too many: asked before any cell is made.
fn seeds(axes: &[Axis], first: u64, replications: usize) -> Result<Vec<u64>, String> {
    if !(1..=REPLICATIONS_MAX).contains(&replications) {
        return Err(format!("replications: `{replications}` is not from 1 to {REPLICATIONS_MAX}"));
    }
    let runs = axes.iter().try_fold(replications, |runs, axis| runs.checked_mul(axis.values.len()));
    if runs.is_none_or(|runs| runs > RUNS_MAX) {
        let sizes: Vec<String> = axes.iter().map(|axis| format!("{} {}", axis.values.len(), axis.name)).collect();
        return Err(format!(
            "grid: {} x {replications} replications are more than {RUNS_MAX} runs: make two experiments of it",
            sizes.join(" x ")
        ));
    }
    let end = first.checked_add(replications as u64);
    Ok((first..end.ok_or_else(|| format!("seed: `{first}` is too large to count on from"))?).collect())
}

/// Each field is set in one place only.
fn check_fields(fixed: &Fields, axes: &[Axis]) -> Result<(), String> {
    let mut places: Vec<(&str, String)> = fixed.keys().map(|name| (name.as_str(), "[fixed]".into())).collect();
    for axis in axes {
        for field in axis.fields() {
            if let Some((_, place)) = places.iter().find(|(name, _)| *name == field) {
                return Err(format!("grid.{}: `{field}` is set in {place} too: leave one of them out", axis.name));
            }
            places.push((field, format!("grid.{}", axis.name)));
        }
    }
    match places.iter().find(|(name, _)| RESERVED.contains(name)) {
        Some((name, place)) => Err(format!("{name}: it is set at the top of the file, not in {place}")),
        None => Ok(()),
    }
}

fn plot_plan(axes: &[Axis], file: PlotFile) -> Result<PlotPlan, String> {
    let named = |key: &str, name: Option<String>| match name {
        None => Ok(None),
        Some(name) => match axes.iter().position(|axis| axis.name == name) {
            Some(found) => Ok(Some(found)),
            None => Err(format!("plot.{key}: `{name}` is not in [grid]")),
        },
    };
    let lines_given = named("lines", file.lines)?;
    let x = named("x", file.x)?;
    if let Some(x) = x.filter(|x| !axes[*x].is_numeric()) {
        return Err(format!("plot.x: `{}` has values that are no numbers", axes[x].name));
    }
    let x = x.or_else(|| (0..axes.len()).find(|a| Some(*a) != lines_given && axes[*a].is_numeric()));
    let policy = axes.iter().position(|axis| axis.name == "policy");
    let lines = lines_given.or(policy).or_else(|| (0..axes.len()).find(|a| Some(*a) != x));
    if let Some(both) = lines.filter(|_| lines == x) {
        return Err(format!("plot.lines: `{}` is plot.x already", axes[both].name));
    }
    if let Some(axis) = lines.map(|lines| &axes[lines]).filter(|axis| axis.values.len() > LINES_MAX) {
        return Err(format!("plot.lines: {} has {} values, at most {LINES_MAX}", axis.name, axis.values.len()));
    }
    let default_y = || vec!["response_time_ms".into(), "slowdown_mean".into()];
    Ok(PlotPlan { x, lines, y: file.y.unwrap_or_else(default_y), at: places(axes, x, file.at)? })
}

/// Which values of x the file means by `at`.
fn places(axes: &[Axis], x: Option<usize>, at: Option<Vec<f64>>) -> Result<Vec<usize>, String> {
    let Some(axis) = x.map(|x| &axes[x]) else {
        return at
            .map_or(Ok(Vec::new()), |_| Err("plot.at: there is no x, since no value of the grid is a number".into()));
    };
    let Some(at) = at else { return Ok((0..axis.values.len()).collect()) };
    let place = |wanted: &f64| {
        let found = axis.values.iter().position(|value| value.number == Some(*wanted));
        found.ok_or_else(|| format!("plot.at: `{wanted}` is no value of grid.{}", axis.name))
    };
    at.iter().map(place).collect()
}

fn ten() -> usize {
    10
}

fn one() -> u64 {
    1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, Formula};

    const GOOD: &str = r#"question = "which"
model = "queue"
replications = 3

[fixed]
link = "10mbit"

[grid]
policy = ["ps", "srpt"]
dist = ["a", "b"]
rho = [0.5, 0.8]
"#;

    fn parse(text: &str) -> Result<Plan, String> {
        Plan::parse(text, Path::new("x/small.toml")).map_err(|e| e.to_string())
    }

    #[test]
    fn fills_in_what_is_left_out() {
        let plan = parse(GOOD).unwrap();
        assert_eq!((plan.name.as_str(), plan.seeds.as_slice(), plan.runs()), ("small", &[1, 2, 3][..], 24));
        let order: Vec<&str> = plan.axes.iter().map(|axis| axis.name.as_str()).collect();
        assert_eq!(order, ["policy", "dist", "rho"], "as the file has them");
        let expected = PlotPlan {
            x: Some(2),
            lines: Some(0),
            y: vec!["response_time_ms".into(), "slowdown_mean".into()],
            at: vec![0, 1],
        };
        assert_eq!(plan.plot, expected);
        assert_eq!(plan.label(&plan.cells[3]), "policy ps, dist b, rho 0.8");
    }

    #[test]
    fn a_plot_can_be_chosen() {
        let plan = parse(&format!("{GOOD}beta = [1, 2]\n[plot]\nx = \"beta\"\nlines = \"rho\"\nat = [2]\n")).unwrap();
        assert_eq!((plan.plot.x, plan.plot.lines, plan.plot.at), (Some(3), Some(2), vec![1]));
    }

    #[test]
    fn a_mistake_is_one_line_that_names_the_field() {
        for (from, to, said) in [
            ("replications", "replicatons", "x/small.toml:3: unknown field `replicatons`"),
            ("replications = 3", "replications = 0", "x/small.toml: replications: `0` is not from 1"),
            ("replications = 3", "replications = -1", "x/small.toml:3: invalid value"),
            ("replications = 3", "replications = 9000", "x/small.toml: grid: 2 policy x 2 dist x 2 rho x 9000"),
            ("replications = 3", "seed = 18446744073709551615", "x/small.toml:3: "),
            ("link = \"10mbit\"", "rho = 0.5", "x/small.toml: grid.rho: `rho` is set in [fixed] too"),
            ("link = \"10mbit\"", "seed = 5", "x/small.toml: seed: it is set at the top"),
            ("link = \"10mbit\"", "x = nan", "x/small.toml: fixed.x: `NaN` is not a finite number"),
            ("rho = [0.5, 0.8]", "rho = []", "x/small.toml: grid.rho: the list is empty"),
            ("rho = [0.5, 0.8]", "rho = 0.5", "x/small.toml: grid.rho: a value of the grid is a list"),
            ("rho = [0.5, 0.8]", "rho = [0.5, 0.8", "x/small.toml:"),
            ("[grid]", "[gird]", "x/small.toml:8: unknown field `gird`"),
            ("[grid]", "[plot]\nx = \"dist\"\n[grid]", "x/small.toml: plot.x: `dist` has values that are no numbers"),
            ("[grid]", "[plot]\nx = \"beta\"\n[grid]", "x/small.toml: plot.x: `beta` is not in [grid]"),
            ("[grid]", "[plot]\nx = \"rho\"\nlines = \"rho\"\n[grid]", "x/small.toml: plot.lines: `rho` is plot.x"),
            ("[grid]", "[plot]\nat = [0.7]\n[grid]", "x/small.toml: plot.at: `0.7` is no value of grid.rho"),
            ("[grid]", "[plot]\nz = 1\n[grid]", "x/small.toml:9: unknown field `z`"),
        ] {
            assert!(GOOD.contains(from));
            let said_instead = parse(&GOOD.replacen(from, to, 1)).unwrap_err();
            assert!(said_instead.starts_with(said) && !said_instead.contains('\n'), "{to}: {said_instead}");
        }
    }

    #[test]
    fn a_metric_that_is_not_there_is_noticed_before_any_run() {
        let (model, mut plan) = (Formula::default(), testing::plan());
        let check = |plan: &Plan| plan.check(&model, Path::new("x.toml"), Path::new(".")).map_err(|e| e.to_string());
        plan.plot.y = vec!["slowdown".into(), "response_time_ms_variance".into()];
        check(&plan).unwrap();
        plan.plot.y.push("slow".into());
        let right = "response_time_ms_mean, response_time_ms_variance, slowdown_mean";
        assert_eq!(check(&plan).unwrap_err(), format!("x.toml: plot.y: it has no `slow`, only {right}"));
        assert_eq!(model.ran.into_inner(), 0);
    }

    #[test]
    fn an_experiment_of_the_lab_is_told_apart() {
        let said = parse("question = \"x\"\nlink = \"1mbit\"\n[[run]]\nname = \"a\"\n").unwrap_err();
        assert_eq!(said, "x/small.toml: it has [[run]] and no [grid]: that is an experiment for weirlab run");
    }

    #[test]
    fn too_many_lines_for_one_picture() {
        let many: Vec<String> = (0..15).map(|n| format!("\"srpt-bands:{n}\"")).collect();
        let said = parse(&GOOD.replacen("[\"ps\", \"srpt\"]", &format!("[{}]", many.join(",")), 1)).unwrap_err();
        assert!(said.contains("plot.lines: policy has 15 values"), "{said}");
    }
}
