//! Connections with unacknowledged bytes. The amounts and times of the acknowledgements reveal the line's rate. They
//! come even after the last byte of a response: a small one is acknowledged long after it has departed. A connection is
//! listed until all of its bytes are acknowledged, or it ends.

use units::Nanos;

use crate::connection::Listed;

/// The time after which unacknowledged bytes count as lost; the client may be gone.
const UNACKNOWLEDGED_FOR: Nanos = Nanos::from_secs(5);
/// The maximum time between two rounds of examinations while the list is not empty.
const LOOK_EVERY: Nanos = Nanos::from_millis(50);
/// The maximum number of connections examined in one interval. The others are examined in the next.
const LOOKS_MAX: usize = 1024;
/// The maximum number of examinations per interval, while the rate is searched, of connections whose sockets took
/// everything. Each costs a system call and reveals little.
const SEARCH_LOOKS_MAX: usize = 64;
/// The part of [`SEARCH_LOOKS_MAX`] that is kept for new connections and for connections that end.
const SEARCH_LOOKS_KEPT: usize = SEARCH_LOOKS_MAX / 2;

/// The number of listed connections from which an idle connection is not listed. Its acknowledged bytes are then
/// reported at its next response or its end.
const IDLE_LISTED_MAX: usize = LOOKS_MAX;
/// The capacity kept when the list is empty.
const LISTED_KEPT: usize = 256;

pub(super) struct Unacknowledged {
    /// The slots of the listed connections, each once, with the time until which the connection is examined. The
    /// connection stores its place in the list.
    listed: Vec<(u32, Nanos)>,
    /// The place of the connection to examine next.
    next: usize,
    /// The examinations left in this interval, see [`SEARCH_LOOKS_MAX`].
    looks_left: usize,
    look_at: Option<Nanos>,
    /// True if the socket of a listed connection was full in the last round or since.
    has_full: bool,
}

impl Unacknowledged {
    pub fn new() -> Unacknowledged {
        Unacknowledged { listed: Vec::new(), next: 0, looks_left: SEARCH_LOOKS_MAX, look_at: None, has_full: false }
    }

    /// The time at which the next round is due; `None` while the list is empty.
    pub fn look_at(&self) -> Option<Nanos> {
        self.look_at
    }

    /// Records that a socket took fewer bytes than it was given. If the list is empty, nothing is done: the socket
    /// waits for its client and not for the line.
    pub fn note_full(&mut self) {
        self.has_full = !self.listed.is_empty();
    }

    /// Returns true if the socket of a listed connection was full in the last round or since.
    pub fn has_full(&self) -> bool {
        self.has_full
    }

    /// Schedules the next looks after some were taken.
    pub fn rearm(&mut self, now: Nanos) {
        if self.listed.is_empty() && self.listed.capacity() > LISTED_KEPT {
            self.listed = Vec::new();
        }
        self.look_at = (!self.listed.is_empty()).then_some(now + LOOK_EVERY);
    }

    /// Returns true, and counts one examination, if an examination that the search does not need may still be made.
    pub fn spend_look(&mut self) -> bool {
        self.spend_look_of(0)
    }

    /// The same for one connection of the current round; rounds leave some examinations to other connections.
    pub fn spend_look_in_turn(&mut self) -> bool {
        self.spend_look_of(SEARCH_LOOKS_KEPT)
    }

    fn spend_look_of(&mut self, kept: usize) -> bool {
        let may = self.looks_left > kept;
        self.looks_left -= usize::from(may);
        may
    }

    /// Lists a connection on which bytes were handed down. `is_idle` is true if it may have nothing more to send for
    /// now.
    pub fn list(&mut self, now: Nanos, at: usize, listed: &mut Listed, is_idle: bool) {
        if is_idle && *listed == Listed::NOWHERE && self.listed.len() >= IDLE_LISTED_MAX {
            return;
        }
        let until = now + UNACKNOWLEDGED_FOR;
        if self.look_at.is_none() {
            self.look_at = Some(now + LOOK_EVERY);
            self.looks_left = SEARCH_LOOKS_MAX;
        }
        match listed.at() {
            Some(place) => self.listed[place].1 = until,
            None => {
                *listed = Listed::place(self.listed.len());
                self.listed.push((at as u32, until));
            }
        }
    }

    /// Removes a connection that is acknowledged or ends. If another connection was moved to its place in the list,
    /// returns that connection's slot and its new place.
    pub fn unlist(&mut self, listed: &mut Listed) -> Option<(usize, Listed)> {
        let place = std::mem::take(listed);
        self.listed.swap_remove(place.at()?);
        self.has_full &= !self.listed.is_empty();
        self.listed.get(place.at()?).map(|(at, _)| (*at as usize, place))
    }

    /// Returns true if the connection need not be examined any longer, even if bytes are still unacknowledged.
    pub fn is_over(&self, now: Nanos, listed: Listed) -> bool {
        listed.at().is_some_and(|place| self.listed[place].1 <= now)
    }

    /// Begins another round. Returns the slots of the connections to examine.
    pub fn begin_round(&mut self) -> Vec<usize> {
        self.looks_left = SEARCH_LOOKS_MAX;
        let count = self.listed.len().min(LOOKS_MAX);
        self.has_full &= count < self.listed.len();
        let begin = if self.next < self.listed.len() { self.next } else { 0 };
        self.next = begin + count;
        self.listed.iter().cycle().skip(begin).take(count).map(|(at, _)| *at as usize).collect()
    }

    /// Makes the next round begin with this connection, which this round had no examination left for.
    pub fn go_on_with(&mut self, listed: Listed) {
        self.next = listed.at().unwrap_or(self.next);
    }

    pub fn shrink(&mut self) {
        self.listed.shrink_to_fit();
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.listed.len()
    }
}
