//! The server: files, connections, limits, logs, and the writer that sends what the drain grants.
//!
//! The life of a request: a worker accepts the connection and reads the head ([`worker`](self)), `http` parses it, `reply` finds the
//! file and builds head and body, [`transmit`] sends them as the drain grants. With the drain `paced` the last
//! step happens on one thread for all workers (`writer`), else in the worker's own turn.

mod classes;
mod clock;
mod config;
mod drain_choice;
pub mod files;
mod handover;
pub mod log;
mod mailbox;
mod places;
mod poll;
mod reply;
mod start;
mod storage;
mod sys;
mod threads;
pub mod transmit;
mod worker;
mod writer;

pub use classes::{Classes, ClassesError};
pub use config::{AccessLogConfig, Config, Limits};
pub use drain_choice::{DrainChoice, DrainError, DrainKind, DrainOptions};
pub use handover::WORKERS_MAX;
pub use start::{Server, StartError};
pub use threads::ThreadError;

/// The specs of policies, for help texts.
pub use sched::policy::FORMS as POLICY_FORMS;
pub use sched::{FOREIGN_SHARE_PERMILLE, WaitBound};

/// The share of the oldest response unless told otherwise, in thousandths: at 10 Mbit/s a segment every 0.6 s, which
/// keeps a client from giving up. More buys little and costs all: at rho 0.8, 20 make the mean response time of the
/// shipped trace 1 % longer and of NASA's day 3 %, and its largest 0.5 % 6 %, since the oldest is seldom the one
/// that could be done soonest even among the large.
pub const GUARD_PERMILLE: u32 = 2;
