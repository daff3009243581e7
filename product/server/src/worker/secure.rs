//! Clients that speak TLS, and those that speak it at the wrong port.
//!
//! A handshake costs as much as hundreds of requests, so a turn has few of them: the others wait for the next, as connections do that have
//! more to say than their share. What has to be sent of it leaves at once, but for a flight with a certificate where responses have an
//! order: that is a job as they are ([`super::flight`]).

use http::{Reject, Status, http1};
use units::Nanos;

use super::failures::Kind;
use super::responder::Responder;
use crate::net::Net;
use crate::transmit::{Socket, Stream};

/// A client's first flight is there when it is accepted, and its second a round trip later.
pub(super) const HANDSHAKE_TIMEOUT: Nanos = Nanos::from_secs(10);

/// A client that speaks HTTP where TLS is spoken learns so in the only words it knows.
const WANTS_TLS: Reject = Reject {
    status: Status::BAD_REQUEST,
    reason: "this port speaks HTTPS: please ask for the same address with https://",
};

impl<N: Net> Responder<N> {
    /// Takes what has come from a client that speaks TLS.
    pub(super) fn receive_sealed(&mut self, at: usize, wire: &[u8]) {
        let Some(session) = self.sender.transmitter.connections[at].session.as_deref_mut() else { return };
        if session.is_untouched() && tls::is_plain_http(wire) {
            self.sender.end_tls(&mut self.conns[at]);
            self.refuse(at.into(), WANTS_TLS, &http1::shown(wire), false);
            return self.flush(at);
        }
        if self.conns[at].channel.is_handshaking {
            self.budget.on_handshake();
        }
        let mut plain = std::mem::take(&mut self.buffers.plain);
        plain.clear();
        let opened = session.open(wire, &mut plain);
        let (now, replies) = (self.timers.now(), &self.service.replies);
        self.sender.note_handshake(now, &mut self.conns[at], replies, &self.setup.limits);
        match opened {
            Ok(()) if plain.is_empty() => {
                if self.sender.send_sealed(now, &mut self.conns[at], replies) == 0 {
                    // The rest of a record may be held back until it is known that its beginning came.
                    self.sender.transmitter.connections[at].socket.tcp().inspect(|socket| socket.acknowledge());
                }
            }
            Ok(()) => {
                self.take(at, &plain);
                // A ticket leaves with the response, if there is one.
                if let Some(conn) = self.conns.get_mut(at) {
                    self.sender.send_sealed(now, conn, &self.service.replies);
                }
            }
            Err(broken) => {
                self.sender.send_sealed(now, &mut self.conns[at], replies);
                self.service.fail(now, &self.conns[at], Kind::Tls, broken.of_client());
                // An alert behind a flight leaves with it.
                if !self.conns[at].channel.is_in_flight {
                    self.close(at);
                }
            }
        }
        self.buffers.plain = plain;
    }
}
