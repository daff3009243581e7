//! Requests that wait until the names of their upstreams were looked up again. A container that is made anew has another
//! address, which a regular lookup finds seconds later. So a connection that cannot be made leads to a lookup, and a
//! request that may be sent elsewhere waits for its answer, once.

use std::collections::VecDeque;
use std::sync::Arc;

use units::Nanos;

use super::transfer::Hold;
use super::{Endpoint, Fault, Group, Upstreams};
use crate::exchange_id::ExchangeId;
use crate::net::Net;
use crate::wake::Wake;

/// The requests of an event loop that wait for answers; at most one for each transfer.
pub struct Lookups {
    waiting: VecDeque<Waiting>,
    /// The requests whose answer has arrived.
    answered: VecDeque<Waiting>,
    /// The number of answers when the waiting requests were last looked through.
    answers: u64,
    wake: Arc<Wake>,
}

/// A request that waits.
struct Waiting {
    exchange: ExchangeId,
    /// The fault of the last attempt.
    fault: Fault,
    /// The addresses of its upstreams at that time; none if its last one is no longer among them.
    known: Arc<[Endpoint]>,
}

impl Lookups {
    /// Creates an empty set for the event loop with this wake.
    pub fn new(wake: Arc<Wake>) -> Lookups {
        Lookups { waiting: VecDeque::new(), answered: VecDeque::new(), answers: 0, wake }
    }

    /// Removes a request. Returns the fault of its last attempt.
    pub fn remove(&mut self, exchange: ExchangeId) -> Option<Fault> {
        [&mut self.waiting, &mut self.answered].into_iter().find_map(|queue| {
            let at = queue.iter().position(|waiting| waiting.exchange == exchange)?;
            queue.remove(at).map(|waiting| waiting.fault)
        })
    }
}

impl<N: Net> Upstreams<N> {
    /// Looks up the names of an upstream that could not be reached.
    pub(super) fn look_up_again(&self, at: usize) {
        let transfer = &self.transfers[at];
        transfer.group.addresses.look_up_again(self.peers.get(transfer.peer).map(|peer| &peer.endpoint));
    }

    /// Lets a transfer that no upstream took wait until their names were looked up. Returns the fault if the request
    /// must not be sent to another address, has waited before, or no name is being looked up.
    pub(super) fn or_looked_up(
        &mut self,
        net: &N,
        now: Nanos,
        at: usize,
        begun: Result<(), Fault>,
    ) -> Result<(), Fault> {
        let Err(fault) = begun else { return Ok(()) };
        if !self.transfers[at].may_wait_for_names(&fault) {
            return Err(fault);
        }
        self.look_up_again(at);
        let group = Arc::clone(&self.transfers[at].group);
        let waiting = Waiting { exchange: self.transfers[at].exchange, fault, known: self.known_of(at) };
        if !self.has_new((&group, &waiting.known)) && !group.addresses.is_awaited(&self.lookups.wake) {
            return Err(waiting.fault);
        }
        if self.transfers[at].connection.is_some() {
            self.transfers[at].on_failed(&waiting.fault);
            self.disconnect(net, now, at, false);
        }
        self.give_place_back(at);
        self.transfers[at].wait_for_names(now);
        // The answer may have arrived already.
        self.lookups.answers = u64::MAX;
        self.lookups.waiting.push_back(waiting);
        Ok(())
    }

    /// Begins a transfer whose names were looked up, if they have a new address. Returns `None` if all others have to
    /// wait.
    pub(super) fn next_looked_up(&mut self, net: &N, now: Nanos) -> Option<(usize, Result<(), Fault>)> {
        if self.lookups.answered.is_empty() {
            self.sort_looked_up();
        }
        while let Some(Waiting { exchange, fault, known }) = self.lookups.answered.pop_front() {
            let Some(at) = self.of(exchange).filter(|at| self.transfers[*at].queued.hold == Hold::Names) else {
                continue;
            };
            self.transfers[at].queued.hold = Hold::Nothing;
            let group = Arc::clone(&self.transfers[at].group);
            let may_begin = self.has_new((&group, &known));
            return Some((at, if may_begin { self.begin_somewhere(net, now, at) } else { Err(fault) }));
        }
        None
    }

    /// Sorts the waiting transfers into those that still wait and those whose answer has arrived, if there are new
    /// answers.
    fn sort_looked_up(&mut self) {
        let Some(first) = self.lookups.waiting.front() else { return };
        let first = self.of(first.exchange).map(|at| Arc::clone(&self.transfers[at].group));
        let answers = first.map_or(0, |group| group.addresses.answers());
        if std::mem::replace(&mut self.lookups.answers, answers) == answers {
            return;
        }
        for waiting in std::mem::take(&mut self.lookups.waiting) {
            let group = self.of(waiting.exchange).map(|at| Arc::clone(&self.transfers[at].group));
            let waits = group.is_some_and(|group| {
                !self.has_new((&group, &waiting.known)) && group.addresses.is_awaited(&self.lookups.wake)
            });
            let queue = if waits { &mut self.lookups.waiting } else { &mut self.lookups.answered };
            queue.push_back(waiting);
        }
    }

    /// The addresses of a group that the transfer's last attempt could have been sent to.
    fn known_of(&self, at: usize) -> Arc<[Endpoint]> {
        let (transfer, endpoints) = (&self.transfers[at], self.transfers[at].group.endpoints());
        let last = self.peers.get(transfer.peer).map(|peer| &peer.endpoint);
        if last.is_some_and(|last| endpoints.iter().any(|one| one.address == last.address)) {
            endpoints
        } else {
            [].into()
        }
    }

    /// Returns true if a group has an upstream that was not `known`, and is not down.
    fn has_new(&self, (group, known): (&Group, &[Endpoint])) -> bool {
        group.addresses.renew_known();
        let is_down = |endpoint| group.health.is_some() && self.checks.is_down(endpoint);
        group.endpoints().iter().any(|endpoint| !known.contains(endpoint) && !is_down(endpoint))
    }
}
