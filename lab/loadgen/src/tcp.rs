//! A connection over TCP: of HTTP/1.1 and HTTP/2, under TLS or not.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use record::Outcome;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};
use units::Nanos;

use crate::clock::Clock;
use crate::connection::Turn;
use crate::exchange::Next;
use crate::ledger::Ledger;
use crate::talk::Talk;
use crate::tls::Sealed;
use crate::{Plan, Protocol};

/// Reads of one connection before others get their turn.
const READS_PER_TURN_MAX: usize = 4;

const BROKEN: epoll::EventFlags = epoll::EventFlags::ERR.union(epoll::EventFlags::HUP);
const END: epoll::EventFlags = epoll::EventFlags::RDHUP;

/// A socket and what goes over it. Dropping it closes the socket as a browser does: with bytes unread or still to come
/// the server gets a reset, else a FIN.
#[derive(Debug)]
pub(crate) struct TcpConnection {
    socket: OwnedFd,
    connected: bool,
    /// When we asked the kernel to connect.
    started: Nanos,
    talk: Talk,
    tls: Option<Box<Sealed>>,
}

impl TcpConnection {
    /// Starts to connect, from an address and port of ours if one is given; does not wait for it.
    pub(crate) fn start(plan: &Plan, from: Option<SocketAddr>, clock: &Clock) -> Result<TcpConnection, Errno> {
        let target = plan.target;
        let family = if target.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
        if let Some(from) = from {
            // A port whose last connection is in TIME_WAIT may be used again.
            sockopt::set_socket_reuseaddr(&socket, true)?;
            net::bind(&socket, &from)?;
        }
        if plan.tls.is_some() || plan.protocol != Protocol::Http1 {
            // Several small writes follow each other, the second of which would wait for the server to acknowledge the first.
            sockopt::set_tcp_nodelay(&socket, true)?;
        }
        let started = clock.now();
        match net::connect(&socket, &target) {
            Ok(()) | Err(Errno::INPROGRESS) => {
                let tls = plan.tls.as_ref().map(|tls| Box::new(tls.start()));
                Ok(TcpConnection { socket, connected: false, started, talk: Talk::new(plan.protocol), tls })
            }
            Err(errno) => Err(errno),
        }
    }

    pub(crate) fn started(&self) -> Nanos {
        self.started
    }

    /// Takes the request of a job and sends it, if the connection stands. Without a delay between here and the server it often
    /// does at once, though the kernel has not said so, and that is one event less for each request.
    pub(crate) fn submit(&mut self, plan: &Plan, job: usize, ledger: &mut Ledger<'_>, clock: &Clock) -> Turn {
        self.talk.submit(plan, job, ledger, clock.now());
        self.send(ledger, clock)
    }

    /// The user of a job gives it up. Where it is alone on the connection, that is closed.
    pub(crate) fn cancel(&mut self, job: usize, ledger: &mut Ledger<'_>, clock: &Clock) -> Turn {
        if self.talk.cancel(job) { self.send(ledger, clock) } else { Turn::Done }
    }

    /// Returns true if part of the request is still to be sent.
    pub(crate) fn is_sending(&self) -> bool {
        !self.talk.unsent().is_empty() || self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Returns true if no job is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.talk.is_idle()
    }

    /// Returns true if another job may be asked now.
    pub(crate) fn has_room(&self) -> bool {
        self.talk.has_room()
    }

    /// The jobs to be asked for over another connection.
    pub(crate) fn take_unheard(&mut self) -> Vec<usize> {
        self.talk.take_unheard()
    }

    /// The last job that has ended, once.
    pub(crate) fn take_ended(&mut self) -> Option<usize> {
        self.talk.take_ended()
    }

    pub(crate) fn on_ready(
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
                // A response may be there all the same: the read finds it, and the end after it.
                Err(Errno::PIPE) => break,
                Err(errno) if self.connected => return self.lose(errno, ledger, clock.now()),
                Err(errno) => return self.fail(outcome_of_connect(errno), ledger, clock.now()),
            }
        }
        Turn::Wait
    }

    /// Bytes of the request that left; under TLS, that are sealed.
    fn send_some(&mut self) -> Result<usize, Errno> {
        let Some(tls) = &mut self.tls else {
            return net::send(&self.socket, self.talk.unsent(), SendFlags::NOSIGNAL);
        };
        let sealed = tls.write(self.talk.unsent());
        match tls.send(self.socket.as_fd()) {
            // Sealed it is no longer ours; what the socket did not take follows when it does.
            Err(Errno::AGAIN) if sealed > 0 => Ok(sealed),
            sent => sent.map(|()| sealed),
        }
    }

    /// Hands the bytes received to the exchange.
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
                        // With the end behind it there is nothing to use it for.
                        Next::Free if flags.intersects(BROKEN | END) => return Turn::Done,
                        Next::Free => return Turn::Wait,
                        Next::Continue => {}
                    }
                    // A short read took all there was; what comes later is a new event, unless the end was already there.
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

    /// A connection that stood is lost.
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

impl AsFd for TcpConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A connection that was reset did stand before; any other failure means that it never did.
fn outcome_of_connect(errno: Errno) -> Outcome {
    match errno {
        Errno::CONNRESET | Errno::PIPE => Outcome::Reset,
        Errno::TIMEDOUT => Outcome::TimedOut,
        _ => Outcome::Refused,
    }
}

/// Only a reset comes from the server. Else TCP has given up, and says ETIMEDOUT or, if routers sent ICMP meanwhile, what
/// those said (`tcp_write_err` in net/ipv4/tcp_timer.c).
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
