//! Clients: what each may have, and what each has had. One table for all workers, since a client's connections are spread over them.
//!
//! A client is an address prefix ([`ClientPrefix`]); a limit by address would let a home with 2^64 of them have everything. Its index is
//! small and stays its own while it has connections, so a worker can keep accounts of its own by it. What is held under the lock is a few
//! dozen nanoseconds' work; a worker takes it for each connection, once a second for what it sent on it, and for each request where these have a
//! limit.

mod bucket;
mod busiest;
mod idle;
mod limits;
mod prefix;
mod refusals;
mod table;
mod trusted;
mod weights;

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

use units::{Nanos, Rate};

use bucket::Bucket;
pub use busiest::{Busy, Column};
use limits::InForce;
pub use prefix::{ClientPrefix, ClientPrefixError};
use refusals::{Kind, Refusals};
use table::Table;

pub use trusted::TrustedProxies;
pub use weights::{ClientWeight, ClientWeightError, ClientWeights};

/// What each client may be sent.
pub trait ClientRate: Send + Sync {
    /// So many bytes were sent to it, which may be none; gives when it may be sent more, if that is not now.
    fn spend(&self, client: u32, bytes: u64, now: Nanos) -> Option<Nanos>;
}

/// What one client may have.
#[derive(Debug, Clone, Copy)]
pub struct ClientLimits {
    pub prefix: ClientPrefix,
    /// 0: no limit.
    pub connections_max: u32,
    /// 0: no limit. A second's worth may come at once.
    pub requests_per_s_max: u32,
    /// What may be sent to it; a tenth of a second's worth at once, and 64 KiB at least.
    pub rate_max: Option<Rate>,
}

/// A client that has connections, by the index of its account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Client {
    pub index: u32,
    /// Changes when the index is given to another client.
    pub generation: u16,
}

/// It has what it may have.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    /// When it may ask again.
    pub retry_after_s: u64,
    /// A line for the error log, if one is due.
    pub notice: Option<String>,
}

pub struct Clients {
    limits: InForce,
    /// The busiest are to be told.
    is_asked: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    table: Table,
    refusals: Refusals,
    /// By index; none without a limit on the rate.
    buckets: Vec<Bucket>,
}

impl Clients {
    pub fn new(limits: ClientLimits) -> Clients {
        Clients { limits: InForce::new(limits), is_asked: AtomicBool::new(false), state: Mutex::default() }
    }

    /// Each may have this from now on, and keeps what it has. How clients are told apart stays.
    pub fn set_limits(&self, limits: ClientLimits) {
        self.limits.set(limits);
    }

    /// A connection from this address.
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

    /// A connection of a proxy, which brings many clients, or a request of a client behind one: neither is bounded by the connections that one
    /// client may have. [`Clients::leave`] ends it.
    pub fn enter_unbounded(&self, address: IpAddr, now: Nanos) -> Client {
        let prefix = self.limits.get().prefix.of(address);
        let mut state = self.state();
        let index = state.table.find_or_insert(prefix, now);
        state.connect(index)
    }

    /// Whether the client of this address has half of the connections that it may have.
    pub fn has_half(&self, address: IpAddr) -> bool {
        let limits = self.limits.get();
        let (prefix, max) = (limits.prefix.of(address), limits.connections_max);
        let mut state = self.state();
        let index = state.table.find(prefix).filter(|_| max > 0);
        index.is_some_and(|index| state.table.entry(index).connections >= max.div_ceil(2))
    }

    /// One of its connections has ended, and so many bytes were sent to it.
    pub fn leave(&self, index: u32, bytes: u64, now: Nanos) {
        let mut state = self.state();
        state.add_bytes(index, bytes, now, &self.limits.get());
        #[cfg(test)]
        if crate::simulation::planted::strikes(crate::simulation::planted::Fault::LeakedAccount) {
            return;
        }
        state.table.disconnect(index);
    }

    /// A request: the generic cell rate algorithm as a leaky bucket (ITU-T I.371), which drains at the rate and holds a second's worth.
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

    /// The request counted last is put back, and will be counted again.
    pub fn on_postponed(&self, index: u32) {
        if self.limits.get().requests_per_s_max > 0 {
            let mut state = self.state();
            let entry = state.table.entry(index);
            entry.requests_milli = entry.requests_milli.saturating_sub(1000);
        }
    }

    /// So many bytes were sent to it.
    pub fn on_bytes(&self, index: u32, bytes: u64, now: Nanos) {
        self.state().add_bytes(index, bytes, now, &self.limits.get());
    }

    /// A line about refusals that is due; to be asked for until there is none, about once a second.
    pub fn notice(&self, now: Nanos) -> Option<String> {
        self.state().refusals.tell(now, &self.limits.get())
    }

    /// The busiest are to be told by a worker.
    pub fn ask_lines(&self) {
        self.is_asked.store(true, Relaxed);
    }

    /// Whether they are, once.
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
        // One who comes under the index of another finds what that has not drained, a burst of it.
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
