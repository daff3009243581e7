//! Connections with unacknowledged bytes. What is acknowledged of them, and when, tells the line's rate, also behind the last byte of a
//! response: a small one is acknowledged when it has long departed. A connection is listed until all of it is acknowledged, or it ends.

use units::Nanos;

use crate::connection::Listed;

/// What is not acknowledged by then is lost, and its client perhaps gone.
const UNACKNOWLEDGED_FOR: Nanos = Nanos::from_secs(5);
/// How often they are looked at, at least, while there are any.
const LOOK_EVERY: Nanos = Nanos::from_millis(50);
/// Connections that are looked at in one interval; the others have their turn in the next.
const LOOKS_MAX: usize = 1024;
/// While the rate is searched, looks an interval at connections whose socket took all at once: each costs a system call, and tells little.
const SEARCH_LOOKS_MAX: usize = 64;
/// Of these, what is left for newcomers and for those that end.
const SEARCH_LOOKS_KEPT: usize = SEARCH_LOOKS_MAX / 2;

/// Listed connections from which on an idle one is not listed as well: what is acknowledged of it is told by its next response, or its end.
const IDLE_LISTED_MAX: usize = LOOKS_MAX;
/// An empty list keeps room for so many.
const LISTED_KEPT: usize = 256;

pub(super) struct Unacknowledged {
    /// Each connection once, which knows where it stands here, and until when it is looked at.
    listed: Vec<(u32, Nanos)>,
    /// The one whose turn is next.
    next: usize,
    /// See [`SEARCH_LOOKS_MAX`].
    looks_left: usize,
    look_at: Option<Nanos>,
}

impl Unacknowledged {
    pub fn new() -> Unacknowledged {
        Unacknowledged { listed: Vec::new(), next: 0, looks_left: SEARCH_LOOKS_MAX, look_at: None }
    }

    /// When they are to be looked at; `None` while there are none.
    pub fn look_at(&self) -> Option<Nanos> {
        self.look_at
    }

    /// Looks were taken, and the next are due in a while.
    pub fn rearm(&mut self, now: Nanos) {
        if self.listed.is_empty() && self.listed.capacity() > LISTED_KEPT {
            self.listed = Vec::new();
        }
        self.look_at = (!self.listed.is_empty()).then_some(now + LOOK_EVERY);
    }

    /// A look that the search can do without; whether it may be taken.
    pub fn spend_look(&mut self) -> bool {
        self.spend_look_of(0)
    }

    /// The same in a connection's turn, which leaves some to others.
    pub fn spend_look_in_turn(&mut self) -> bool {
        self.spend_look_of(SEARCH_LOOKS_KEPT)
    }

    fn spend_look_of(&mut self, kept: usize) -> bool {
        let may = self.looks_left > kept;
        self.looks_left -= usize::from(may);
        may
    }

    /// Something was handed down on a connection, which may have nothing more to send for now.
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

    /// A connection is acknowledged, or ends. Gives the one that has its place now, and the place.
    pub fn unlist(&mut self, listed: &mut Listed) -> Option<(usize, Listed)> {
        let place = std::mem::take(listed);
        self.listed.swap_remove(place.at()?);
        self.listed.get(place.at()?).map(|(at, _)| (*at as usize, place))
    }

    /// Its time is over, whatever is acknowledged.
    pub fn is_over(&self, now: Nanos, listed: Listed) -> bool {
        listed.at().is_some_and(|place| self.listed[place].1 <= now)
    }

    /// Begins another round of looks; gives those whose turn it is.
    pub fn begin_round(&mut self) -> Vec<usize> {
        self.looks_left = SEARCH_LOOKS_MAX;
        let count = self.listed.len().min(LOOKS_MAX);
        let begin = if self.next < self.listed.len() { self.next } else { 0 };
        self.next = begin + count;
        self.listed.iter().cycle().skip(begin).take(count).map(|(at, _)| *at as usize).collect()
    }

    /// No look was left for this one: the next round begins with it.
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
