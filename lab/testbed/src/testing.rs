//! Small experiments for the tests of this crate.

use std::path::Path;

use crate::{Experiment, RunSpec};

/// Parses an experiment of the file `x.toml` with these keys at its top, from line 5 on, and a run `a` with the keys
/// `run`.
pub(crate) fn parse(top: &str, run: &str) -> Result<Experiment, String> {
    let end = if top.is_empty() { "" } else { "\n" };
    let text =
        format!("question = \"\"\nlink = \"10mbit\"\nrho = 0.8\nseconds = 1\n{top}{end}[[run]]\nname = \"a\"\n{run}\n");
    Experiment::parse(&text, Path::new("x.toml")).map_err(|e| e.to_string())
}

/// Returns such an experiment with its run.
pub(crate) fn one(top: &str, run: &str) -> (Experiment, RunSpec) {
    let experiment = parse(top, run).unwrap();
    let run = experiment.runs().next().unwrap().clone();
    (experiment, run)
}
