//! Connections with unacknowledged bytes. What is acknowledged of them, and when, reveals the line's rate, even after
//! the last byte of a response: a small response is acknowledged long after it has departed. A connection is listed
//! until all of it is acknowledged, or it ends.

use units::Nanos;

use crate::connection::Listed;

/// Bytes not acknowledged within this time are lost, and its client perhaps gone.
const UNACKNOWLEDGED_FOR: Nanos = Nanos::from_secs(5);
/// The maximum time between two looks at the list while it is not empty.
const LOOK_EVERY: Nanos = Nanos::from_millis(50);
/// The maximum number of connections examined in one interval; the others take their turn in the next.
const LOOKS_MAX: usize = 1024;
/// While the rate is searched, the maximum number of looks in an interval at connections whose socket took everything
/// at once: each costs a system call and reveals little.
const SEARCH_LOOKS_MAX: usize = 64;
/// The part of them that is kept for newcomers and for connections that end.
const SEARCH_LOOKS_KEPT: usize = SEARCH_LOOKS_MAX / 2;

/// The number of listed connections from which on an idle one is not added: what is acknowledged of it is reported by its
/// next response or its end.
const IDLE_LISTED_MAX: usize = LOOKS_MAX;
/// The capacity that an empty list keeps.
const LISTED_KEPT: usize = 256;

pub(super) struct Unacknowledged {
    /// Each connection once, with the time until which it is examined. The connection stores its place in the list.
    listed: Vec<(u32, Nanos)>,
    /// The one whose turn is next.
    next: usize,
    /// See [`SEARCH_LOOKS_MAX`].
    looks_left: usize,
    look_at: Option<Nanos>,
    /// A listed connection's socket was full, at the last round or since.
    has_full: bool,
}

impl Unacknowledged {
    pub fn new() -> Unacknowledged {
        Unacknowledged { listed: Vec::new(), next: 0, looks_left: SEARCH_LOOKS_MAX, look_at: None, has_full: false }
    }

    /// When the next looks are due; `None` while the list is empty.
    pub fn look_at(&self) -> Option<Nanos> {
        self.look_at
    }

    /// Records that a socket took less than it was given. With nothing listed it waits for its client, not for the
    /// line.
    pub fn note_full(&mut self) {
        self.has_full = !self.listed.is_empty();
    }

    /// Returns whether the socket of a listed connection was full, at the last round of looks or since.
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

    /// Returns whether a look that the search can do without may be taken; if so, counts it.
    pub fn spend_look(&mut self) -> bool {
        self.spend_look_of(0)
    }

    /// Returns the same for a connection's turn, which leaves some looks to others.
    pub fn spend_look_in_turn(&mut self) -> bool {
        self.spend_look_of(SEARCH_LOOKS_KEPT)
    }

    fn spend_look_of(&mut self, kept: usize) -> bool {
        let may = self.looks_left > kept;
        self.looks_left -= usize::from(may);
        may
    }

    /// Lists a connection on which something was handed down; `is_idle`: it may have nothing more to send for now.
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

    /// Removes a connection that is acknowledged or ends. Returns the connection that was moved to its place, and the
    /// place.
    pub fn unlist(&mut self, listed: &mut Listed) -> Option<(usize, Listed)> {
        let place = std::mem::take(listed);
        self.listed.swap_remove(place.at()?);
        self.has_full &= !self.listed.is_empty();
        self.listed.get(place.at()?).map(|(at, _)| (*at as usize, place))
    }

    /// Returns true if its time is over, whatever is acknowledged.
    pub fn is_over(&self, now: Nanos, listed: Listed) -> bool {
        listed.at().is_some_and(|place| self.listed[place].1 <= now)
    }

    /// Begins another round of looks. Returns the connections whose turn it is.
    pub fn begin_round(&mut self) -> Vec<usize> {
        self.looks_left = SEARCH_LOOKS_MAX;
        let count = self.listed.len().min(LOOKS_MAX);
        self.has_full &= count < self.listed.len();
        let begin = if self.next < self.listed.len() { self.next } else { 0 };
        self.next = begin + count;
        self.listed.iter().cycle().skip(begin).take(count).map(|(at, _)| *at as usize).collect()
    }

    /// Begins the next round with this connection, for which no look was left.
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
