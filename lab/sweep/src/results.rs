use std::collections::{BTreeMap, BTreeSet};

use stats::{interval_99, mean};

use crate::conduct::run_specs;
use crate::model::{Model, Theory};
use crate::store::Store;
use crate::{Measured, Plan, SweepError};

/// A mean over replications, and its 99 % confidence interval where there are at least two of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    pub mean: f64,
    pub half_width: Option<f64>,
}

/// What the runs of a sweep came to, cell by cell in the order of the plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Results {
    pub cells: Vec<CellResult>,
}

/// The replications of one cell, summed up.
#[derive(Debug, Clone, PartialEq)]
pub struct CellResult {
    /// For each axis of the plan, which of its values.
    pub at: Vec<usize>,
    /// Each run by itself: seed and what it came to.
    pub runs: Vec<(u64, Measured)>,
    /// Of the replications that have the metric.
    pub metrics: BTreeMap<String, Estimate>,
    /// What a closed form says of this cell.
    pub theory: Option<Theory>,
}

impl Estimate {
    /// `None` of nothing.
    pub fn of(values: &[f64]) -> Option<Estimate> {
        let half_width = interval_99(values).map(|interval| interval.half_width);
        mean(values).map(|mean| Estimate { mean, half_width })
    }
}

impl Results {
    /// Reads every run of the plan; all must have been done.
    pub fn read(plan: &Plan, model: &dyn Model, store: &Store) -> Result<Results, SweepError> {
        let mut runs = run_specs(plan, model)?.into_iter();
        let mut cells = Vec::with_capacity(plan.cells.len());
        for cell in &plan.cells {
            let mut measured = Vec::with_capacity(plan.seeds.len());
            for (what, run) in runs.by_ref().take(plan.seeds.len()) {
                let gone = || SweepError::Run { what, reason: "its file is gone: sweep again".into() };
                measured.push((run.seed, store.read(&run).ok_or_else(gone)?));
            }
            let mut result = CellResult::of(cell.at.clone(), measured);
            result.theory = model.theory(&cell.fields);
            cells.push(result);
        }
        Ok(Results { cells })
    }

    /// The names of all metrics that any run has.
    pub fn metric_names(&self) -> BTreeSet<&str> {
        self.cells.iter().flat_map(|cell| cell.metrics.keys().map(String::as_str)).collect()
    }
}

impl CellResult {
    /// The metric of this name, or else of this name with `_mean` behind it.
    pub fn metric(&self, name: &str) -> Option<&Estimate> {
        self.metrics.get(name).or_else(|| self.metrics.get(&format!("{name}_mean")))
    }

    /// What a closed form says of that metric.
    pub fn foretold(&self, name: &str) -> Option<f64> {
        let metrics = &self.theory.as_ref()?.metrics;
        metrics.get(name).or_else(|| metrics.get(&format!("{name}_mean"))).copied()
    }

    pub(crate) fn of(at: Vec<usize>, runs: Vec<(u64, Measured)>) -> CellResult {
        let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for (_, run) in &runs {
            for (name, value) in &run.metrics {
                values.entry(name.clone()).or_default().push(*value);
            }
        }
        let metrics = values.into_iter().filter_map(|(name, values)| Some((name, Estimate::of(&values)?))).collect();
        CellResult { at, runs, metrics, theory: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_by_hand() {
        let run = |mean: f64| Measured { metrics: BTreeMap::from([("m".into(), mean)]), by_size: vec![] };
        let metric = |runs| CellResult::of(vec![0], runs).metrics["m"];
        // Two values a distance 2 apart: standard deviation √2, standard error 1, t(1) = 63.657.
        let ours = metric(vec![(1, run(1.0)), (2, run(3.0))]);
        assert!(ours.mean == 2.0 && (ours.half_width.unwrap() - 63.657).abs() < 1e-9, "{ours:?}");
        assert_eq!(metric(vec![(1, run(5.0))]), Estimate { mean: 5.0, half_width: None }, "one run only");
    }
}
