use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use record::Outcome;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};
use units::Nanos;

use crate::Plan;
use crate::clock::Clock;
use crate::exchange::{Exchange, Next};
use crate::ledger::Ledger;

/// Reads of one connection before others get their turn.
const READS_PER_TURN_MAX: usize = 4;

const BROKEN: epoll::EventFlags = epoll::EventFlags::ERR.union(epoll::EventFlags::HUP);
const END: epoll::EventFlags = epoll::EventFlags::RDHUP;

/// A socket and what goes over it.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: OwnedFd,
    connected: bool,
    exchange: Exchange,
}

/// What became of a connection in a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Wait for the next event.
    Wait,
    /// There is more to read at once.
    More,
    /// Drop it: it has no open job.
    Done,
}

impl Connection {
    /// Starts to connect; does not wait for it.
    pub(crate) fn start(target: SocketAddr) -> Result<Connection, Errno> {
        let family = if target.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
        // A second request must not wait for the acknowledgement of the first.
        sockopt::set_tcp_nodelay(&socket, true)?;
        match net::connect(&socket, &target) {
            Ok(()) | Err(Errno::INPROGRESS) => {
                Ok(Connection { socket, connected: false, exchange: Exchange::default() })
            }
            Err(errno) => Err(errno),
        }
    }

    /// Queues the request of a job, and sends it if the connection stands.
    pub(crate) fn submit(&mut self, plan: &Plan, job: usize, ledger: &mut Ledger, now: Nanos) -> Turn {
        self.exchange.submit(plan, job);
        if self.connected { self.send(ledger, now) } else { Turn::Wait }
    }

    pub(crate) fn on_ready(
        &mut self,
        flags: epoll::EventFlags,
        scratch: &mut [u8],
        ledger: &mut Ledger,
        clock: &Clock,
    ) -> Turn {
        if !self.connected {
            if flags.intersects(BROKEN)
                && let Err(errno) | Ok(Err(errno)) = sockopt::socket_error(&self.socket)
            {
                return self.fail(outcome_of_connect(errno), ledger, clock.now());
            }
            self.connected = true;
        }
        if self.send(ledger, clock.now()) == Turn::Done {
            return Turn::Done;
        }
        if flags.intersects(BROKEN | END | epoll::EventFlags::IN) {
            self.read(flags, scratch, ledger, clock)
        } else {
            Turn::Wait
        }
    }

    fn send(&mut self, ledger: &mut Ledger, now: Nanos) -> Turn {
        while !self.exchange.unsent().is_empty() {
            match net::send(&self.socket, self.exchange.unsent(), SendFlags::NOSIGNAL) {
                Ok(bytes) => self.exchange.on_sent(bytes),
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                // A response may be there all the same: the read finds it, and the end after it.
                Err(Errno::PIPE) => break,
                Err(_) => return self.fail(Outcome::Reset, ledger, now),
            }
        }
        Turn::Wait
    }

    fn read(&mut self, flags: epoll::EventFlags, scratch: &mut [u8], ledger: &mut Ledger, clock: &Clock) -> Turn {
        for _ in 0..READS_PER_TURN_MAX {
            match net::recv(&self.socket, &mut *scratch, RecvFlags::empty()) {
                Ok((0, _)) => {
                    self.exchange.on_end_of_stream(ledger, clock.now());
                    return Turn::Done;
                }
                Ok((bytes, _)) => {
                    if self.exchange.on_bytes(&scratch[..bytes], ledger, clock.now()) == Next::Close {
                        return Turn::Done;
                    }
                    // A short read took all there was; what comes later is a new event, unless the end was already there.
                    if bytes < scratch.len() && !flags.intersects(BROKEN | END) {
                        return Turn::Wait;
                    }
                }
                Err(Errno::AGAIN) => return Turn::Wait,
                Err(Errno::INTR) => {}
                Err(_) => return self.fail(Outcome::Reset, ledger, clock.now()),
            }
        }
        Turn::More
    }

    fn fail(&mut self, outcome: Outcome, ledger: &mut Ledger, now: Nanos) -> Turn {
        self.exchange.fail(outcome, ledger, now);
        Turn::Done
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A connection that was reset did stand before; any other failure means that it never did.
fn outcome_of_connect(errno: Errno) -> Outcome {
    match errno {
        Errno::CONNRESET | Errno::PIPE => Outcome::Reset,
        _ => Outcome::Refused,
    }
}
