//! The flight of a full handshake, with the certificate: 0.7 to 5 KB, a response in all but its meaning. Where responses have an order, it has
//! its place among them and its client's account is charged for it: clients that open connections without end would take the link from everybody.
//!
//! What the client says meanwhile stays in its socket: it can say nothing of use before it has the flight.

use tls::Session;

use super::Order;
use super::ending::{EndContext, Ending};
use super::sender::Sender;
use crate::connection::{Connections, HANDSHAKE_TIMEOUT};
use crate::net::Socket;

/// A flight of one job; what is more, of a chain of dozens of certificates, follows as another.
pub(super) const FLIGHT_BYTES_MAX: usize = 64 << 10;

/// Of a handshake so much at most is an answer without a certificate: an alert, another try, tickets.
const ANSWER_BYTES_MAX: usize = 512;

/// Whether a flight has an order: not where nothing has, and not that of a session resumed, which is as short as an answer can be.
pub(super) fn is_job(order: Order, session: &mut Session) -> bool {
    matches!(order, Order::Pace | Order::Marks) && session.unsent_bytes() > ANSWER_BYTES_MAX && !session.is_resumed()
}

impl Sender {
    /// A flight has departed, or failed: the handshake goes on.
    pub fn end_flight(
        &mut self,
        connections: &mut Connections<impl Socket>,
        at: usize,
        has_failed: bool,
        with: &EndContext,
    ) -> Ending {
        let connection = &mut connections[at];
        connection.channel.is_in_flight = false;
        if has_failed {
            return Ending::Closes { is_late: false };
        }
        connection.http1().wait_until(with.now + HANDSHAKE_TIMEOUT);
        self.send_sealed(with.now, connections, at, with.replies);
        let connection = &mut connections[at];
        let is_broken = connection.session.as_deref_mut().is_some_and(|session| session.is_broken());
        if is_broken && !connection.channel.is_in_flight {
            return Ending::Closes { is_late: false };
        }
        Ending::Stays
    }
}
