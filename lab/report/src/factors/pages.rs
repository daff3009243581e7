//! The times and bytes of pages over several seeds, and what they are to another run's.

use serde::Serialize;

use super::Estimate;
use crate::pages::{MEASURES, PagesSummary};

/// One figure of a page, over the seeds of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PageFactor {
    /// `view` until something is seen, `whole` until all is there, both in ms; `KB mean` of its bodies as they came.
    pub measure: &'static str,
    pub value: Option<Estimate>,
    /// Over the other's, as [`super::FactorRow::factor`].
    pub factor: Option<Estimate>,
}

/// Of the runs that can be used, and of the pairs; empty where there are no pages.
pub(super) fn factors(used: &[&PagesSummary], pairs: &[(&PagesSummary, &PagesSummary)]) -> Vec<PageFactor> {
    let measure = |(at, measure): (usize, &&'static str)| {
        let values: Vec<f64> = used.iter().map(|pages| pages.figures()[at]).collect();
        let pairs: Vec<(f64, f64)> =
            pairs.iter().map(|(mine, base)| (mine.figures()[at], base.figures()[at])).collect();
        PageFactor { measure, value: Estimate::of(&values), factor: Estimate::of_ratios(&pairs) }
    };
    if used.is_empty() { vec![] } else { MEASURES.iter().enumerate().map(measure).collect() }
}
