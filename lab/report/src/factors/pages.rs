//! The times of pages over several seeds, and what they are to another run's.

use serde::Serialize;

use super::Estimate;
use crate::pages::{MEASURES, PagesSummary};

/// One time of a page, over the seeds of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PageFactor {
    /// `view` until something is seen, `whole` until all is there.
    pub measure: &'static str,
    pub ms: Option<Estimate>,
    /// Over the other's, as [`super::FactorRow::factor`].
    pub factor: Option<Estimate>,
}

/// Of the runs that can be used, and of the pairs; empty where there are no pages.
pub(super) fn factors(used: &[&PagesSummary], pairs: &[(&PagesSummary, &PagesSummary)]) -> Vec<PageFactor> {
    let measure = |(at, measure): (usize, &&'static str)| {
        let values: Vec<f64> = used.iter().map(|pages| pages.times()[at]).collect();
        let pairs: Vec<(f64, f64)> = pairs.iter().map(|(mine, base)| (mine.times()[at], base.times()[at])).collect();
        PageFactor { measure, ms: Estimate::of(&values), factor: Estimate::of_ratios(&pairs) }
    };
    if used.is_empty() { vec![] } else { MEASURES.iter().enumerate().map(measure).collect() }
}
