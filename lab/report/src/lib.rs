//! From recorded runs of the same jobs to a summary, a table and JSON; from whole experiments to what became of the papers'
//! claims ([`Chapter`], [`markdown`]). Pictures are Python's (package `weirlab`).
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

mod alike;
mod cells;
mod chapter;
mod claim;
mod conditions;
mod error;
mod factors;
mod findings;
mod jobs;
mod kept;
mod line;
mod metric;
mod pages;
mod papers;
mod summary;
mod table;
#[cfg(test)]
mod testing;
mod text;
mod validity;
mod verdict;
mod wire;

pub use chapter::{Chapter, Counters, Extras, PointReport, PointRuns};
pub use claim::{Described, Expect, Figure, FigureError, Larger};
pub use error::ReportError;
pub use factors::{Estimate, FactorRow, Factors, LeftOut, Origin, PageFactor, Repeats, Standing};
pub use findings::{is_at, without_seed};
pub use kept::Kept;
pub use line::{LineRow, LineRuns, LineSecond, LineSeen, LineTable, Notice, Pace};
pub use pages::{PageTimesMs, PagesSummary};
pub use papers::{KeptClaim, Papers, claims_json, kept_claims};
pub use summary::{GivenUp, GroupSummary, ResponseTimeMs, RunSummary, SizeClassMs, SkippedRun, Summary, summarize};
pub use table::table;
pub use text::markdown;
pub use validity::{CPU_MAX, LATENESS_P99_MAX, void_reason};
pub use verdict::{Claimed, Finding, Found, Over, TRACES_MIN, Tally, Verdict};
pub use wire::CLOCK_GRANULARITY;
