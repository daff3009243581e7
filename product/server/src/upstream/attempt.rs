//! The last connection on which a request was tried, how far it got there, and whether it may be tried on another.

use units::Nanos;

use super::Fault;
use super::request::Outbound;

/// The maximum number of connections tried for one request, if it may be sent again.
const ATTEMPTS_MAX: u32 = 3;

#[derive(Debug, Default, Clone, Copy)]
pub struct Attempt {
    /// Counted from 1; 0 before the first.
    number: u32,
    /// The connection was made for it.
    is_new: bool,
    /// When the request got its connection, or began to make it.
    pub begun_at: Option<Nanos>,
    /// When a new connection took the first byte.
    pub connected_at: Option<Nanos>,
    /// When the first byte of the response arrived.
    pub first_byte_at: Option<Nanos>,
}

impl Attempt {
    /// Returns the next attempt, on a new connection or one that was idle.
    pub fn next(&self, now: Nanos, is_new: bool) -> Attempt {
        Attempt { number: self.number + 1, is_new, begun_at: Some(now), ..Attempt::default() }
    }

    /// Returns whether a request of whose response nothing has come may be sent again over another connection after this
    /// fault. It cannot have been processed if none of it was sent, or its upstream reports so; an idle connection may
    /// have been closed before the request arrived.
    pub(super) fn may_be_repeated(&self, fault: &Fault, request: &Outbound) -> bool {
        let may_do_no_harm = match fault {
            Fault::Refused => !request.has_sent,
            Fault::Unreachable(_) | Fault::Broken(_) | Fault::Closed | Fault::Tls(_) => {
                request.is_unsent() || (!self.is_new && request.is_repeatable)
            }
            _ => false,
        };
        may_do_no_harm && !request.is_refused && !self.is_last()
    }

    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Returns true if another attempt would be too many.
    fn is_last(&self) -> bool {
        self.number >= ATTEMPTS_MAX
    }

    /// Records that part of the request has left.
    pub fn on_sent(&mut self, now: Nanos) {
        self.connected_at = self.connected_at.or(self.is_new.then_some(now));
    }

    /// Records that part of the response has arrived.
    pub fn on_come(&mut self, now: Nanos) {
        self.first_byte_at = self.first_byte_at.or(Some(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_are_those_of_the_last_of_three_attempts() {
        let mut attempt = Attempt::default();
        for (number, is_new) in [(1, true), (2, false), (3, true)] {
            assert!(!attempt.is_last());
            attempt = attempt.next(Nanos(10 * number), is_new);
            assert_eq!((attempt.connected_at, attempt.first_byte_at), (None, None));
            (1..3).for_each(|later| attempt.on_sent(Nanos(10 * number + later)));
            (3..5).for_each(|later| attempt.on_come(Nanos(10 * number + later)));
            let connected_at = is_new.then_some(Nanos(10 * number + 1));
            assert_eq!((attempt.connected_at, attempt.first_byte_at), (connected_at, Some(Nanos(10 * number + 3))));
        }
        assert!(attempt.is_last());
    }
}
