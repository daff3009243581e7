//! Accepts connections as long as there are places for them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use units::Nanos;
use units::wire::Framing;

use super::admission::NoPlace;
use super::listeners::Listeners;
use super::responder::Responder;
use crate::connection::{ChannelKind, HANDSHAKE_TIMEOUT, SEGMENT_BYTES_MIN};
use crate::journal::Kind;
use crate::net::{Net, Stream, Transport};
use crate::send::Order;

/// The maximum number of connections accepted per turn, so that a flood of them cannot starve open connections.
const ACCEPTS_PER_TURN_MAX: usize = 64;

/// The maximum number of times that a server that is stopping accepts [`ACCEPTS_PER_TURN_MAX`] connections.
const LAST_ACCEPTS_MAX: usize = 16;

/// The maximum segment size that is counted: Ethernet's, even if the interface's is larger (64 KiB on loopback). A
/// grant is at least one segment, and the loopback interface is not the bottleneck.
const SEGMENT_BYTES_MAX: u32 = 1460;

impl<N: Net> Listeners<N> {
    /// Accepts waiting clients and reads what they have sent.
    pub fn accept(&mut self, with: &mut Responder<N>) {
        let mut newcomers = std::mem::take(&mut self.newcomers);
        self.accept_some(&mut newcomers, with);
        if !newcomers.is_empty() {
            // The requests of the new clients may be younger than this turn's events, and younger than a file change
            // since then.
            with.service.handler.on_change();
        }
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        with.budget.to_come = newcomers.len();
        for at in newcomers.drain(..) {
            with.budget.to_come -= 1;
            // The request has often arrived already, and the whole conversation may be over before the kernel needs to
            // watch the connection.
            if with.timers.is_turn_over(with.net.now()) {
                with.connections.queue(at);
            } else {
                with.read(at);
            }
            let conn = with.connections.get(at);
            if conn.is_some_and(|conn| conn.socket.watch(&with.net, conn.token, flags).is_err()) {
                // Out of memory, or over the user's limit of epoll watches. Without events the connection is useless.
                with.abandon(at);
            }
            if with.transmitter.is_due(&with.connections, || with.net.now()) {
                with.transmit();
            }
        }
        self.newcomers = newcomers;
    }

    /// Accepts the clients in the kernel's queue that no other process will accept.
    pub fn accept_last(&mut self, with: &mut Responder<N>) {
        if self.listeners().iter().any(|listener| listener.is_passed) {
            return;
        }
        for _ in 0..LAST_ACCEPTS_MAX {
            if !self.is_client_waiting(&with.net) {
                return;
            }
            self.accept(with);
        }
    }

    fn accept_some(&mut self, newcomers: &mut Vec<usize>, with: &mut Responder<N>) {
        for _ in 0..ACCEPTS_PER_TURN_MAX {
            if !self.take_place(with) {
                return;
            }
            match self.accept_next(&with.net) {
                Ok((socket, peer)) => newcomers.extend(self.welcome(socket, peer, with)),
                Err(error) => {
                    with.service.admission.give_back_place();
                    if !self.goes_on_after(error, with) {
                        return;
                    }
                }
            }
        }
    }

    /// Handles a failure to accept a client. Returns whether to try the next client in the same turn.
    fn goes_on_after(&mut self, error: Errno, with: &mut Responder<N>) -> bool {
        let number = with.setup.number;
        match error {
            Errno::AGAIN => false,
            Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM => {
                // Logged once, until every waiting client has been accepted.
                if self.on_shortage() {
                    with.service.journal.error(format_args!(
                        "cannot accept more than {} connections on worker {number}: {error}; raise the limit on open files (ulimit -n)",
                        with.connections.len(),
                    ));
                }
                self.pause(&with.net);
                false
            }
            Errno::INVAL => {
                if self.on_failure(&with.net) {
                    with.service.journal.error(format_args!(
                        "a socket of worker {number} accepts no more connections: {error}; another process has shut it: restart weir"
                    ));
                }
                true
            }
            // The client gave up before it was accepted, or a network error of its connection surfaced here.
            _ => true,
        }
    }

    /// Opens a connection that was accepted from the last listener. Returns `None` if the client has reached its limit
    /// of connections, or is an untrusted proxy.
    fn welcome(&self, socket: N::Tcp, peer: Option<SocketAddr>, with: &mut Responder<N>) -> Option<usize> {
        let peer = peer.unwrap_or(NOWHERE);
        let has_proxy_header = self.last().has_proxy_header;
        if has_proxy_header && !with.limits.trusted_proxies.contain(peer.ip()) {
            with.service.refuse_proxy(with.timers.now(), peer);
            return None;
        }
        let client = with.service.let_in(with.timers.now(), peer.ip(), with.transmitter.link.scheduler_mut())?;
        let counts_segments = matches!(with.transmitter.order, Order::Pace | Order::Marks);
        let framing = if counts_segments { framing(&socket, peer) } else { Framing::ETHERNET };
        let listener = self.last();
        let (session, http3_port) = (with.service.handler.session(listener.is_secure), listener.advertised_port());
        let kind = if session.is_some() { ChannelKind::Tls } else { ChannelKind::Tcp };
        let token = with.connections.next_token();
        let at = with.open(token, (Transport::on_tcp(socket), kind), client, peer, framing, session);
        let conn = &mut with.connections[at];
        (conn.input.is_readable, conn.peer.http3_port) = (true, http3_port);
        if let Some(origins) = conn.peer.origins.as_mut().filter(|_| has_proxy_header) {
            origins.header = Some(Vec::new());
        }
        if conn.channel.is_handshaking || has_proxy_header {
            conn.http1().wait_until(with.timers.client_now() + HANDSHAKE_TIMEOUT);
        }
        with.transmitter.link.begin(conn);
        Some(at)
    }

    /// Takes a place for the next client: a free one, or that of an idle connection. Returns false if there is neither;
    /// accepting then pauses, unless no client is waiting.
    fn take_place(&mut self, with: &mut Responder<N>) -> bool {
        if with.service.admission.is_memory_short() {
            // The connections that could be closed for newcomers were closed at the end of the last turn.
            if self.is_client_waiting(&with.net) {
                with.note_short();
            }
            self.pause(&with.net);
            return false;
        }
        if with.service.admission.take_place() {
            return true;
        }
        if !self.is_client_waiting(&with.net) {
            return false;
        }
        let is_freed = with.free_place();
        if !is_freed {
            self.wait_for_place(with);
        }
        is_freed
    }

    /// Takes a place for a client that has already arrived over QUIC. Returns `None` if another worker may soon free a
    /// place; until then this worker accepts no clients.
    pub fn take_place_beside(&mut self, with: &mut Responder<N>) -> Option<bool> {
        if with.service.admission.is_memory_short() {
            return Some(false);
        }
        if with.service.admission.take_place() {
            return Some(true);
        }
        let is_freed = with.free_place();
        if !is_freed && with.service.admission.without_place() == NoPlace::Wait {
            self.wait_for_place(with);
            return None;
        }
        Some(is_freed)
    }

    fn wait_for_place(&mut self, with: &Responder<N>) {
        self.pause(&with.net);
        with.service.admission.wait_for_place();
    }

    /// Ends a turn: frees a place if clients wait at other workers, and resumes accepting if a connection has ended.
    pub fn make_room(&mut self, with: &mut Responder<N>) {
        if with.service.admission.is_place_wanted() {
            with.give_up_idle(Nanos::ZERO);
        }
        if with.connections.take_ended() || !self.is_short() {
            // If this fails, the next sweep tries again and logs the error.
            let _ = self.accept_again(with);
        }
    }

    /// Resumes accepting the clients in the kernel's queue if there is room again.
    pub fn accept_again(&mut self, with: &mut Responder<N>) -> io::Result<()> {
        if !self.is_accepting() && !with.timers.is_stopping() && with.service.admission.has_room() {
            self.resume(&with.net)?;
            with.service.admission.wait_no_more();
        }
        Ok(())
    }
}

const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// Returns the framing of a connection from the kernel's segment size and options. An IPv4 client of an IPv6 socket
/// counts as IPv4.
fn framing(socket: &impl Stream, peer: SocketAddr) -> Framing {
    let is_ipv6 = peer.ip().to_canonical().is_ipv6();
    let Some((segment_bytes, has_timestamps)) = socket.segments() else { return Framing::ETHERNET };
    let segment_bytes = segment_bytes.clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX);
    Framing::new(segment_bytes.into(), is_ipv6, has_timestamps)
}

impl<N: Net> Responder<N> {
    /// Logs that newcomers wait because memory is short.
    fn note_short(&mut self) {
        let (now, memory) = (self.timers.now(), self.connections.account());
        let held = format!("others hold {} of {} KB", memory.bytes() >> 10, memory.bytes_max() >> 10);
        self.service.journal.fail(now, Kind::Newcomers, held);
    }

    /// Frees a place for a newcomer by closing an idle connection. Returns false if that is impossible.
    fn free_place(&mut self) -> bool {
        let is_freed = self.give_up_idle(Nanos::ZERO) && self.service.admission.take_place();
        self.service.log_full(self.timers.now());
        is_freed
    }
}
