//! From recorded runs of the same jobs to a summary, a table and JSON, and to why a run may not be used. What runs say of a paper's claim, and
//! of each other over several seeds, is judged in Python (package `weirlab`).
//!
//! Runs are compared job by job, so [`summarize`] refuses runs whose jobs differ. Every job counts: one that did not
//! complete counts with the time it waited, because dropping it would hide starvation. Beside the runs stand three
//! figures computed for the very same jobs: the clairvoyant bound, fluid and of whole packets, and ideal processor sharing
//! (crate `theory`).
//!
//! ```no_run
//! let run = record::Run::read(std::path::Path::new("runs/weir-paced-srpt"))?;
//! let summary = report::summarize("first-light", &[run])?;
//! print!("{}", report::table(&summary));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod conditions;
mod error;
mod jobs;
mod kept;
mod pages;
mod summary;
mod table;
#[cfg(test)]
mod testing;
mod validity;
mod wire;

pub use error::ReportError;
pub use kept::Kept;
pub use pages::{PageTimesMs, PagesSummary};
pub use summary::{GivenUp, GroupSummary, ResponseTimeMs, RunSummary, SizeClassMs, SkippedRun, Summary, summarize};
pub use table::table;
pub use validity::{CPU_MAX, LATENESS_P99_MAX, void_reason};
pub use wire::CLOCK_GRANULARITY;
