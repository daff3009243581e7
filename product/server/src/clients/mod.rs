//! Clients: the limits of each client, and its usage. One table serves all workers, because a client's connections are
//! distributed over them.
//!
//! A client is an address prefix ([`ClientPrefix`]): limits per address would not limit a home with 2^64 addresses. A
//! client keeps its small index while it has connections, so workers can use the index for their own records. The lock
//! is held for a few dozen nanoseconds. A worker takes it for each connection, once a second to report the bytes sent
//! on it, and for each request if requests are limited.

mod bucket;
mod busiest;
mod idle_clients;
mod limits_in_force;
mod network;
mod network_list;
mod refusals;
mod table;
mod weights;

use std::hash::RandomState;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

use config::ClientPrefix;
use sched::policy::Network;
use units::{Nanos, Rate};

use bucket::Bucket;
pub use busiest::{Busy, Column};
use limits_in_force::InForce;
use refusals::{Kind, Refusals};
use table::Table;

pub use network_list::NetworkList;
pub use weights::ClientWeights;

/// Limits the rate at which each client is sent bytes.
pub trait ClientRate: Send + Sync {
    /// Records bytes sent to a client, possibly none. Returns the time from which more may be sent, or `None` if more
    /// may be sent now.
    fn spend(&self, client: u32, bytes: u64, now: Nanos) -> Option<Nanos>;
}

/// The limits of one client.
#[derive(Debug, Clone, Copy)]
pub struct ClientLimits {
    pub prefix: ClientPrefix,
    /// The maximum number of connections; 0 for no limit.
    pub connections_max: u32,
    /// The maximum number of requests per second; 0 for no limit. The burst is one second's requests.
    pub requests_per_s_max: u32,
    /// The maximum rate of sending to the client. The burst is the bytes of a tenth of a second, and at least 64 KiB.
    pub rate_max: Option<Rate>,
}

/// A client that has connections, by the index of its account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Client {
    pub index: u32,
    /// The generation of the index. It changes when the index is reused for another client.
    pub generation: u16,
}

/// The refusal of a client that has reached a limit.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The number of seconds after which the client may try again.
    pub retry_after_s: u64,
    /// A line for the error log, if one is due.
    pub notice: Option<String>,
}

pub struct Clients {
    limits: InForce,
    /// True if the operator has requested a list of the busiest clients.
    is_asked: AtomicBool,
    network_keys: RandomState,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    table: Table,
    refusals: Refusals,
    /// The buckets by client; empty if rates are not limited.
    buckets: Vec<Bucket>,
}

impl Clients {
    pub fn new(limits: ClientLimits) -> Clients {
        let (is_asked, network_keys) = (AtomicBool::new(false), RandomState::new());
        Clients { limits: InForce::new(limits), is_asked, network_keys, state: Mutex::default() }
    }

    /// Returns the network of an address, as a number that is valid only in this process.
    pub fn network_of(&self, address: IpAddr) -> Network {
        network::network_of(address, &self.network_keys)
    }

    /// Sets the limits. Clients keep their current usage, and the prefix does not change.
    pub fn set_limits(&self, limits: ClientLimits) {
        self.limits.set(limits);
    }

    /// Counts a connection from this address, or refuses it.
    pub fn enter(&self, address: IpAddr, now: Nanos) -> Result<Client, Refusal> {
        let limits = self.limits.get();
        let mut state = self.state();
        let index = state.table.find_or_insert(limits.prefix.of(address), now);
        let entry = state.table.entry(index);
        if limits.connections_max > 0 && entry.connections >= limits.connections_max {
            return Err(state.refuse(Kind::Connections, index, 0, now, &limits));
        }
        Ok(state.connect(index))
    }

    /// Counts a connection of a proxy that carries many clients, or a request of a client behind a proxy. Neither is
    /// subject to the limit on connections. [`Clients::leave`] ends it.
    pub fn enter_unbounded(&self, address: IpAddr, now: Nanos) -> Client {
        let prefix = self.limits.get().prefix.of(address);
        let mut state = self.state();
        let index = state.table.find_or_insert(prefix, now);
        state.connect(index)
    }

    /// Returns true if the client at this address has at least half of its maximum number of connections.
    pub fn has_half(&self, address: IpAddr) -> bool {
        let limits = self.limits.get();
        let (prefix, max) = (limits.prefix.of(address), limits.connections_max);
        let mut state = self.state();
        let index = state.table.find(prefix).filter(|_| max > 0);
        index.is_some_and(|index| state.table.entry(index).connections >= max.div_ceil(2))
    }

    /// Records the end of a connection of this client, to which `bytes` were sent.
    pub fn leave(&self, index: u32, bytes: u64, now: Nanos) {
        let mut state = self.state();
        state.add_bytes(index, bytes, now, &self.limits.get());
        #[cfg(test)]
        if crate::simulation::planted::strikes(crate::simulation::planted::Fault::LeakedAccount) {
            return;
        }
        state.table.disconnect(index);
    }

    /// Counts a request, or refuses it. The limit is a leaky bucket (generic cell rate algorithm, ITU-T I.371), which
    /// drains at the configured rate and holds one second's requests.
    pub fn on_request(&self, index: u32, now: Nanos) -> Result<(), Refusal> {
        let limits = self.limits.get();
        let rate = limits.requests_per_s_max;
        if rate == 0 {
            return Ok(());
        }
        let mut state = self.state();
        let entry = state.table.entry(index);
        entry.advance(now, rate);
        let (level, burst) = (u64::from(entry.requests_milli) + 1000, u64::from(rate) * 1000);
        if level <= burst {
            entry.requests_milli = level as u32;
            return Ok(());
        }
        let wait_ms = (level - burst).div_ceil(rate.into());
        Err(state.refuse(Kind::Requests, index, wait_ms.div_ceil(1000), now, &limits))
    }

    /// Undoes the count of the last request, which was postponed and will be counted again.
    pub fn on_postponed(&self, index: u32) {
        if self.limits.get().requests_per_s_max > 0 {
            let mut state = self.state();
            let entry = state.table.entry(index);
            entry.requests_milli = entry.requests_milli.saturating_sub(1000);
        }
    }

    /// Records bytes sent to the client.
    pub fn on_bytes(&self, index: u32, bytes: u64, now: Nanos) {
        self.state().add_bytes(index, bytes, now, &self.limits.get());
    }

    /// Returns a line about refusals, if one is due. Must be called about once a second, until it returns `None`.
    pub fn notice(&self, now: Nanos) -> Option<String> {
        self.state().refusals.tell(now, &self.limits.get())
    }

    /// Requests that a worker log the busiest clients.
    pub fn ask_lines(&self) {
        self.is_asked.store(true, Relaxed);
    }

    /// Returns true, once, if the busiest clients were requested.
    pub fn take_asked(&self) -> bool {
        self.is_asked.swap(false, Relaxed)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds the clients")
    }
}

impl ClientRate for Clients {
    fn spend(&self, client: u32, bytes: u64, now: Nanos) -> Option<Nanos> {
        let rate = self.limits.get().rate_max?;
        let (mut state, at) = (self.state(), client as usize);
        if state.buckets.len() <= at {
            state.buckets.resize(at + 1, Bucket::default());
        }
        // A client that gets another client's index inherits its undrained bytes, at most a burst.
        state.buckets[at].fill(bytes, now, rate)
    }
}

impl State {
    fn connect(&mut self, index: u32) -> Client {
        self.table.connect(index);
        Client { index, generation: self.table.entry(index).generation }
    }

    fn add_bytes(&mut self, index: u32, bytes: u64, now: Nanos, limits: &ClientLimits) {
        let entry = self.table.entry(index);
        entry.advance(now, limits.requests_per_s_max);
        entry.bytes += bytes as f32;
    }

    fn refuse(&mut self, kind: Kind, index: u32, retry_after_s: u64, now: Nanos, limits: &ClientLimits) -> Refusal {
        let entry = self.table.entry(index);
        entry.refusals = entry.refusals.saturating_add(1);
        let prefix = entry.prefix();
        self.refusals.add(kind, prefix);
        Refusal { retry_after_s, notice: self.refusals.tell(now, limits) }
    }
}

#[cfg(test)]
mod tests;
