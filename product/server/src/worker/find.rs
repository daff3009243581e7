//! Finding aside: a request for what is not in memory waits for a thread that may wait for a disk.

use http::OwnedRequest;

use super::Worker;
use super::exchange::{Finding, Place, Task};
use crate::files::{Find, Found, Key, Missing, SLOW_AFTER};
use crate::net::Net;

impl<N: Net> Worker<N> {
    /// Has what a request wants found: to be waited for with [`Worker::wait_for_find`].
    pub(super) fn begin_find(&mut self, place: Place, find: Box<Find>) -> Result<Key, Missing> {
        let (key, owner) = (find.key().clone(), self.exchange(place).owner);
        let client = self.conns[place.at].client;
        self.parts.finds.ask(find, owner, client)?;
        Ok(key)
    }

    pub(super) fn wait_for_find(&mut self, place: Place, key: Key, request: Box<OwnedRequest>) {
        self.exchange(place).task = Task::Finding(Box::new(Finding { request, key }));
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
        let Some(place) = self.find_place(owner) else { return };
        let at = place.at;
        let task = std::mem::take(&mut self.exchange(place).task);
        let Task::Finding(finding) = task else { unreachable!("a connection leaves its find answered or closed") };
        let request = finding.request.view();
        // The sites in force may be others than when it began.
        let to = self.to(at, &request);
        let reply = self.parts.replier.reply_with(to, &request, found);
        self.exchange(place).class = self.class_of(at, to.site, &request);
        self.send(place, reply);
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
    pub(super) fn leave_find(&mut self, place: Place) {
        let owner = self.exchange(place).owner;
        if let Task::Finding(finding) = std::mem::take(&mut self.exchange(place).task) {
            self.parts.finds.leave(&finding.key, owner);
        }
    }
}
