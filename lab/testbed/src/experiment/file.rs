//! An experiment file and its points. `[vary]` creates the points, each a separate experiment on the same runs.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use record::Digest;
use serde::Deserialize;
use toml::de::DeTable;
use toml::{Deserializer, Spanned, Table, Value};

use super::Experiment;
use super::known::gather_load;
use super::layers::{Sources, lay_under};
use super::vary::combinations;
use crate::{LabError, RunSpec};

/// Keys that do not affect the measurement. The contents of the trace are in the digest of the jobs.
const KEYS_FOR_PEOPLE: [&str; 2] = ["question", "trace"];

/// An experiment file that has been read.
#[derive(Debug, Clone, PartialEq)]
pub struct ExperimentFile {
    /// The name of the experiment: the file's name without folder and extension.
    pub name: String,
    /// The text as written; with set-ups, all texts merged into one.
    pub text: String,
    /// The points, at least one.
    points: Vec<Point>,
}

/// A combination of the values that the experiment varies.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// The name, also of its folder, such as `rho-0.8`; empty if nothing varies.
    pub name: String,
    /// The varied keys and their values at this point.
    pub values: Table,
    pub experiment: Experiment,
    /// All settings of the file at this point.
    settings: Table,
}

/// Settings on a command line that replace those of the file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overrides {
    pub seconds: Option<u64>,
    pub seed: Option<u64>,
    pub rho: Option<f64>,
    /// The path of the trace, which is not relative to the file.
    pub trace: Option<PathBuf>,
}

impl ExperimentFile {
    pub fn read(file: &Path, overrides: &Overrides) -> Result<ExperimentFile, LabError> {
        let text = std::fs::read_to_string(file).map_err(|e| LabError::path(file, e))?;
        ExperimentFile::parse(&text, file, overrides)
    }

    /// Parses the text of an experiment. `file` is used in messages, and to find set-ups and the trace in its folder.
    pub fn parse(text: &str, file: &Path, overrides: &Overrides) -> Result<ExperimentFile, LabError> {
        let sources = Sources::read(text, file)?;
        let mut table = sources.merged()?;
        if table.contains_key("grid") {
            return Err(sources.error(0, "it has a [grid]: that is an experiment for python -m weirlab sweep".into()));
        }
        let whole =
            if sources.is_one() { text.into() } else { whole_text(&table).map_err(|e| sources.toml_error(&e))? };
        // Python checks and judges the claims.
        table.remove("figure");
        let combinations = combinations(table).map_err(|(offset, reason)| sources.error(offset, reason))?;
        let on_top = overrides.text();
        let mut points = vec![];
        for combination in combinations {
            let mut table = DeTable::parse(&on_top).map_err(|e| sources.toml_error(&e))?.into_inner();
            lay_under(&mut table, combination.table);
            let mut gathered = table.clone();
            gather_load(&mut gathered).map_err(|(offset, reason)| sources.error(offset, reason))?;
            let mut experiment: Experiment = plain(gathered).map_err(|e| sources.toml_error(&e))?;
            experiment.check().map_err(|(offset, reason)| sources.error(offset, reason))?;
            let folder = file.parent().unwrap_or(Path::new(""));
            let own = experiment.load.trace.map(|trace| folder.join(trace));
            experiment.load.trace = overrides.trace.clone().or(own);
            let settings = plain(table).map_err(|e| sources.toml_error(&e))?;
            points.push(Point { name: combination.name, values: combination.values, experiment, settings });
        }
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(ExperimentFile { name, text: whole, points })
    }

    /// The points in the order of the file, in which the last key changes first.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Returns true if the points have names.
    pub fn varies(&self) -> bool {
        self.points.iter().any(|point| !point.name.is_empty())
    }

    /// Returns true if this key has different values at different points.
    pub fn varies_key(&self, key: &str) -> bool {
        self.points.iter().any(|point| point.values.contains_key(key))
    }

    /// Keeps only the named runs and points; an empty list keeps all. The error lists the existing names.
    pub fn keep_only(&mut self, runs: &[String], points: &[String]) -> Result<(), String> {
        let known: Vec<&str> = self.points.iter().map(|point| point.name.as_str()).collect();
        if let Some(unknown) = points.iter().find(|name| !known.contains(&name.as_str())) {
            return Err(match self.varies() {
                true => format!("there is no point `{unknown}`; the points are {}", known.join(", ")),
                false => format!("there is no point `{unknown}`: {} varies nothing", self.name),
            });
        }
        self.points.retain(|point| points.is_empty() || points.contains(&point.name));
        for point in &mut self.points {
            if !runs.is_empty() {
                point.experiment.keep_only(runs)?;
            }
        }
        Ok(())
    }

    /// Returns the experiment of a file with a single point.
    pub(super) fn single(mut self) -> Result<Experiment, LabError> {
        match (self.varies(), self.points.pop()) {
            (false, Some(point)) => Ok(point.experiment),
            _ => Err(LabError::Experiment { file: self.name.into(), line: 1, reason: "it has a [vary]".into() }),
        }
    }
}

impl Point {
    /// Returns a digest of everything that determines the measurement of a run, including the jobs: 32 hexadecimal
    /// digits.
    pub fn digest(&self, run: &RunSpec, jobs: &str) -> String {
        let mut text = String::new();
        let is_told = |key: &str| key != "run" && !KEYS_FOR_PEOPLE.contains(&key);
        let mut settings = self.settings.clone();
        settings.retain(|key, _| is_told(key));
        // Runs from before wires were introduced had none.
        settings.entry("wire").or_insert(Value::Boolean(self.experiment.wire));
        canonical(&Value::Table(settings), &mut text);
        let runs = self.settings.get("run").and_then(Value::as_array).into_iter().flatten();
        for told in runs.filter(|told| told.get("name").and_then(Value::as_str) == Some(&run.name)) {
            canonical(told, &mut text);
        }
        Digest::new().with(text.as_bytes()).with(jobs.as_bytes()).text()
    }
}

impl Overrides {
    /// Formats the text of a file with these settings.
    fn text(&self) -> String {
        let lines = [
            self.seconds.map(|seconds| format!("seconds = {seconds}\n")),
            self.seed.map(|seed| format!("seed = {seed}\n")),
            self.rho.map(|rho| format!("rho = {rho:?}\n")),
        ];
        lines.into_iter().flatten().collect()
    }
}

fn whole_text(table: &DeTable<'_>) -> Result<String, toml::de::Error> {
    let table: Table = plain(table.clone())?;
    Ok(table.to_string())
}

/// Converts a parsed table to another type.
fn plain<T: for<'de> Deserialize<'de>>(table: DeTable<'_>) -> Result<T, toml::de::Error> {
    T::deserialize(Deserializer::from(Spanned::new(0..0, table)))
}

/// Appends the value as text that does not depend on the order of keys.
fn canonical(value: &Value, text: &mut String) {
    match value {
        Value::Table(table) => {
            let mut keys: Vec<&String> = table.keys().collect();
            keys.sort_unstable();
            text.push('{');
            for key in keys {
                let _ = write!(text, "{key:?}=");
                canonical(&table[key], text);
            }
            text.push('}');
        }
        Value::Array(list) => {
            text.push('[');
            list.iter().for_each(|entry| canonical(entry, text));
            text.push(']');
        }
        plain => {
            let _ = write!(text, "{plain};");
        }
    }
}
