//! From recorded runs of the same jobs to a summary, a table, JSON and a picture.
//!
//! Runs are compared job by job, so [`summarize`] refuses runs whose jobs differ. Every job counts: one that did not
//! complete counts with the time it waited, because dropping it would hide starvation. Beside the runs stand two
//! figures computed for the very same jobs: the clairvoyant bound and ideal processor sharing (crate `theory`).
//!
//! ```no_run
//! let run = record::Run::read(std::path::Path::new("runs/weir-paced-srpt"))?;
//! let summary = report::summarize("first-light", &[run])?;
//! print!("{}", report::table(&summary));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod axis;
mod chart;
mod error;
mod jobs;
mod picture;
mod summary;
mod table;
#[cfg(test)]
mod testing;
mod validity;

pub use axis::Scale;
pub use chart::{AxisTitle, Chart, Curve, Look, Point, Unit};
pub use error::ReportError;
pub use picture::response_by_size_svg;
pub use summary::{GroupSummary, ResponseTimeMs, RunSummary, SizeClassMs, SkippedRun, Summary, summarize};
pub use table::table;
pub use validity::{CPU_MAX, LATENESS_P99_MAX};
