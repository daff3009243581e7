//! Taking connections, as far as there are places for them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use units::Nanos;
use units::wire::Framing;

use super::Order;
use super::acceptor::Acceptor;
use super::admission::NoPlace;
use super::responder::Responder;
use super::room::give_up_idle;
use crate::connection::{HANDSHAKE_TIMEOUT, SEGMENT_BYTES_MIN};
use crate::net::{Net, Source, Transport};
use crate::net::{Socket, Stream};

/// Connections accepted in one turn, so that a flood of them cannot starve those already here.
const ACCEPTS_PER_TURN_MAX: usize = 64;

/// Segments are counted as Ethernet's even where the interface's are larger (loopback's are 64 KiB): a grant is
/// at least one segment, and the bottleneck is somewhere else.
const SEGMENT_BYTES_MAX: u32 = 1460;

impl<N: Net> Acceptor<N> {
    /// Lets clients in and reads what they have sent.
    pub fn accept(&mut self, with: &mut Responder<N>) {
        let mut newcomers = std::mem::take(&mut self.newcomers);
        self.accept_some(&mut newcomers, with);
        if !newcomers.is_empty() {
            // Their requests may be younger than the events of this turn, and than a file's change that came since.
            with.service.replies.on_change();
        }
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        with.budget.to_come = newcomers.len();
        for at in newcomers.drain(..) {
            with.budget.to_come -= 1;
            // The request is often here already, and the whole conversation may be over before the kernel need be asked
            // to watch the connection.
            if with.timers.is_turn_over(with.net.now()) {
                with.connections.queue(at);
            } else {
                with.read(at);
            }
            let socket = with.connections.get(at).and_then(|_| with.connections[at].socket.tcp());
            if socket
                .is_some_and(|socket| with.net.add(Source::Tcp(socket), with.connections[at].owner, flags).is_err())
            {
                // Out of memory or over the user's limit of watches; without events the connection is of no use.
                with.abandon(at);
            }
            if with.sender.is_due(&with.connections, || with.net.now()) {
                with.transmit();
            }
        }
        self.newcomers = newcomers;
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
                    match error {
                        Errno::AGAIN => return,
                        Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM => {
                            // Said once, until all are accepted again.
                            if self.on_shortage() {
                                with.service.journal.error(format_args!(
                                    "cannot accept more than {} connections on worker {}: {error}; raise the limit on open files (ulimit -n)",
                                    with.connections.len(),
                                    with.setup.number
                                ));
                            }
                            return self.pause(&with.net);
                        }
                        // The client gave up before it was accepted, or a network error of it came through.
                        _ => {}
                    }
                }
            }
        }
    }

    /// From the listener that was asked last. `None` where its client has as many as it may.
    fn welcome(&self, socket: N::Tcp, peer: Option<SocketAddr>, with: &mut Responder<N>) -> Option<usize> {
        let peer = peer.unwrap_or(NOWHERE);
        let has_proxy_header = self.last().has_proxy_header;
        if has_proxy_header && !with.setup.limits.trusted_proxies.contain(peer.ip()) {
            with.service.refuse_proxy(with.timers.now(), peer);
            return None;
        }
        let client = with.service.let_in(with.timers.now(), peer.ip(), with.sender.transmitter.link.scheduler_mut())?;
        let counts_segments = matches!(with.setup.order, Order::Pace | Order::Marks);
        let framing = if counts_segments { framing(&socket, peer) } else { Framing::ETHERNET };
        let listener = self.last();
        let (session, http3_port) = (with.service.replies.session(listener.is_secure), listener.http3_port);
        let name = with.connections.vacant();
        let at = with.open(name, Transport::Tcp(socket), client, peer, framing, session);
        let conn = &mut with.connections[at];
        (conn.input.is_readable, conn.peer.http3_port) = (true, http3_port);
        if let Some(origins) = conn.peer.origins.as_mut().filter(|_| has_proxy_header) {
            origins.header = Some(Vec::new());
        }
        if conn.channel.is_handshaking || has_proxy_header {
            conn.http1().wait_until(with.timers.now() + HANDSHAKE_TIMEOUT);
        }
        Some(at)
    }

    /// A place for the next client, if there is one or somebody idle has it. Without, no more are accepted for now.
    fn take_place(&mut self, with: &mut Responder<N>) -> bool {
        if with.service.admission.is_memory_short() {
            // Those who could give way did so at the end of the last turn.
            self.pause(&with.net);
            return false;
        }
        if with.service.admission.take_place() {
            return true;
        }
        if !self.is_client_waiting(&with.net) {
            return false;
        }
        let is_freed = free_place(with);
        if !is_freed {
            self.wait_for_place(with);
        }
        is_freed
    }

    /// The same for one that is accepted already. `None`: another worker may give one up in a moment; until then nobody is accepted here.
    pub fn take_place_beside(&mut self, with: &mut Responder<N>) -> Option<bool> {
        if with.service.admission.is_memory_short() {
            return Some(false);
        }
        if with.service.admission.take_place() {
            return Some(true);
        }
        let is_freed = free_place(with);
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

    /// At the end of a turn: gives a place up for those who wait at other workers, and lets in those who wait for one that was given back.
    pub fn make_room(&mut self, with: &mut Responder<N>) {
        if with.service.admission.is_place_wanted() {
            give_up_idle(with, Nanos::ZERO);
        }
        if with.connections.take_ended() || !self.is_short() {
            // Should it fail, the next sweep tries again and says so.
            let _ = self.accept_again(with);
        }
    }

    /// Clients in the kernel's queue are let in when there is room again.
    pub fn accept_again(&mut self, with: &mut Responder<N>) -> io::Result<()> {
        if !self.is_accepting() && !with.timers.is_stopping() && with.service.admission.has_room() {
            self.resume(&with.net)?;
            with.service.admission.wait_no_more();
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

/// A place for a newcomer, if somebody idle has one.
fn free_place<N: Net>(with: &mut Responder<N>) -> bool {
    let is_freed = give_up_idle(with, Nanos::ZERO) && with.service.admission.take_place();
    with.service.log_full(with.timers.now());
    is_freed
}
