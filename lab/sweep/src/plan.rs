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
    /// Metrics of the table, and of Python's plots; `name` also stands for `name_mean`.
    pub y: Vec<String>,
    pub claims: Vec<Claim>,
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

    /// Whether there will be something to show. All cells are of one model, so the first speaks for them.
    fn check_metrics(&self, model: &dyn Model) -> Result<(), String> {
        let (Some(cell), false) = (self.cells.first(), self.y.is_empty() && self.claims.is_empty()) else {
            return Ok(());
        };
        let trial = model.trial(&cell.fields)?;
        self.claims.iter().try_for_each(|claim| claim.check(&trial))?;
        self.y.iter().try_for_each(|name| trial.metric_name(name).map(drop))
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
    let (y, cells) = (metrics(&axes, file.plot)?, cells(&fixed, &axes));
    let claims = file.claim.into_iter().map(|claim| claim.resolve(&axes, &cells)).collect::<Result<_, _>>()?;
    Ok(Plan { name, question: file.question, model: file.model, axes, cells, seeds, y, claims })
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

/// The metrics of `[plot]`, whose `x` and `lines` Python draws by.
fn metrics(axes: &[Axis], file: PlotFile) -> Result<Vec<String>, String> {
    for (key, name) in [("x", file.x), ("lines", file.lines)] {
        if let Some(name) = name.filter(|name| axes.iter().all(|axis| axis.name != *name)) {
            return Err(format!("plot.{key}: `{name}` is not in [grid]"));
        }
    }
    Ok(file.y.unwrap_or_else(|| vec!["response_time_ms".into(), "slowdown_mean".into()]))
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
        assert_eq!(plan.y, ["response_time_ms", "slowdown_mean"]);
        assert_eq!(plan.label(&plan.cells[3]), "policy ps, dist b, rho 0.8");
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
            ("[grid]", "[plot]\nx = \"beta\"\n[grid]", "x/small.toml: plot.x: `beta` is not in [grid]"),
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
        plan.y = vec!["slowdown".into(), "response_time_ms_variance".into()];
        check(&plan).unwrap();
        plan.y.push("slow".into());
        let right = "response_time_ms_mean, response_time_ms_variance, slowdown_mean";
        assert_eq!(check(&plan).unwrap_err(), format!("x.toml: plot.y: it has no `slow`, only {right}"));
        assert_eq!(model.ran.into_inner(), 0);
    }

    #[test]
    fn an_experiment_of_the_lab_is_told_apart() {
        let said = parse("question = \"x\"\nlink = \"1mbit\"\n[[run]]\nname = \"a\"\n").unwrap_err();
        assert_eq!(said, "x/small.toml: it has [[run]] and no [grid]: that is an experiment for weirlab run");
    }
}
