//! The flight of a full handshake, with the certificate: 0.7 to 5 KB, a response in all but its meaning. Where responses have an order, it has
//! its place among them and its client's account is charged for it: clients that open connections without end would take the link from everybody.
//!
//! What the client says meanwhile stays in its socket: it can say nothing of use before it has the flight.

use tls::Session;
use units::Nanos;

use super::failures::Kind;
use super::secure::HANDSHAKE_TIMEOUT;
use super::{Order, Worker};
use crate::net::Net;
use crate::transmit::{Departure, Dispatch, Failure, Outgoing};

/// A flight of one job; what is more, of a chain of dozens of certificates, follows as another.
pub(super) const FLIGHT_BYTES_MAX: usize = 64 << 10;

/// A flight waits so long for its turn, beyond the client's own time. Many clients have given up by then.
const TURN_WAIT_MAX: Nanos = Nanos::from_secs(50);

/// Of a handshake so much at most is an answer without a certificate: an alert, another try, tickets.
const ANSWER_BYTES_MAX: usize = 512;

/// Whether a flight has an order: not where nothing has, and not that of a session resumed, which is as short as an answer can be.
pub(super) fn is_job(order: Order, session: &mut Session) -> bool {
    matches!(order, Order::Pace | Order::Marks) && session.unsent_bytes() > ANSWER_BYTES_MAX && !session.is_resumed()
}

impl<N: Net> Worker<N> {
    /// Makes a job of a flight, whose bytes are sealed already; gives how many they are.
    pub(super) fn dispatch_flight(&mut self, at: usize, flight: Vec<u8>) -> usize {
        let bytes = flight.len();
        // Nobody has asked for anything yet.
        let class = self.service.replies.default_class();
        let dispatch = Dispatch::single(Outgoing::of_records(flight), class);
        let job = self.transmitter.dispatch(self.timers.now(), at, dispatch);
        debug_assert!(job.is_some(), "nothing else is being sent on it");
        self.conns[at].channel.is_in_flight = true;
        bytes
    }

    /// The handshake goes on. No response has ended: neither the log nor the objectives have anything to say of it.
    pub(super) fn on_flight_departure(&mut self, at: usize, departure: Departure) {
        let conn = &mut self.conns[at];
        conn.channel.is_in_flight = false;
        if let Some(failure) = departure.failure {
            if matches!(failure, Failure::Stalled) {
                let why = "a handshake slower than --send-rate-min";
                self.service.fail(self.timers.now(), conn, Kind::Tls, why);
            }
            return self.close(at);
        }
        conn.http1.wait_until(self.timers.now() + HANDSHAKE_TIMEOUT);
        self.send_sealed(at);
        let is_broken = self.transmitter.connections.session(at).is_some_and(|session| session.is_broken());
        if is_broken && !self.conns[at].channel.is_in_flight {
            return self.close(at);
        }
        self.go_on(at);
    }

    /// Past its deadline, a connection is not late while its flight waits for others and not for its client.
    pub(super) fn waits_for_its_turn(&self, at: usize) -> bool {
        let conn = &self.conns[at];
        let waits_for_turn = conn.channel.is_in_flight
            && !self.transmitter.connections.is_slow(at, 0, self.transmitter.link.scheduler());
        waits_for_turn && self.timers.now() < conn.deadline() + TURN_WAIT_MAX
    }
}
