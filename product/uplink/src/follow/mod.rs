//! Follows the rate of the line behind an interface with bands: finds it, and sets the bands to it.
//!
//! Bands at a rate above the line's order nothing, since everything then waits in the line's own queue; and nobody knows
//! that rate. The estimator is the server's (`sched::line`). [`Follower`] feeds it, [`LineWatch`] reads the kernel for
//! it and changes the bands, and [`Followed`] records in /run/weir that the rate is followed, what was found, and by
//! which process, of which an interface has one at most.

#[cfg(feature = "bpf")]
mod drops;
mod follower;
mod handed;
mod state;
mod stay;
#[cfg(test)]
mod tests;
#[cfg(feature = "bpf")]
mod watch;

pub use follower::{Follower, Sight, Tally};
pub use sched::line::{Bounds, Change, Limit, Notice, Status};
pub use state::{Changing, Followed, Lock, changing, forget, mark, read};
#[cfg(feature = "bpf")]
pub use watch::{LineWatch, Turn, can_follow, open_rate};
