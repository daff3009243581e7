//! The places at upstreams for all event loops. All loops share one count and one queue, so that the application gets
//! at most `max_concurrent_requests`, and the share of a client and the order of waiting requests are the same as with
//! a single loop ([`sched::upstream_queue`]). Tunnels have separate places, because they last for hours, and an
//! application that answers requests with threads has other threads for tunnels.
//!
//! A place that is given back goes to the next waiting request under the same lock, whichever loop has that request, so
//! no new request can take it. For a request of another loop, the place is put into that loop's box, and then that
//! loop's wake is set. A loop clears its wake before it looks into its box ([`Wake`](crate::wake::Wake)), so no place
//! is lost. If the request has left, the loop gives the place back.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use sched::upstream_queue::{self, Bounds, Places, Turn};

use super::Endpoint;
use crate::exchange_id::ExchangeId;
use crate::wake::Wake;

/// The places of all upstreams, for all event loops.
#[derive(Debug)]
pub struct UpstreamPlaces {
    by_endpoint: Mutex<HashMap<Endpoint, Weak<EndpointPlaces>>>,
    loops: Vec<LoopBox>,
}

#[derive(Debug)]
struct LoopBox {
    wake: Arc<Wake>,
    /// The places handed to the loop; at most as many as all upstreams have.
    handed: Mutex<Vec<Handed>>,
    /// True if the box is not empty, so that a loop can check that without a lock.
    is_filled: AtomicBool,
}

/// The places of one upstream.
#[derive(Debug, Default)]
pub struct EndpointPlaces {
    state: Mutex<State>,
    /// The number of requests, in progress or waiting, and of tunnels, according to the state. It can be read without
    /// the state's lock.
    load: AtomicUsize,
    /// The number of requests whose responses wait for their clients.
    held: AtomicU32,
}

#[derive(Debug, Default)]
struct State {
    requests: Places<Waiter>,
    /// The places for tunnels, which do not queue.
    tunnels: Places<()>,
    /// The number of tickets issued to waiting requests.
    tickets: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Waiter {
    ticket: u64,
    event_loop: usize,
    exchange: ExchangeId,
    client: u32,
}

/// The outcome of a request for a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begun {
    Taken,
    /// The request waits for the [`Handed`] of this ticket.
    Waits(u64),
    /// The maximum number of requests is already waiting, of all clients or of this client.
    Full,
}

/// A place for a waiting request of this exchange. If the request no longer waits, the place must be given back.
#[derive(Debug, Clone)]
pub struct Handed {
    pub exchange: ExchangeId,
    pub ticket: u64,
    pub client: u32,
    pub places: Arc<EndpointPlaces>,
}

/// The places, as one event loop uses them.
#[derive(Debug, Clone)]
pub struct LoopPlaces {
    all: Arc<UpstreamPlaces>,
    number: usize,
}

impl UpstreamPlaces {
    /// Creates the places for the event loops with these wakes, in the order of the loops' numbers.
    pub fn new(wakes: &[Arc<Wake>]) -> UpstreamPlaces {
        let of = |wake: &Arc<Wake>| LoopBox {
            wake: Arc::clone(wake),
            handed: Mutex::default(),
            is_filled: AtomicBool::new(false),
        };
        UpstreamPlaces { by_endpoint: Mutex::default(), loops: wakes.iter().map(of).collect() }
    }

    /// Returns the places as the event loop with this number uses them.
    pub fn of_loop(self: &Arc<UpstreamPlaces>, number: usize) -> LoopPlaces {
        LoopPlaces { all: Arc::clone(self), number }
    }
}

impl LoopPlaces {
    /// The wake of this event loop.
    pub fn wake(&self) -> Arc<Wake> {
        Arc::clone(&self.all.loops[self.number].wake)
    }

    /// Returns the places of this upstream. While one loop uses the upstream, all loops get the same places.
    pub fn of(&self, endpoint: &Endpoint) -> Arc<EndpointPlaces> {
        let mut known = lock(&self.all.by_endpoint);
        if let Some(places) = known.get(endpoint).and_then(Weak::upgrade) {
            return places;
        }
        known.retain(|_, places| places.strong_count() > 0);
        let places = Arc::<EndpointPlaces>::default();
        known.insert(endpoint.clone(), Arc::downgrade(&places));
        places
    }

    /// Takes a place within these bounds, or queues the exchange.
    pub fn begin(&self, places: &EndpointPlaces, bounds: Bounds, turn: Turn, exchange: ExchangeId) -> Begun {
        let mut state = lock(&places.state);
        let waiter = Waiter { ticket: state.tickets, event_loop: self.number, exchange, client: turn.client };
        let begun = match state.requests.begin(turn, bounds, waiter) {
            upstream_queue::Begun::Taken => Begun::Taken,
            upstream_queue::Begun::Waits => Begun::Waits(waiter.ticket),
            upstream_queue::Begun::Full => Begun::Full,
        };
        state.tickets += u64::from(begun == Begun::Waits(waiter.ticket));
        places.note_load(&state);
        begun
    }

    /// Gives a client's place back. Waiting requests get the free places: of this loop through `own`, of other loops
    /// through their boxes.
    pub fn end(&self, places: &Arc<EndpointPlaces>, client: u32, own: &mut Vec<Handed>) {
        let mut state = lock(&places.state);
        state.requests.end(client);
        // More than one place is free if a reload has changed `max_concurrent_requests`, or if the client had its full
        // share.
        while let Some(Waiter { ticket, event_loop, exchange, client }) = state.requests.begin_next() {
            let handed = Handed { exchange, ticket, client, places: Arc::clone(places) };
            if event_loop == self.number {
                own.push(handed);
            } else {
                self.all.loops[event_loop].hand(handed);
            }
        }
        places.note_load(&state);
    }

    /// Takes the places that other loops have handed to this one. The loop must have cleared its wake before.
    pub fn take_handed(&self, into: &mut Vec<Handed>) {
        self.all.loops[self.number].take(into);
    }
}

impl LoopBox {
    fn hand(&self, one: Handed) {
        let mut handed = lock(&self.handed);
        handed.push(one);
        self.is_filled.store(true, SeqCst);
        drop(handed);
        self.wake.set();
    }

    fn take(&self, into: &mut Vec<Handed>) {
        if self.is_filled.load(SeqCst) {
            let mut handed = lock(&self.handed);
            into.append(&mut handed);
            self.is_filled.store(false, SeqCst);
        }
    }
}

impl EndpointPlaces {
    fn note_load(&self, State { requests, tunnels, .. }: &State) {
        let under_way = requests.under_way() as usize + tunnels.under_way() as usize;
        self.load.store(under_way + requests.waiting(), Relaxed);
    }

    /// The number of requests in progress or waiting, and of tunnels.
    pub fn load(&self) -> usize {
        self.load.load(Relaxed)
    }

    /// Removes the client's waiting request with this ticket. Does nothing if the request was already handed a place.
    pub fn leave(&self, client: u32, ticket: u64) {
        let mut state = lock(&self.state);
        state.requests.leave(client, |waiter| waiter.ticket == ticket);
        self.note_load(&state);
    }

    /// Takes one of `tunnels_max` places for tunnels, of which a client may have half. Returns false if none is free.
    pub fn begin_tunnel(&self, client: u32, tunnels_max: u32) -> bool {
        let mut state = lock(&self.state);
        let bounds = Bounds { waiting_of_client: 0, ..Bounds::halves(tunnels_max) };
        let begun = state.tunnels.begin(Turn { client, ..Turn::default() }, bounds, ());
        self.note_load(&state);
        begun == upstream_queue::Begun::Taken
    }

    /// Gives back the place of a client's tunnel.
    pub fn end_tunnel(&self, client: u32) {
        let mut state = lock(&self.state);
        state.tunnels.end(client);
        self.note_load(&state);
    }

    /// Records that a request began or stopped waiting for its client.
    pub fn on_held(&self, was_held: bool, is_held: bool) {
        match (was_held, is_held) {
            (false, true) => self.held.fetch_add(1, Relaxed),
            (true, false) => self.held.fetch_sub(1, Relaxed),
            _ => return,
        };
    }

    /// Returns true if responses that wait for their clients hold half of the places, or as many as one client may
    /// have.
    pub fn is_crowded(&self, bounds: Bounds) -> bool {
        let held = self.held.load(Relaxed);
        held > 0 && (held.saturating_mul(2) >= bounds.requests || held >= bounds.of_client)
    }
}

/// Locks the mutex. No code under these locks can panic and leave the state inconsistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
