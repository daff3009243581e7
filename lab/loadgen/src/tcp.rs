//! A connection over TCP, with HTTP/1.1 or HTTP/2, with or without TLS.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use record::Outcome;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};
use units::Nanos;

use crate::clock::Clock;
use crate::connection::{Connection, Turn};
use crate::exchange::Next;
use crate::ledger::Ledger;
use crate::talk::{self, Talk};
use crate::tls::Sealed;
use crate::{Plan, Protocol};

/// The maximum number of reads from one connection before others get their turn.
const READS_PER_TURN_MAX: usize = 4;

const BROKEN: epoll::EventFlags = epoll::EventFlags::ERR.union(epoll::EventFlags::HUP);
const END: epoll::EventFlags = epoll::EventFlags::RDHUP;

/// A socket and the protocol on it. Dropping it closes the socket as a browser does: if bytes are unread or still to
/// come, the server gets a reset, otherwise a FIN.
#[derive(Debug)]
pub(crate) struct TcpConnection {
    socket: OwnedFd,
    connected: bool,
    /// The instant at which the kernel was asked to connect.
    started: Nanos,
    talk: Box<dyn Talk>,
    tls: Option<Box<Sealed>>,
}

impl TcpConnection {
    /// Starts to connect, from `from` if it is given, without waiting for the connection.
    pub(crate) fn start(plan: &Plan, from: Option<SocketAddr>, clock: &Clock) -> Result<TcpConnection, Errno> {
        let target = plan.target;
        let family = if target.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
        if let Some(from) = from {
            // A port whose last connection is in TIME_WAIT may be reused.
            sockopt::set_socket_reuseaddr(&socket, true)?;
            net::bind(&socket, &from)?;
        }
        if plan.tls.is_some() || plan.protocol != Protocol::Http1 {
            // Several small writes follow each other; without this the second would wait for an acknowledgement of the
            // first.
            sockopt::set_tcp_nodelay(&socket, true)?;
        }
        let started = clock.now();
        match net::connect(&socket, &target) {
            Ok(()) | Err(Errno::INPROGRESS) => {
                let tls = plan.tls.as_ref().map(|tls| Box::new(tls.start()));
                Ok(TcpConnection { socket, connected: false, started, talk: talk::new(plan.protocol), tls })
            }
            Err(errno) => Err(errno),
        }
    }

    fn send(&mut self, ledger: &mut Ledger<'_>, clock: &Clock) -> Turn {
        while self.is_sending() {
            match self.send_some() {
                Ok(bytes) => {
                    self.connected = true;
                    self.talk.on_sent(bytes);
                    if bytes == 0 {
                        break;
                    }
                }
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                // A response may have arrived all the same: the read finds it, and the end after it.
                Err(Errno::PIPE) => break,
                Err(errno) if self.connected => return self.lose(errno, ledger, clock.now()),
                Err(errno) => return self.fail(outcome_of_connect(errno), ledger, clock.now()),
            }
        }
        Turn::Wait
    }

    /// Sends bytes of the request; under TLS, seals them. Returns their number.
    fn send_some(&mut self) -> Result<usize, Errno> {
        let Some(tls) = &mut self.tls else {
            return net::send(&self.socket, self.talk.unsent(), SendFlags::NOSIGNAL);
        };
        let sealed = tls.write(self.talk.unsent());
        match tls.send(self.socket.as_fd()) {
            // Sealed bytes count as sent; those that the socket did not take follow later.
            Err(Errno::AGAIN) if sealed > 0 => Ok(sealed),
            sent => sent.map(|()| sealed),
        }
    }

    /// Passes the received bytes to the exchange.
    fn on_bytes(&mut self, received: &[u8], ledger: &mut Ledger<'_>, clock: &Clock) -> Next {
        let Some(tls) = &mut self.tls else { return self.talk.on_bytes(received, ledger, clock.now()) };
        match tls.open(received) {
            Ok(plain) if plain.is_empty() => Next::Continue,
            Ok(plain) => self.talk.on_bytes(&plain, ledger, clock.now()),
            Err(_) => {
                self.talk.fail(Outcome::Wrong, ledger, clock.now());
                Next::Close
            }
        }
    }

    fn read(&mut self, flags: epoll::EventFlags, scratch: &mut [u8], ledger: &mut Ledger<'_>, clock: &Clock) -> Turn {
        for _ in 0..READS_PER_TURN_MAX {
            match net::recv(&self.socket, &mut *scratch, RecvFlags::empty()) {
                Ok((0, _)) => {
                    self.talk.on_end_of_stream(ledger, clock.now());
                    return Turn::Done;
                }
                Ok((bytes, _)) => {
                    let next = self.on_bytes(&scratch[..bytes], ledger, clock);
                    if self.send(ledger, clock) == Turn::Done {
                        return Turn::Done;
                    }
                    match next {
                        Next::Close => return Turn::Done,
                        // After its end the connection has no further use.
                        Next::Free if flags.intersects(BROKEN | END) => return Turn::Done,
                        Next::Free => return Turn::Wait,
                        Next::Continue => {}
                    }
                    // A short read took all bytes. Later bytes cause a new event, unless the end had already arrived.
                    if bytes < scratch.len() && !flags.intersects(BROKEN | END) {
                        return Turn::Wait;
                    }
                }
                Err(Errno::AGAIN) => return Turn::Wait,
                Err(Errno::INTR) => {}
                Err(errno) => return self.lose(errno, ledger, clock.now()),
            }
        }
        Turn::More
    }

    /// Ends an established connection that is lost.
    fn lose(&mut self, errno: Errno, ledger: &mut Ledger<'_>, now: Nanos) -> Turn {
        match outcome_of_loss(errno) {
            Outcome::Reset => {
                self.talk.on_reset(ledger, now);
                Turn::Done
            }
            outcome => self.fail(outcome, ledger, now),
        }
    }

    fn fail(&mut self, outcome: Outcome, ledger: &mut Ledger<'_>, now: Nanos) -> Turn {
        self.talk.fail(outcome, ledger, now);
        Turn::Done
    }
}

impl Connection for TcpConnection {
    fn started(&self) -> Nanos {
        self.started
    }

    /// Sends at once if the connection is established. Over a path without delay it often is already, although the kernel
    /// has not reported it; this saves an event per request.
    fn submit(&mut self, plan: &Plan, job: usize, ledger: &mut Ledger<'_>, clock: &Clock) -> Turn {
        self.talk.submit(plan, job, ledger, clock.now());
        self.send(ledger, clock)
    }

    fn cancel(&mut self, job: usize, ledger: &mut Ledger<'_>, clock: &Clock) -> Turn {
        if self.talk.cancel(job) { self.send(ledger, clock) } else { Turn::Done }
    }

    fn is_sending(&self) -> bool {
        !self.talk.unsent().is_empty() || self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    fn is_idle(&self) -> bool {
        self.talk.is_idle()
    }

    fn has_room(&self) -> bool {
        self.talk.has_room()
    }

    fn take_unheard(&mut self) -> Vec<usize> {
        self.talk.take_unheard()
    }

    fn take_ended(&mut self) -> Option<usize> {
        self.talk.take_ended()
    }

    fn on_ready(
        &mut self,
        flags: epoll::EventFlags,
        scratch: &mut [u8],
        ledger: &mut Ledger<'_>,
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
        match self.send(ledger, clock) {
            Turn::Wait if flags.intersects(BROKEN | END | epoll::EventFlags::IN) => {
                self.read(flags, scratch, ledger, clock)
            }
            turn => turn,
        }
    }
}

impl AsFd for TcpConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Returns the outcome of a failed connect. A reset connection had been established; any other failure means that it
/// never was.
fn outcome_of_connect(errno: Errno) -> Outcome {
    match errno {
        Errno::CONNRESET | Errno::PIPE => Outcome::Reset,
        Errno::TIMEDOUT => Outcome::TimedOut,
        _ => Outcome::Refused,
    }
}

/// Returns the outcome of a lost connection. Only a reset comes from the server. Otherwise TCP has given up, and
/// reports ETIMEDOUT or the error of an ICMP message received before (`tcp_write_err` in net/ipv4/tcp_timer.c).
fn outcome_of_loss(errno: Errno) -> Outcome {
    match errno {
        Errno::CONNRESET | Errno::CONNABORTED | Errno::PIPE => Outcome::Reset,
        _ => Outcome::TimedOut,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_to_lose_a_connection_are_told_apart() {
        for (errno, outcome) in [
            (Errno::CONNRESET, Outcome::Reset),
            (Errno::PIPE, Outcome::Reset),
            (Errno::TIMEDOUT, Outcome::TimedOut),
            (Errno::HOSTUNREACH, Outcome::TimedOut),
            (Errno::NETUNREACH, Outcome::TimedOut),
        ] {
            assert_eq!(outcome_of_loss(errno), outcome, "{errno}");
        }
    }

    #[test]
    fn ways_not_to_connect_are_told_apart() {
        for (errno, outcome) in [
            (Errno::CONNREFUSED, Outcome::Refused),
            (Errno::TIMEDOUT, Outcome::TimedOut),
            (Errno::CONNRESET, Outcome::Reset),
            (Errno::NETUNREACH, Outcome::Refused),
        ] {
            assert_eq!(outcome_of_connect(errno), outcome, "{errno}");
        }
    }
}
