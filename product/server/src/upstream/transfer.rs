//! A request on its way to an upstream, and the response on its way back. A transfer has no socket and reads no clock.

use std::sync::Arc;

use http::http1::upstream::{Framing, UpstreamBody, UpstreamHead};
use http::websocket::ACCEPT_BYTES;
use http::{BodyLength, Method};
use sched::routes::{RouteKey, ServiceRoute};
use sched::upstream_queue::Turn;
use units::Nanos;
use units::memory::{Account, Counted};

use super::attempt::Attempt;
use super::deadline::Deadline;
use super::request::{
    Head, Outbound, SCARCE_BODY_BYTES_MAX, STREAM_BODY_BYTES_MAX, UNMEASURED_BODY_BYTES_MAX, Waiting,
};
use super::response::{Inbound, Interim, Memory, kept_for};
use super::tunnel::{OnStream, Tunnel};
use super::{Announced, BodySink, Fault, Group, TransferStep};
use crate::exchange_id::ExchangeId;

#[derive(Debug)]
pub struct Transfer {
    /// The exchange to which the transfer belongs.
    pub exchange: ExchangeId,
    /// The response is being sent to the client.
    pub is_sending: bool,
    pub group: Arc<Group>,
    /// The number of the upstream.
    pub peer: usize,
    /// The number of the connection; `None` while the transfer waits for one.
    pub connection: Option<usize>,
    pub(super) outbound: Outbound,
    pub(super) inbound: Inbound,
    /// The time until which the transfer waits for the upstream.
    pub deadline: Deadline,
    /// The route of the response, once its head has arrived.
    pub route: Option<RouteKey>,
    /// The last attempt.
    pub attempt: Attempt,
    pub queued: Queued,
    pub client: ClientConnection,
}

/// The client connection of a request, and its demands on the connection to the upstream.
#[derive(Debug)]
pub struct ClientConnection {
    /// The account of response bytes that the client has not taken.
    pub responses: Account,
    /// True if the request logs in with a scheme that authenticates a connection.
    pub logs_in: bool,
    pub announced: Announced,
    pub body: BodyAllowance,
    /// True if the next part of the body on the client's stream is awaited, which holds at the beginning.
    pub is_awaited: bool,
}

/// The maximum time for which a request waits for the names of its upstreams. A resolver that is away must not delay the
/// error of an upstream that is away too.
const NAMES_WITHIN: Nanos = Nanos::from_secs(2);

/// The number of bytes by which the body of a request may still grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyAllowance {
    left_bytes: u64,
    is_exceeded: bool,
}

impl BodyAllowance {
    /// Creates the allowance; `None` is for no limit.
    pub fn new(bytes_max: Option<u64>) -> BodyAllowance {
        BodyAllowance { left_bytes: bytes_max.unwrap_or(u64::MAX), is_exceeded: false }
    }

    /// Counts bytes that have arrived. Returns false if they exceed the allowance.
    fn take(&mut self, bytes: usize) -> bool {
        match self.left_bytes.checked_sub(bytes as u64) {
            Some(left_bytes) => self.left_bytes = left_bytes,
            None => self.is_exceeded = true,
        }
        !self.is_exceeded
    }
}

/// The position of a transfer in the queue of its upstream.
#[derive(Debug, Default)]
pub struct Queued {
    pub turn: Turn,
    pub route: Option<ServiceRoute>,
    pub hold: Hold,
    /// True if the transfer has waited for the names of its upstreams.
    pub has_looked_up: bool,
}

/// The place that a transfer holds at its upstream.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// No place: the request's body must arrive first, or the transfer is a health check.
    #[default]
    Nothing,
    /// A position in the queue: the transfer waits for the place of this ticket.
    Waits(u64),
    Place,
    /// A place for a tunnel.
    Tunnel,
    /// No place: the names of the upstreams are looked up first.
    Names,
}

impl ClientConnection {
    /// Creates a client connection that makes no demands on connections to upstreams.
    pub fn new(responses: &Account) -> ClientConnection {
        ClientConnection {
            responses: responses.clone(),
            logs_in: false,
            announced: Announced::Nobody,
            body: BodyAllowance::new(None),
            is_awaited: true,
        }
    }
}

impl Transfer {
    /// Creates the transfer of a request whose head is encoded. The memory of the request is counted in `account`, the
    /// memory of the response in the client connection's own account.
    pub fn new(
        exchange: ExchangeId,
        group: Arc<Group>,
        method: Method,
        head: impl Into<Head>,
        body: BodyLength,
        account: &Account,
        client: ClientConnection,
    ) -> Transfer {
        Transfer {
            exchange,
            is_sending: false,
            group,
            peer: usize::MAX,
            connection: None,
            outbound: Outbound::new(head.into(), method, body, account),
            inbound: Inbound {
                method,
                kept: Counted::new(account),
                has_come: false,
                interim: Interim::default(),
                kept_for: Nanos::ZERO,
                tunnel: Tunnel::default(),
                body: None,
                body_bytes: 0,
                announced_bytes: 0,
                held_at: None,
                is_held: false,
                memory: Memory::Enough,
            },
            deadline: Deadline::default(),
            route: None,
            attempt: Attempt::default(),
            queued: Queued::default(),
            client,
        }
    }

    /// Sets the client and the class priority for the queue (lower priorities come first), and the route under which
    /// durations are known.
    pub fn queued(mut self, client: u32, priority: u8, route: ServiceRoute) -> Transfer {
        let turn = Turn { client, priority, ..Turn::default() };
        self.queued = Queued { turn, route: Some(route), ..Queued::default() };
        self
    }

    /// Lets the transfer take a place at its upstream before any of its body has arrived.
    pub fn unbuffered(mut self) -> Transfer {
        self.outbound.is_buffered = false;
        self
    }

    /// Returns true if the transfer is still waiting for its request's body, or the first 64 KB of it, before it takes
    /// a place. So a client that sends slowly holds no place.
    pub fn is_gathering(&self) -> bool {
        let has_begun = self.queued.hold != Hold::Nothing || self.connection.is_some();
        let is_gathered = self.outbound.is_buffered || self.outbound.is_unmeasured();
        !has_begun && is_gathered && !self.outbound.is_whole && self.room() > 0
    }

    /// Sets that the request's body comes from a stream, whose engine keeps more of it.
    pub fn on_stream(mut self) -> Transfer {
        self.outbound.bytes_max = STREAM_BODY_BYTES_MAX;
        self
    }

    pub fn is_on_stream(&self) -> bool {
        self.outbound.bytes_max == STREAM_BODY_BYTES_MAX
    }

    /// Returns true if everything of the request that has arrived was sent, and the client has to send more.
    pub fn waits_for_client(&self) -> bool {
        self.is_gathering() || self.connection.is_some() && self.outbound.waits_for_client()
    }

    /// Makes the transfer wait for the place of this ticket, for as long as its upstream may be silent.
    pub(super) fn wait_for_place(&mut self, ticket: u64, now: Nanos) {
        self.queued.hold = Hold::Waits(ticket);
        self.deadline.set(now, self.group.read_timeout);
    }

    /// Makes the transfer wait for the names of its upstreams, for no longer than for a connection.
    pub(super) fn wait_for_names(&mut self, now: Nanos) {
        (self.queued.hold, self.queued.has_looked_up) = (Hold::Names, true);
        self.deadline.set(now, self.group.connect_timeout.min(NAMES_WITHIN));
    }

    /// Returns true if the request may be sent to another address after this fault, and has not waited for one before.
    pub(super) fn may_wait_for_names(&self, fault: &Fault) -> bool {
        let is_harmless = match fault {
            Fault::NoAddress | Fault::Down => true,
            Fault::Unreachable(_) | Fault::Tls(_) | Fault::TooSlow(_) => self.outbound.is_unsent(),
            Fault::Broken(_) | Fault::Closed => {
                self.attempt.is_new() && (self.outbound.is_unsent() || self.outbound.is_repeatable)
            }
            _ => false,
        };
        let is_open = !self.inbound.has_come && !self.outbound.has_dropped;
        is_harmless && is_open && !self.queued.has_looked_up && !self.is_probe()
    }

    /// Returns true if an upstream was chosen.
    pub fn has_peer(&self) -> bool {
        self.peer != usize::MAX
    }

    /// Returns the numbers of the request's bytes that wait, and that the upstream has taken.
    pub fn waiting(&self) -> Waiting {
        self.outbound.waiting()
    }

    /// Returns true if the transfer is a health check.
    pub fn is_probe(&self) -> bool {
        self.exchange.is_check()
    }

    /// Sets whether the request asks for another protocol. `accept` is the only valid answer to the key, if the client
    /// accepts only a WebSocket. `on_stream` is present if the request opens a WebSocket on a stream: the answer to the
    /// client's key, and the head of the same request over HTTP/1.1.
    pub fn upgrading(
        mut self,
        is_asked: bool,
        accept: Option<[u8; ACCEPT_BYTES]>,
        on_stream: Option<([u8; ACCEPT_BYTES], Vec<u8>)>,
    ) -> Transfer {
        (self.inbound.tunnel.is_asked, self.inbound.tunnel.accept) = (is_asked, accept);
        if let Some((accept, lines)) = on_stream {
            let lines = Counted::of(self.account(), lines);
            self.inbound.tunnel.on_stream = Some(Box::new(OnStream { accept, lines }));
            self.outbound.open_on_stream();
        }
        self
    }

    /// Changes the request to HTTP/1.1, because its upstream opens no WebSocket on a stream. Returns false if it opens
    /// none.
    pub(super) fn change_to_http1(&mut self) -> bool {
        let Some(on_stream) = self.inbound.tunnel.on_stream.take() else { return false };
        let (lines, account) = (on_stream.lines.to_vec(), self.inbound.kept.account());
        let bytes_max = self.outbound.bytes_max;
        self.outbound = Outbound::new(lines.into(), self.inbound.method, BodyLength::None, account);
        self.outbound.bytes_max = bytes_max;
        true
    }

    /// Returns true if the request goes over HTTP/1.1 although the upstreams of its group speak HTTP/2.
    pub(super) fn is_over_http1(&self) -> bool {
        self.group.is_http2() && self.outbound.of_stream.is_none()
    }

    /// Begins the request on a connection, from its first byte.
    pub fn connect(&mut self, connection: usize, is_idle: bool, now: Nanos) {
        self.connection = Some(connection);
        self.outbound.rewind();
        self.attempt = self.attempt.next(now, !is_idle);
        self.deadline.set(now, if is_idle { self.group.read_timeout } else { self.group.connect_timeout });
    }

    /// Returns true if the request may be sent again on another connection.
    pub fn may_repeat(&self, fault: &Fault) -> bool {
        let endpoints = self.group.endpoints().len();
        !self.inbound.has_come && self.attempt.may_be_repeated(fault, &self.outbound, endpoints)
    }

    /// Returns true if no connection could be made for the request.
    pub(super) fn is_unconnected(&self, fault: &Fault) -> bool {
        self.attempt.is_unconnected(fault, &self.outbound)
    }

    /// Records the fault of an attempt that is followed by another.
    pub(super) fn on_failed(&mut self, fault: &Fault) {
        self.attempt.on_failed(fault, &self.outbound);
    }

    /// The maximum time for which the upstream may be silent.
    pub(super) fn patience(&self) -> Nanos {
        self.inbound.tunnel.patience(self.group.read_timeout)
    }

    /// The number of bytes of the request's body that are accepted now.
    pub fn room(&self) -> usize {
        if self.is_too_large() {
            return 0;
        }
        if self.outbound.is_refused {
            return usize::MAX;
        }
        // Bytes after the request and before the change of protocol could be read as another request.
        if self.inbound.tunnel.is_asked && !self.inbound.tunnel.is_open && self.outbound.is_whole {
            return 0;
        }
        let bytes_max = match () {
            () if self.account().room() == 0 => SCARCE_BODY_BYTES_MAX,
            () if self.outbound.is_unmeasured() => UNMEASURED_BODY_BYTES_MAX,
            () => self.outbound.bytes_max,
        };
        bytes_max.saturating_sub(self.outbound.bytes.len() - self.outbound.at)
    }

    /// Returns the reason why a body of unknown length cannot be gathered to its end.
    pub fn too_large_to_gather(&self) -> Fault {
        let is_over = self.outbound.bytes.len() - self.outbound.at >= UNMEASURED_BODY_BYTES_MAX;
        if is_over { Fault::Unmeasured } else { Fault::NoMemory }
    }

    /// Returns true if more of the request will come and there is room for it.
    pub fn is_wanting(&self) -> bool {
        !self.outbound.is_whole && self.room() > 0
    }

    /// Appends more of the request's body; `is_last` ends it. Bytes that the upstream does not want are dropped.
    pub fn push_request(&mut self, bytes: &[u8], is_last: bool) {
        if self.inbound.tunnel.is_open || self.client.body.take(bytes.len()) {
            self.outbound.push(bytes, is_last);
        }
    }

    /// Returns true if the client has sent a larger body than is allowed.
    pub fn is_too_large(&self) -> bool {
        self.client.body.is_exceeded
    }

    /// Records that some of the request was sent.
    pub(super) fn note_sent(&mut self, now: Nanos) {
        self.attempt.on_sent(now);
        self.outbound.sent_at = now;
        self.deadline.set(now, self.patience());
    }

    /// Records that some of the response has arrived.
    pub(super) fn note_came(&mut self, now: Nanos) {
        self.inbound.has_come = true;
        self.attempt.on_come(now);
        self.deadline.set(now, self.patience());
    }

    /// Sets the deadline while the transfer waits for the upstream, and clears it while the transfer waits for the
    /// client: an upload has a deadline of its own.
    pub(super) fn set_deadline(&mut self, now: Nanos) {
        if self.outbound.waits_for_client() {
            self.deadline.clear();
        } else if !self.deadline.is_set() && !self.is_answered() {
            self.deadline.set(now, self.patience());
        }
    }

    pub(super) fn begin_body(&mut self, head: &UpstreamHead) {
        self.outbound.on_answered();
        if head.framing == Framing::Upgraded {
            self.outbound.begin_tunnel();
        }
        self.inbound.tunnel.is_open = head.framing == Framing::Upgraded;
        self.inbound.kept_for = kept_for(head, self.group.scripts.is_some());
        self.inbound.announced_bytes = if let Framing::Length(length) = head.framing { length.bytes() } else { 0 };
        self.inbound.body = Some(UpstreamBody::new(head.framing));
    }

    /// Returns true if the head of the response has arrived.
    pub fn is_answered(&self) -> bool {
        self.inbound.body.is_some()
    }

    pub(super) fn wait_for_client(&mut self, sink: &mut impl BodySink, now: Nanos) -> TransferStep {
        self.inbound.held_at.get_or_insert(now);
        self.deadline.clear();
        if sink.waits_for_memory() {
            self.need_memory();
        }
        self.inbound.is_held = !self.inbound.tunnel.is_open && !sink.waits_for_disk();
        TransferStep::Wait
    }

    /// Returns true if the client and the upstream have changed to another protocol.
    pub fn is_tunnel(&self) -> bool {
        self.inbound.tunnel.is_open
    }

    /// Returns true if the connection may be reused after the complete response.
    pub fn keeps_connection(&self) -> bool {
        let is_sent = self.outbound.is_whole && !self.outbound.is_refused && self.outbound.is_sent();
        is_sent && self.inbound.kept_for > Nanos::ZERO && self.inbound.kept.is_empty()
    }

    /// The fault of an upstream that has exceeded its deadline.
    pub fn timed_out(&self) -> Fault {
        Fault::TooSlow(match () {
            () if self.connection.is_none() => "no place became free in time",
            () if self.outbound.is_unsent() => "no connection in time",
            () if self.inbound.has_come => "sent nothing for too long",
            () => "no response in time",
        })
    }

    /// The number of bytes of the response's body that were passed on.
    pub fn body_bytes(&self) -> u64 {
        self.inbound.body_bytes
    }

    /// Returns true if the response holds its upstream's place while the client receives it.
    pub fn is_held(&self) -> bool {
        self.inbound.is_held
    }

    /// Ends the hold on the upstream's place. Returns true if there was one.
    pub fn let_go(&mut self) -> bool {
        std::mem::take(&mut self.inbound.is_held)
    }

    /// The time that the upstream took from the last byte of the request to the last byte of the response, or until the
    /// response had to wait for the client, with the route of the request. `None` for a tunnel, for which the time has
    /// no meaning.
    pub fn service(&self, now: Nanos) -> Option<(ServiceRoute, Nanos)> {
        let route = self.queued.route.filter(|_| !self.inbound.tunnel.is_open)?;
        Some((route, self.inbound.held_at.unwrap_or(now) - self.outbound.sent_at))
    }

    /// The size of the response's body: the announced length, or the number of bytes received if that is larger.
    pub fn size_bytes(&self) -> u64 {
        self.inbound.announced_bytes.max(self.inbound.body_bytes)
    }

    /// The memory in use, in bytes, without bytes that have arrived on a stream.
    #[cfg(test)]
    pub fn alive_bytes(&self) -> usize {
        let head_bytes = self.outbound.of_stream.as_ref().map_or(0, |of_stream| of_stream.head.bytes());
        let lines_bytes = self.inbound.tunnel.on_stream.as_ref().map_or(0, |on_stream| on_stream.lines.capacity());
        self.outbound.bytes.capacity() + head_bytes + lines_bytes + self.inbound.kept.capacity()
    }

    /// The account of the response bytes of the client connection.
    pub fn account(&self) -> &Account {
        self.inbound.kept.account()
    }

    /// Records that the transfer cannot continue because memory is missing.
    pub(super) fn need_memory(&mut self) {
        if self.inbound.memory == Memory::Enough {
            self.inbound.memory = Memory::Needed;
        }
    }

    /// Returns true if the transfer needs memory and is not in the list of transfers that wait for memory.
    pub fn begins_to_starve(&self) -> bool {
        self.inbound.memory == Memory::Needed
    }

    /// Records that the transfer is in the list of transfers that wait for memory.
    pub fn starve(&mut self) {
        self.inbound.memory = Memory::Awaited;
    }

    /// Records that the transfer has left the list of transfers that wait for memory, because memory is available.
    pub fn feed(&mut self) {
        self.inbound.memory = Memory::Enough;
    }
}
