//! The latest attempt of a request on a connection: its progress, and whether the request may be tried on another
//! connection.

use units::Nanos;

use super::Fault;
use super::request::Outbound;

/// The maximum number of connections tried for one request that may be sent again. Connections that could not be made,
/// were crowded or were left by their upstream do not count here; they have their own maximums.
const ATTEMPTS_MAX: u32 = 3;
/// The maximum number of crowded connections tried for one request. After the first, the limit of the upstream is
/// known.
const CROWDED_MAX: u32 = 8;
/// The maximum number of connections tried for one request that their upstreams left before processing it. An upstream
/// that takes 20 requests on a connection (`keepalive_requests` of nginx) refuses 80 of the 100 that a connection may
/// carry. If as many follow on each next connection, one in five gets through each time, and one in a million is
/// refused 64 times.
const LEFT_MAX: u32 = 64;

#[derive(Debug, Default, Clone, Copy)]
pub struct Attempt {
    /// The number of the attempt, counted from 1; 0 before the first.
    number: u32,
    /// The number of earlier attempts that do not count because no connection could be made.
    unconnected: u32,
    /// The number of earlier attempts that do not count because the upstream was sent more concurrent requests than it
    /// accepts.
    crowded: u32,
    /// The number of earlier attempts that do not count because the upstream left the connection before the request.
    left: u32,
    /// True if the connection was made for this request.
    is_new: bool,
    /// The time at which the request got its connection, or began to connect.
    pub begun_at: Option<Nanos>,
    /// The time at which a new connection accepted the first byte.
    pub connected_at: Option<Nanos>,
    /// The time at which the first byte of the response arrived.
    pub first_byte_at: Option<Nanos>,
}

impl Attempt {
    /// Returns the next attempt, on a new or an idle connection.
    pub fn next(&self, now: Nanos, is_new: bool) -> Attempt {
        let Attempt { number, unconnected, crowded, left, .. } = *self;
        let begun_at = Some(now);
        Attempt { number: number + 1, unconnected, crowded, left, is_new, begun_at, ..Attempt::default() }
    }

    /// Returns true if a request without any response so far may be sent again on another connection after this fault.
    /// The upstream cannot have processed it if nothing of it was sent, or if the upstream reports that. An idle
    /// connection may have been closed before the request arrived. If a new connection was closed without a response,
    /// an idempotent request may be sent to another upstream (RFC 9110 section 9.2.2).
    pub(super) fn may_be_repeated(&self, fault: &Fault, request: &Outbound, endpoints: usize) -> bool {
        let may_do_no_harm = match fault {
            Fault::Refused | Fault::Crowded | Fault::Left => !request.has_forgotten(),
            Fault::Unreachable(_) | Fault::Broken(_) | Fault::Closed | Fault::Tls(_) => {
                request.is_unsent() || (request.is_repeatable && (!self.is_new || endpoints > 1))
            }
            Fault::TooSlow(_) => self.is_unconnected(fault, request),
            _ => false,
        };
        may_do_no_harm && !request.has_dropped && !self.is_last(fault, request, endpoints)
    }

    /// Returns true if no connection could be made, so that nothing of the request was sent.
    pub(super) fn is_unconnected(&self, fault: &Fault, request: &Outbound) -> bool {
        self.is_new && request.is_unsent() && !fault.is_refusal()
    }

    /// Returns true if another attempt after this fault would be too many.
    fn is_last(&self, fault: &Fault, request: &Outbound, endpoints: usize) -> bool {
        match fault {
            Fault::Crowded => self.crowded >= CROWDED_MAX,
            Fault::Left => self.left >= LEFT_MAX,
            _ if self.is_unconnected(fault, request) => self.unconnected as usize + 1 >= endpoints.max(2),
            _ => self.number >= ATTEMPTS_MAX,
        }
    }

    /// Records the fault of an attempt that is followed by another.
    pub(super) fn on_failed(&mut self, fault: &Fault, request: &Outbound) {
        let is_unconnected = self.is_unconnected(fault, request);
        let (is_crowded, has_left) = (matches!(fault, Fault::Crowded), matches!(fault, Fault::Left));
        self.unconnected += u32::from(is_unconnected);
        self.crowded += u32::from(is_crowded);
        self.left += u32::from(has_left);
        self.number -= u32::from(is_unconnected || is_crowded || has_left);
    }

    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Records that part of the request was sent.
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
    use http::{BodyLength, Method};
    use units::memory::Account;

    use super::*;

    fn request() -> Outbound {
        Outbound::new(b"HEAD".to_vec().into(), Method::Post, BodyLength::None, &Account::default())
    }

    /// Returns the number of attempts if each of them fails with this fault.
    fn attempts(fault: &Fault, endpoints: usize) -> usize {
        let (mut attempt, request) = (Attempt::default(), request());
        for made in 1.. {
            attempt = attempt.next(Nanos(made), true);
            if !attempt.may_be_repeated(fault, &request, endpoints) {
                return made as usize;
            }
            attempt.on_failed(fault, &request);
        }
        unreachable!("they are bounded")
    }

    #[test]
    fn each_endpoint_is_tried_while_nothing_has_left_and_a_crowded_one_a_few_times() {
        let unconnected = [Fault::Closed, Fault::TooSlow("x"), Fault::Tls("x".into())];
        for fault in &unconnected {
            assert_eq!([1, 2, 3, 7].map(|endpoints| attempts(fault, endpoints)), [2, 2, 3, 7], "{fault}");
        }
        assert_eq!((attempts(&Fault::Refused, 7), attempts(&Fault::Crowded, 1)), (3, 9));
        assert_eq!((attempts(&Fault::Left, 7), attempts(&Fault::Busy, 7)), (65, 1));
    }

    #[test]
    fn first_bytes_are_those_of_the_last_of_three_attempts() {
        let (mut attempt, mut sent) = (Attempt::default(), request());
        sent.at = 1;
        for (number, is_new) in [(1, true), (2, false), (3, true)] {
            assert!(!attempt.is_last(&Fault::Closed, &sent, 9));
            attempt = attempt.next(Nanos(10 * number), is_new);
            assert_eq!((attempt.connected_at, attempt.first_byte_at), (None, None));
            (1..3).for_each(|later| attempt.on_sent(Nanos(10 * number + later)));
            (3..5).for_each(|later| attempt.on_come(Nanos(10 * number + later)));
            let connected_at = is_new.then_some(Nanos(10 * number + 1));
            assert_eq!((attempt.connected_at, attempt.first_byte_at), (connected_at, Some(Nanos(10 * number + 3))));
        }
        assert!(attempt.is_last(&Fault::Closed, &sent, 9));
    }
}
