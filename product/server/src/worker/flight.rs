//! The flight of a full handshake, with the certificate: 0.7 to 5 KB, a response in all but its meaning. Where responses have an order, it has
//! its place among them and its client's account is charged for it: clients that open connections without end would take the link from everybody.
//!
//! What the client says meanwhile stays in its socket: it can say nothing of use before it has the flight.

use tls::Session;

use super::Order;
use super::conn::Conn;
use super::ending::{EndContext, Ending};
use super::owner::slot_of;
use super::secure::HANDSHAKE_TIMEOUT;
use super::sender::Sender;
use crate::net::Net;

/// A flight of one job; what is more, of a chain of dozens of certificates, follows as another.
pub(super) const FLIGHT_BYTES_MAX: usize = 64 << 10;

/// Of a handshake so much at most is an answer without a certificate: an alert, another try, tickets.
const ANSWER_BYTES_MAX: usize = 512;

/// Whether a flight has an order: not where nothing has, and not that of a session resumed, which is as short as an answer can be.
pub(super) fn is_job(order: Order, session: &mut Session) -> bool {
    matches!(order, Order::Pace | Order::Marks) && session.unsent_bytes() > ANSWER_BYTES_MAX && !session.is_resumed()
}

impl<N: Net> Sender<N> {
    /// A flight has departed, or failed: the handshake goes on.
    pub fn end_flight(&mut self, conn: &mut Conn, has_failed: bool, with: &EndContext) -> Ending {
        conn.channel.is_in_flight = false;
        if has_failed {
            return Ending::Closes { is_late: false };
        }
        conn.http1.wait_until(with.now + HANDSHAKE_TIMEOUT);
        self.send_sealed(with.now, conn, with.replies);
        let session = self.transmitter.connections[slot_of(conn.owner)].session.as_deref_mut();
        if session.is_some_and(|session| session.is_broken()) && !conn.channel.is_in_flight {
            return Ending::Closes { is_late: false };
        }
        Ending::Stays
    }
}
