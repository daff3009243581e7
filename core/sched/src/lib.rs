//! Who sends next.
//!
//! A [`Scheduler`] is told facts (a job arrived, bytes were sent, a connection cannot take more) and asked one question:
//! who may send now, and how much. It does no I/O and reads no clock, so the server, the simulator and the tests
//! drive the same code. The order is the [`policy`]'s, and a total one: ties go by arrival number.
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

mod account;
pub mod classes;
mod connection;
mod cross_traffic;
pub mod grow;
mod guard;
mod handshakes;
mod job;
mod jobs;
mod ledger;
pub mod line;
mod order;
mod overtaking;
mod pace;
mod pacer;
mod path;
pub mod policy;
mod run_queue;
mod scheduler;
mod slots;
mod uplink_rate;
mod virtual_time;

pub use account::{Account, Correction, TcpSent};
pub use connection::{ConnectionId, JOBS_PER_CONNECTION_MAX, Precedence, Why};
pub use cross_traffic::{CROSS_SHARE_PERMILLE, CrossTraffic, Presence};
pub use guard::{Guard, WaitBound};
pub use job::{Arrival, Job, JobId, Size};
pub use jobs::{CONNECTIONS_MAX, JOBS_MAX, Jobs};
pub use ledger::{Ledger, Reading, Watched};
pub use order::Order;
pub use pace::{BLIND_PERMILLE, Pace};
pub use pacer::Pacer;
pub use path::Path;
pub(crate) use path::Paths;
pub use policy::Policy;
pub use scheduler::{Grant, Progress, Scheduler, Sent, Waiter};
pub use slots::{LEVELS_MAX, LevelSpec, SLOTS_MAX, Sharing, Slots, Turn};
pub use uplink_rate::UplinkRate;
