//! TCP over a bottleneck, packet by packet.
//!
//! This model contains what a fluid link lacks: the handshake and its queues, a window that has to grow, lost packets
//! and the wait for them, and bytes in a queue below the scheduler. One link at the server's egress is shared; the way
//! back, and the way beyond the link, only delay and lose packets. The server is the paper's or ours: a SYN queue, an
//! accept queue, workers, and responses that reach the link in one of three ways ([`Shaping`]). One of them, `paced`,
//! is Weir's writer with its own [`sched::Scheduler`]. The processor takes no time.
//!
//! Everything random (loss, jitter) comes from one seeded generator, and time is in integer nanoseconds, so a run can
//! be repeated to the byte. No memory is allocated per packet.

mod arrivals;
mod bottleneck;
mod client;
mod config;
mod conn;
mod egress;
mod outcome;
mod paced;
mod server;
mod tcp;
#[cfg(test)]
mod tests;
mod users;
mod world;

pub use arrivals::{at_load, poisson};
pub use bottleneck::{Discipline, Shape};
pub use config::{Config, ConfigError, PathConfig, Server, Shaping, Tcp, User};
use conn::ConnId;
pub use outcome::{Outcome, Sample};
pub use tcp::Congestion;
pub use users::{ClosedLoad, USERS_MAX};

use crate::Hooks;
use workload::Job;

/// Simulates these jobs, which must be in order of arrival.
pub fn run(config: &Config, jobs: impl Iterator<Item = Job>, hooks: Hooks) -> Result<Outcome, ConfigError> {
    config.check()?;
    Ok(world::World::new(config, jobs, hooks).run())
}

/// Simulates these users. They share no connections, so `per_connection` must be 1.
pub fn run_users(config: &Config, load: &ClosedLoad, hooks: Hooks) -> Result<Outcome, ConfigError> {
    config.check()?;
    load.check(config)?;
    let users = users::Users::new(load, config.seed);
    Ok(world::World::new(config, std::iter::empty(), hooks).with_users(users).run())
}
