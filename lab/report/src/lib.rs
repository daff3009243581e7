//! Formats the results of runs for `weirlab run` and `weirlab load`, and states why a run may not be used. The Python
//! package `weirlab`, which reads the records, compares runs with claims and with each other.
//!
//! Every job counts: a job that did not complete counts with the time that it waited, because leaving it out would hide
//! starvation. Each run is shown with two figures computed for its own jobs (crate `theory`): the clairvoyant bound,
//! and ideal processor sharing.

mod summary;
mod table;
#[cfg(test)]
mod testing;
mod validity;

pub use summary::{Bounds, GivenUp, GroupSummary, PageTimesMs, ResponseTimeMs, RunSummary, SkippedRun, Summary};
pub use table::table;
pub use validity::{CPU_MAX, LATENESS_P99_MAX, void_reason};
