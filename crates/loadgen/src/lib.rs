//! Open-loop HTTP load: every request has its own instant, whatever became of the ones before it.
//!
//! A closed loop in disguise is the classic mistake of load generators: a client that waits for a free connection, or
//! counts from when it got round to sending, is slowed down by the very server it measures and then reports that all
//! is well. Here a job starts at its scheduled instant or is charged for the delay: response time counts from the
//! *scheduled* instant to the last byte, nothing ever waits for a connection, and a histogram of how late requests
//! were submitted says whether the figures may be used at all.
//!
//! One thread and one epoll do it all. The protocol (the private modules `reader` and `exchange`) and the books
//! (`ledger`) touch no socket and no clock; `engine` tells them what happened and when.
//!
//! ```no_run
//! use loadgen::{Plan, Request};
//! use std::ops::ControlFlow;
//! use units::Nanos;
//! let plan = Plan {
//!     target: "127.0.0.1:8080".parse().unwrap(),
//!     host: "localhost:8080".into(),
//!     requests: (0..10)
//!         .map(|n| Request { at: Nanos::from_millis(n), path: "/512.bin".into(), size_bytes: Some(512) })
//!         .collect(),
//!     per_connection: 1,
//!     grace: Nanos::from_secs(10),
//! };
//! let outcome = loadgen::run(&plan, |_| ControlFlow::Continue(())).unwrap();
//! assert_eq!(outcome.records.len(), 10);
//! ```

mod clock;
mod connection;
mod engine;
mod exchange;
mod ledger;
mod limits;
mod outcome;
mod plan;
mod reader;

pub use engine::{PROGRESS_EVERY, run};
pub use outcome::{LoadError, Outcome, Progress};
pub use plan::{Plan, PlanError, Request};
