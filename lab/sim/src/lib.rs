//! Simulates what two cores cannot measure, with three models of increasing detail, which all use the
//! [`sched::Scheduler`] of the server.
//!
//! [`queue`] is only one link, the model of queueing theory, with which `theory` can be checked. [`server`] is a web
//! server with a processor, a disk and a network interface (Murta & Corlassoli 2002). [`packet`] is TCP over a
//! bottleneck. Time is in integer nanoseconds, and the same seed gives the same run to the byte.
//!
//! Each model counts its jobs with a [`Tally`], and passes each complete job to [`Hooks::record`] if that is set.

mod calendar;
mod hooks;
pub mod packet;
pub mod queue;
pub mod server;
mod tally;

pub use hooks::{Hooks, PROGRESS_JOBS};
pub use tally::{CLASSES_MAX, ClassSummary, Finished, GroupSummary, ResponseTimes, SizeBin, Summary, Tally};
