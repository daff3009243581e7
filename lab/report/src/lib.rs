//! Formats the results of runs for `weirlab run` and `weirlab load`, and states why a run may not be used. The Python
//! package `weirlab`, which reads the records, compares runs with claims and with each other.
//!
//! Every job counts: one that did not complete counts with the time it waited, because dropping it would hide starvation.

mod summary;
mod table;
#[cfg(test)]
mod testing;
mod validity;

pub use summary::{GroupSummary, ResponseTimeMs, RunSummary, SkippedRun, Summary};
pub use table::table;
pub use validity::{CPU_MAX, LATENESS_P99_MAX, void_reason};
