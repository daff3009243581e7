//! Decides which response sends next.
//!
//! A [`Scheduler`] receives facts (a job arrived, bytes were sent, a connection cannot take more) and answers one
//! question: which job may send now, and how much. It does no I/O and reads no clock, so the server, the simulator and
//! the tests drive the same code. The order is the [`policy`]'s, and it is total: ties go by arrival number.
//!
//! ```
//! use sched::{Arrival, Scheduler, Size, policy};
//! use units::Nanos;
//!
//! let mut scheduler = Scheduler::new(policy::parse("srpt").unwrap(), Default::default());
//! let large = scheduler.arrive(Nanos(0), Arrival::of(Size::Known(1_000_000)));
//! let small = scheduler.arrive(Nanos(0), Arrival::of(Size::Known(500)));
//! let grant = scheduler.poll_grant(Nanos(0)).unwrap();
//! assert_eq!(grant.job, small);
//! assert!(scheduler.on_sent(Nanos(0), small, 500).is_departed());
//! assert_eq!(scheduler.poll_grant(Nanos(0)).unwrap().job, large);
//! ```

pub mod classes;
pub mod grow;
pub mod line;
mod pacing;
pub mod policy;
pub mod routes;
mod scheduler;
mod turns_comparison;
pub mod upstream_queue;

pub use classes::slots::{LEVELS_MAX, LevelSpec, SLOTS_MAX, Sharing, Slots, Turn};
pub use pacing::account::{Account, Correction, TcpSent};
pub use pacing::cross_traffic::{CROSS_SHARE_PERMILLE, CrossTraffic, Presence};
pub use pacing::lateness::Lateness;
pub use pacing::ledger::{Ledger, Reading, Watched};
pub use pacing::pace::{BLIND_PERMILLE, Pace};
pub use pacing::pacer::Pacer;
pub use pacing::uplink_rate::UplinkRate;
pub use policy::Policy;
pub use policy::papers::path::Path;
pub(crate) use policy::papers::path::Paths;
pub use scheduler::connection::{ConnectionId, JOBS_PER_CONNECTION_MAX, Precedence, Waits, Why};
pub use scheduler::guard::{Guard, WaitBound};
pub use scheduler::job::{Arrival, Job, JobId, SOURCE_PAUSE, Size};
pub use scheduler::jobs::{CONNECTIONS_MAX, JOBS_MAX, Jobs};
pub use scheduler::order::Order;
pub use scheduler::settings::Settings;
pub use scheduler::{Grant, Overrun, Progress, Scheduler, Sent, Waiter};
pub use turns_comparison::{SHARING_MAX, Turns, TurnsEnded};
