//! Connections of HTTP/3: a grant is content for QUIC and room for datagrams, which are made and leave at once. Acknowledgements, handshakes
//! and what was lost leave when they are due, and are charged like TCP's own.
//!
//! Below the decision waits at most what one grant has given and the congestion window did not let go: QUIC then holds it, and its
//! connection is given nothing more until an acknowledgement comes.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::mem::take;

use mux::Broken;
use quic::{Datagrams, Incoming, Session};
use sched::{JobId, Path, Scheduler};
use units::Nanos;
use units::memory::{Account, Charge};

use super::{Connections, Framed};
use crate::net::{DatagramSink, Seen, Socket};

/// Ends a connection that has done nothing wrong (RFC 9114 section 8.1).
const NO_ERROR: u64 = 0x100;

/// What a connection of HTTP/3 has for an engine.
pub struct Quic {
    pub session: Session,
    /// Datagrams for which there was no room.
    unsent: Option<Box<Datagrams>>,
    /// Its number among those that wait for room.
    pub full: Option<u64>,
    /// When its session wants to be told the time.
    timer_at: Option<Nanos>,
    /// Acknowledgements that have come, and when the last one did.
    acked: Option<(u64, Nanos)>,
    pub broken: Option<Broken>,
    /// The memory of `unsent`.
    charge: Charge,
}

/// What all connections of HTTP/3 have.
#[derive(Default)]
pub struct Shared {
    /// By instant.
    timers: BTreeSet<(Nanos, usize)>,
    /// Those whose datagrams wait for room in their socket, each once, by a number that only grows.
    pub full: BTreeMap<u64, usize>,
    full_count: u64,
    /// Owners of those to which time has happened.
    pub woken: Vec<u64>,
    /// Memory for datagrams.
    spare: Datagrams,
}

impl Shared {
    /// Owners of those to which time has happened since this was last called.
    pub fn woken(&mut self) -> std::vec::Drain<'_, u64> {
        self.woken.drain(..)
    }

    /// Those whose datagrams wait for room.
    pub fn full(&self) -> impl Iterator<Item = usize> {
        self.full.values().copied()
    }

    /// When the first of them wants to be told the time.
    pub fn timer(&self) -> Option<Nanos> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// One that wants to be told the time by now.
    pub fn due(&self, now: Nanos) -> Option<usize> {
        self.timers.first().filter(|(timer_at, _)| *timer_at <= now).map(|(_, at)| *at)
    }

    fn arm(&mut self, at: usize, quic: &mut Quic) {
        let timer_at = quic.session.timeout();
        let before = std::mem::replace(&mut quic.timer_at, timer_at);
        if before != timer_at {
            if let Some(before) = before {
                self.timers.remove(&(before, at));
            }
            self.timers.extend(timer_at.map(|timer_at| (timer_at, at)));
        }
    }

    /// Makes datagrams for so much payload, of what was given and of what QUIC has to say, and sends them behind those that had no room before.
    /// Says whether all is gone: nothing is held, and no socket is full.
    pub fn hand_down(
        &mut self,
        now: Nanos,
        at: usize,
        quic: &mut Quic,
        socket: &mut impl DatagramSink,
        room_bytes: u64,
    ) -> bool {
        let mut out = quic.unsent.take().map_or_else(|| take(&mut self.spare), |unsent| *unsent);
        let unsent_bytes = out.bytes() as u64;
        let mut sent = if out.is_empty() { Ok(()) } else { socket.send(&mut out) };
        if !is_full(&sent) {
            // What was made before has left, and nothing waits.
            out.clear();
            let room_bytes = room_bytes.saturating_sub(unsent_bytes);
            quic.session.make(now, usize::try_from(room_bytes).unwrap_or(usize::MAX), &mut out);
            sent = socket.send(&mut out);
        }
        if is_full(&sent) && !out.is_empty() {
            quic.unsent = Some(Box::new(out));
            if quic.full.is_none() {
                quic.full = Some(self.full_count);
                self.full.insert(self.full_count, at);
                self.full_count += 1;
            }
        } else {
            out.clear();
            self.spare = out;
        }
        quic.charge.set(quic.unsent.as_ref().map_or(0, |unsent| unsent.bytes()));
        self.arm(at, quic);
        quic.is_done()
    }

    /// Nothing reminds of it any more.
    fn forget(&mut self, at: usize, quic: &mut Quic) {
        if let Some(timer_at) = quic.timer_at.take() {
            self.timers.remove(&(timer_at, at));
        }
        if let Some(number) = quic.full.take() {
            self.full.remove(&number);
        }
    }
}

impl Quic {
    pub fn new(session: Session) -> Quic {
        Quic { session, unsent: None, full: None, timer_at: None, acked: None, broken: None, charge: Charge::default() }
    }

    pub fn count_in(&mut self, account: &Account) {
        self.charge.move_to(account);
        self.session.count_in(account);
    }

    /// Bytes of memory that are alive.
    #[cfg(test)]
    pub fn alive_bytes(&mut self) -> usize {
        self.unsent.as_ref().map_or(0, |unsent| unsent.bytes()) + self.session.alive_bytes()
    }

    /// What it has seen of its path.
    fn seen(&mut self, now: Nanos) -> Seen {
        let seen = self.session.path();
        if seen.acks > self.acked.map_or(0, |(known, _)| known) {
            self.acked = Some((seen.acks, now));
        }
        Seen {
            path: Path { rtt: seen.rtt, cwnd_bytes: Some(seen.cwnd_bytes), throughput_bps: None },
            lost_bytes: seen.lost_bytes,
            acked_bytes: seen.acked_bytes,
            acked_ago: self.acked.map(|(_, at)| now - at),
            is_unacknowledged: !self.session.is_acknowledged(),
        }
    }

    /// Its client is told that the connection ends, if that was not done.
    pub fn close(&mut self, now: Nanos) {
        if !self.session.is_closing() {
            self.session.close(now, NO_ERROR, "");
        }
    }

    /// All that was given has been made and has left, as far as is known.
    pub fn is_done(&self) -> bool {
        self.unsent.is_none() && !self.session.is_held()
    }
}

impl<S: Socket> Connections<S> {
    /// Hands down what a connection has and so much more, where it is one of HTTP/3; says whether all is gone.
    pub fn hand_down_datagrams(&mut self, now: Nanos, at: usize, room_bytes: u64) -> bool {
        let (connection, shared) = self.with_datagrams(at);
        let Some(socket) = connection.socket.quic() else { return true };
        let quic = quic(connection.protocol.framed_mut().expect("it speaks HTTP/3"));
        shared.hand_down(now, at, quic, socket, room_bytes)
    }

    /// Removes a connection of HTTP/3 from the timers and from the list of full sockets.
    pub fn forget_datagrams(&mut self, at: usize) {
        let (connection, shared) = self.with_datagrams(at);
        if let Some(quic) = connection.framed().engine.http3() {
            shared.forget(at, quic);
        }
    }

    /// Takes a datagram that has come for a connection; [`Connections::follow`] comes next.
    pub fn receive_datagram(&mut self, now: Nanos, at: usize, incoming: Incoming) {
        let quic = quic(self[at].framed());
        if let Err(broken) = quic.session.receive(now, incoming) {
            quic.broken = Some(broken);
        }
    }

    /// Passes the time to the connection whose QUIC timer was due first; [`Connections::follow`] comes next. Returns the slot of the connection;
    /// `None` if no timer was due.
    pub fn on_timeout(&mut self, due: Nanos, now: Nanos) -> Option<usize> {
        let at = self.datagrams.due(due)?;
        let (connection, shared) = self.with_datagrams(at);
        shared.woken.push(connection.owner);
        let quic = quic(connection.framed());
        #[cfg(test)]
        if crate::simulation::planted::strikes(crate::simulation::planted::Fault::ForgottenTimer) {
            shared.timers.remove(&(quic.timer_at.take().expect("it is due"), at));
            return self.on_timeout(due, now);
        }
        if let Err(broken) = quic.session.on_timeout(now) {
            quic.broken = Some(broken);
        }
        Some(at)
    }

    /// Returns the connections whose datagrams waited for room in a socket, which has some again.
    pub fn take_full(&mut self) -> Vec<usize> {
        let full: Vec<usize> = take(&mut self.datagrams.full).into_values().collect();
        full.iter().for_each(|at| quic(self[*at].framed()).full = None);
        full
    }

    /// Follows what has happened to a connection of HTTP/3: its path is noted, and windows may be open. Returns whether what QUIC held may leave.
    pub fn follow(
        &mut self,
        now: Nanos,
        at: usize,
        stream_of: impl Fn(JobId) -> Option<u32>,
        scheduler: &mut Scheduler,
    ) -> bool {
        let connection = &mut self[at];
        let framed = connection.protocol.framed_mut().expect("it speaks HTTP/3");
        let quic = quic(framed);
        let seen = quic.seen(now);
        if let Some(socket) = connection.socket.quic() {
            socket.see(seen);
        }
        let may_go = quic.is_done();
        framed.open_windows(now, stream_of, scheduler);
        may_go
    }

    /// Sets the timer of a connection of HTTP/3 anew.
    pub fn arm(&mut self, at: usize) {
        let (connection, shared) = self.with_datagrams(at);
        shared.arm(at, quic(connection.framed()));
    }
}

fn quic(framed: &mut Framed) -> &mut Quic {
    framed.engine.http3().expect("it speaks HTTP/3")
}

fn is_full(sent: &io::Result<()>) -> bool {
    sent.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}
