//! Open-loop HTTP load: every request has its own instant, whatever became of the ones before it.
//!
//! A closed loop in disguise is the classic mistake of load generators: a client that waits for a free connection, or
//! counts from when it got round to sending, is slowed down by the very server it measures and then reports that all
//! is well. Here a job starts at its scheduled instant or is charged for the delay: response time counts from the
//! *scheduled* instant to the last byte, nothing ever waits for a connection, and a histogram of how late requests
//! were submitted says whether the figures may be used at all.
//!
//! Where the load is closed on purpose, users or sessions that think between an answer and their next request, the
//! [`workload::Source`] says so, and lateness counts from the end of the thought.
//!
//! One thread and one epoll do it all. The protocol (the private modules `reader`, `exchange`, `http2` and `http3`), the books
//! (`ledger`) and the users' patience touch no socket and no clock; `engine` tells them what happened and when.
//!
//! ```no_run
//! use loadgen::Plan;
//! use std::ops::ControlFlow;
//! use units::Nanos;
//! use workload::{Job, Scheduled};
//! let plan = Plan {
//!     target: "127.0.0.1:8080".parse().unwrap(),
//!     host: "localhost:8080".into(),
//!     prefix: "/files/".into(),
//!     sites: vec![],
//!     routes: None,
//!     documents: None,
//!     per_connection: 1,
//!     grace: Nanos::from_secs(10),
//!     patience: None,
//!     clients: vec![],
//!     seed: 1,
//!     client_connections: None,
//!     protocol: loadgen::Protocol::Http1,
//!     tls: None,
//! };
//! let jobs: Vec<Job> = (0..10).map(|n| Job { arrival: Nanos::from_millis(n), size_bytes: 512, client: None }).collect();
//! let outcome = loadgen::run(&plan, &mut Scheduled::new(&jobs), |_| ControlFlow::Continue(())).unwrap();
//! assert_eq!(outcome.records.len(), 10);
//! ```

mod alarms;
mod browser;
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
pub use http2::{NoHttp2, check_http2};
pub use http3::{NoHttp3, Stall, Stalled, check_http3};
pub use outcome::{LoadError, Outcome, Progress};
pub use plan::{ClientGroup, Patience, Plan, PlanError, Protocol, Site};
pub use tls::Tls;
