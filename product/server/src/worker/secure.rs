//! Clients that speak TLS, and those that speak it at the wrong port.
//!
//! A handshake costs as much as hundreds of requests, so a turn has few of them: the others wait for the next, as connections do that have
//! more to say than their share. What has to be sent of it leaves at once, but for a flight with a certificate where responses have an
//! order: that is a job as they are ([`super::flight`]).

use http::{Reject, Status, http1};
use tls::{REFUSAL, Session};
use units::Nanos;

use super::Worker;
use super::flight::{self, FLIGHT_BYTES_MAX};
use crate::net::Net;
use crate::transmit::Body;

/// Reads of connections in their handshakes in a turn: a signature takes 20 us to 1 ms.
pub(super) const HANDSHAKES_PER_TURN_MAX: usize = 16;

/// A client's first flight is there when it is accepted, and its second a round trip later.
pub(super) const HANDSHAKE_TIMEOUT: Nanos = Nanos::from_secs(10);

/// Failures of one kind are told of at most this often.
const TELL_EVERY: Nanos = Nanos::from_secs(10);

const WANTS_TLS: Reject = Reject {
    status: Status::BAD_REQUEST,
    reason: "this port speaks HTTPS: please ask for the same address with https://",
};

/// What a worker has for all of its clients that speak TLS, HTTP/2 or HTTP/3, and what went wrong with any, each kind told in a line of its
/// own.
pub(super) struct Secured {
    /// Reads of handshakes in this turn.
    handshakes: usize,
    /// Connections of QUIC that were begun in this turn: counted apart, since who begins them may forge addresses, and no handshake over TCP
    /// is to wait for that.
    #[cfg(feature = "http3")]
    pub begun_http3: usize,
    failures: Failures,
    /// Of HTTP/2.
    pub broken: Failures,
    /// Of HTTP/3.
    pub broken_http3: Failures,
    /// Connections of many requests for which there is no room.
    pub crowded: Failures,
    /// Responses of readers that are too slow.
    pub stalled: Failures,
    /// Files that cannot be read, or became shorter.
    pub unreadable: Failures,
    /// What a client has said, in memory that is kept.
    plain: Vec<u8>,
}

impl Default for Secured {
    fn default() -> Secured {
        let [failures, broken, broken_http3] =
            ["TLS failed with", "HTTP/2 ended with", "HTTP/3 ended with"].map(Failures::new);
        Secured {
            handshakes: 0,
            #[cfg(feature = "http3")]
            begun_http3: 0,
            failures,
            broken,
            broken_http3,
            crowded: Failures::new("no room for more requests of"),
            stalled: Failures::new("response cut:"),
            unreadable: Failures::new("cannot read"),
            plain: Vec::new(),
        }
    }
}

impl Secured {
    pub fn begin_turn(&mut self) {
        self.handshakes = 0;
        #[cfg(feature = "http3")]
        {
            self.begun_http3 = 0;
        }
    }
}

/// Clients or files with which this happened, since it was last told.
#[derive(Debug)]
pub(super) struct Failures {
    what: &'static str,
    pub(super) count: u64,
    last: String,
    told_at: Option<Nanos>,
}

impl Failures {
    fn new(what: &'static str) -> Failures {
        Failures { what, count: 0, last: String::new(), told_at: None }
    }

    pub fn add(&mut self, peer: impl std::fmt::Display, why: impl std::fmt::Display) {
        self.note(format_args!("{peer}: {why}"));
    }

    pub fn note(&mut self, last: impl std::fmt::Display) {
        self.count += 1;
        self.last = last.to_string();
    }

    /// A line, once it is time for one.
    fn line(&mut self, now: Nanos) -> Option<String> {
        if self.count == 0 || self.told_at.is_some_and(|at| now - at < TELL_EVERY) {
            return None;
        }
        self.told_at = Some(now);
        let others = match std::mem::take(&mut self.count) - 1 {
            0 => String::new(),
            others => format!(" (and {others} others since the last such line)"),
        };
        Some(format!("{} {}{others}", self.what, std::mem::take(&mut self.last)))
    }
}

impl<N: Net> Worker<N> {
    /// TLS for a newcomer; `None` where its listener is without, or nobody has a certificate.
    pub(super) fn session(&self, is_secure: bool) -> Option<Box<Session>> {
        let acceptor = self.parts.replier.acceptor().filter(|_| is_secure)?;
        Some(Box::new(Session::new(acceptor)))
    }

    /// Whether it has to wait for the next turn with its handshake.
    pub(super) fn must_wait_with_handshake(&self, at: usize) -> bool {
        self.secured.handshakes >= HANDSHAKES_PER_TURN_MAX && self.conns[at].is_handshaking
    }

    /// Takes what has come from a client that speaks TLS.
    pub(super) fn receive_sealed(&mut self, at: usize, wire: &[u8]) {
        let Some(session) = self.parts.transmitter.session(at) else { return };
        if session.is_untouched() && tls::is_plain_http(wire) {
            return self.refuse_plain(at, wire);
        }
        if self.conns[at].is_handshaking {
            self.secured.handshakes += 1;
        }
        let mut plain = std::mem::take(&mut self.secured.plain);
        plain.clear();
        let opened = session.open(wire, &mut plain);
        self.note_handshake(at);
        match opened {
            Ok(()) if plain.is_empty() => {
                if self.send_sealed(at) == 0 {
                    // The rest of a record may be held back until it is known that its beginning came.
                    self.acknowledge(at);
                }
            }
            Ok(()) => {
                self.take(at, &plain);
                // A ticket leaves with the response, if there is one.
                self.send_sealed(at);
            }
            Err(broken) => {
                self.send_sealed(at);
                self.fail(at, &broken.to_string());
                // An alert behind a flight leaves with it.
                if !self.conns[at].is_in_flight {
                    self.close(at);
                }
            }
        }
        self.secured.plain = plain;
    }

    fn note_handshake(&mut self, at: usize) {
        let conn = &mut self.conns[at];
        let Some(session) = self.parts.transmitter.session(at).filter(|_| conn.is_handshaking) else { return };
        if !session.is_handshaking() {
            conn.is_handshaking = false;
            conn.http1.begin_waiting(self.now, &self.parts.limits);
            if session.speaks_http2() {
                // The ticket leaves first: what follows is the transmitter's.
                self.send_sealed(at);
                self.begin_http2(at);
            }
        }
    }

    /// The client said that it sends no more, and nothing of it is being answered.
    pub(super) fn has_ended(&mut self, at: usize) -> bool {
        self.parts.transmitter.session(at).is_some_and(|session| session.has_peer_ended())
    }

    /// Hands down what answers the client's TLS, unless a response does so; gives how many bytes left, or will as a job.
    pub(super) fn send_sealed(&mut self, at: usize) -> usize {
        let Some(conn) = self.conns.get_mut(at) else { return 0 };
        if conn.is_multiplexed() {
            // It says so at the end of the turn.
            self.parts.transmitter.say(at);
            return 0;
        }
        if conn.is_sending() || conn.is_in_flight {
            return 0;
        }
        let Some(session) = self.parts.transmitter.session(at).filter(|session| session.has_unsent()) else { return 0 };
        if conn.is_handshaking && flight::is_job(self.parts.order, session) {
            let flight = session.take_unsent(FLIGHT_BYTES_MAX);
            return self.dispatch_flight(at, flight);
        }
        self.parts.transmitter.send_sealed(self.now, at)
    }

    /// Says that nothing follows, to a client that has had all it was to have: an end without that could be an attacker's (RFC 8446
    /// section 6.1).
    pub(super) fn end_sealed(&mut self, at: usize) {
        let Some(session) = self.parts.transmitter.session(at) else { return };
        if session.is_handshaking() || session.has_unsent() || session.has_ended() {
            return;
        }
        session.end();
        self.send_sealed(at);
    }

    /// A client that speaks HTTP where TLS is spoken learns so in the only words it knows.
    fn refuse_plain(&mut self, at: usize, received: &[u8]) {
        let conn = &mut self.conns[at];
        conn.is_secure = false;
        self.parts.transmitter.end_session(at);
        conn.is_handshaking = false;
        conn.http1.give_up();
        self.refuse(at.into(), WANTS_TLS, &http1::shown(received), false);
        self.flush(at);
    }

    /// A client that speaks TLS where HTTP is spoken: an alert is all it understands.
    pub(super) fn refuse_tls(&mut self, at: usize, reject: Reject) {
        self.fail(
            at,
            "it speaks TLS to a port without; expected https:// with the port of a listener that has tls = true",
        );
        let conn = &mut self.conns[at];
        conn.http1.refuse_aside();
        conn.exchange(0).note_encoded(reject.status, REFUSAL.len(), 0);
        self.out.extend_from_slice(&REFUSAL);
        self.send_encoded(at, Body::default(), true);
    }

    /// A client in its handshake for too long.
    pub(super) fn note_late_handshake(&mut self, at: usize) {
        if self.conns[at].is_handshaking {
            self.fail(at, "no handshake within 10 s");
        }
    }

    pub(super) fn fail(&mut self, at: usize, why: &str) {
        let peer = self.conns[at].peer();
        self.secured.failures.add(peer, why);
        self.tell_failures();
    }

    /// Called by every sweep, so that the last of many is told.
    pub(super) fn tell_failures(&mut self) {
        let Secured { failures, broken, broken_http3, crowded, stalled, unreadable, .. } = &mut self.secured;
        for failures in [failures, broken, broken_http3, crowded, stalled, unreadable] {
            if let Some(line) = failures.line(self.now) {
                self.parts.log.error(&line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_failures_are_one_line_each_ten_seconds() {
        let mut failures = Failures::new("TLS failed with");
        assert_eq!(failures.line(Nanos(0)), None);
        failures.add("a", "b");
        assert_eq!(failures.line(Nanos(0)).as_deref(), Some("TLS failed with a: b"));
        (0..3).for_each(|n| failures.add(n, "c"));
        assert_eq!(failures.line(Nanos::from_secs(9)), None);
        let line = "TLS failed with 2: c (and 2 others since the last such line)";
        assert_eq!(failures.line(Nanos::from_secs(10)).as_deref(), Some(line));
        assert_eq!(failures.line(Nanos::from_secs(99)), None);
    }
}
