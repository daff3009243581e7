use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

use crate::Measured;

/// What a run is made of, by name: numbers, texts, booleans and lists of them.
pub type Fields = BTreeMap<String, Value>;

/// A simulator, as a sweep sees it. The same fields and seed must give the same result on every machine.
pub trait Model: Send + Sync {
    /// Part of every run's key: another text whenever the same fields may come to mean another result.
    fn version(&self) -> String;

    /// Whether such a run can be done; the error is one line that begins with the name of the field. Must be quick: it is
    /// asked for every cell before the first run.
    fn check(&self, fields: &Fields) -> Result<(), String>;

    /// A run like these but as short as can be, with every metric that they will have: what a misspelt name is told by
    /// before the first run. Must be quick too.
    fn trial(&self, fields: &Fields) -> Result<Measured, String>;

    /// The files such a run reads: what is in them is part of its key.
    fn files(&self, fields: &Fields) -> Vec<PathBuf>;

    /// What a closed form says of such runs; `None` where there is none.
    fn theory(&self, _fields: &Fields) -> Option<Theory> {
        None
    }

    /// Does the run.
    fn run(&self, fields: &Fields, seed: u64) -> Result<Measured, String>;
}

/// What a closed form says.
#[derive(Debug, Clone, PartialEq)]
pub struct Theory {
    /// By the name of the metric that it foretells.
    pub metrics: BTreeMap<String, f64>,
}
