//! Page loads of a run: what a visitor sees, beside the responses that it is made of.

use record::PageRecord;
use serde::Serialize;
use stats::{mean, nearest_rank};
use units::Nanos;

/// The times of the pages of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PagesSummary {
    pub count: usize,
    /// The pages that are not whole: a request failed, or the run ended first. They count with the time they waited.
    pub not_whole: usize,
    pub requests_mean: f64,
    pub bytes_mean: f64,
    /// From the instant at which the HTML was due until it, all style sheets and the scripts that block were there.
    pub first_view_ms: PageTimesMs,
    /// Until everything was.
    pub full_ms: PageTimesMs,
}

/// Nearest-rank percentiles, see `stats`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PageTimesMs {
    pub mean: f64,
    pub p50: f64,
    pub p95: f64,
}

impl PagesSummary {
    /// `None` of a run that loaded no pages.
    pub(crate) fn of(pages: &[PageRecord]) -> Option<PagesSummary> {
        let mean_of = |of: fn(&PageRecord) -> u64| mean(&pages.iter().map(|page| of(page) as f64).collect::<Vec<_>>());
        Some(PagesSummary {
            count: pages.len(),
            not_whole: pages.iter().filter(|page| page.failed > 0).count(),
            requests_mean: mean_of(|page| page.requests)?,
            bytes_mean: mean_of(|page| page.bytes)?,
            first_view_ms: PageTimesMs::of(pages, |page| page.first_view_ns)?,
            full_ms: PageTimesMs::of(pages, |page| page.full_ns)?,
        })
    }

    /// All times in ms, and its bodies in KB, in the order of [`MEASURES`].
    pub(crate) fn figures(&self) -> [f64; 7] {
        let [view, full] = [self.first_view_ms, self.full_ms];
        [view.mean, view.p50, view.p95, full.mean, full.p50, full.p95, self.bytes_mean / 1e3]
    }
}

/// Names of the figures of a page.
pub(crate) const MEASURES: [&str; 7] =
    ["view mean", "view p50", "view p95", "whole mean", "whole p50", "whole p95", "KB mean"];

impl PageTimesMs {
    fn of(pages: &[PageRecord], until_ns: fn(&PageRecord) -> u64) -> Option<PageTimesMs> {
        let mut spans: Vec<Nanos> =
            pages.iter().map(|page| Nanos(until_ns(page).saturating_sub(page.arrival_ns))).collect();
        spans.sort_unstable();
        let mean = stats::mean_nanos(&spans)? / 1e6;
        let percentile = |permille| nearest_rank(&spans, permille).map(Nanos::as_millis_f64);
        Some(PageTimesMs { mean, p50: percentile(500)?, p95: percentile(950)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_by_hand() {
        let page = |arrival_ms: u64, view_ms: u64, full_ms: u64, failed| PageRecord {
            arrival_ns: arrival_ms * 1_000_000,
            requests: 10 * full_ms,
            bytes: 1000,
            first_view_ns: (arrival_ms + view_ms) * 1_000_000,
            full_ns: (arrival_ms + full_ms) * 1_000_000,
            failed,
        };
        assert_eq!(PagesSummary::of(&[]), None);
        let found = PagesSummary::of(&[page(7, 1, 2, 0), page(5, 3, 10, 2), page(9, 2, 6, 0)]).unwrap();
        assert_eq!((found.count, found.not_whole, found.requests_mean, found.bytes_mean), (3, 1, 60.0, 1000.0));
        assert_eq!(found.figures(), [2.0, 2.0, 3.0, 6.0, 6.0, 10.0, 1.0]);
    }
}
