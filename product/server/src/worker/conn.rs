use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;

use http::gateway::claimed;
use http::{HttpDate, Request};
use sched::JobId;
use units::Nanos;
use units::memory::Account;

use super::accept::SEGMENT_BYTES_MIN;
use super::exchange::{Exchange, Exchanges, Task};
use super::held::Held;
use super::origin::{Origin, Origins};
use super::secure::HANDSHAKE_TIMEOUT;
use crate::config::Limits;
use crate::handler::Reply;
use crate::http1::Http1;
use crate::storage::Storage;
use crate::transmit::{Body, End};

/// Parts of a request, each less than a segment, that are acknowledged at once.
const SMALL_PARTS_MAX: u8 = 16;

/// Bodies up to this long are copied behind the head, which is cheaper than a second piece of memory for the kernel, and lets
/// pipelined responses share a system call.
const COPIED_BYTES_MAX: u64 = 2 << 10;

/// Major versions of HTTP.
const HTTP_1: u8 = 1;
const HTTP_2: u8 = 2;
const HTTP_3: u8 = 3;

/// One client connection: its protocol, and what the loop knows of it; its socket is the transmitter's. An idle one holds no buffers.
pub struct Conn {
    /// Has no part in it where the client speaks HTTP/2 or HTTP/3, but its end.
    pub http1: Http1,
    pub exchanges: Exchanges,
    pub address: IpAddr,
    pub port: u16,
    /// The index of its client's account.
    pub client: u32,
    /// Where the peer is a trusted proxy: whose requests it has passed on.
    pub origins: Option<Box<Origins>>,
    /// Its name in events and among jobs.
    pub owner: u64,
    /// The UDP port at which its client could speak HTTP/3.
    pub http3_port: Option<NonZeroU16>,
    /// A response was sent on it before.
    pub has_answered: bool,
    pub input: Input,
    pub channel: Channel,
    /// Its memory.
    pub held: Held,
}

/// Whether requests of a connection come over TLS.
#[derive(Debug, Clone, Copy)]
pub struct Security {
    is_secure: bool,
    /// A proxy tells how they came to it.
    is_trusted: bool,
}

impl Security {
    pub fn of(self, request: &Request) -> bool {
        let told = self.is_trusted.then(|| claimed(request, |_| true).is_secure).flatten();
        told.unwrap_or(self.is_secure)
    }
}

/// What is to be read of a connection.
#[derive(Debug, Default)]
pub struct Input {
    /// Something arrived that was not read yet.
    pub is_readable: bool,
    /// It is on the worker's list of those with something to be read.
    pub is_queued: bool,
    /// Its turn ended before all that was kept was looked at.
    pub is_cut: bool,
    /// The client sends no more: behind the last bytes is an end, of which no other event will tell.
    pub has_ended: bool,
    /// Parts of the request that is coming, each less than a segment.
    small_parts: u8,
    /// Of a record or of frames only a part is here, which may be one of a request.
    has_part: bool,
}

/// What is below HTTP, and its handshake.
#[derive(Debug)]
pub struct Channel {
    kind: ChannelKind,
    /// No keys are agreed on yet.
    pub is_handshaking: bool,
    /// A flight of its handshake is a job, and nothing is read meanwhile: no request can have come.
    pub is_in_flight: bool,
    /// Segments are held back until they are full.
    pub is_corked: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChannelKind {
    Tcp,
    /// TLS over TCP.
    Tls,
    Quic,
}

impl Channel {
    pub fn new(kind: ChannelKind) -> Channel {
        Channel { kind, is_handshaking: kind != ChannelKind::Tcp, is_in_flight: false, is_corked: false }
    }

    pub fn is_tls(&self) -> bool {
        self.kind == ChannelKind::Tls
    }

    pub fn is_quic(&self) -> bool {
        self.kind == ChannelKind::Quic
    }

    pub fn is_secure(&self) -> bool {
        self.kind != ChannelKind::Tcp
    }

    /// The client does not speak TLS after all.
    pub fn end_tls(&mut self) {
        *self = Channel::new(ChannelKind::Tcp);
    }
}

impl Input {
    /// There may be something to be read or looked at.
    pub fn is_left(&self) -> bool {
        self.is_readable || self.is_cut
    }

    /// So many bytes were received, which leave a request incomplete or not. Whether they should be acknowledged at once: a client may hold
    /// the rest of its request back until it knows that the beginning came (Nagle's algorithm, RFC 9293 section 3.7.4), and no response
    /// takes the acknowledgement along. One that holds back has sent a whole segment before, or a few words; a flood of bytes is not worth a
    /// system call each.
    pub fn on_received(&mut self, bytes: usize, is_incomplete: bool) -> bool {
        if !is_incomplete || self.is_cut {
            self.small_parts = 0;
            return false;
        }
        let is_small = bytes < SEGMENT_BYTES_MIN as usize;
        let is_worth_it = !is_small || self.small_parts < SMALL_PARTS_MAX;
        self.small_parts += u8::from(is_small && is_worth_it);
        is_worth_it
    }
}

impl Conn {
    /// One that waits for its first request, and whose memory is counted in this account.
    pub fn new(now: Nanos, limits: &Limits, owner: u64, client: u32, peer: SocketAddr, account: &Account) -> Conn {
        Conn {
            http1: Http1::new(now, limits),
            exchanges: Exchanges::single(owner),
            address: peer.ip(),
            port: peer.port(),
            client,
            origins: limits.trusted_proxies.contain(peer.ip()).then(Box::default),
            owner,
            http3_port: None,
            has_answered: false,
            input: Input::default(),
            channel: Channel::new(ChannelKind::Tcp),
            held: Held::new(account),
        }
    }

    /// It is this peer's, whose account has this index.
    pub fn adopt(&mut self, peer: SocketAddr, client: u32, limits: &Limits) {
        (self.address, self.port, self.client) = (peer.ip(), peer.port(), client);
        self.origins = limits.trusted_proxies.contain(peer.ip()).then(Box::default);
    }

    /// Its deadlines are so much later.
    pub fn excuse(&mut self, paused: Nanos) {
        self.http1.excuse(paused);
        self.exchanges.excuse(paused);
    }

    pub fn peer(&self) -> SocketAddr {
        SocketAddr::new(self.address, self.port)
    }

    /// The client of the request on this stream: the peer, or whom that passed it on for.
    pub fn client_of(&self, stream: u32) -> u32 {
        self.origin(stream).map_or(self.client, |origin| origin.client)
    }

    /// Its address.
    pub fn address_of(&self, stream: u32) -> IpAddr {
        self.origin(stream).map_or(self.address, |origin| origin.address)
    }

    /// The same with its port, 0 where a proxy has not told that.
    pub fn client_address(&self, stream: u32) -> SocketAddr {
        self.origin(stream).map_or_else(|| self.peer(), |origin| SocketAddr::new(origin.address, 0))
    }

    fn origin(&self, stream: u32) -> Option<Origin> {
        self.origins.as_ref()?.of(stream)
    }

    /// The peer is a proxy that is believed what it says of its clients.
    pub fn is_trusted(&self) -> bool {
        self.origins.is_some()
    }

    /// Whether the client of this request came over TLS, to us or to the proxy that passed it on.
    pub fn is_secure(&self, request: &Request) -> bool {
        self.security().of(request)
    }

    pub fn security(&self) -> Security {
        Security { is_secure: self.channel.is_secure(), is_trusted: self.is_trusted() }
    }

    /// A proxy is to tell first whose it is.
    pub fn awaits_header(&self) -> bool {
        self.origins.as_ref().is_some_and(|origins| origins.header.is_some())
    }

    /// The version that its client speaks, major and minor: from 2 on there is no minor one.
    pub fn version(&self, minor_version: u8) -> (u8, u8) {
        match self {
            conn if conn.channel.is_quic() => (HTTP_3, 0),
            conn if conn.is_multiplexed() => (HTTP_2, 0),
            _ => (HTTP_1, minor_version),
        }
    }

    /// The exchange on this stream, or the connection's own.
    pub fn exchange(&mut self, stream: u32) -> &mut Exchange {
        self.exchanges.on(stream).expect("its stream is open")
    }

    /// Appends the head of a reply over HTTP/1.1, and its body where that is small; gives the body that is left, and whether the connection
    /// ends behind it.
    pub fn encode(
        &mut self,
        reply: Reply,
        date: &HttpDate,
        storage: &mut dyn Storage,
        out: &mut Vec<u8>,
    ) -> (Body, bool) {
        let began = out.len();
        let delimiter = self.http1.encode(&reply.response, reply.is_last, date, out);
        let status = reply.response.status;
        let mut body = delimiter.map_or_else(Body::default, |delimiter| reply.response.body.delimited(delimiter));
        self.exchange(0).note_encoded(status, out.len() - began, body.len());
        if body.len() <= COPIED_BYTES_MAX && body.is_in_memory() {
            let copied = body.read(storage, out, COPIED_BYTES_MAX);
            debug_assert!(copied.is_ok() && body.is_empty(), "memory does not fail");
        }
        (body, self.http1.answering.closes())
    }

    /// So many bytes of a response over HTTP/1.1 have left before it became a job.
    pub fn note_first_byte(&mut self, sent_bytes: u64, clock: impl FnOnce() -> Nanos) {
        if let Some(line) = self.exchange(0).line.as_mut().filter(|_| sent_bytes > 0) {
            line.first_byte_at = Some(clock());
        }
    }

    /// The response on this stream is a job.
    pub fn hold(&mut self, stream: u32, job: JobId, now: Nanos) {
        self.exchange(stream).task = Task::Sending(job);
        if !self.is_multiplexed() {
            self.http1.on_held(now);
        }
    }

    /// What follows the response now being built.
    pub fn end(&self) -> End {
        if !self.is_multiplexed() && self.http1.answering.closes() { End::Finish } else { End::Open }
    }

    /// The client speaks HTTP/2 or HTTP/3.
    pub fn is_multiplexed(&self) -> bool {
        self.exchanges.streams().is_some()
    }

    /// It is not read before something of it has been sent.
    pub fn is_answering(&self) -> bool {
        !self.is_multiplexed() && (self.http1.answering.is_on() || self.channel.is_in_flight)
    }

    /// What it sends is looked at.
    pub fn is_reading(&self) -> bool {
        self.is_multiplexed() || (self.http1.is_reading() && !self.channel.is_in_flight)
    }

    pub fn is_sending(&self) -> bool {
        self.exchanges.iter().any(|exchange| exchange.is_sending())
    }

    /// When it has waited for its client too long.
    pub fn deadline(&self) -> Nanos {
        self.exchanges.streams().map_or_else(|| self.http1.deadline(), |streams| streams.deadline)
    }

    /// Of a record or of frames only a part is here, or not. The rest of one that begins has until then, as that of a head has.
    pub fn note_part(&mut self, has_part: bool, until: Nanos) {
        let begins = has_part && !self.input.has_part;
        self.input.has_part = has_part;
        if begins && self.is_unasked() && !self.http1.is_lingering() {
            let until = until.min(self.deadline());
            match self.exchanges.streams_mut() {
                Some(streams) => streams.deadline = until,
                None => self.http1.wait_until(until),
            }
        }
    }

    /// Since when an idle one has been so, by its deadline.
    pub fn idle_since(&self, limits: &Limits) -> Nanos {
        let timeout = match () {
            () if self.channel.is_handshaking => HANDSHAKE_TIMEOUT,
            () if self.has_answered => limits.idle_timeout,
            () => limits.head_timeout,
        };
        Nanos(self.deadline().0.saturating_sub(timeout.0))
    }

    /// Nothing is asked of us, and nothing is on its way to the client that we know of.
    pub fn is_idle(&self) -> bool {
        let has_part = self.input.has_part && !self.http1.is_lingering();
        !self.input.is_readable && !has_part && self.is_unasked()
    }

    /// No whole request is here.
    fn is_unasked(&self) -> bool {
        self.exchanges.streams().map_or_else(|| self.http1.is_idle(), |streams| streams.is_idle())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_segments_and_the_first_small_parts_of_a_request_are_acknowledged_at_once() {
        let mut input = Input::default();
        assert!(!input.on_received(5, false), "the response does");
        (0..SMALL_PARTS_MAX).for_each(|_| assert!(input.on_received(5, true)));
        assert!(!input.on_received(5, true) && input.on_received(1460, true) && !input.on_received(5, true));
        input.on_received(5, false);
        assert!(input.on_received(5, true), "of the next request");
        input.is_cut = true;
        assert!(!input.on_received(5, true), "more is here already");
    }

    #[test]
    fn a_handshake_is_of_tls_and_quic() {
        let kinds = [ChannelKind::Tcp, ChannelKind::Tls, ChannelKind::Quic];
        assert_eq!(kinds.map(|kind| Channel::new(kind).is_handshaking), [false, true, true]);
        let mut channel = Channel::new(ChannelKind::Tls);
        assert!(channel.is_tls() && channel.is_secure() && !channel.is_quic());
        channel.end_tls();
        assert!(!channel.is_secure() && !channel.is_handshaking);
    }
}
