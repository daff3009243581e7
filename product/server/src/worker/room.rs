//! When all places are taken: the longest idle connections are given up for new clients, as nginx does. One that sends a
//! request at that moment sees its connection close and asks again (RFC 9112 section 9.3.1); one that cannot get in
//! has no server at all.

use units::Nanos;

use super::Worker;
use crate::net::Net;
use crate::transmit::{Socket, Stream};

/// Idle connections that are found in one look at all, for as many newcomers.
const IDLE_FOUND_MAX: usize = 1024;
/// All are looked at no more often than this, however many newcomers there are.
const LOOK_EVERY: Nanos = Nanos::from_millis(20);

/// Idle connections as they were found, the first to go last.
#[derive(Default)]
pub(super) struct Idle {
    found: Vec<Found>,
    looked_at: Nanos,
}

/// What goes first, as [`Worker::longest_idle`] says, and the owner. Since then it may have been used, or have gone.
type Found = (bool, bool, Nanos, u64);

impl<N: Net> Worker<N> {
    /// A place for the next client, if there is one or somebody idle has it. Without, no more are accepted for now.
    pub(super) fn take_place(&mut self) -> bool {
        if self.parts.places.take() {
            return true;
        }
        if !self.is_client_waiting() {
            return false;
        }
        let is_freed = self.give_up_idle() && self.parts.places.take();
        self.tell_limit();
        if !is_freed {
            self.pause_accepting();
            self.parts.places.wait(self.parts.number);
        }
        is_freed
    }

    /// The same for one that has knocked already. `None`: another worker may give one up in a moment; until then nobody is accepted here.
    #[cfg(feature = "http3")]
    pub(super) fn take_place_beside(&mut self) -> Option<bool> {
        if self.parts.places.take() {
            return Some(true);
        }
        let is_freed = self.give_up_idle() && self.parts.places.take();
        self.tell_limit();
        if !is_freed && self.parts.places.workers() > 1 && !self.parts.limits.holds_places {
            self.pause_accepting();
            self.parts.places.wait(self.parts.number);
            return None;
        }
        Some(is_freed)
    }

    /// At the end of a turn: lets in those who wait for a place that was given back elsewhere, and gives one up for those
    /// who wait at other workers.
    pub(super) fn make_room(&mut self) {
        let places = &self.parts.places;
        if places.is_wanted() && !places.has_room() {
            self.give_up_idle();
        }
        if !self.is_accepting && !self.is_short {
            // Should it fail, the next sweep tries again and says so.
            let _ = self.accept_again();
        }
    }

    /// Closes the longest idle connection. False: there is none.
    fn give_up_idle(&mut self) -> bool {
        if self.parts.limits.holds_places {
            return false;
        }
        while let Some((.., deadline, owner)) = self.next_idle() {
            // A request may have come since the list was made, or be in the socket untold.
            let is_as_found = |at: &usize| self.conns[*at].is_idle() && self.conns[*at].deadline() == deadline;
            let Some(at) = self.find(owner).filter(is_as_found) else { continue };
            if !self.conns[at].is_in_flight {
                self.conns[at].is_readable = true;
                self.read(at);
            }
            if !self.conns.contains(at) {
                return true;
            }
            if self.conns[at].is_idle() && !self.has_unacknowledged(at) {
                self.give_up(at);
                return true;
            }
        }
        false
    }

    /// Some of what its client was sent is still in our socket: whatever the client sends once that is closed would reset the connection, and
    /// cost it the rest of a response.
    fn has_unacknowledged(&self, at: usize) -> bool {
        self.parts.transmitter.socket(at).tcp().is_some_and(|socket| socket.status().is_unacknowledged)
    }

    fn next_idle(&mut self) -> Option<Found> {
        if self.idle.found.is_empty() && self.now >= self.idle.looked_at + LOOK_EVERY {
            self.idle = Idle { found: self.longest_idle(), looked_at: self.now };
        }
        self.idle.found.pop()
    }

    /// When a place may be found for a client that waits for one.
    pub(super) fn room_at(&self) -> Option<Nanos> {
        let (places, limits) = (&self.parts.places, &self.parts.limits);
        let is_wanted = places.is_wanted() && !places.has_room() && !limits.holds_places;
        is_wanted.then_some(self.idle.looked_at + LOOK_EVERY)
    }

    /// The first to go is the last in the list: those that were told of the end, then those that had an answer, then those
    /// that never asked for anything, and in each the longest idle.
    fn longest_idle(&self) -> Vec<Found> {
        let idle = self.conns.iter().map(|(_, conn)| conn).filter(|conn| conn.is_idle());
        let mut idle: Vec<Found> =
            idle.map(|conn| (!conn.http1.is_lingering(), !conn.has_answered, conn.deadline(), conn.owner)).collect();
        if idle.len() > IDLE_FOUND_MAX {
            idle.select_nth_unstable(IDLE_FOUND_MAX);
            idle.truncate(IDLE_FOUND_MAX);
        }
        idle.sort_unstable();
        idle.reverse();
        idle
    }

    fn is_client_waiting(&self) -> bool {
        self.net.is_client_waiting(self.parts.listeners.iter().map(|listener| &listener.socket))
    }

    fn tell_limit(&self) {
        if self.parts.places.tell(self.now) {
            let max = self.parts.places.max();
            let consequence = if self.parts.limits.holds_places {
                "new clients wait"
            } else {
                "a new client replaces the longest idle one, or waits; raise --connections or ulimit -n"
            };
            self.parts.log.error(&format!("all {max} connections are in use: {consequence}"));
        }
    }
}
