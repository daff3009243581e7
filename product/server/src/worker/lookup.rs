//! Lookups by other threads: a request for what is not in memory waits for a thread that may wait for a disk.

use super::exchange::Task;
use super::responder::Responder;
use crate::files::{Found, Missing};
use crate::net::Net;

impl<N: Net> Responder<N> {
    /// Answers those whose lookup has ended, until the turn is over.
    pub(super) fn answer_found(&mut self) {
        let others = self.budget.to_come;
        while let Some((owner, found)) = self.service.replies.next_found() {
            self.budget.to_come = others + self.service.replies.found();
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
        let to = self.service.replies.to(&self.conns[at], &request);
        let reply = match &pending.said {
            None => self.service.replies.reply_with(to, &request, found),
            Some(said) => self.service.replies.reply_named(to, &request, found, said),
        };
        let conn = &mut self.conns[at];
        conn.exchange(id.stream).class = self.service.replies.class_of(conn, id.stream, to.site, &request);
        self.send(id, reply);
        self.flush(at);
        self.weigh(at);
        self.go_on(at);
    }
}
