//! Finding aside: a request for what is not in memory waits for a thread that may wait for a disk.

use super::Worker;
use super::exchange::{ExchangeId, Task};
use crate::files::{Find, Found, Key, Missing};
use crate::net::Net;

impl<N: Net> Worker<N> {
    /// Has what a request wants found.
    pub(super) fn begin_find(&mut self, id: ExchangeId, find: Box<Find>) -> Result<Key, Missing> {
        let owner = self.conns.exchange(id).owner;
        self.replies.begin_find(find, owner, self.conns[id.at].client)
    }

    /// Answers those whose find has ended, until the turn is over.
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
        let Task::Finding(finding) = task else { unreachable!("a connection leaves its find answered or closed") };
        let request = finding.request.view();
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
    pub(super) fn leave_find(&mut self, id: ExchangeId) {
        let owner = self.conns.exchange(id).owner;
        if let Task::Finding(finding) = std::mem::take(&mut self.conns.exchange(id).task) {
            self.replies.leave_find(&finding.key, owner);
        }
    }
}
