//! Open-loop HTTP load: every request has its own instant, independent of the requests before it.
//!
//! The classic mistake of load generators is a closed loop in disguise. A client that waits for a free connection, or
//! measures from the moment at which it actually sent, is slowed down by the very server that it measures, and then
//! reports good times. Here a job starts at its scheduled instant or is charged for the delay. Response time counts
//! from the *scheduled* instant to the last byte, nothing ever waits for a connection, and a histogram of the lateness
//! of requests shows whether the figures are valid.
//!
//! A load may be closed on purpose: users or sessions think between a response and their next request. The
//! [`workload::Source`] then provides the instants, and lateness counts from the end of the thinking time.
//!
//! The engine is one thread with one epoll. The protocols (the private modules `reader`, `exchange`, `http2` and
//! `http3`), the `ledger` and the users' patience use no socket and no clock; `engine` passes events and times to them.
//!
//! ```no_run
//! use loadgen::Plan;
//! use std::ops::ControlFlow;
//! use units::Nanos;
//! use workload::{Job, Scheduled};
//! let plan = Plan::new("127.0.0.1:8080".parse().unwrap(), "localhost:8080");
//! let jobs: Vec<Job> = (0..10).map(|n| Job { arrival: Nanos::from_millis(n), size_bytes: 512, client: None }).collect();
//! let outcome = loadgen::run(&plan, &mut Scheduled::new(&jobs), |_| ControlFlow::Continue(())).unwrap();
//! assert_eq!(outcome.records.len(), 10);
//! ```

mod alarms;
mod clock;
mod connection;
mod deal;
mod engine;
mod exchange;
mod http2;
mod http3;
mod ledger;
mod limits;
mod origin;
mod outcome;
mod patience;
mod plan;
mod pool;
mod reader;
mod talk;
mod tcp;
#[cfg(test)]
mod testing;
mod tls;
mod waiting;

pub use engine::{PROGRESS_EVERY, run};
pub use outcome::{LoadError, Outcome, Progress};
pub use plan::{ClientGroup, Patience, Plan, PlanError, Protocol, Site};
pub use tls::Tls;
