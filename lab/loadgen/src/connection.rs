//! A connection over either transport, TCP or QUIC.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use units::Nanos;

use crate::clock::Clock;
use crate::http3::QuicConnection;
use crate::ledger::Ledger;
use crate::tcp::TcpConnection;
use crate::{Plan, Protocol};

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

pub(crate) trait Connection: AsFd + Debug {
    /// The instant at which it was started.
    fn started(&self) -> Nanos;

    /// Sends the request of a job, or queues it until the connection is established.
    fn submit(&mut self, plan: &Plan, job: usize, ledger: &mut Ledger<'_>, clock: &Clock) -> Turn;

    /// Cancels a job that its user gives up. Over TCP, a connection that no other job uses is closed.
    fn cancel(&mut self, job: usize, ledger: &mut Ledger<'_>, clock: &Clock) -> Turn;

    /// Returns true if the socket has not taken all bytes to be sent.
    fn is_sending(&self) -> bool;

    /// Returns true if no job is in flight.
    fn is_idle(&self) -> bool;

    /// Returns true if another job may be requested now.
    fn has_room(&self) -> bool;

    /// Takes the jobs that must be requested over another connection.
    fn take_unheard(&mut self) -> Vec<usize>;

    /// Returns the last job that has ended, once.
    fn take_ended(&mut self) -> Option<usize>;

    fn on_ready(&mut self, flags: EventFlags, scratch: &mut [u8], ledger: &mut Ledger<'_>, clock: &Clock) -> Turn;

    /// The instant of the next call of [`Connection::on_time`]. TCP has none, because its timers run in the kernel.
    fn due(&mut self) -> Option<Nanos> {
        None
    }

    fn on_time(&mut self, _: &mut Ledger<'_>, _: &Clock) -> Turn {
        Turn::Wait
    }
}

/// Starts to connect, from `from` if it is given, without waiting for the connection.
pub(crate) fn start(plan: &Plan, from: Option<SocketAddr>, clock: &Clock) -> Result<Box<dyn Connection>, Errno> {
    Ok(match plan.protocol {
        Protocol::Http3 { streams } => Box::new(QuicConnection::start(plan, streams, from, clock)?),
        Protocol::Http1 | Protocol::Http2 { .. } => Box::new(TcpConnection::start(plan, from, clock)?),
    })
}
