//! One connection.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use quinn_proto::{Connection, VarInt};
use units::Nanos;

use crate::endpoint::{Clock, Membership};
use crate::{Datagrams, Incoming, Key};

/// What a [`Session::write`] has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wrote {
    /// Of the body.
    pub bytes: u64,
    /// UDP payload that it takes, as estimated: [`Session::make`] makes that much more.
    pub carried_bytes: usize,
    pub stop: mux::Stop,
}

/// The server's end of a connection.
pub struct Session {
    membership: Membership,
    clock: Arc<Clock>,
    connection: Connection,
}

impl Session {
    pub(crate) fn new(
        membership: Membership,
        clock: Arc<Clock>,
        connection: Connection,
        head_bytes_max: usize,
        id_bytes: usize,
    ) -> Session {
        let _ = (head_bytes_max, id_bytes);
        Session { membership, clock, connection }
    }

    /// Never used twice on one endpoint.
    pub fn key(&self) -> Key {
        self.membership.key
    }

    /// Takes a datagram that the endpoint has given. After an error nothing is taken, and `make` tells the client.
    pub fn receive(&mut self, _now: Nanos, incoming: Incoming) -> Result<(), mux::Broken> {
        self.connection.handle_event(incoming.0);
        self.membership.exchange(&mut self.connection);
        Ok(())
    }

    pub fn event(&mut self) -> Option<mux::Event> {
        None
    }

    /// The client's wish for this stream; `None` for a closed one.
    pub fn priority(&mut self, _stream: u32) -> Option<mux::Priority> {
        None
    }

    /// Gives the head of a response, as HTTP/1.1 has it. It is made into frames by the first `write`, also where there is no body. False: the
    /// stream is closed.
    pub fn respond(&mut self, _stream: u32, _head: &[u8], _has_body: bool) -> bool {
        false
    }

    /// Gives the engine content of one response: so much that it fits `room` bytes of UDP payload with the headers of its frames and packets,
    /// and what flow control allows. Nothing is made yet: that is `make`, to be called with the same room. What was given before and has not
    /// left uses up the room; where the congestion window or the pacer holds it back, nothing is given ([`mux::Stop::Window`]).
    pub fn write(&mut self, _stream: u32, _room: usize, _source: &mut dyn mux::Source) -> Wrote {
        Wrote { bytes: 0, carried_bytes: 0, stop: mux::Stop::Closed }
    }

    /// Makes datagrams of what was given and of what QUIC has to say for itself (handshake, ACKs, retransmissions, probes), until `room_bytes`
    /// of UDP payload or nothing is left; but one at least if one may leave.
    pub fn make(&mut self, now: Nanos, _room_bytes: usize, out: &mut Datagrams) {
        let at = self.clock.instant(now);
        out.make(|buffer| self.connection.poll_transmit(at, 1, buffer));
    }

    /// Something that was given waits for the congestion window or the pacer: [`Session::receive`] and [`Session::on_timeout`] may end that.
    pub fn is_held(&self) -> bool {
        false
    }

    /// UDP payload, as estimated, of content that was given or lost and that `make` has not made.
    pub fn waiting_bytes(&self) -> usize {
        0
    }

    /// 0 where the client lets nothing more be sent on this stream; else a number above that (the engine does not tell which); `None` for a
    /// closed one.
    pub fn stream_window(&mut self, _stream: u32) -> Option<u32> {
        None
    }

    /// 0 where the client lets nothing more be sent on all streams together, or too much is unacknowledged; else a number above that.
    pub fn window(&mut self) -> u32 {
        0
    }

    /// A response will not be finished. Nothing is said on a stream that is closed.
    pub fn cancel(&mut self, _stream: u32) {}

    /// Takes no new requests (RFC 9114 section 5.2).
    pub fn go_away(&mut self) {}

    /// Ends the connection with this code (RFC 9114 section 8.1); `make` tells the client.
    pub fn close(&mut self, now: Nanos, code: u64, reason: &str) {
        let code = VarInt::from_u64(code).unwrap_or(VarInt::MAX);
        self.connection.close(self.clock.instant(now), code, Bytes::copy_from_slice(reason.as_bytes()));
        self.membership.exchange(&mut self.connection);
    }

    /// When `on_timeout` is to be called.
    pub fn timeout(&mut self) -> Option<Nanos> {
        self.connection.poll_timeout().map(|at| self.clock.nanos(at))
    }

    pub fn on_timeout(&mut self, now: Nanos) -> Result<(), mux::Broken> {
        self.connection.handle_timeout(self.clock.instant(now));
        self.membership.exchange(&mut self.connection);
        Ok(())
    }

    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Nothing is taken or said any more: it may be dropped.
    pub fn has_ended(&mut self) -> bool {
        self.connection.is_drained()
    }

    /// Its address now; a client may change it.
    pub fn peer(&self) -> SocketAddr {
        self.connection.remote_address()
    }

    /// The smoothed round trip; `None` before the handshake is through.
    pub fn rtt(&self) -> Option<Nanos> {
        (!self.connection.is_handshaking()).then(|| self.connection.rtt().into())
    }

    pub fn cwnd_bytes(&self) -> u64 {
        self.connection.stats().path.cwnd
    }

    /// UDP payload of a full datagram, now.
    pub fn datagram_bytes(&self) -> u64 {
        self.connection.stats().path.current_mtu.into()
    }

    /// The host that the client named in its handshake.
    pub fn host(&self) -> Option<String> {
        None
    }

    /// UDP payload that was lost so far.
    pub fn lost_bytes(&self) -> u64 {
        self.connection.stats().path.lost_bytes
    }
}
