//! Lookups by other threads: a request for what is not in memory waits for a thread that may wait for a disk.

use super::conn::Conn;
use super::exchange::Task;
use super::responder::Responder;
use super::service::Service;
use crate::files::{Found, Missing};
use crate::handler::Reply;
use crate::net::Net;

impl<N: Net> Responder<N> {
    /// Answers those whose lookup has ended, until the turn is over.
    pub(super) fn answer_found(&mut self) {
        let others = self.budget.to_come;
        while let Some((owner, found)) = self.service.replies.next_found() {
            self.budget.to_come = others + self.service.replies.found();
            // Nobody is there if the client has left meanwhile.
            if let Some(id) = self.conns.exchange_id(owner) {
                let reply = self.service.reply_found(&mut self.conns[id.at], id.stream, found);
                self.send(id, reply);
                self.flush(id.at);
                self.weigh(id.at);
                self.conns.go_on(id.at);
            }
            if self.timers.is_turn_over(self.net.now()) {
                break;
            }
        }
        self.budget.to_come = others;
    }
}

impl Service {
    /// The reply to a request whose lookup has ended.
    fn reply_found(&mut self, conn: &mut Conn, stream: u32, found: Result<Found, Missing>) -> Reply {
        let task = std::mem::take(&mut conn.exchange(stream).task);
        let Task::LookingUp(pending) = task else { unreachable!("a connection leaves its lookup answered or closed") };
        let request = pending.request.view();
        // The sites in force may be others than when it began.
        let to = self.replies.to(conn, &request);
        conn.exchange(stream).class = self.replies.class_of(conn, stream, to.site, &request);
        match &pending.said {
            None => self.replies.reply_with(to, &request, found),
            Some(said) => self.replies.reply_named(to, &request, found, said),
        }
    }
}
