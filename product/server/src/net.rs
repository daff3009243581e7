//! The environment of a worker: a clock, readiness events, and sockets. In production the kernel provides it ([`Os`]);
//! a simulation has its own.

#[cfg(test)]
mod far_end;
mod flow;
mod sealed_socket;
mod socket;
mod transport;

use std::fmt::Debug;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::SystemTime;

use rustix::event::{PollFd, PollFlags, Timespec, epoll::EventFlags, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, socket_with, sockopt};
use units::Nanos;

#[cfg(test)]
pub use far_end::{Connecting, FarEnd};
pub use flow::Flow;
pub use sealed_socket::Down;
pub use socket::{DatagramSink, Seen, Shared, Sink, Socket, Status, Stream, has_room};
pub use transport::{TcpSocket, Transport};

use crate::clock;
use crate::poll::{Poll, Ready};
use crate::udp::{DatagramSocket, Udp};
use crate::upstream::{Endpoint, EndpointAddress, TlsEndpoint};
use crate::wake::Wake;

/// Everything that a worker needs from its environment. Only [`Net::wait`] blocks.
pub trait Net: Debug + Sized {
    type Listener: Debug;
    type Tcp: Stream;
    type Udp: DatagramSocket;

    /// Reads the monotonic clock.
    fn now(&self) -> Nanos;
    /// Reads the time of day.
    fn date(&self) -> SystemTime;

    /// Returns the seed of all randomness in QUIC, or `None` to use the system's randomness.
    fn seed(&self) -> Option<[u8; 32]> {
        None
    }

    /// Registers a source, whose readiness is then reported under a token.
    fn add(&self, source: Source<'_, Self>, token: u64, flags: EventFlags) -> io::Result<()>;
    fn modify(&self, source: Source<'_, Self>, token: u64, flags: EventFlags) -> io::Result<()>;
    fn remove(&self, source: Source<'_, Self>) -> io::Result<()>;
    /// See [`Poll::wait`].
    fn wait(&mut self, timeout: Option<Nanos>) -> io::Result<()>;
    /// See [`Poll::left`].
    fn left(&self) -> usize;
    /// See [`Poll::is_left`].
    fn is_left(&self, token: u64) -> bool;
    /// See [`Poll::reports`].
    fn reports(&self) -> u64;
    /// See [`Poll::take`].
    fn take(&mut self) -> Option<Ready>;

    /// Accepts a waiting client. Returns its connection and address.
    fn accept(&self, listener: &Self::Listener) -> Result<(Self::Tcp, Option<SocketAddr>), Errno>;
    /// Returns true if a client waits at any of these listeners.
    fn is_client_waiting<'a>(&self, listeners: impl Iterator<Item = &'a Self::Listener>) -> bool
    where
        Self: 'a;
    /// Refuses clients from now on.
    fn refuse(&self, listener: &Self::Listener);
    /// Opens a connection to an upstream, which may complete later: the socket becomes writable once it is connected.
    fn connect(&self, to: &Endpoint) -> io::Result<Self::Tcp>;
}

/// A source of readiness events.
pub enum Source<'a, N: Net> {
    Wake(&'a Wake),
    /// Changes to files.
    Files(BorrowedFd<'a>),
    Listener(&'a N::Listener),
    Tcp(&'a N::Tcp),
    Udp(&'a N::Udp),
}

/// The maximum number of request bytes that wait unsent in the socket buffer to an upstream.
const UNSENT_BYTES_MAX: u32 = 64 << 10;

/// The real system, with the kernel's sockets.
#[derive(Debug)]
pub struct Os(Poll);

impl Os {
    pub fn new() -> io::Result<Os> {
        Ok(Os(Poll::new()?))
    }

    /// See [`Poll::refusal`].
    pub fn refusal(&self) -> Option<io::Error> {
        self.0.refusal()
    }
}

impl Net for Os {
    type Listener = OwnedFd;
    type Tcp = TcpSocket;
    type Udp = Udp;

    fn now(&self) -> Nanos {
        clock::now()
    }

    fn date(&self) -> SystemTime {
        SystemTime::now()
    }

    fn add(&self, source: Source<'_, Os>, token: u64, flags: EventFlags) -> io::Result<()> {
        self.0.add(source, token, flags)
    }

    fn modify(&self, source: Source<'_, Os>, token: u64, flags: EventFlags) -> io::Result<()> {
        self.0.modify(source, token, flags)
    }

    fn remove(&self, source: Source<'_, Os>) -> io::Result<()> {
        self.0.remove(source)
    }

    fn wait(&mut self, timeout: Option<Nanos>) -> io::Result<()> {
        self.0.wait(timeout)
    }

    fn left(&self) -> usize {
        self.0.left()
    }

    fn is_left(&self, token: u64) -> bool {
        self.0.is_left(token)
    }

    fn reports(&self) -> u64 {
        self.0.reports()
    }

    fn take(&mut self) -> Option<Ready> {
        self.0.take()
    }

    fn accept(&self, listener: &OwnedFd) -> Result<(TcpSocket, Option<SocketAddr>), Errno> {
        let (socket, peer) = rustix::net::acceptfrom_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)?;
        Ok((socket.into(), peer.and_then(|peer| SocketAddr::try_from(peer).ok())))
    }

    fn is_client_waiting<'a>(&self, listeners: impl Iterator<Item = &'a OwnedFd>) -> bool {
        const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut listeners: Vec<_> = listeners.map(|listener| PollFd::new(listener, PollFlags::IN)).collect();
        poll(&mut listeners, Some(&AT_ONCE)).is_ok_and(|ready| ready > 0)
    }

    fn refuse(&self, listener: &OwnedFd) {
        let _ = rustix::net::shutdown(listener, Shutdown::Both);
    }

    fn connect(&self, to: &Endpoint) -> io::Result<TcpSocket> {
        let socket =
            |family| socket_with(family, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None);
        let (socket, connecting) = match &to.address {
            EndpointAddress::Tcp(address) | EndpointAddress::Tls(TlsEndpoint { address, .. }) => {
                let socket = socket(if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 })?;
                // Requests are sent without delay (no Nagle).
                sockopt::set_tcp_nodelay(&socket, true)?;
                // Bytes that an application does not read stay with its client, not in this host's kernel.
                socket2::SockRef::from(&socket).set_tcp_notsent_lowat(UNSENT_BYTES_MAX)?;
                let connecting = rustix::net::connect(&socket, address);
                (socket, connecting)
            }
            EndpointAddress::Unix(path) => {
                let socket = socket(AddressFamily::UNIX)?;
                let connecting = rustix::net::connect(&socket, &SocketAddrUnix::new(path)?);
                (socket, connecting)
            }
        };
        match connecting {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(socket.into()),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Source<'_, Os> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Source::Wake(wake) => wake.as_fd(),
            Source::Files(watch) => *watch,
            Source::Listener(listener) => listener.as_fd(),
            Source::Tcp(socket) => socket.as_fd(),
            Source::Udp(socket) => socket.as_fd(),
        }
    }
}
