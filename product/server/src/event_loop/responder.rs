//! Work on connections, whatever caused it: receiving bytes, answering requests, sending bytes, and ending connections.

use std::net::SocketAddr;

use rustix::event::epoll::EventFlags;
use tls::Session;
use units::Nanos;
use units::wire::Framing;

use super::budget::Budget;
use super::service::Service;
use super::timers::Timers;
use super::{READ_BYTES, Setup};
use crate::clock::ClientClock;
use crate::connection::{ChannelKind, Connection, Connections, Departure, Opening};
use crate::journal::Sources;
use crate::limits::Limits;
use crate::net::{Net, Transport};
use crate::objectives::ResponsesStatus;
use crate::proxy::Proxy;
use crate::send::{Http2Begin, Transmitter};
#[cfg(test)]
use crate::simulation::planted;
use crate::upstream::unanswered;

/// The part of the worker that answers clients on open connections. It has no listener and opens no connections.
pub(super) struct Responder<N: Net> {
    pub setup: Setup,
    /// The current limits, from the start or the last reload.
    pub limits: Limits,
    pub net: N,
    pub timers: Timers,
    pub budget: Budget,
    pub connections: Connections<Transport<N>>,
    pub service: Service,
    pub transmitter: Transmitter,
    pub proxy: Proxy<N>,
    pub buffers: Buffers,
}

/// The reused buffers.
pub(super) struct Buffers {
    /// Bytes received from a socket.
    pub scratch: Box<[u8]>,
    /// Plaintext received over TLS.
    pub plain: Vec<u8>,
    pub departures: Vec<Departure>,
}

impl Buffers {
    fn new() -> Buffers {
        let scratch = vec![0; READ_BYTES].into_boxed_slice();
        Buffers { scratch, plain: Vec::new(), departures: Vec::new() }
    }
}

impl<N: Net> Responder<N> {
    pub fn new(net: N, setup: Setup, limits: Limits, service: Service, transmitter: Transmitter) -> Responder<N> {
        let clock = ClientClock::default();
        Responder {
            timers: Timers::new(net.now(), clock.clone()),
            net,
            budget: Budget::default(),
            connections: Connections::counted_in(service.admission.memory().clone(), clock.clone()),
            service,
            transmitter,
            proxy: Proxy::new(setup.upstream_places.clone(), limits.request.into(), clock),
            limits,
            setup,
            buffers: Buffers::new(),
        }
    }

    /// Opens a connection for this client, both here and in the transmitter, with this token.
    pub fn open(
        &mut self,
        token: u64,
        (socket, kind): (Transport<N>, ChannelKind),
        client: u32,
        peer: SocketAddr,
        framing: Framing,
        session: Option<Box<Session>>,
    ) -> usize {
        let (now, account) = (self.timers.client_now(), self.connections.account().part());
        let opening = Opening { token, socket, kind, client, peer, framing, session, account };
        self.connections.insert(Connection::new(now, opening, &self.limits))
    }

    /// Handles an event of a connection.
    pub fn on_connection(&mut self, token: u64, flags: EventFlags) {
        let Some(at) = self.connections.slot(token) else { return };
        let conn = &mut self.connections[at];
        let is_broken = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        // Many responses may end with a multiplexed connection, so this work waits until the connection is next read.
        if is_broken && conn.may_end_at_once() {
            return self.abandon(at);
        }
        let is_readable = is_broken || flags.intersects(EventFlags::IN | EventFlags::RDHUP);
        conn.input.is_readable |= is_readable;
        conn.input.has_ended |= flags.contains(EventFlags::RDHUP);
        let (is_free_for_tls, is_reading) = (conn.is_free_for_tls(), conn.is_reading());
        if self.has_left(at) {
            return self.abort(at);
        }
        let _conn = &mut self.connections[at];
        if flags.contains(EventFlags::OUT) {
            self.transmitter.on_writable(&mut self.connections, self.timers.now(), at);
            if is_free_for_tls {
                self.transmitter.send_tls(
                    &mut self.connections,
                    self.timers.now(),
                    at,
                    self.service.handler.default_class(),
                );
            }
            // The connection's last frames may have left.
            if self.connections[at].protocol.streams().is_some_and(|streams| streams.ends_at.is_some()) {
                self.connections.wake(at);
            }
        }
        if is_readable && is_reading {
            self.connections.queue(at);
        }
    }

    /// Returns true if an HTTP/1.1 client has shut down its sending side before an upstream has completed the response.
    /// The client is then considered gone, as in nginx, unless the site is configured otherwise. A response without an
    /// upstream continues; if the client is gone, the next packet to it causes a reset.
    pub(super) fn has_left(&self, at: usize) -> bool {
        #[cfg(test)]
        if planted::strikes(planted::Fault::GoneUnnoticed) {
            return false;
        }
        let conn = &self.connections[at];
        conn.input.has_ended && conn.only_exchange().is_some_and(|id| self.proxy.needs_client(id))
    }

    /// The responses under way.
    pub fn responses(&self) -> ResponsesStatus {
        let Service { handler, journal, .. } = &self.service;
        let sources = Sources { transmitter: &self.transmitter, connections: &self.connections, handler, journal };
        sources.responses(self.timers.now(), unanswered(self.proxy.upstreams()))
    }

    /// The settings with which an HTTP/2 connection begins.
    pub(super) fn http2_begin(&self) -> Http2Begin {
        let (limits, handler) = (&self.limits, &self.service.handler);
        let has_tunnels = handler.has_proxies();
        let settings = http2::Settings { request: limits.request, streams_max: http2::STREAMS_MAX, has_tunnels };
        Http2Begin { settings, head_timeout: limits.head_timeout, class: handler.default_class() }
    }

    /// Reads the clock, at most `timeout` after the last reading unless the process was paused.
    pub fn read_clock(&mut self, timeout: Option<Nanos>) {
        self.timers.advance(self.net.now(), timeout);
    }
}
