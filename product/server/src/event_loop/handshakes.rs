//! TLS clients, and clients that use TLS on a port without it or the reverse.
//!
//! A handshake costs as much as hundreds of requests, so each turn processes only a few. The others wait for the next
//! turn, like connections that have more to send than their share. A handshake's output is sent immediately, with one
//! exception: if responses are ordered, a flight with a certificate is a job too (`send/handshake_flight.rs`).

use http::{Reject, Status, http1};

use super::responder::Responder;
use crate::journal::Kind;
use crate::net::Net;

/// The answer to a client that uses HTTP on a TLS port. It is plain HTTP, because the client understands nothing else.
const WANTS_TLS: Reject =
    Reject { status: Status::BAD_REQUEST, reason: "this port serves HTTPS: please use the same address with https://" };

impl<N: Net> Responder<N> {
    /// Takes bytes received from a client that speaks TLS.
    pub(super) fn receive_sealed(&mut self, at: usize, wire: &[u8]) {
        let connection = &mut self.connections[at];
        let is_handshaking = connection.channel.is_handshaking;
        let Some(session) = connection.session.as_deref_mut() else { return };
        if session.is_untouched() && tls::is_plain_http(wire) {
            self.connections[at].end_tls();
            self.refuse(self.connections[at].exchange_id(0), WANTS_TLS, &http1::shown(wire), false);
            return self.flush(at);
        }
        let mut plain = std::mem::take(&mut self.buffers.plain);
        plain.clear();
        if is_handshaking {
            self.budget.on_handshake();
        }
        let opened = session.open(wire, &mut plain);
        let (now, begin) = (self.timers.now(), self.http2_begin());
        self.transmitter.note_handshake(&mut self.connections, now, at, &begin);
        match opened {
            Ok(()) => self.take_opened(at, &plain),
            Err(broken) => {
                self.transmitter.send_tls(&mut self.connections, now, at, begin.class);
                self.service.fail(now, &self.connections[at], Kind::Tls, broken.of_client());
                // While a flight is being sent, an alert leaves after it.
                if !self.connections[at].channel.is_in_flight {
                    self.close(at);
                }
            }
        }
        self.buffers.plain = plain;
    }

    /// Takes decrypted bytes; there are none while a handshake or a record is incomplete.
    fn take_opened(&mut self, at: usize, plain: &[u8]) {
        let now = self.timers.now();
        if !plain.is_empty() {
            self.take(at, plain);
        }
        if !self.connections.contains(at) {
            return;
        }
        // A session ticket leaves with the response, if there is one.
        let sent_bytes =
            self.transmitter.send_tls(&mut self.connections, now, at, self.service.handler.default_class());
        if plain.is_empty() && sent_bytes == 0 {
            // The client may hold back the rest of a record until its beginning is acknowledged.
            self.connections[at].acknowledge();
        }
    }
}
