//! Places at upstreams: a request has one of its upstream's while it is under way, and waits where none is free. There is one count and one
//! queue for all event loops, so that `requests` is what the program sees, and the order among those that wait is that of one loop.
//!
//! A place that is given back goes to the next that waits under the same lock, whichever loop that is of: no newcomer comes between. One of
//! another loop is put into that loop's box, and then its wake is set. A loop clears its wake before it looks into its box
//! ([`Wake`](crate::wake::Wake)), so no place is lost; it gives the place back where the request has left meanwhile. A request before which `n`
//! others came has its place after [`RELEASES_PER_OLDEST`](sched::waiting::RELEASES_PER_OLDEST) (n + 1) that were given back at most, also where
//! all of them are of other loops.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use sched::waiting::{Turn, Waiting};

use super::Endpoint;
use crate::wake::Wake;

/// Those of all upstreams, for all event loops.
#[derive(Debug)]
pub struct UpstreamPlaces {
    by_endpoint: Mutex<HashMap<Endpoint, Weak<EndpointPlaces>>>,
    loops: Vec<LoopBox>,
}

#[derive(Debug)]
struct LoopBox {
    wake: Arc<Wake>,
    /// No more than there are places at all upstreams.
    handed: Mutex<Vec<Handed>>,
    /// So that an empty one costs its loop no lock.
    is_filled: AtomicBool,
}

/// Those of one upstream.
#[derive(Debug, Default)]
pub struct EndpointPlaces {
    state: Mutex<State>,
    /// Requests under way and waiting, as the state has them, to be read without its lock.
    load: AtomicUsize,
    /// Requests whose responses wait for their clients.
    held: AtomicU32,
}

#[derive(Debug, Default)]
struct State {
    under_way: u32,
    waiting: Waiting<Waiter>,
    /// Given to those that waited so far.
    tickets: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Waiter {
    ticket: u64,
    event_loop: usize,
    owner: u64,
    /// It begins where fewer than so many are under way.
    requests_max: u32,
}

/// What came of a request for a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begun {
    Taken,
    /// For the [`Handed`] of this ticket.
    Waits(u64),
    /// As many wait as may.
    Full,
}

/// A place for the request of an owner that waited for it. Where it waits no more, the place is to be given back.
#[derive(Debug, Clone)]
pub struct Handed {
    pub owner: u64,
    pub ticket: u64,
    pub places: Arc<EndpointPlaces>,
}

/// The places as one event loop takes them and gives them back.
#[derive(Debug, Clone)]
pub struct LoopPlaces {
    all: Arc<UpstreamPlaces>,
    number: usize,
}

impl UpstreamPlaces {
    /// For the event loops of these wakes, by their numbers.
    pub fn new(wakes: &[Arc<Wake>]) -> UpstreamPlaces {
        let of = |wake: &Arc<Wake>| LoopBox {
            wake: Arc::clone(wake),
            handed: Mutex::default(),
            is_filled: AtomicBool::new(false),
        };
        UpstreamPlaces { by_endpoint: Mutex::default(), loops: wakes.iter().map(of).collect() }
    }

    /// As the event loop of this number has them.
    pub fn of_loop(self: &Arc<UpstreamPlaces>, number: usize) -> LoopPlaces {
        LoopPlaces { all: Arc::clone(self), number }
    }
}

impl LoopPlaces {
    /// Those of this upstream, the same for all loops as long as one of them has it.
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

    /// Takes a place where fewer than `requests_max` are taken, or has the owner wait for one.
    pub fn begin(&self, places: &EndpointPlaces, requests_max: u32, turn: Turn, owner: u64) -> Begun {
        let mut state = lock(&places.state);
        let begun = if state.under_way < requests_max {
            state.under_way += 1;
            Begun::Taken
        } else {
            let waiter = Waiter { ticket: state.tickets, event_loop: self.number, owner, requests_max };
            state.tickets += 1;
            if state.waiting.push(turn, waiter) { Begun::Waits(waiter.ticket) } else { Begun::Full }
        };
        places.note_load(&state);
        begun
    }

    /// Gives a place back. What becomes free goes to those that wait: to those of this loop by `own`, to others by their boxes.
    pub fn end(&self, places: &Arc<EndpointPlaces>, own: &mut Vec<Handed>) {
        let mut state = lock(&places.state);
        state.under_way -= 1;
        // More than one only where a reload has changed `requests`.
        while let Some(next) = state.next() {
            let handed = Handed { owner: next.owner, ticket: next.ticket, places: Arc::clone(places) };
            if next.event_loop == self.number {
                own.push(handed);
            } else {
                self.all.loops[next.event_loop].hand(handed);
            }
        }
        places.note_load(&state);
    }

    /// What other loops have handed to this one, which clears its wake before.
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

impl State {
    /// The next that waits has a place from here on.
    fn next(&mut self) -> Option<Waiter> {
        let under_way = self.under_way;
        let next = self.waiting.pop(|waiter| under_way < waiter.requests_max)?;
        self.under_way += 1;
        Some(next)
    }
}

impl EndpointPlaces {
    fn note_load(&self, state: &State) {
        self.load.store(state.under_way as usize + state.waiting.len(), Relaxed);
    }

    /// Requests under way and waiting.
    pub fn load(&self) -> usize {
        self.load.load(Relaxed)
    }

    /// The one of this ticket waits no more; nothing where it has been handed a place.
    pub fn leave(&self, ticket: u64) {
        let mut state = lock(&self.state);
        state.waiting.leave(|waiter| waiter.ticket == ticket);
        self.note_load(&state);
    }

    /// A request came to wait for its client, or does so no more.
    pub fn on_held(&self, was_held: bool, is_held: bool) {
        match (was_held, is_held) {
            (false, true) => self.held.fetch_add(1, Relaxed),
            (true, false) => self.held.fetch_sub(1, Relaxed),
            _ => return,
        };
    }

    /// Half of so many places or more are held by responses that wait for their clients.
    pub fn is_crowded(&self, requests_max: u32) -> bool {
        let held = self.held.load(Relaxed);
        held > 0 && held.saturating_mul(2) >= requests_max
    }
}

/// Nothing that is done under these locks can panic and leave half of it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
