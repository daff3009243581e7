//! Places at upstreams for all event loops: one count and one queue, so that `requests` is what the program sees, and a client's share and the
//! order among those that wait are those of one loop ([`sched::waiting`]). Tunnels have places of their own: they last for hours, and a
//! program that answers requests by threads has others for them.
//!
//! A place that is given back goes to the next that waits under the same lock, whichever loop that is of: no newcomer comes between. One of
//! another loop is put into that loop's box, and then its wake is set. A loop clears its wake before it looks into its box
//! ([`Wake`](crate::wake::Wake)), so no place is lost; it gives the place back where the request has left meanwhile.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use sched::waiting::{self, Bounds, Places, Turn};

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
    /// Requests under way and waiting, and tunnels, as the state has them, to be read without its lock.
    load: AtomicUsize,
    /// Requests whose responses wait for their clients.
    held: AtomicU32,
}

#[derive(Debug, Default)]
struct State {
    requests: Places<Waiter>,
    /// For them no tunnel waits.
    tunnels: Places<()>,
    /// Given to those that waited so far.
    tickets: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Waiter {
    ticket: u64,
    event_loop: usize,
    owner: u64,
    client: u32,
}

/// The outcome of a request for a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begun {
    Taken,
    /// For the [`Handed`] of this ticket.
    Waits(u64),
    /// As many wait as may, of all clients or of its own.
    Full,
}

/// A place for the request of an owner that waited for it. Where it waits no more, the place is to be given back.
#[derive(Debug, Clone)]
pub struct Handed {
    pub owner: u64,
    pub ticket: u64,
    pub client: u32,
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

    /// Takes a place within these bounds, or has the owner wait for one.
    pub fn begin(&self, places: &EndpointPlaces, bounds: Bounds, turn: Turn, owner: u64) -> Begun {
        let mut state = lock(&places.state);
        let waiter = Waiter { ticket: state.tickets, event_loop: self.number, owner, client: turn.client };
        let begun = match state.requests.begin(turn, bounds, waiter) {
            waiting::Begun::Taken => Begun::Taken,
            waiting::Begun::Waits => Begun::Waits(waiter.ticket),
            waiting::Begun::Full => Begun::Full,
        };
        state.tickets += u64::from(begun == Begun::Waits(waiter.ticket));
        places.note_load(&state);
        begun
    }

    /// Gives a client's place back. What becomes free goes to those that wait: to those of this loop by `own`, to others by their boxes.
    pub fn end(&self, places: &Arc<EndpointPlaces>, client: u32, own: &mut Vec<Handed>) {
        let mut state = lock(&places.state);
        state.requests.end(client);
        // More than one where a reload has changed `requests`, or the client had its share.
        while let Some(Waiter { ticket, event_loop, owner, client }) = state.requests.begin_next() {
            let handed = Handed { owner, ticket, client, places: Arc::clone(places) };
            if event_loop == self.number {
                own.push(handed);
            } else {
                self.all.loops[event_loop].hand(handed);
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

impl EndpointPlaces {
    fn note_load(&self, State { requests, tunnels, .. }: &State) {
        let under_way = requests.under_way() as usize + tunnels.under_way() as usize;
        self.load.store(under_way + requests.waiting(), Relaxed);
    }

    /// Requests under way and waiting, and tunnels.
    pub fn load(&self) -> usize {
        self.load.load(Relaxed)
    }

    /// The client's request of this ticket waits no more; nothing where it has been handed a place.
    pub fn leave(&self, client: u32, ticket: u64) {
        let mut state = lock(&self.state);
        state.requests.leave(client, |waiter| waiter.ticket == ticket);
        self.note_load(&state);
    }

    /// Takes a place of so many tunnels, of which one client has half at most; false where there is none.
    pub fn begin_tunnel(&self, client: u32, tunnels_max: u32) -> bool {
        let mut state = lock(&self.state);
        let bounds = Bounds { waiting_of_client: 0, ..Bounds::halves(tunnels_max) };
        let begun = state.tunnels.begin(Turn { client, ..Turn::default() }, bounds, ());
        self.note_load(&state);
        begun == waiting::Begun::Taken
    }

    /// Gives the place of a client's tunnel back.
    pub fn end_tunnel(&self, client: u32) {
        let mut state = lock(&self.state);
        state.tunnels.end(client);
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

    /// Responses that wait for their clients hold half of the places, or as many as one client may have.
    pub fn is_crowded(&self, bounds: Bounds) -> bool {
        let held = self.held.load(Relaxed);
        held > 0 && (held.saturating_mul(2) >= bounds.requests || held >= bounds.of_client)
    }
}

/// Nothing that is done under these locks can panic and leave half of it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
