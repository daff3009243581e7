//! What `weirlab run` and `weirlab load` print of the runs that they have done, and why a run may not be used. What runs say of a claim, and
//! of each other, is judged in Python (package `weirlab`), which reads the records.
//!
//! Every job counts: one that did not complete counts with the time it waited, because dropping it would hide starvation.
//! Beside each run stand two figures computed for its own jobs (crate `theory`): the clairvoyant bound, and ideal processor
//! sharing.

mod summary;
mod table;
#[cfg(test)]
mod testing;
mod validity;

pub use summary::{Bounds, GivenUp, GroupSummary, PageTimesMs, ResponseTimeMs, RunSummary, SkippedRun, Summary};
pub use table::table;
pub use validity::{CPU_MAX, LATENESS_P99_MAX, void_reason};
