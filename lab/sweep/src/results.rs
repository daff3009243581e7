use std::collections::{BTreeMap, BTreeSet};

use stats::{interval_99, mean};

use crate::conduct::run_specs;
use crate::model::{Model, Theory};
use crate::store::Store;
use crate::{CcdfPoint, Measured, Plan, SizeBin, SweepError};

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
    pub by_size: Vec<SizeEstimate>,
    /// The mean of the shares of all replications.
    pub ccdf: Vec<CcdfPoint>,
    /// What a closed form says of this cell, with one entry for each of `by_size`.
    pub theory: Option<Theory>,
}

/// Jobs of like size in all replications; each replication that has such jobs counts the same.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SizeEstimate {
    pub from_bytes: u64,
    pub jobs: u64,
    pub size_bytes_mean: f64,
    pub response_time_ms: Estimate,
    /// Square milliseconds; of the replications with two such jobs or more, and `None` where none has.
    pub response_time_variance_ms2: Option<Estimate>,
    pub slowdown: Estimate,
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
            let sizes: Vec<f64> = result.by_size.iter().map(|bin| bin.size_bytes_mean).collect();
            result.theory = model.theory(&cell.fields, &sizes);
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
        let mut bins: BTreeMap<u64, Vec<SizeBin>> = BTreeMap::new();
        for (_, run) in &runs {
            for (name, value) in &run.metrics {
                values.entry(name.clone()).or_default().push(*value);
            }
            for bin in &run.by_size {
                bins.entry(bin.from_bytes).or_default().push(*bin);
            }
        }
        let metrics = values.into_iter().filter_map(|(name, values)| Some((name, Estimate::of(&values)?))).collect();
        let by_size = bins.into_values().filter_map(|bins| size_estimate(&bins)).collect();
        let ccdfs: Vec<&[CcdfPoint]> = runs.iter().map(|(_, run)| run.ccdf.as_slice()).collect();
        let ccdf = mean_ccdf(&ccdfs);
        CellResult { at, runs, metrics, by_size, ccdf, theory: None }
    }
}

/// `None` of nothing.
fn size_estimate(bins: &[SizeBin]) -> Option<SizeEstimate> {
    let estimate = |of: fn(&SizeBin) -> f64| Estimate::of(&bins.iter().map(of).collect::<Vec<_>>());
    // Runs divide by the number of their jobs: where jobs are few, that is too small by one of them.
    let several = bins.iter().filter(|bin| bin.jobs > 1);
    let variances: Vec<f64> =
        several.map(|bin| bin.response_time_variance_ms2 * bin.jobs as f64 / (bin.jobs - 1) as f64).collect();
    Some(SizeEstimate {
        from_bytes: bins.first()?.from_bytes,
        jobs: bins.iter().map(|bin| bin.jobs).sum(),
        size_bytes_mean: estimate(|bin| bin.size_bytes_mean)?.mean,
        response_time_ms: estimate(|bin| bin.response_time_ms_mean)?,
        response_time_variance_ms2: Estimate::of(&variances),
        slowdown: estimate(|bin| bin.slowdown_mean)?,
    })
}

/// At every response time where any of them has a point; between its points a distribution stays as it was.
fn mean_ccdf(ccdfs: &[&[CcdfPoint]]) -> Vec<CcdfPoint> {
    let mut times: Vec<f64> = ccdfs.iter().flat_map(|ccdf| ccdf.iter().map(|point| point.response_time_ms)).collect();
    times.sort_by(f64::total_cmp);
    times.dedup();
    let share_above = |ccdf: &[CcdfPoint], time: f64| {
        let points = ccdf.partition_point(|point| point.response_time_ms <= time);
        points.checked_sub(1).map_or(1.0, |last| ccdf[last].share_above)
    };
    let point = |time: f64| {
        let sum: f64 = ccdfs.iter().map(|ccdf| share_above(ccdf, time)).sum();
        CcdfPoint { response_time_ms: time, share_above: sum / ccdfs.len() as f64 }
    };
    times.into_iter().map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bin(from_bytes: u64, mean: f64) -> SizeBin {
        SizeBin {
            from_bytes,
            jobs: 10,
            size_bytes_mean: from_bytes as f64,
            response_time_ms_mean: mean,
            response_time_variance_ms2: 1.0,
            slowdown_mean: mean,
        }
    }

    fn run(mean: f64, by_size: Vec<SizeBin>, ccdf: &[(f64, f64)]) -> Measured {
        let ccdf = ccdf.iter().map(|&(response_time_ms, share_above)| CcdfPoint { response_time_ms, share_above });
        Measured { metrics: BTreeMap::from([("m".into(), mean)]), by_size, ccdf: ccdf.collect() }
    }

    #[test]
    fn intervals_by_hand() {
        let runs = vec![(1, run(1.0, vec![bin(10, 2.0), bin(12, 5.0)], &[])), (2, run(3.0, vec![bin(10, 4.0)], &[]))];
        let cell = CellResult::of(vec![0], runs);
        // Two values a distance 2 apart: standard deviation √2, standard error 1, t(1) = 63.657.
        let around = |mean: f64| Estimate { mean, half_width: Some(63.657 * (2.0f64.sqrt() / 2.0f64.sqrt())) };
        let close = |ours: Estimate, theirs: Estimate| {
            ours.mean == theirs.mean && (ours.half_width.unwrap() - theirs.half_width.unwrap()).abs() < 1e-9
        };
        assert!(close(cell.metrics["m"], around(2.0)), "{:?}", cell.metrics);
        assert!(close(cell.by_size[0].response_time_ms, around(3.0)), "{:?}", cell.by_size);
        assert_eq!((cell.by_size[0].jobs, cell.by_size[1].jobs), (20, 10));
        let variance = cell.by_size[0].response_time_variance_ms2.unwrap();
        assert!((variance.mean - 10.0 / 9.0).abs() < 1e-12, "divided by one less than ten: {variance:?}");
        assert_eq!(cell.by_size[1].slowdown, Estimate { mean: 5.0, half_width: None }, "one run only");
    }

    #[test]
    fn one_job_has_no_variance() {
        let lonely = SizeBin { jobs: 1, response_time_variance_ms2: 0.0, ..bin(10, 2.0) };
        let cell =
            CellResult::of(vec![], vec![(1, run(1.0, vec![lonely], &[])), (2, run(1.0, vec![bin(10, 4.0)], &[]))]);
        assert_eq!(cell.by_size[0].response_time_variance_ms2.unwrap().half_width, None, "one run has more");
        let cell = CellResult::of(vec![], vec![(1, run(1.0, vec![lonely], &[]))]);
        assert_eq!(cell.by_size[0].response_time_variance_ms2, None);
    }

    #[test]
    fn distributions_are_averaged_where_any_has_a_point() {
        let (first, second) =
            (run(1.0, vec![], &[(1.0, 0.5), (3.0, 0.0)]), run(1.0, vec![], &[(2.0, 0.2), (4.0, 0.0)]));
        let cell = CellResult::of(vec![], vec![(1, first), (2, second)]);
        let points: Vec<(f64, f64)> = cell.ccdf.iter().map(|p| (p.response_time_ms, p.share_above)).collect();
        assert_eq!(points, [(1.0, 0.75), (2.0, 0.35), (3.0, 0.1), (4.0, 0.0)]);
    }
}
