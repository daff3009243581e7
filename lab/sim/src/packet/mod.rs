//! TCP over a bottleneck, packet by packet.
//!
//! What a fluid link cannot show is here: the handshake and its queues, a window that has to grow, packets that are lost
//! and waited for, bytes that stand in a queue below the decision. One link at the server's egress is shared; the way
//! back, and the way beyond the link, only take time and lose packets. The server is the paper's or ours: a SYN queue,
//! an accept queue, workers, and responses that reach the link by one of four drains ([`Shaping`]), of which `paced` is
//! Weir's writer with the very [`sched::Scheduler`] it runs on. The processor takes no time.
//!
//! Everything random (loss, jitter) comes from one seeded generator and time is integer nanoseconds, so a run can be
//! repeated to the byte. Per packet nothing is allocated.

mod arrivals;
mod bottleneck;
mod calendar;
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

/// Simulates these jobs, which have to come in order of arrival.
pub fn run(config: &Config, jobs: impl Iterator<Item = Job>, hooks: Hooks) -> Result<Outcome, ConfigError> {
    config.check()?;
    Ok(world::World::new(config, jobs, hooks).run())
}

/// Simulates these users; they share no connections, so `per_connection` has to be 1.
pub fn run_users(config: &Config, load: &ClosedLoad, hooks: Hooks) -> Result<Outcome, ConfigError> {
    config.check()?;
    load.check(config)?;
    let users = users::Users::new(load, config.seed);
    Ok(world::World::new(config, std::iter::empty(), hooks).with_users(users).run())
}
