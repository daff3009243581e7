//! The end of a response, as the access log has it: each response is logged once, however it ends. Without a log and
//! without classes of a file, small responses that are sent together end together, and nothing is kept of them.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use units::Nanos;

use super::Worker;
use super::conn::Conn;
use super::exchange::Place;
use super::line::Line;
use crate::clock;
use crate::log::{AccessLog, Entry, Log, Outcome, Sizes, Times};
use crate::transmit::{Departure, Failure};

/// From this status on a response is not what was asked for (RFC 9110 sections 15.5 and 15.6).
pub(super) const ERROR_STATUS_MIN: u16 = 400;

/// Logged where no response was begun before the client left, as in nginx's logs.
pub(super) const UNANSWERED_STATUS: u16 = 499;

/// How far a response came, and when. Instants that nobody noted are those of the telling.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Ending {
    /// Where that was not all: bytes, head included, and how it ended.
    cut: Option<(u64, Outcome)>,
    first_byte_at: Option<Nanos>,
    at: Option<Nanos>,
}

impl Ending {
    /// Just now, as a whole.
    pub fn now() -> Ending {
        Ending::default()
    }

    /// As a whole.
    pub fn of(departure: &Departure) -> Ending {
        Ending { cut: None, first_byte_at: departure.first_byte_at, at: Some(departure.ended_at) }
    }

    /// The same, cut after so many bytes.
    pub fn cut(self, sent_bytes: u64, outcome: Outcome) -> Ending {
        Ending { cut: Some((sent_bytes, outcome)), ..self }
    }

    /// When it ended, if that was noted, and the bytes that were sent where these were not all.
    pub fn measured(&self) -> (Option<Nanos>, Option<u64>) {
        (self.at, self.cut.map(|(sent_bytes, _)| sent_bytes))
    }

    fn sizes(&self, line: &Line) -> Sizes {
        let sent_bytes = self.cut.map_or(line.head_bytes + line.body_bytes, |(sent_bytes, _)| sent_bytes);
        let head = sent_bytes.min(line.head_bytes);
        Sizes { size: line.body_bytes, head, body: sent_bytes - head }
    }

    fn times(&self, line: &Line, has_sent: bool, now: Nanos, log: &mut AccessLog) -> Times {
        let logged = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // A turn's clock stands, and a departure may be of the instant before it.
        let ended_at = self.at.unwrap_or(now).max(line.arrived_at);
        let first_byte_at = line.first_byte_at.or(self.first_byte_at).unwrap_or(ended_at);
        Times {
            logged,
            arrival: log.unix_time(line.arrived_at, now, logged),
            first_byte: has_sent.then(|| first_byte_at - line.arrived_at),
            response: ended_at - line.arrived_at,
        }
    }
}

impl Worker {
    /// Logs a response, once.
    pub(super) fn log(&mut self, place: Place, ending: Ending) {
        let exchange = self.exchange(place);
        let (class, Some(line)) = (exchange.class, exchange.line.take()) else { return };
        self.count(class, &line, &ending);
        if let Some(log) = &line.log {
            self.write_line(place, log, &line, ending);
        }
    }

    fn write_line(&mut self, place: Place, log: &Arc<Log>, line: &Line, ending: Ending) {
        let class = self.exchange(place).class;
        let conn = &self.conns[place.at];
        let sizes = ending.sizes(line);
        let entry = Entry {
            remote: conn.peer(),
            request: line.requested(),
            status: line.status,
            sizes,
            // Most responses depart in the turn their request came in, whose clock stands.
            times: ending.times(line, sizes.head > 0, clock::now(), &mut self.parts.log),
            outcome: ending.cut.map_or(Outcome::Complete, |(_, outcome)| outcome),
            reason: line.reason,
            connection_reused: conn.has_answered,
            class: self.parts.replier.class_name(class),
            ahead_bytes: self.parts.transmitter.drain().order().policy().ahead_bytes(conn.client),
        };
        self.parts.log.write(log, &entry);
    }

    /// The connection ends with a request whose body has not come, or whose turn on it has not.
    pub(super) fn note_unanswered(&mut self, at: usize) {
        let conn = &mut self.conns[at];
        if conn.is_multiplexed() || conn.exchange(0).line.is_some() {
            return;
        }
        if let Some(kept) = conn.http1.take_unanswered() {
            let head = kept.view();
            let to = self.to(at, &head.request);
            self.note(at.into(), to.site, &head.request, head.minor_version);
        }
    }

    /// A request whose client left before there was a response has a line all the same.
    pub(super) fn log_unanswered(&mut self, place: Place) {
        if let Some(mut line) = self.exchange(place).line.take() {
            line.status = UNANSWERED_STATUS;
            let outcome = self.outcome_of(&Failure::Disconnected);
            if let Some(log) = line.log.take() {
                self.write_line(place, &log, &line, Ending::now().cut(0, outcome));
            }
        }
    }

    /// How a response that failed ended; what is cut because the server stops is the run's end, not the connection's.
    pub(super) fn outcome_of(&self, failure: &Failure) -> Outcome {
        match failure {
            Failure::Truncated { .. } | Failure::Unreadable { .. } => Outcome::Wrong,
            _ if self.is_time_up() => Outcome::Incomplete,
            Failure::Blocked | Failure::Absent | Failure::Shut | Failure::Disconnected | Failure::Stalled => {
                Outcome::Reset
            }
        }
    }

    /// Cuts what is still being sent, so that its line says how far it came; a stopping server goes on no longer.
    pub(super) fn cut_open(&mut self) {
        let is_open = |conn: &Conn| conn.exchanges.iter().any(|exchange| exchange.is_logged());
        let open: Vec<usize> = self.conns.iter().filter(|(_, conn)| is_open(conn)).map(|(at, _)| at).collect();
        for at in open {
            self.abandon(at);
        }
        self.transmit();
    }
}
