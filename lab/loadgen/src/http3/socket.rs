//! A connection of HTTP/3 on its UDP socket.

use std::io::{self, ErrorKind, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use quinn_proto::EcnCodepoint;
use quinn_udp::{RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use record::Outcome;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};
use units::Nanos;

use super::Requests;
use super::quic::Quic;
use crate::Plan;
use crate::clock::Clock;
use crate::connection::{Connection, Turn};
use crate::exchange::Next;
use crate::ledger::Ledger;

/// The maximum number of reads from one connection before others get their turn.
const READS_PER_TURN_MAX: usize = 4;

/// The maximum number of bytes of a connection's datagrams that the kernel joins (UDP_GRO); several such batches are
/// read in one call.
const GATHERED_BYTES_MAX: usize = 64 << 10;
const READ_AT_ONCE: usize = 4;

/// The size of the socket's receive buffer, 30 ms of 1 Gbit/s. The kernel gives less to processes without the
/// privilege.
const SOCKET_BYTES: usize = 4 << 20;

/// The maximum number of datagrams sent before others get their turn; requests and acknowledgements need fewer.
const SENDS_PER_TURN_MAX: usize = 1024;

/// A connection and its socket. Dropping it sends the server a datagram that ends the connection; the datagram may be
/// lost.
#[derive(Debug)]
pub(crate) struct QuicConnection {
    socket: OwnedFd,
    state: UdpSocketState,
    target: SocketAddr,
    clock: Clock,
    /// The instant at which the first datagram was sent.
    started: Nanos,
    requests: Requests,
    /// The datagram to be sent, and the congestion mark of its IP header. If `is_full`, the socket did not take it.
    datagram: Vec<u8>,
    ecn: Option<EcnCodepoint>,
    is_full: bool,
}

impl QuicConnection {
    /// Begins a handshake, from `from` if it is given. Its first datagram leaves with the first request.
    pub(crate) fn start(
        plan: &Plan,
        streams_max: u32,
        from: Option<SocketAddr>,
        clock: &Clock,
    ) -> Result<QuicConnection, Errno> {
        let target = plan.target;
        let family = if target.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = net::socket_with(family, SocketType::DGRAM, flags, None)?;
        if let Some(from) = from {
            net::bind(&socket, &from)?;
        }
        // Only for connected sockets does the kernel report that no socket listens at the other end.
        net::connect(&socket, &target)?;
        if sockopt::set_socket_recv_buffer_size_force(&socket, SOCKET_BYTES).is_err() {
            sockopt::set_socket_recv_buffer_size(&socket, SOCKET_BYTES)?;
        }
        let state = UdpSocketState::new(UdpSockRef::from(&socket))
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        let config = plan.tls.as_ref().and_then(|tls| tls.quic()).expect("the plan was checked");
        let now = clock.now();
        let quic = Quic::connect(config, target, now).map_err(|_| Errno::INVAL)?;
        let requests = Requests::new(quic, streams_max, plan.per_connection, now);
        let (datagram, ecn, is_full) = (vec![], None, false);
        let started = clock.now();
        Ok(QuicConnection { socket, state, target, clock: *clock, started, requests, datagram, ecn, is_full })
    }

    /// Receives datagrams. Returns whether there may be more.
    fn receive(&mut self, scratch: &mut [u8]) -> io::Result<bool> {
        let mut parts = scratch.chunks_exact_mut(GATHERED_BYTES_MAX);
        let mut buffers: [_; READ_AT_ONCE] = std::array::from_fn(|_| IoSliceMut::new(parts.next().unwrap_or_default()));
        let mut metas = [RecvMeta::default(); READ_AT_ONCE];
        let count = match self.state.recv(UdpSockRef::from(&self.socket), &mut buffers, &mut metas) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error),
        };
        let now = self.clock.now();
        for (buffer, meta) in buffers.iter().zip(&metas).take(count) {
            let ecn = meta.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8));
            for datagram in buffer[..meta.len].chunks(meta.stride.max(1)) {
                self.requests.receive(now, ecn, datagram);
            }
        }
        Ok(count == READ_AT_ONCE)
    }

    /// Processes received datagrams and expired timers.
    fn advance(&mut self, ledger: &mut Ledger<'_>, now: Nanos) -> Turn {
        match self.requests.settle(ledger, now) {
            Next::Close => Turn::Done,
            Next::Continue | Next::Free => self.send(ledger, now),
        }
    }

    fn send(&mut self, ledger: &mut Ledger<'_>, now: Nanos) -> Turn {
        self.flush(now).unwrap_or_else(|_| self.lose(ledger, now))
    }

    /// Sends the datagrams that are ready, as far as the socket takes them.
    fn flush(&mut self, now: Nanos) -> io::Result<Turn> {
        for _ in 0..SENDS_PER_TURN_MAX {
            if !self.is_full {
                match self.requests.transmit(now, &mut self.datagram) {
                    Some(ecn) => self.ecn = ecn,
                    None => return Ok(Turn::Wait),
                }
            }
            let ecn = self.ecn.and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8));
            let (destination, contents) = (self.target, &*self.datagram);
            let transmit = Transmit { destination, ecn, contents, segment_size: None, src_ip: None };
            let sent = self.state.try_send(UdpSockRef::from(&self.socket), &transmit);
            self.is_full = matches!(&sent, Err(error) if error.kind() == ErrorKind::WouldBlock);
            match sent {
                Err(_) if self.is_full => return Ok(Turn::Wait),
                Err(error) if is_of_server(&error) => return Err(error),
                // A datagram that the kernel does not send counts as lost on its way.
                _ => {}
            }
        }
        Ok(Turn::More)
    }

    /// Ends a connection whose peer has no listening socket, either from the start or since.
    fn lose(&mut self, ledger: &mut Ledger<'_>, now: Nanos) -> Turn {
        match self.requests.has_connected() {
            true => self.requests.on_end(ledger, now),
            false => self.requests.fail(Outcome::Refused, ledger, now),
        }
        Turn::Done
    }
}

impl Connection for QuicConnection {
    fn started(&self) -> Nanos {
        self.started
    }

    fn submit(&mut self, plan: &Plan, job: usize, ledger: &mut Ledger<'_>, clock: &Clock) -> Turn {
        self.requests.submit(plan, job, ledger);
        self.send(ledger, clock.now())
    }

    fn cancel(&mut self, job: usize, ledger: &mut Ledger<'_>, clock: &Clock) -> Turn {
        self.requests.cancel(job);
        self.advance(ledger, clock.now())
    }

    fn is_sending(&self) -> bool {
        self.is_full
    }

    fn is_idle(&self) -> bool {
        self.requests.is_idle()
    }

    fn has_room(&self) -> bool {
        self.requests.has_room()
    }

    fn take_unheard(&mut self) -> Vec<usize> {
        self.requests.take_unheard()
    }

    fn take_ended(&mut self) -> Option<usize> {
        self.requests.take_ended()
    }

    fn due(&mut self) -> Option<Nanos> {
        self.requests.due()
    }

    fn on_time(&mut self, ledger: &mut Ledger<'_>, clock: &Clock) -> Turn {
        let now = clock.now();
        self.requests.on_time(now);
        self.advance(ledger, now)
    }

    fn on_ready(&mut self, _: EventFlags, scratch: &mut [u8], ledger: &mut Ledger<'_>, clock: &Clock) -> Turn {
        for _ in 0..READS_PER_TURN_MAX {
            let Ok(has_more) = self.receive(scratch) else { return self.lose(ledger, clock.now()) };
            match self.advance(ledger, clock.now()) {
                Turn::Wait if has_more => {}
                turn => return turn,
            }
        }
        Turn::More
    }
}

impl Drop for QuicConnection {
    fn drop(&mut self) {
        let now = self.clock.now();
        self.requests.close(now);
        // The connection is gone, whether or not the peer is notified.
        let _ = self.flush(now);
    }
}

impl AsFd for QuicConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Returns true if a datagram could not be sent because of an ICMP error for an earlier one.
fn is_of_server(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable)
}
