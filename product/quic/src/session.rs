//! One connection.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::ResponseHead;
use mux::{Broken, Event, Priority};
use quinn_proto::crypto::rustls::HandshakeData;
use quinn_proto::{Connection, Dir, StreamId, VarInt, WriteError};
use units::Nanos;

use crate::counted::Acked;
use crate::endpoint::{Clock, DATAGRAM_BYTES_MAX, Membership, Settings};
use crate::h3::control::{MAX_FIELD_SECTION_SIZE, QPACK_BLOCKED_STREAMS, QPACK_MAX_TABLE_CAPACITY};
use crate::h3::fault::{End, INTERNAL_ERROR};
use crate::h3::{frames, uni, varint};
use crate::intake::Intake;
use crate::outbox::Outbox;
use crate::streams::{Reply, Streams};
use crate::write::AHEAD_BYTES_FIRST;
use crate::{Datagrams, Incoming, Key, address};

/// A third of the timeout that most clients have; a third of ours, if that is less, but not for nothing.
const PING_EVERY: Nanos = Nanos::from_secs(10);
const PING_EVERY_MIN: Nanos = Nanos::from_millis(100);

/// Room for so many events is kept.
const EVENTS_KEPT: usize = 8;

/// The server's end of a connection.
pub struct Session {
    membership: Membership,
    clock: Arc<Clock>,
    pub(crate) connection: Connection,
    pub(crate) streams: Streams,
    intake: Intake,
    pub(crate) outbox: Outbox,
    /// Content that is read before it is known that windows let it through.
    pub(crate) ahead: usize,
    /// Of the client's connection ID.
    pub(crate) id_bytes: usize,
    head_bytes_max: usize,
    /// The socket is one of IPv6.
    is_ipv6: bool,
    /// Our control stream, and what is still to be said on it.
    control: Option<StreamId>,
    to_say: Vec<u8>,
    /// A silent client of open requests is sent a PING so often; and what that is counted from.
    ping_every: Nanos,
    silent_since: Nanos,
    /// The connection's window is used up.
    pub(crate) is_shut: bool,
    is_broken: bool,
    acked: Acked,
}

impl Session {
    pub(crate) fn new(
        membership: Membership,
        clock: Arc<Clock>,
        connection: Connection,
        settings: &Settings,
        id_bytes: usize,
    ) -> Session {
        Session {
            membership,
            clock,
            connection,
            streams: Streams::default(),
            intake: Intake::new(settings.request, settings.streams_max),
            outbox: Outbox::default(),
            ahead: AHEAD_BYTES_FIRST,
            id_bytes,
            head_bytes_max: settings.request.head_bytes_max,
            is_ipv6: settings.is_ipv6,
            control: None,
            to_say: Vec::new(),
            ping_every: Nanos(settings.idle_timeout.0 / 3).clamp(PING_EVERY_MIN, PING_EVERY),
            silent_since: Nanos::ZERO,
            is_shut: false,
            is_broken: false,
            acked: Acked::default(),
        }
    }

    /// Never used twice on one endpoint.
    pub fn key(&self) -> Key {
        self.membership.key
    }

    /// Takes a datagram that the endpoint has given; what it says is asked of [`Session::event`]. An error is given once; after it
    /// nothing is taken, and [`Session::make`] tells the client.
    pub fn receive(&mut self, now: Nanos, incoming: Incoming) -> Result<(), Broken> {
        self.silent_since = now;
        self.connection.handle_event(incoming.0);
        self.settle(now)
    }

    /// What follows of anything that quinn was told.
    pub(crate) fn settle(&mut self, now: Nanos) -> Result<(), Broken> {
        self.membership.exchange(&mut self.connection);
        let stats = self.connection.stats();
        self.outbox.stir(stats.path.lost_bytes);
        self.acked.look(&self.connection);
        if self.is_broken {
            while self.connection.poll().is_some() {}
            return Ok(());
        }
        let counted = self.intake.count(now, &stats, self.connection.remote_address());
        let taken = counted.and_then(|()| self.intake.take(now, &mut self.connection, &mut self.streams));
        if std::mem::take(&mut self.intake.is_writable) {
            self.is_shut = false;
        }
        if taken.is_ok() {
            self.say();
        }
        taken.map_err(|End { code, broken }| {
            self.is_broken = true;
            self.close(now, code, &broken.to_string());
            broken
        })
    }

    /// Says what is to be said on the control stream, which is opened as soon as that may be.
    fn say(&mut self) {
        // A ClientHello of two datagrams has its limit on streams in the second.
        if self.control.is_none() {
            self.control = self.connection.streams().open(Dir::Uni);
            if self.control.is_some() {
                self.to_say.splice(0..0, greeting(self.head_bytes_max));
            }
        }
        let Some(control) = self.control.filter(|_| !self.to_say.is_empty()) else { return };
        let said = self.connection.send_stream(control).write(&self.to_say).unwrap_or(0);
        self.to_say.drain(..said);
    }

    pub fn event(&mut self) -> Option<Event> {
        let event = self.streams.events.pop_front();
        if event.is_none() && self.streams.events.capacity() > EVENTS_KEPT {
            self.streams.events = VecDeque::new();
        }
        event
    }

    /// The client's wish for this stream; `None` for a closed one.
    pub fn priority(&mut self, stream: u32) -> Option<Priority> {
        self.streams.open.get(stream).map(|open| open.priority)
    }

    /// Gives the head of a response. It leaves with the first [`Session::write`], also where there is no body. False: the stream is closed.
    pub fn respond(&mut self, stream: u32, head: &ResponseHead, has_body: bool) -> bool {
        let Some(open) = self.streams.open.get_mut(stream) else { return false };
        open.reply = Some(Reply::new(head, has_body));
        true
    }

    /// Makes datagrams of what was given and of what QUIC has to say for itself (handshake, ACKs, retransmissions, probes), until
    /// `room_bytes` of UDP payload or nothing is left; but one at least if one may leave.
    pub fn make(&mut self, now: Nanos, room_bytes: usize, out: &mut Datagrams) {
        let full = usize::from(self.connection.stats().path.current_mtu);
        let mut left = room_bytes;
        let mut is_first = true;
        // Each takes a byte of room at least.
        while is_first || self.may_follow(left, full) {
            match self.make_one(now, out) {
                Some(bytes) => left = left.saturating_sub(bytes),
                None if self.resolve(now, out, &mut left) => {}
                None => break,
            }
            is_first = false;
        }
        self.outbox.on_acks(self.connection.stats().frame_tx.acks);
        self.membership.exchange(&mut self.connection);
    }

    /// One more datagram fits the room, whatever quinn puts into it.
    fn may_follow(&self, left: usize, full: usize) -> bool {
        let most = match self.outbox.waiting() {
            // Perhaps a probe of a larger one.
            0 => DATAGRAM_BYTES_MAX.into(),
            waiting => waiting.min(full),
        };
        left >= most
    }

    fn make_one(&mut self, now: Nanos, out: &mut Datagrams) -> Option<usize> {
        let at = self.clock.instant(now);
        let bytes = out.make(self.is_ipv6, |buffer| self.connection.poll_transmit(at, 1, buffer))?;
        self.outbox.make(bytes);
        Some(bytes)
    }

    /// quinn makes nothing more: either it has nothing, or it is held back. It would make a PING if it were not; held back, that leaves
    /// with what follows, and costs a byte. True: a datagram was made.
    fn resolve(&mut self, now: Nanos, out: &mut Datagrams, left: &mut usize) -> bool {
        if !self.outbox.is_doubtful() || self.connection.is_closed() {
            self.outbox.empty();
            return false;
        }
        self.connection.ping();
        match self.make_one(now, out) {
            Some(bytes) => {
                *left = left.saturating_sub(bytes);
                self.outbox.empty();
                true
            }
            None => {
                self.outbox.hold();
                false
            }
        }
    }

    /// Something that was given waits for the congestion window or the pacer: [`Session::receive`] and [`Session::on_timeout`] may end
    /// that.
    pub fn is_held(&self) -> bool {
        self.outbox.is_held()
    }

    /// UDP payload, as estimated, of content that was given or lost and that `make` has not made. While there is some and it is not held,
    /// `make` is to be called.
    pub fn waiting_bytes(&self) -> usize {
        self.outbox.waiting()
    }

    /// 0 where the client lets nothing more be sent on this stream; else a number above that (the engine does not tell which); `None` for a
    /// closed one.
    pub fn stream_window(&mut self, stream: u32) -> Option<u32> {
        self.streams.open.get(stream).map(|open| if open.is_shut { 0 } else { u32::MAX })
    }

    /// 0 where the client lets nothing more be sent on all streams together, or too much is unacknowledged; else a number above that.
    pub fn window(&mut self) -> u32 {
        if self.is_shut { 0 } else { u32::MAX }
    }

    /// Whether it is the connection's window that refuses content, and not the stream's: then the control stream is refused too.
    pub(crate) fn is_window_shut(&mut self) -> bool {
        self.control.is_some_and(|control| self.connection.send_stream(control).write(&[]) == Err(WriteError::Blocked))
    }

    /// A response will not be finished. Nothing is said on a stream that is closed.
    pub fn cancel(&mut self, stream: u32) {
        if self.streams.open.get(stream).is_some() {
            self.streams.reset(&mut self.connection, stream, INTERNAL_ERROR);
        }
    }

    /// Takes no new requests (RFC 9114 section 5.2).
    pub fn go_away(&mut self) {
        if self.intake.refused_from.is_none() {
            self.intake.refused_from = Some(self.streams.next);
            let id = 4 * u64::from(self.streams.next);
            frames::head(frames::GOAWAY, varint::bytes(id) as u64, &mut self.to_say);
            varint::write(id, &mut self.to_say);
            self.say();
        }
    }

    /// Ends the connection with this code (RFC 9114 section 8.1); `make` tells the client.
    pub fn close(&mut self, now: Nanos, code: u64, reason: &str) {
        let code = VarInt::from_u64(code).unwrap_or(VarInt::MAX);
        self.connection.close(self.clock.instant(now), code, Bytes::copy_from_slice(reason.as_bytes()));
        self.streams.end_all();
        self.outbox.empty();
        self.membership.exchange(&mut self.connection);
    }

    /// The client has all of the responses that have ended.
    pub fn is_acknowledged(&self) -> bool {
        self.streams.unacknowledged.is_empty()
    }

    /// When `on_timeout` is to be called.
    pub fn timeout(&mut self) -> Option<Nanos> {
        let of_quic = self.connection.poll_timeout().map(|at| self.clock.nanos(at));
        of_quic.into_iter().chain(self.ping_at()).min()
    }

    /// While a response waits for its turn nothing is sent, and a client would take the connection for dead (RFC 9000 section 10.1.2).
    fn ping_at(&self) -> Option<Nanos> {
        (!self.streams.open.is_empty()).then(|| self.silent_since + self.ping_every)
    }

    pub fn on_timeout(&mut self, now: Nanos) -> Result<(), Broken> {
        if self.ping_at().is_some_and(|at| now >= at) {
            self.silent_since = now;
            self.connection.ping();
        }
        self.connection.handle_timeout(self.clock.instant(now));
        self.settle(now)
    }

    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Either side has ended it; it stays for a while, to answer what is still under way.
    pub fn is_closing(&self) -> bool {
        self.connection.is_closed()
    }

    /// Nothing is taken or said any more: it may be dropped.
    pub fn has_ended(&mut self) -> bool {
        self.connection.is_drained()
    }

    /// Its address now; a client may change it.
    pub fn peer(&self) -> SocketAddr {
        address::at_socket(self.connection.remote_address(), self.is_ipv6)
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
        let data = self.connection.crypto_session().handshake_data()?;
        data.downcast::<HandshakeData>().ok()?.server_name
    }

    /// Acknowledgements that have come so far.
    pub fn acks(&self) -> u64 {
        self.connection.stats().frame_rx.acks
    }

    /// UDP payload that was acknowledged so far, but for datagrams of acknowledgements alone: those nobody acknowledges.
    pub fn acked_bytes(&self) -> u64 {
        self.acked.bytes()
    }

    /// UDP payload that was lost so far.
    pub fn lost_bytes(&self) -> u64 {
        self.connection.stats().path.lost_bytes
    }
}

/// What our control stream begins with: its type, and SETTINGS (RFC 9114 section 7.2.4).
fn greeting(head_bytes_max: usize) -> Vec<u8> {
    let mut settings = Vec::new();
    for (setting, value) in
        [(QPACK_MAX_TABLE_CAPACITY, 0), (MAX_FIELD_SECTION_SIZE, head_bytes_max as u64), (QPACK_BLOCKED_STREAMS, 0)]
    {
        varint::write(setting, &mut settings);
        varint::write(value, &mut settings);
    }
    let mut said = Vec::new();
    varint::write(uni::CONTROL, &mut said);
    frames::head(frames::SETTINGS, settings.len() as u64, &mut said);
    said.extend(settings);
    said
}
