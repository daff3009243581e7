//! A web server and its users, as modelled by Murta and Corlassoli ("Fastest Connection First: a new scheduling policy
//! for web servers", 2002, section 3). One link cannot show the value of a policy that considers connections.
//!
//! A request needs the processor (FIFO admission, then processor sharing). Its connection then alternates between the
//! disk, which reads a block into the socket buffer, and the network interface, which sends what the windows of TCP
//! allow, until everything is sent. Disk and network are each a queue in the order of a [`sched::Scheduler`]. The
//! socket buffer couples them to the client: the next block is read when the last one has been sent and there is room,
//! so a slow client uses the disk little at a time. Clients are SURGE user equivalents. They are closed, so a user who
//! is served sooner sends more requests. Each user requests the same files, after the same pauses, over the same path
//! and with the same lost packets under every policy, because the draws of a request depend only on its user and number
//! (common random numbers).
//!
//! ```
//! let config = sim::server::Config { users: 20, requests: 500, warm_up: 50, ..Default::default() };
//! let outcome = sim::server::run(&config, sim::Hooks::none()).unwrap();
//! assert_eq!(outcome.summary.jobs, 500);
//! ```
//!
//! Left out, as in the paper or because the effect is small: lost or delayed acknowledgements, the time on the wire of
//! packets without payload, response heads, and reading from the network.

mod client;
mod config;
mod event;
mod internet;
mod model;
mod outcome;
mod processor;
mod station;
mod tcp;

pub use config::{Config, ConfigError, Cpu, Disk, Http, Internet, Network, Tcp, Throughput, Until};
pub use internet::{BANDWIDTHS, BandwidthClass};
pub use model::run;
pub use outcome::{ClassOutcome, Outcome, SIZE_CLASSES, ServerOutcome, Utilisation};

#[cfg(test)]
mod tests;
