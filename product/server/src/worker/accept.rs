use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use tls::Session;
use units::wire::Framing;

use super::conn::{Channel, ChannelKind, Conn};
use super::secure::HANDSHAKE_TIMEOUT;
use super::{Order, Worker};
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
        let mut newcomers = std::mem::take(&mut self.buffers.newcomers);
        self.accept_some(&mut newcomers);
        if !newcomers.is_empty() {
            // Their requests may be younger than the events of this turn, and than a file's change that came since.
            self.service.replies.on_change();
        }
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        self.budget.to_come = newcomers.len();
        for at in newcomers.drain(..) {
            self.budget.to_come -= 1;
            // The request is often here already, and the whole conversation may be over before the kernel need be asked
            // to watch the connection.
            if self.timers.is_turn_over(self.net.now()) {
                self.conns.queue(at);
            } else {
                self.read(at);
            }
            let socket = self.conns.get(at).and_then(|_| self.sender.transmitter.connections.socket(at).tcp());
            if socket.is_some_and(|socket| self.net.add(Source::Tcp(socket), self.conns[at].owner, flags).is_err()) {
                // Out of memory or over the user's limit of watches; without events the connection is of no use.
                self.abandon(at);
            }
            self.transmit_due();
        }
        self.buffers.newcomers = newcomers;
    }

    fn accept_some(&mut self, newcomers: &mut Vec<usize>) {
        for _ in 0..ACCEPTS_PER_TURN_MAX {
            if !self.take_place() {
                return;
            }
            match self.acceptor.accept(&self.net) {
                Ok((socket, peer)) => newcomers.extend(self.welcome(socket, peer)),
                Err(error) => {
                    self.service.admission.give_back_place();
                    match error {
                        Errno::AGAIN => return,
                        Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM => {
                            // Said once, until all are accepted again.
                            if self.acceptor.on_shortage() {
                                self.service.journal.error(format_args!(
                                    "cannot accept more than {} connections on worker {}: {error}; raise the limit on open files (ulimit -n)",
                                    self.conns.len(),
                                    self.setup.number
                                ));
                            }
                            return self.acceptor.pause(&self.net);
                        }
                        // The client gave up before it was accepted, or a network error of it came through.
                        _ => {}
                    }
                }
            }
        }
    }

    /// From the listener that was asked last. `None` where its client has as many as it may.
    fn welcome(&mut self, socket: N::Tcp, peer: Option<SocketAddr>) -> Option<usize> {
        let peer = peer.unwrap_or(NOWHERE);
        let has_proxy_header = self.acceptor.last().has_proxy_header;
        if has_proxy_header && !self.setup.limits.trusted_proxies.contain(peer.ip()) {
            self.service.refuse_proxy(self.timers.now(), peer);
            return None;
        }
        let client = self.service.let_in(self.timers.now(), peer.ip(), self.sender.transmitter.link.scheduler_mut())?;
        let counts_segments = matches!(self.setup.order, Order::Pace | Order::Marks);
        let framing = if counts_segments { framing(&socket, peer) } else { Framing::ETHERNET };
        let listener = self.acceptor.last();
        let (session, http3_port) = (self.service.replies.session(listener.is_secure), listener.http3_port);
        let name = self.conns.vacant();
        let at = self.open(name, Transport::Tcp(socket), client, peer, framing, session);
        let conn = &mut self.conns[at];
        (conn.input.is_readable, conn.http3_port) = (true, http3_port);
        if let Some(origins) = conn.origins.as_mut().filter(|_| has_proxy_header) {
            origins.header = Some(Vec::new());
        }
        if conn.channel.is_handshaking || has_proxy_header {
            conn.http1.wait_until(self.timers.now() + HANDSHAKE_TIMEOUT);
        }
        Some(at)
    }

    /// A connection of this client, here and in the transmitter, of this vacant slot and name.
    pub(super) fn open(
        &mut self,
        (at, owner): (usize, u64),
        socket: Transport<N>,
        client: u32,
        peer: SocketAddr,
        framing: Framing,
        session: Option<Box<Session>>,
    ) -> usize {
        let kind = match session {
            Some(_) => ChannelKind::Tls,
            None if socket.is_quic() => ChannelKind::Quic,
            None => ChannelKind::Tcp,
        };
        self.sender.transmitter.connections.open(
            self.timers.now(),
            at,
            Opening { owner, socket, client, framing, session },
        );
        let conn = Conn::new(self.timers.now(), &self.setup.limits, owner, client, peer);
        self.conns.insert(Conn { channel: Channel::new(kind), ..conn });
        self.weigh(at);
        at
    }

    /// Called at the start, when a connection closes here or elsewhere, and by every sweep: clients in the kernel's queue
    /// are let in when there is room again.
    pub(super) fn accept_again(&mut self) -> io::Result<()> {
        if !self.acceptor.is_accepting()
            && !self.timers.is_stopping()
            && self.service.admission.has_room(self.conns.held())
        {
            self.acceptor.resume(&self.net)?;
            self.service.admission.wait_no_more();
        }
        Ok(())
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
