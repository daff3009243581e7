//! Client connections: the bytes received and sent on them, and their state. This module does not depend on the
//! scheduler's order or on the pace.

mod by_protocol;
mod channel;
mod connections;
mod datagrams;
mod delivery;
mod departure;
mod engine;
mod exchange;
mod framed;
mod hand_down;
mod held;
pub mod http1;
mod input;
mod log_entry;
mod outgoing;
mod peer;
mod protocol;
mod quic;
mod sendable_bytes;
mod slow_reader;
mod upstream_entry;
mod writing;

use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};

use http::Request;
use rustix::io::Errno;
use sched::{JobId, Precedence, Scheduler};
use tls::{RECORD_BYTES_MAX, Session};
use units::Nanos;
use units::memory::Account;
use units::wire::Framing;

use crate::clock::ClientTime;
use crate::exchange_id::ExchangeId;
use crate::limits::{Limits, Patience};
use crate::net::{Down, Net, Sink, Socket, Stream, Transport};
pub use channel::{Channel, ChannelKind, HANDSHAKE_TIMEOUT, Security};
pub use connections::Connections;
pub use delivery::{Acknowledged, Delivery, Listed};
pub use departure::Departure;
pub use engine::Engine;
pub use exchange::{CLOSING_PERIOD, Deciding, Exchange, KeptRequest, PendingLookup, Receiving, Search, Streams, Task};
pub use framed::Framed;
pub use hand_down::HandedDown;
pub use held::{Held, WAITING_BYTES_MIN};
use http1::Http1;
pub use input::{Input, SEGMENT_BYTES_MIN};
pub use log_entry::LogEntry;
pub use outgoing::{End, Outgoing, Sent};
pub use peer::{Origin, Peer};
pub use protocol::{Protocol, Single};
pub use sendable_bytes::{ROOM_BYTES_MIN, Room};
pub use slow_reader::Reader;
pub use upstream_entry::UpstreamEntry;

/// Major versions of HTTP.
const HTTP_1: u8 = 1;
const HTTP_2: u8 = 2;
const HTTP_3: u8 = 3;

/// A client connection, from its acceptance to its end. It holds no buffers while idle. Its state applies to all
/// responses on it: a TCP retransmission is charged once, a full socket blocks all of them, and they have the same
/// reader, slow or not.
pub struct Connection<S> {
    /// The name of the connection in events. It is also part of its exchanges' names.
    pub token: u64,
    pub socket: S,
    /// The index of the client's entry in the table of clients.
    pub client: u32,
    pub peer: Peer,
    /// The TLS session, if the client uses TLS over TCP.
    pub session: Option<Box<Session>>,
    pub channel: Channel,
    pub input: Input,
    pub protocol: Protocol,
    /// True once a response has been sent on the connection.
    pub has_answered: bool,
    /// The account of the connection's memory.
    pub held: Held,
    pub delivery: Delivery,
    pub reader: Reader,
}

/// A connection to be opened for sending.
pub struct Opening<S> {
    /// A part of the name in every [`Departure`].
    pub token: u64,
    pub socket: S,
    pub kind: ChannelKind,
    /// The index of the client's entry in the table of clients.
    pub client: u32,
    pub peer: SocketAddr,
    pub framing: Framing,
    /// The TLS session, if the client uses TLS over TCP.
    pub session: Option<Box<Session>>,
    /// Counts the memory of the connection's buffers.
    pub account: Account,
}

/// The bytes handed down between responses.
#[derive(Debug, Default)]
pub struct Aside {
    /// The number of the caller's bytes that were taken.
    pub bytes: usize,
    /// Bytes on the wire without a grant. The caller must charge them to the link.
    pub wire_bytes: u64,
}

impl<S> Connection<S> {
    /// Creates a connection on which nothing has been received or sent. It waits for the first request.
    pub fn new(now: ClientTime, opening: Opening<S>, limits: &Limits) -> Connection<S> {
        let Opening { token, socket, kind, client, peer, framing, mut session, account } = opening;
        session.iter_mut().for_each(|session| session.count_in(&account));
        Connection {
            token,
            socket,
            client,
            peer: Peer::new(peer, limits),
            channel: Channel::new(kind),
            session,
            input: Input::default(),
            protocol: Protocol::Http1(Single::new(now, limits, token)),
            has_answered: false,
            held: Held::new(&account),
            delivery: Delivery::new(framing),
            reader: Reader::new(now),
        }
    }

    /// Returns the frames' state of an HTTP/2 or HTTP/3 connection.
    pub fn framed(&mut self) -> &mut Framed {
        self.protocol.framed_mut().expect("it speaks HTTP/2 or HTTP/3")
    }

    /// The state of HTTP/1.1. Panics for HTTP/2 or HTTP/3.
    pub fn http1(&mut self) -> &mut Http1 {
        self.protocol.http1_mut().expect("it speaks HTTP/1.1")
    }

    /// Returns the session that makes the frames. To send the session's own frames, call [`Connections::queue_output`].
    pub fn engine(&mut self) -> &mut Engine {
        &mut self.framed().engine
    }

    /// The maximum overhead of a TLS record in bytes; 0 without TLS.
    pub fn record_overhead(&self) -> u64 {
        self.session.as_ref().map_or(0, |session| session.overhead() as u64)
    }

    /// Assigns the connection to this peer; `client` is the index of the client's entry in the table of clients.
    pub fn adopt(&mut self, peer: SocketAddr, client: u32, limits: &Limits) {
        self.client = client;
        self.peer = Peer { http3_port: self.peer.http3_port, ..Peer::new(peer, limits) };
    }

    /// The address and port of the peer.
    pub fn peer(&self) -> SocketAddr {
        SocketAddr::new(self.peer.address, self.peer.port)
    }

    /// Returns the client of the request on this stream: the peer, or the client for which the peer has passed it on.
    pub fn client_of(&self, stream: u32) -> u32 {
        self.origin(stream).map_or(self.client, |origin| origin.client)
    }

    /// Returns the address of the client of the request on this stream.
    pub fn address_of(&self, stream: u32) -> IpAddr {
        self.origin(stream).map_or(self.peer.address, |origin| origin.address)
    }

    /// Returns the address and port of the client of the request on this stream. The port is 0 if a proxy has passed
    /// the request on, because proxies do not report ports.
    pub fn client_address(&self, stream: u32) -> SocketAddr {
        self.origin(stream).map_or_else(|| self.peer(), |origin| SocketAddr::new(origin.address, 0))
    }

    fn origin(&self, stream: u32) -> Option<Origin> {
        self.peer.origins.as_ref()?.of(stream)
    }

    /// Returns true if the peer is a trusted proxy, whose reports about its clients are accepted.
    pub fn is_trusted(&self) -> bool {
        self.peer.origins.is_some()
    }

    /// Returns whether the client of this request came over TLS, to this server or to the proxy that passed it on.
    pub fn is_secure(&self, request: &Request) -> bool {
        self.security().of(request)
    }

    pub fn security(&self) -> Security {
        Security { is_secure: self.channel.is_secure(), is_trusted: self.is_trusted() }
    }

    /// Returns true if a PROXY protocol header must precede everything else.
    pub fn awaits_header(&self) -> bool {
        self.peer.origins.as_ref().is_some_and(|origins| origins.header.is_some())
    }

    /// Returns the client's priority for the response on this stream (RFC 9218). There is none on a connection that
    /// carries requests of many clients (section 13.1).
    pub fn precedence(&mut self, stream: u32) -> Precedence {
        let is_trusted = self.is_trusted();
        let framed = self.protocol.framed_mut().filter(|_| !is_trusted);
        framed.map_or(Precedence::default(), |framed| framed.engine.precedence(stream))
    }

    /// Returns the client's HTTP version, major and minor; the minor version is 0 from HTTP/2 on.
    pub fn version(&self, minor_version: u8) -> (u8, u8) {
        match self {
            connection if connection.channel.is_quic() => (HTTP_3, 0),
            connection if connection.takes_frames() => (HTTP_2, 0),
            _ => (HTTP_1, minor_version),
        }
    }

    /// Returns the name of the exchange on this stream, even if it is not open.
    pub fn exchange_id(&self, stream: u32) -> ExchangeId {
        ExchangeId::new(self.token, stream)
    }

    /// Returns the exchange on this stream or, over HTTP/1.1, the connection's only exchange.
    pub fn exchange(&mut self, stream: u32) -> &mut Exchange {
        self.protocol.exchange(stream).expect("its stream is open")
    }

    /// Records the time of the first byte if part of an HTTP/1.1 response was sent before the response became a job.
    pub fn note_first_byte(&mut self, sent_bytes: u64, clock: impl FnOnce() -> Nanos) {
        if let Some(line) = self.exchange(0).line.as_mut().filter(|_| sent_bytes > 0) {
            line.first_byte_at = Some(clock());
        }
    }

    /// Records that the response on this stream has become a job.
    pub fn hold(&mut self, stream: u32, job: JobId, now: ClientTime) {
        self.exchange(stream).task = Task::Sending(job);
        self.protocol.http1_mut().into_iter().for_each(|http1| http1.on_held(now));
    }

    /// Returns whether the connection ends after the response now being built.
    pub fn end(&self) -> End {
        if self.protocol.http1().is_some_and(|http1| http1.answering.closes()) { End::Finish } else { End::Open }
    }

    /// Returns true if the connection is not read until its response or handshake flight was sent.
    pub fn is_answering(&self) -> bool {
        self.protocol.http1().is_some_and(|http1| http1.answering.is_on() || self.channel.is_in_flight)
    }

    /// Returns true if bytes from the client are read and parsed.
    pub fn is_reading(&self) -> bool {
        self.protocol.http1().is_none_or(|http1| http1.is_reading() && !self.channel.is_in_flight)
    }

    pub fn is_sending(&self) -> bool {
        self.protocol.exchanges().any(|exchange| exchange.is_sending())
    }

    /// The instant after which the connection has waited too long for its client.
    pub fn deadline(&self) -> ClientTime {
        self.protocol.deadline()
    }

    /// Records whether only part of a TLS record or of a frame has arrived. The rest must arrive before `until`, like a
    /// request head.
    pub fn note_part(&mut self, has_part: bool, until: ClientTime) {
        let begins = has_part && !self.input.has_part;
        self.input.has_part = has_part;
        if begins && self.protocol.is_unasked() && !self.is_lingering() {
            self.protocol.set_deadline(until.min(self.deadline()));
        }
    }

    /// Returns the time since which an idle connection has been idle, calculated from its deadline.
    pub fn idle_since(&self, limits: &Limits) -> ClientTime {
        if self.channel.is_handshaking {
            return self.deadline() - HANDSHAKE_TIMEOUT;
        }
        limits.idle_since(self.deadline(), self.has_answered)
    }

    /// Returns true if no request is in progress and none is known to be arriving.
    pub fn is_idle(&self) -> bool {
        let has_part = self.input.has_part && !self.is_lingering();
        !self.input.is_readable && !has_part && self.protocol.is_unasked()
    }

    /// Returns whether the last response was sent and further bytes from the client are read and dropped.
    pub fn is_lingering(&self) -> bool {
        self.protocol.http1().is_some_and(|http1| http1.is_lingering())
    }

    /// The stored bytes of a handshake, or of a request whose head is incomplete.
    pub fn part_bytes(&self) -> u64 {
        self.begun_bytes() + self.protocol.http1().map_or(0, |http1| http1.part_bytes()) as u64
    }

    /// The stored bytes of a handshake, or of requests that are incomplete or waiting.
    pub fn kept_bytes(&self) -> u64 {
        self.begun_bytes() + self.protocol.http1().map_or(0, |http1| http1.kept_bytes()) as u64
    }

    /// The stored bytes of a handshake or of an HTTP/2 header block.
    fn begun_bytes(&self) -> u64 {
        let handshake_bytes = self.session.as_ref().map_or(0, |session| session.handshake_bytes());
        let block_bytes = self.protocol.framed().map_or(0, |framed| framed.engine.part_bytes());
        (handshake_bytes + block_bytes) as u64
    }

    /// Returns whether only part of an HTTP/1.1 request has arrived.
    pub fn has_request_part(&self) -> bool {
        self.protocol.http1().is_some_and(|http1| http1.has_part())
    }

    /// Returns whether an HTTP/1.1 response is in progress, after which the connection can be ended.
    pub fn ends_behind_response(&self) -> bool {
        self.protocol.http1().is_some_and(|http1| http1.answering.is_on())
    }
}

impl<S: Socket> Connection<S> {
    /// Sends sealed bytes between responses, for example a reply to a TLS message from the client. No grant covers
    /// these few bytes.
    pub fn send_sealed(&mut self) -> Aside {
        let (Some(session), Some(socket)) = (&mut self.session, self.socket.tcp()) else { return Aside::default() };
        // Any failure except a full socket occurs again when the connection is read.
        let bytes = session.hand_down(&mut Down { socket, more: false }).bytes;
        Aside { bytes, wire_bytes: self.delivery.on_sent(bytes as u64) }
    }

    /// Sends bytes between responses, like [`Connection::send_sealed`], and returns how many were taken. Over TLS they
    /// are sealed, and any part without room is sent before anything else. Nothing is sent after the end of the
    /// session.
    pub fn send_aside(&mut self, bytes: &[u8]) -> Aside {
        if let Some(session) = &mut self.session {
            if !session.can_seal() {
                return Aside { bytes: bytes.len(), wire_bytes: 0 };
            }
            bytes.chunks(RECORD_BYTES_MAX).for_each(|part| session.seal(&[IoSlice::new(part)]));
            return Aside { bytes: bytes.len(), ..self.send_sealed() };
        }
        // Any failure except a full socket occurs again when the connection is read.
        let sent = self.socket.tcp().map_or(0, |tcp| tcp.send(bytes, false).unwrap_or(0));
        let wire_bytes = if sent > 0 { self.delivery.on_sent(sent as u64) } else { 0 };
        Aside { bytes: sent, wire_bytes }
    }

    /// Corks or uncorks the socket. A corked socket holds back a TCP segment until it is full.
    pub fn cork(&mut self, is_corked: bool) {
        self.channel.is_corked = is_corked;
        self.socket.tcp().inspect(|socket| socket.cork(is_corked));
    }

    /// Closes the sending side. The FIN may be sent together with the last byte.
    pub fn finish(&self) {
        self.socket.tcp().inspect(|socket| socket.finish());
    }

    /// Makes the connection close with a reset, so that the client cannot mistake part of a response for the whole.
    pub fn reset(&mut self) {
        self.session = None;
        self.socket.tcp().into_iter().for_each(Sink::reset);
    }

    /// Returns whether this process itself retransmits for the connection, which must then stay open until its client
    /// has acknowledged the last frames. For TCP, the kernel retransmits.
    pub fn retransmits(&self) -> bool {
        self.channel.is_quic()
    }

    /// Returns whether only part of a record or frame, which may belong to a request, has arrived. Returns false during
    /// a handshake, when no request is due.
    pub fn has_part(&mut self) -> bool {
        if self.channel.is_handshaking {
            return false;
        }
        let is_in_record = self.session.as_ref().is_some_and(|session| session.has_part());
        is_in_record || self.protocol.framed_mut().is_some_and(|framed| framed.engine.has_part())
    }

    /// Falls back to plain TCP, because the client does not use TLS and must get an answer in plain text.
    pub fn end_tls(&mut self) {
        self.channel.end_tls();
        self.session = None;
        self.http1().give_up();
    }

    /// Returns whether a connection with streams has nothing more to receive or send, or was ending and its client has
    /// acknowledged everything.
    pub fn is_over(&mut self) -> bool {
        let is_ending = self.protocol.streams().is_some_and(|streams| streams.ends_at.is_some());
        self.has_ended() || is_ending && self.engine().is_acknowledged()
    }

    /// Returns whether the client has not acknowledged everything it was sent. After a close, bytes in the socket would
    /// be discarded if the client sent anything, and nobody would retransmit QUIC packets. In either case the client
    /// could lose the rest of a response.
    pub fn has_unacknowledged(&mut self) -> bool {
        match self.socket.tcp() {
            Some(_) => self.socket.status().is_unacknowledged,
            None => !self.channel.is_handshaking && !self.engine().is_acknowledged(),
        }
    }

    /// Returns whether the client has closed its side of TLS, so that no more requests can arrive.
    pub fn has_peer_ended(&mut self) -> bool {
        self.session.as_deref_mut().is_some_and(|session| session.has_peer_ended())
    }

    /// The number by which packets of the connection are counted below TCP or UDP: its token, unless connections share
    /// the socket.
    pub fn number_below(&self) -> u64 {
        self.socket.shared().map_or(self.token, |(number, _)| number)
    }

    /// Returns true if the protocol no longer receives or sends anything, and everything that was made has been sent.
    pub fn has_ended(&mut self) -> bool {
        !self.has_unsent() && self.engine().has_ended()
    }

    /// Returns true if everything that is left to send waits for the reader, and the reader took less than the minimum
    /// rate at each of the last `looks` looks. `Transmitter::end_stalled` looks once a second.
    pub fn is_slow(&self, looks: u8, scheduler: &Scheduler) -> bool {
        self.protocol.waits_for_reader(scheduler) && self.reader.slow_looks() >= looks
    }

    /// Returns whether the reader took too little in a whole window. Only time spent waiting for the reader counts, not
    /// time in which its responses wait to be scheduled, whether here or, if the kernel orders, in a queue below TCP.
    pub fn is_stalled(
        &mut self,
        now: ClientTime,
        waits_for_reader: bool,
        is_ordered_below: bool,
        patience: &Patience,
    ) -> bool {
        let waits_for_reader = waits_for_reader && (!is_ordered_below || self.socket.queued_below_bytes() == Some(0));
        let acked_bytes = || self.socket.status().acked_bytes;
        self.reader.is_stalled(now, self.delivery.sent_bytes(), acked_bytes, waits_for_reader, patience)
    }
}

impl<N: Net> Connection<Transport<N>> {
    /// Reads received bytes into `into`, like [`Stream::receive`](crate::net::Stream::receive). For a QUIC connection
    /// it always fails with EAGAIN, because datagrams are read for all connections together.
    pub fn receive(&self, into: &mut [u8]) -> rustix::io::Result<usize> {
        self.socket.tcp().map_or(Err(Errno::AGAIN), |socket| socket.receive(into))
    }

    /// Makes TCP acknowledge received data immediately. Otherwise the kernel does so after 40 ms.
    pub fn acknowledge(&self) {
        self.socket.tcp().inspect(|socket| socket.acknowledge());
    }
}

/// The size in bytes of a connection. Most connections are idle.
#[cfg(test)]
pub const CONNECTION_BYTES: usize = size_of::<Connection<crate::net::Transport>>();
