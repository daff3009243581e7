//! A connection over either transport, TCP or QUIC.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use units::Nanos;

use crate::clock::Clock;
use crate::http3::QuicConnection;
use crate::ledger::Ledger;
use crate::tcp::TcpConnection;
use crate::{Plan, Protocol};

#[derive(Debug)]
pub(crate) enum Connection {
    Tcp(TcpConnection),
    Quic(Box<QuicConnection>),
}

/// The state of a connection after a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Wait for the next event.
    Wait,
    /// There is more to read now.
    More,
    /// Drop it: it has no open job.
    Done,
}

impl Connection {
    /// Starts to connect, from `from` if it is given, without waiting for the connection.
    pub(crate) fn start(plan: &Plan, from: Option<SocketAddr>, clock: &Clock) -> Result<Connection, Errno> {
        match plan.protocol {
            Protocol::Http3 { streams } => {
                QuicConnection::start(plan, streams, from, clock).map(Box::new).map(Connection::Quic)
            }
            Protocol::Http1 | Protocol::Http2 { .. } => TcpConnection::start(plan, from, clock).map(Connection::Tcp),
        }
    }

    /// The instant at which the kernel was asked to connect.
    pub(crate) fn started(&self) -> Nanos {
        match self {
            Connection::Tcp(tcp) => tcp.started(),
            Connection::Quic(quic) => quic.started(),
        }
    }

    /// Sends the request of a job, or queues it until the connection is established.
    pub(crate) fn submit(&mut self, plan: &Plan, job: usize, ledger: &mut Ledger<'_>, clock: &Clock) -> Turn {
        match self {
            Connection::Tcp(tcp) => tcp.submit(plan, job, ledger, clock),
            Connection::Quic(quic) => quic.submit(plan, job, ledger, clock),
        }
    }

    /// Cancels a job that its user gives up. If no other job uses the connection, the connection is closed.
    pub(crate) fn cancel(&mut self, job: usize, ledger: &mut Ledger<'_>, clock: &Clock) -> Turn {
        match self {
            Connection::Tcp(tcp) => tcp.cancel(job, ledger, clock),
            Connection::Quic(quic) => quic.cancel(job, ledger, clock),
        }
    }

    /// Returns true if the socket has not taken all bytes to be sent.
    pub(crate) fn is_sending(&self) -> bool {
        match self {
            Connection::Tcp(tcp) => tcp.is_sending(),
            Connection::Quic(quic) => quic.is_sending(),
        }
    }

    /// Returns true if no job is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        match self {
            Connection::Tcp(tcp) => tcp.is_idle(),
            Connection::Quic(quic) => quic.is_idle(),
        }
    }

    /// Returns true if another job may be requested now.
    pub(crate) fn has_room(&self) -> bool {
        match self {
            Connection::Tcp(tcp) => tcp.has_room(),
            Connection::Quic(quic) => quic.has_room(),
        }
    }

    /// Takes the jobs that must be requested over another connection.
    pub(crate) fn take_unheard(&mut self) -> Vec<usize> {
        match self {
            Connection::Tcp(tcp) => tcp.take_unheard(),
            Connection::Quic(quic) => quic.take_unheard(),
        }
    }

    /// Returns the last job that has ended, once.
    pub(crate) fn take_ended(&mut self) -> Option<usize> {
        match self {
            Connection::Tcp(tcp) => tcp.take_ended(),
            Connection::Quic(quic) => quic.take_ended(),
        }
    }

    pub(crate) fn on_ready(
        &mut self,
        flags: EventFlags,
        scratch: &mut [u8],
        ledger: &mut Ledger<'_>,
        clock: &Clock,
    ) -> Turn {
        match self {
            Connection::Tcp(tcp) => tcp.on_ready(flags, scratch, ledger, clock),
            Connection::Quic(quic) => quic.on_ready(scratch, ledger, clock),
        }
    }

    /// The instant of the next call of [`Connection::on_time`]. TCP has none, because its timers run in the kernel.
    pub(crate) fn due(&mut self) -> Option<Nanos> {
        match self {
            Connection::Tcp(_) => None,
            Connection::Quic(quic) => quic.due(),
        }
    }

    pub(crate) fn on_time(&mut self, ledger: &mut Ledger<'_>, clock: &Clock) -> Turn {
        match self {
            Connection::Tcp(_) => Turn::Wait,
            Connection::Quic(quic) => quic.on_time(ledger, clock),
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Connection::Tcp(tcp) => tcp.as_fd(),
            Connection::Quic(quic) => quic.as_fd(),
        }
    }
}
