//! Finds and follows the rate of the line behind an interface with bands, and sets the bands to that rate.
//!
//! Bands with a rate above the line's order nothing, because all packets then wait in the line's own queue, and the
//! line's rate is not known in advance. The estimator is the server's (`sched::line`). [`Follower`] feeds it, and
//! [`LineWatch`] reads the kernel for it and changes the bands. [`Followed`] records in /run/weir that the rate is
//! followed, the rate found, and the process that follows it. Each interface has at most one such process.

mod beyond;
#[cfg(feature = "bpf")]
mod drops;
mod follower;
mod handed;
mod state;
#[cfg(test)]
mod tests;
mod waits;
#[cfg(feature = "bpf")]
mod watch;

pub use follower::{Follower, Sight, Tally};
pub use sched::line::{Bounds, Change, Limit, Notice, Status};
pub use state::{Changing, Followed, Lock, changing, forget, mark, read};
#[cfg(feature = "bpf")]
pub(crate) use waits::{Waits, age};
#[cfg(feature = "bpf")]
pub use watch::{LineWatch, Turn, can_follow, open_rate};
