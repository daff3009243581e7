//! An HTTP/3 connection.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::ResponseHead;
use http2::{Broken, Priority};
use quinn_proto::crypto::rustls::HandshakeData;
use quinn_proto::{Connection, VarInt};
use units::Nanos;
use units::memory::{Account, Charge};

use crate::control::Control;
use crate::counted::Acked;
use crate::endpoint::{Clock, Membership, Settings};
use crate::h3::fault::{End, INTERNAL_ERROR};
use crate::intake::Intake;
use crate::keep_alive::KeepAlive;
use crate::outbox::Outbox;
use crate::streams::{Reply, Streams};
use crate::write::Window;
use crate::{Datagrams, Incoming, Key, mapped_address};

/// The path of a connection, and the counts of its datagrams.
#[derive(Debug, Clone, Copy)]
pub struct Path {
    /// The smoothed round trip; `None` before the handshake is complete.
    pub rtt: Option<Nanos>,
    /// The shortest of the recent round trips, which excludes the time that datagrams wait in the client's socket
    /// buffer.
    pub least_rtt: Option<Nanos>,
    pub cwnd_bytes: u64,
    /// UDP payload of a full datagram.
    pub datagram_bytes: u64,
    /// Number of acknowledgements received so far.
    pub acks: u64,
    /// UDP payload acknowledged so far, except datagrams with only acknowledgements, which are not acknowledged
    /// themselves.
    pub acked_bytes: u64,
    /// UDP payload lost so far.
    pub lost_bytes: u64,
    /// The part of `lost_bytes` that the client itself lost because it was late and its socket was full.
    pub own_lost_bytes: u64,
}

/// The server side of a connection.
pub struct Session {
    membership: Membership,
    clock: Arc<Clock>,
    pub(crate) connection: Connection,
    pub(crate) streams: Streams,
    pub(crate) intake: Intake,
    pub(crate) outbox: Outbox,
    pub(crate) window: Window,
    pub(crate) control: Control,
    keep_alive: KeepAlive,
    /// Bytes of the client's connection ID.
    pub(crate) id_bytes: usize,
    is_broken: bool,
    sent: Sent,
}

/// Memory of the content that quinn keeps until the client has acknowledged it.
#[derive(Default)]
struct Sent {
    acked: Acked,
    /// UDP payload made since the last acknowledgement.
    made_bytes: usize,
    charge: Charge,
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
            intake: Intake::new(settings),
            outbox: Outbox::default(),
            window: Window::default(),
            control: Control::new(settings.request.head_bytes_max, settings.has_tunnels),
            keep_alive: KeepAlive::new(settings.idle_timeout),
            id_bytes,
            is_broken: false,
            sent: Sent::default(),
        }
    }

    /// The key given to [`Endpoint::accept`](crate::Endpoint::accept).
    pub fn key(&self) -> Key {
        self.membership.key
    }

    /// Takes a datagram that the endpoint has returned; [`Session::event`] returns the resulting events. An error is
    /// returned once. After it all input is ignored, and [`Session::make`] informs the client.
    pub fn receive(&mut self, now: Nanos, incoming: Incoming) -> Result<(), Broken> {
        self.keep_alive.on_heard(now);
        self.connection.handle_event(incoming.0);
        self.settle(now)
    }

    /// Processes the consequences of any input to quinn.
    pub(crate) fn settle(&mut self, now: Nanos) -> Result<(), Broken> {
        self.membership.exchange(&mut self.connection);
        let stats = self.connection.stats();
        self.outbox.stir(stats.path.lost_bytes);
        if self.sent.acked.look(&self.connection) {
            self.sent.made_bytes = 0;
            if self.sent.acked.in_flight_bytes() == 0 {
                self.control.on_all_acknowledged(stats.frame_tx.stream);
            }
        }
        self.count_sent();
        if self.is_broken {
            while self.connection.poll().is_some() {}
            return Ok(());
        }
        self.intake.drain_unwanted(&mut self.connection, &mut self.streams);
        let counted = self.intake.count(now, &stats, self.connection.remote_address());
        let taken = counted.and_then(|()| self.intake.take(now, &mut self.connection, &mut self.streams));
        if std::mem::take(&mut self.intake.is_writable) {
            self.window.is_shut = false;
        }
        self.streams.widen(&mut self.connection);
        if taken.is_ok() {
            self.control.say(&mut self.connection);
        }
        taken.map_err(|End { code, broken }| {
            self.is_broken = true;
            self.close(now, code, &broken.to_string());
            broken
        })
    }

    /// Charges the session's memory to this account: waiting heads and frames, unread bodies, and content that the
    /// client has not acknowledged.
    pub fn count_in(&mut self, account: &Account) {
        self.streams.count_in(account);
        self.sent.charge.move_to(account);
    }

    /// Bytes charged for unacknowledged content.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn sent_bytes(&self) -> usize {
        self.sent.charge.bytes()
    }

    fn count_sent(&mut self) {
        let in_flight_bytes = usize::try_from(self.sent.acked.in_flight_bytes()).unwrap_or(usize::MAX);
        self.sent.charge.set(in_flight_bytes.saturating_add(self.sent.made_bytes + self.outbox.waiting()));
    }

    /// The client's priority for this stream; `None` if it is closed.
    pub fn priority(&mut self, stream: u32) -> Option<Priority> {
        self.streams.open.get(stream).map(|open| open.priority)
    }

    /// Sets the head of a response. It leaves with the first [`Session::write`], even if there is no body. Returns
    /// false if the stream is closed.
    pub fn respond(&mut self, stream: u32, head: &ResponseHead, has_body: bool) -> bool {
        let Some(open) = self.streams.open.get_mut(stream) else { return false };
        open.reply.get_or_insert_with(Reply::new).begin(head, has_body);
        self.streams.count(stream);
        true
    }

    /// Makes datagrams from the content passed to quinn and from QUIC's own frames (handshake, ACKs, retransmissions,
    /// probes), until `room_bytes` of UDP payload are used or nothing is left. Makes at least one if one may leave.
    pub fn make(&mut self, now: Nanos, room_bytes: usize, out: &mut Datagrams) {
        let full = usize::from(self.connection.stats().path.current_mtu);
        let mut left = room_bytes;
        let mut is_first = true;
        let (at, is_ipv6) = (self.clock.instant(now), self.membership.is_ipv6);
        let mut one = |connection: &mut Connection| out.make(is_ipv6, |buffer| connection.poll_transmit(at, 1, buffer));
        // Each datagram takes at least a byte of room.
        while is_first || left >= self.outbox.largest_next(full) {
            let made = self.outbox.make_one(&mut self.connection, &mut one);
            let Some(bytes) = made.or_else(|| self.outbox.resolve(&mut self.connection, &mut one)) else { break };
            left = left.saturating_sub(bytes);
            self.sent.made_bytes += bytes;
            is_first = false;
        }
        self.count_sent();
        self.outbox.on_acks(self.connection.stats().frame_tx.acks);
        self.membership.exchange(&mut self.connection);
    }

    /// Returns true if content waits for the congestion window or the pacer. [`Session::receive`] and
    /// [`Session::on_timeout`] may release it.
    pub fn is_held(&self) -> bool {
        self.outbox.is_held()
    }

    /// Returns the estimated UDP payload of content that was passed to quinn or lost, and not yet made by `make`. Call
    /// `make` while it is above 0 and not held.
    pub fn waiting_bytes(&self) -> usize {
        self.outbox.waiting()
    }

    /// Returns 0 if the client's window on this stream is shut, otherwise a greater number, because quinn does not
    /// report the window. `None` if the stream is closed.
    pub fn stream_window(&mut self, stream: u32) -> Option<u32> {
        self.streams.open.get(stream).map(|open| if open.is_shut { 0 } else { u32::MAX })
    }

    /// Returns 0 if the connection's window is shut or too many bytes are unacknowledged, otherwise a greater number.
    pub fn window(&mut self) -> u32 {
        if self.window.is_shut { 0 } else { u32::MAX }
    }

    /// Cancels a response that will not be finished. Does nothing if the stream is closed.
    pub fn cancel(&mut self, stream: u32) {
        if self.streams.open.get(stream).is_some() {
            self.streams.reset(&mut self.connection, stream, INTERNAL_ERROR);
        }
    }

    /// Stops accepting new requests (RFC 9114 section 5.2).
    pub fn go_away(&mut self) {
        if self.intake.refused_from.is_none() {
            self.intake.refused_from = Some(self.streams.next);
            self.control.go_away(self.streams.next);
            self.control.say(&mut self.connection);
        }
    }

    /// Ends the connection with this code (RFC 9114 section 8.1); `make` informs the client.
    pub fn close(&mut self, now: Nanos, code: u64, reason: &str) {
        let code = VarInt::from_u64(code).unwrap_or(VarInt::MAX);
        self.connection.close(self.clock.instant(now), code, Bytes::copy_from_slice(reason.as_bytes()));
        self.streams.end_all();
        self.outbox.empty();
        self.membership.exchange(&mut self.connection);
    }

    /// Returns true if the client has acknowledged all responses that have ended.
    pub fn is_acknowledged(&self) -> bool {
        self.streams.unacknowledged.is_empty()
    }

    /// Returns true if the notice that new requests are refused ([`Session::go_away`]) may not have reached the client.
    pub fn awaits_farewell(&self) -> bool {
        self.control.awaits_farewell()
    }

    /// The time at which `on_timeout` must be called.
    pub fn timeout(&mut self) -> Option<Nanos> {
        let ping_at = self.keep_alive.due_at(!self.streams.open.is_empty());
        let of_quic = self.connection.poll_timeout().map(|at| self.clock.nanos(at));
        of_quic.into_iter().chain(ping_at).chain(self.intake.late_at()).min()
    }

    pub fn on_timeout(&mut self, now: Nanos) -> Result<(), Broken> {
        let ping_at = self.keep_alive.due_at(!self.streams.open.is_empty());
        if ping_at.is_some_and(|at| now >= at) {
            self.keep_alive.on_heard(now);
            self.connection.ping();
        }
        self.connection.handle_timeout(self.clock.instant(now));
        self.settle(now)
    }

    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Returns true if either side has ended the connection; it stays for a while to answer packets still in flight.
    pub fn is_closing(&self) -> bool {
        self.connection.is_closed()
    }

    /// Returns true if nothing more will be read or written, so that the session may be dropped.
    pub fn has_ended(&mut self) -> bool {
        self.connection.is_drained()
    }

    /// The client's current address, which may change.
    pub fn peer(&self) -> SocketAddr {
        mapped_address::at_socket(self.connection.remote_address(), self.membership.is_ipv6)
    }

    /// The current state of the path, and the counts of its datagrams so far.
    pub fn path(&self) -> Path {
        let stats = self.connection.stats();
        Path {
            rtt: (!self.connection.is_handshaking()).then(|| self.connection.rtt().into()),
            least_rtt: self.sent.acked.least_rtt(),
            cwnd_bytes: stats.path.cwnd,
            datagram_bytes: stats.path.current_mtu.into(),
            acks: stats.frame_rx.acks,
            acked_bytes: self.sent.acked.bytes(),
            lost_bytes: stats.path.lost_bytes,
            own_lost_bytes: self.sent.acked.own_lost_bytes(),
        }
    }

    /// The host that the client named in its handshake.
    pub fn host(&self) -> Option<String> {
        let data = self.connection.crypto_session().handshake_data()?;
        data.downcast::<HandshakeData>().ok()?.server_name
    }
}
