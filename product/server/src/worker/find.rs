//! Finding aside: a request for what is not in memory waits for a thread that may wait for a disk.

use http::parse_request;
use units::Nanos;

use super::Worker;
use super::conn::{Finding, Phase};
use crate::files::{Find, Found, Missing, SLOW_AFTER};

impl Worker {
    /// Has what a request wants found; meanwhile its connection is in a phase of its own.
    pub(super) fn begin_find(&mut self, at: usize, find: Box<Find>, head: &[u8]) -> Result<(), Missing> {
        let conn = &mut self.conns[at];
        let raw_path = find.raw_path().clone();
        self.parts.finds.ask(find, conn.owner)?;
        conn.phase = Phase::Finding(Box::new(Finding { head: head.to_vec(), raw_path }));
        conn.deadline = Nanos::MAX;
        Ok(())
    }

    pub(super) fn take_finds(&mut self) {
        self.parts.finds.take(&mut self.parts.replier.cache, self.now, &mut self.found);
    }

    /// Answers those whose find has ended, until the turn is over.
    pub(super) fn answer_found(&mut self) {
        let others = self.to_come;
        while let Some((owner, found)) = self.found.pop_front() {
            self.to_come = others + self.found.len();
            self.answer_with(owner, found);
            if self.is_turn_over() {
                break;
            }
        }
        self.to_come = others;
    }

    fn answer_with(&mut self, owner: u64, found: Result<Found, Missing>) {
        // Nobody is there if the client has left meanwhile.
        let Some(at) = self.find(owner) else { return };
        let phase = std::mem::replace(&mut self.conns[at].phase, Phase::Head);
        let Phase::Finding(finding) = phase else { unreachable!("a connection leaves its find answered or closed") };
        let Ok(Some(request)) = parse_request(&finding.head, &self.parts.limits.request) else {
            unreachable!("it was a request before")
        };
        let is_last = self.is_last(&request);
        let began = self.out.len();
        let reply = self.parts.replier.reply_with(&request, found, is_last, &mut self.out);
        self.conns[at].class = self.parts.classes.of(request.path);
        self.send(at, reply, began);
        self.flush(at);
        self.go_on(at);
    }

    pub(super) fn tell_slow_disk(&mut self) {
        if let Some(path) = self.parts.finds.slow(self.now) {
            let seconds = SLOW_AFTER.0 / 1_000_000_000;
            self.parts.log.error(&format!(
                "opening {path} has taken {seconds} s: slow or unresponsive disk; requests for its files wait"
            ));
        }
    }

    /// The client does not wait any more.
    pub(super) fn leave_find(&mut self, at: usize) {
        let conn = &self.conns[at];
        if let Phase::Finding(finding) = &conn.phase {
            self.parts.finds.leave(&finding.raw_path, conn.owner);
        }
    }
}
