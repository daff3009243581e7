//! The flight of a full handshake, with the certificate: 0.7 to 5 KB, a response in all but its meaning. Where responses have an order, it has
//! its place among them and its client's account is charged for it: clients that open connections without end would take the link from everybody.
//!
//! What the client says meanwhile stays in its socket: it can say nothing of use before it has the flight.

use tls::Session;

use super::Order;
use super::failures::Kind;
use super::responder::Responder;
use super::secure::HANDSHAKE_TIMEOUT;
use crate::net::Net;
use crate::transmit::{Departure, Failure};

/// A flight of one job; what is more, of a chain of dozens of certificates, follows as another.
pub(super) const FLIGHT_BYTES_MAX: usize = 64 << 10;

/// Of a handshake so much at most is an answer without a certificate: an alert, another try, tickets.
const ANSWER_BYTES_MAX: usize = 512;

/// Whether a flight has an order: not where nothing has, and not that of a session resumed, which is as short as an answer can be.
pub(super) fn is_job(order: Order, session: &mut Session) -> bool {
    matches!(order, Order::Pace | Order::Marks) && session.unsent_bytes() > ANSWER_BYTES_MAX && !session.is_resumed()
}

impl<N: Net> Responder<N> {
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
        self.sender.send_sealed(self.timers.now(), conn, &self.service.replies);
        let is_broken = self.sender.transmitter.connections.session(at).is_some_and(|session| session.is_broken());
        if is_broken && !self.conns[at].channel.is_in_flight {
            return self.close(at);
        }
        self.conns.go_on(at);
    }
}
