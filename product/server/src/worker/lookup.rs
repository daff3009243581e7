//! Lookups by other threads: a request for what is not in memory waits for a thread that may wait for a disk.

use super::Worker;
use super::exchange::{ExchangeId, Task};
use crate::files::{Found, Key, Lookup, Missing};
use crate::net::Net;

impl<N: Net> Worker<N> {
    /// Has what a request wants found.
    pub(super) fn begin_lookup(&mut self, id: ExchangeId, lookup: Box<Lookup>) -> Result<Key, Missing> {
        let owner = self.conns.exchange(id).owner;
        self.replies.begin_lookup(lookup, owner, self.conns[id.at].client)
    }

    /// Answers those whose lookup has ended, until the turn is over.
    pub(super) fn answer_found(&mut self) {
        let others = self.budget.to_come;
        while let Some((owner, found)) = self.replies.next_found() {
            self.budget.to_come = others + self.replies.found();
            self.answer_with(owner, found);
            if self.timers.is_turn_over(self.net.now()) {
                break;
            }
        }
        self.budget.to_come = others;
    }

    fn answer_with(&mut self, owner: u64, found: Result<Found, Missing>) {
        // Nobody is there if the client has left meanwhile.
        let Some(id) = self.conns.exchange_id(owner) else { return };
        let at = id.at;
        let task = std::mem::take(&mut self.conns.exchange(id).task);
        let Task::LookingUp(pending) = task else { unreachable!("a connection leaves its lookup answered or closed") };
        let request = pending.request.view();
        // The sites in force may be others than when it began.
        let to = self.replies.to(&self.conns[at], &request);
        let reply = self.replies.reply_with(to, &request, found);
        let class = self.replies.class_of(&self.conns[at], to.site, &request);
        self.conns.exchange(id).class = class;
        self.send(id, reply);
        self.flush(at);
        self.go_on(at);
    }

    /// The client does not wait any more.
    pub(super) fn leave_lookup(&mut self, id: ExchangeId) {
        let owner = self.conns.exchange(id).owner;
        if let Task::LookingUp(pending) = std::mem::take(&mut self.conns.exchange(id).task) {
            self.replies.leave_lookup(&pending.key, owner);
        }
    }
}
