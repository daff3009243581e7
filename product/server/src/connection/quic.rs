//! HTTP/3 connections. A grant consists of content for QUIC and room for datagrams, which are made and sent
//! immediately. Acknowledgements, handshakes and retransmissions are sent when they are due, and charged like those of
//! TCP.
//!
//! After the scheduler's decision, at most the content of one grant that the congestion window held back has to wait.
//! QUIC keeps it, and the connection gets no more content until an acknowledgement arrives.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::mem::take;

use http2::Broken;
use quic::{Datagrams, Session};
use sched::Path;
use units::Nanos;
use units::memory::{Account, Charge};

use crate::net::{DatagramSink, Seen};

/// The error code H3_NO_ERROR, for a connection that ends without an error (RFC 9114 section 8.1).
const NO_ERROR: u64 = 0x100;

/// The engine of an HTTP/3 connection.
pub struct Quic {
    pub session: Session,
    /// Datagrams for which the socket had no room.
    unsent: Option<Box<Datagrams>>,
    /// The connection's key in `Shared::full` while it waits for room in its socket.
    pub full: Option<u64>,
    /// The instant at which the session's next timer fires.
    pub timer_at: Option<Nanos>,
    /// The number of acknowledgements received, and the time of the last one.
    acked: Option<(u64, Nanos)>,
    pub broken: Option<Broken>,
    /// The memory of `unsent`.
    charge: Charge,
}

/// The state shared by all HTTP/3 connections.
#[derive(Default)]
pub struct Shared {
    /// The timers, by time, with the slots of their connections.
    pub timers: BTreeSet<(Nanos, usize)>,
    /// The connections whose datagrams wait for room in their socket, each once. The keys only increase.
    pub full: BTreeMap<u64, usize>,
    full_count: u64,
    /// Tokens of connections whose timer has fired.
    pub woken: Vec<u64>,
    /// A reused buffer for datagrams.
    spare: Datagrams,
}

impl Shared {
    /// The connections whose datagrams wait for room in their socket.
    pub fn full(&self) -> impl Iterator<Item = usize> {
        self.full.values().copied()
    }

    /// The instant of the first timer.
    pub fn timer(&self) -> Option<Nanos> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Returns a connection whose timer is due.
    pub fn due(&self, now: Nanos) -> Option<usize> {
        self.timers.first().filter(|(timer_at, _)| *timer_at <= now).map(|(_, at)| *at)
    }

    pub fn arm(&mut self, at: usize, quic: &mut Quic) {
        let timer_at = quic.session.timeout();
        let before = std::mem::replace(&mut quic.timer_at, timer_at);
        if before != timer_at {
            if let Some(before) = before {
                self.timers.remove(&(before, at));
            }
            self.timers.extend(timer_at.map(|timer_at| (timer_at, at)));
        }
    }

    /// Makes datagrams for `room_bytes` of payload from content and QUIC's own frames, and sends them after earlier
    /// datagrams that had no room. Returns true if everything was sent: QUIC holds nothing back, and the socket is not
    /// full.
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
            // Earlier datagrams have left, and none wait.
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

    /// Removes the connection from the timers and from the list of full sockets.
    pub fn forget(&mut self, at: usize, quic: &mut Quic) {
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

    /// The bytes of memory in use.
    #[cfg(test)]
    pub fn alive_bytes(&mut self) -> usize {
        self.unsent.as_ref().map_or(0, |unsent| unsent.bytes()) + self.session.alive_bytes()
    }

    /// Returns the state of the connection's path.
    pub fn seen(&mut self, now: Nanos) -> Seen {
        let seen = self.session.path();
        if seen.acks > self.acked.map_or(0, |(known, _)| known) {
            self.acked = Some((seen.acks, now));
        }
        Seen {
            path: Path { rtt: seen.rtt, cwnd_bytes: Some(seen.cwnd_bytes), throughput_bps: None },
            least_rtt: seen.least_rtt,
            lost_bytes: seen.lost_bytes,
            own_lost_bytes: seen.own_lost_bytes,
            acked_bytes: seen.acked_bytes,
            acked_ago: self.acked.map(|(_, at)| now - at),
            is_unacknowledged: !self.session.is_acknowledged(),
        }
    }

    /// Closes the QUIC connection, unless it is closed already, and notifies the client.
    pub fn close(&mut self, now: Nanos) {
        if !self.session.is_closing() {
            self.session.close(now, NO_ERROR, "");
        }
    }

    /// Returns true if everything was made and, as far as is known, sent.
    pub fn is_done(&self) -> bool {
        self.unsent.is_none() && !self.session.is_held()
    }
}

fn is_full(sent: &io::Result<()>) -> bool {
    sent.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}
