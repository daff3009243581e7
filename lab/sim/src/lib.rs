//! What cannot be measured on two cores can be simulated: three models of rising detail, all driving the same
//! [`sched::Scheduler`] that the server runs on.
//!
//! [`queue`] is one link and nothing else, the model of queueing theory, against which `theory` can be checked.
//! [`server`] is a web server with a processor, a disk and a network interface (Murta & Corlassoli 2002). [`packet`] is
//! TCP over a bottleneck. Time is integer nanoseconds; the same seed gives the same run to the byte.
//!
//! Each model counts its jobs with a [`Tally`] and gives each one whole to [`Hooks::record`] if that is wanted.

mod hooks;
pub mod packet;
pub mod queue;
pub mod server;
mod tally;

pub use hooks::{Hooks, PROGRESS_JOBS};
pub use tally::{CLASSES_MAX, ClassSummary, Finished, GroupSummary, ResponseTimes, SizeBin, Summary, Tally};
