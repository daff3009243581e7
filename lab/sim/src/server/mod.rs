//! A web server and its users, as Murta and Corlassoli modelled them ("Fastest Connection First: a new scheduling policy
//! for web servers", 2002, section 3): what a policy that looks at connections is worth cannot be seen on one link.
//!
//! A request needs the processor (FIFO admission, then processor sharing), and then its connection goes back and forth
//! between the disk, which reads a block into the socket buffer, and the network interface, which sends what the windows
//! of TCP let out, until all is sent. Disk and network are each a queue in the order of a [`sched::Scheduler`]. The socket
//! buffer couples them to the client: the next block is read when the last one has gone out and there is room, so a slow
//! client asks the disk for little at a time. Clients are SURGE user equivalents: closed, so whoever is served sooner
//! asks more often. Each user asks for the same files, after the same pauses, over the same path and with the same packets
//! lost, whatever the policy: draws of a request depend on its user and number alone (common random numbers).
//!
//! ```
//! let config = sim::server::Config { users: 20, requests: 500, warm_up: 50, ..Default::default() };
//! let outcome = sim::server::run(&config, sim::Hooks::none()).unwrap();
//! assert_eq!(outcome.summary.jobs, 500);
//! ```
//!
//! Left out, as in the paper or as too little to matter: acknowledgements that get lost or wait, the time of packets
//! without payload on the wire, response heads, reading from the network.

mod calendar;
mod client;
mod config;
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
