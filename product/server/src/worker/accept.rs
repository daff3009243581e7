use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use tls::Session;
use units::wire::Framing;

use super::conn::Conn;
use super::exchange::Exchanges;
use super::secure::HANDSHAKE_TIMEOUT;
use super::{LISTENER, Order, Worker};
use crate::conn::Http1;
use crate::listen::Listener;
use crate::net::{Net, Source};
use crate::transmit::{Opening, Socket, Stream, Transport};

/// Connections accepted in one turn, so that a flood of them cannot starve those already here.
const ACCEPTS_PER_TURN_MAX: usize = 64;

/// Segments are counted as Ethernet's even where the interface's are larger (loopback's are 64 KiB): a grant is
/// at least one segment, and the bottleneck is somewhere else.
const SEGMENT_BYTES_MAX: u32 = 1460;
/// What every IPv4 host must be able to receive, less headers (RFC 9293 section 3.7.1); guards against nonsense.
pub(super) const SEGMENT_BYTES_MIN: u32 = 88;

impl<N: Net> Worker<N> {
    pub(super) fn accept(&mut self) {
        let mut newcomers = std::mem::take(&mut self.newcomers);
        self.accept_some(&mut newcomers);
        if !newcomers.is_empty() {
            // Their requests may be younger than the events of this turn, and than a file's change that came since.
            self.parts.replier.cache.on_change();
        }
        self.to_come = newcomers.len();
        for at in newcomers.drain(..) {
            self.to_come -= 1;
            // The request is often here already, and the whole conversation may be over before the kernel need be asked
            // to watch the connection.
            if self.is_turn_over() {
                self.queue(at);
            } else {
                self.read(at);
            }
            self.register(at);
            self.transmit_due();
        }
        self.newcomers = newcomers;
    }

    fn accept_some(&mut self, newcomers: &mut Vec<usize>) {
        for _ in 0..ACCEPTS_PER_TURN_MAX {
            if !self.take_place() {
                return;
            }
            match self.accept_one() {
                Ok((socket, peer)) => newcomers.extend(self.welcome(socket, peer)),
                Err(error) => {
                    self.parts.places.give_back();
                    match error {
                        Errno::AGAIN => {
                            self.is_short = false;
                            return;
                        }
                        Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM => {
                            self.tell_shortage(error);
                            return self.pause_accepting();
                        }
                        // The client gave up before it was accepted, or a network error of it came through.
                        _ => {}
                    }
                }
            }
        }
    }

    /// From the first listener that has one, the others first the next time.
    fn accept_one(&mut self) -> Result<(N::Tcp, Option<SocketAddr>), Errno> {
        let listeners = &self.parts.listeners;
        for _ in 0..listeners.len() {
            self.next_listener = (self.next_listener + 1) % listeners.len();
            let listener = &listeners[self.next_listener];
            match self.net.accept(&listener.socket) {
                Err(Errno::AGAIN) => {}
                accepted => return accepted,
            }
        }
        Err(Errno::AGAIN)
    }

    /// Once, until nobody waits any more.
    fn tell_shortage(&mut self, error: Errno) {
        if !std::mem::replace(&mut self.is_short, true) {
            self.parts.log.error(&format!(
                "cannot accept more than {} connections on worker {}: {error}; raise the limit on open files (ulimit -n)",
                self.conns.len(),
                self.parts.number
            ));
        }
    }

    /// From the listener that was asked last. `None` where its client has as many as it may.
    fn welcome(&mut self, socket: N::Tcp, peer: Option<SocketAddr>) -> Option<usize> {
        let peer = peer.unwrap_or(NOWHERE);
        let client = self.let_in(peer.ip())?;
        let counts_segments = matches!(self.parts.order, Order::Pace | Order::Marks);
        let framing = if counts_segments { framing(&socket, peer) } else { Framing::ETHERNET };
        let listener = &self.parts.listeners[self.next_listener];
        let (session, http3_port) = (self.session(listener.is_secure), listener.http3_port);
        let at = self.open(Transport::Tcp(socket), client, peer, framing, session);
        let conn = &mut self.conns[at];
        (conn.is_readable, conn.http3_port) = (true, http3_port);
        if conn.is_handshaking {
            conn.http1.wait_until(self.now + HANDSHAKE_TIMEOUT);
        }
        Some(at)
    }

    /// A connection of this client, here and in the transmitter.
    pub(super) fn open(
        &mut self,
        socket: Transport<N>,
        client: u32,
        peer: SocketAddr,
        framing: Framing,
        session: Option<Box<Session>>,
    ) -> usize {
        let at = self.conns.vacant_key();
        let owner = self.owners.next(at);
        let (is_secure, is_quic) = (session.is_some(), socket.is_quic());
        self.parts.transmitter.open(self.now, at, Opening { owner, socket, client, framing, session });
        self.conns.insert(Conn {
            http1: Http1::new(self.now, &self.parts.limits),
            address: peer.ip(),
            port: peer.port(),
            client,
            owner,
            exchanges: Exchanges::single(owner),
            http3_port: None,
            has_answered: false,
            is_readable: false,
            is_queued: false,
            is_cut: false,
            small_parts: 0,
            has_ended: false,
            is_corked: false,
            is_handshaking: is_secure || is_quic,
            is_secure,
            is_quic,
            is_in_flight: false,
        })
    }

    fn register(&mut self, at: usize) {
        let Some(conn) = self.conns.get(at) else { return };
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        let Some(socket) = self.parts.transmitter.socket(at).tcp() else { return };
        if self.net.add(Source::Tcp(socket), conn.owner, flags).is_err() {
            // Out of memory or over the user's limit of watches; without events the connection is of no use.
            self.abandon(at);
        }
    }

    pub(super) fn pause_accepting(&mut self) {
        if self.is_accepting {
            self.is_accepting = false;
            for listener in &self.parts.listeners {
                let _ = self.net.remove(Source::Listener(&listener.socket));
            }
        }
    }

    /// Called at the start, when a connection closes here or elsewhere, and by every sweep: clients in the kernel's queue
    /// are let in when there is room again.
    pub(super) fn accept_again(&mut self) -> io::Result<()> {
        if !self.is_accepting && self.stop_at.is_none() && self.parts.places.has_room() {
            let listeners = &self.parts.listeners;
            let add =
                |listener: &Listener<N>| self.net.add(Source::Listener(&listener.socket), LISTENER, listener.events());
            let added = listeners.iter().try_for_each(add);
            if let Err(error) = added {
                for listener in listeners {
                    let _ = self.net.remove(Source::Listener(&listener.socket));
                }
                return Err(error);
            }
            self.parts.places.wait_no_more(self.parts.number);
            self.is_accepting = true;
        }
        Ok(())
    }

    pub(super) fn stop_accepting(&mut self) {
        self.pause_accepting();
        self.parts.places.wait_no_more(self.parts.number);
        self.parts.listeners.iter().for_each(|listener| listener.refuse(&self.net));
    }
}

const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// By what the kernel says of the connection; an IPv4 client of an IPv6 socket is one of IPv4.
fn framing(socket: &impl Stream, peer: SocketAddr) -> Framing {
    let is_ipv6 = peer.ip().to_canonical().is_ipv6();
    let Some((segment_bytes, has_timestamps)) = socket.segments() else { return Framing::ETHERNET };
    let segment_bytes = segment_bytes.clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX);
    Framing::new(segment_bytes.into(), is_ipv6, has_timestamps)
}
