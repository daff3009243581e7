//! The flight of a full handshake, with the certificate: 0.7 to 5 KB, the size of a small response. If responses are
//! ordered, the flight is ordered among them and charged to its client. Otherwise clients that constantly open
//! connections could take the link from all others.
//!
//! Bytes that the client sends during the flight stay in its socket, because they cannot be useful before the client
//! has the flight.

use tls::Session;

use super::{EndContext, Ending, Order, Transmitter};
use crate::connection::{Connections, HANDSHAKE_TIMEOUT};
use crate::net::Socket;

/// The maximum size of a flight that is sent as one job. The rest of a longer flight, with a chain of dozens of
/// certificates, follows as another job.
pub(super) const FLIGHT_BYTES_MAX: usize = 64 << 10;

/// The maximum size of a handshake answer without a certificate: an alert, a retry, tickets.
const ANSWER_BYTES_MAX: usize = 512;

/// Returns whether a flight becomes a job. It does not if responses have no order, or if the session is resumed,
/// because the flight is then as short as an answer.
pub(super) fn is_job(order: Order, session: &mut Session) -> bool {
    matches!(order, Order::Pace | Order::Marks) && session.unsent_bytes() > ANSWER_BYTES_MAX && !session.is_resumed()
}

impl Transmitter {
    /// Continues the handshake after a flight has departed or failed.
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
        connection.http1().wait_until(with.client_now + HANDSHAKE_TIMEOUT);
        self.send_tls(connections, with.now, at, with.class);
        let connection = &mut connections[at];
        let is_broken = connection.session.as_deref_mut().is_some_and(|session| session.is_broken());
        if is_broken && !connection.channel.is_in_flight {
            return Ending::Closes { is_late: false };
        }
        Ending::Stays
    }
}
