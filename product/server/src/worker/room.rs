//! When all places are taken: the longest idle connections are given up for new clients, as nginx does. One that sends a
//! request at that moment sees its connection close and asks again (RFC 9112 section 9.3.1); one that cannot get in
//! has no server at all.

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Worker;

/// Idle connections that are found in one look at all: as many as are accepted in a turn.
const IDLE_FOUND_MAX: usize = 64;

impl Worker {
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
        if self.idle.is_none() {
            self.idle = Some(self.longest_idle());
        }
        while let Some(at) = self.idle.as_mut().and_then(Vec::pop) {
            // A request may have come since the list was made, or be in the socket untold.
            if !self.conns.get(at).is_some_and(|conn| conn.is_idle()) {
                continue;
            }
            if !self.conns[at].is_in_flight() {
                self.conns[at].is_readable = true;
                self.read(at);
            }
            if self.conns.get(at).is_none_or(|conn| conn.is_idle()) {
                if self.conns.contains(at) {
                    self.give_up(at);
                }
                return true;
            }
        }
        false
    }

    /// The first to go is the last in the list: those that were told of the end, then those that had an answer, then those
    /// that never asked for anything, and in each the longest idle.
    fn longest_idle(&self) -> Vec<usize> {
        let idle = self.conns.iter().filter(|(_, conn)| conn.is_idle());
        let mut idle: Vec<_> =
            idle.map(|(at, conn)| (!conn.http1.is_lingering(), !conn.has_answered, conn.deadline(), at)).collect();
        if idle.len() > IDLE_FOUND_MAX {
            idle.select_nth_unstable(IDLE_FOUND_MAX);
            idle.truncate(IDLE_FOUND_MAX);
        }
        idle.sort_unstable();
        idle.into_iter().rev().map(|(.., at)| at).collect()
    }

    fn is_client_waiting(&self) -> bool {
        const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut listeners: Vec<_> =
            self.parts.listeners.iter().map(|listener| PollFd::new(&listener.socket, PollFlags::IN)).collect();
        poll(&mut listeners, Some(&AT_ONCE)).is_ok_and(|ready| ready > 0)
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
