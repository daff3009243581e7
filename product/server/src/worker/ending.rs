//! The end of a response, as the access log and the records have it: each response is told once, however it ends. With neither, and
//! no classes of a file, small responses that are sent together end together, and nobody is told.

use std::sync::Arc;

use record::{JobRecord, Outcome};
use units::Nanos;

use super::Worker;
use super::conn::Conn;
use super::exchange::Place;
use super::input::HTTP_1;
use super::line::Line;
use crate::clock;
use crate::log::Log;
use crate::records::Row;
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

    fn sent_bytes(&self, line: &Line) -> u64 {
        self.cut.map_or(line.head_bytes + line.body_bytes, |(sent_bytes, _)| sent_bytes)
    }

    /// Before it is numbered.
    fn record(&self, line: &Line, conn: &Conn, class: u16, ahead_bytes: Option<u64>, now: Nanos) -> JobRecord {
        let sent_bytes = self.sent_bytes(line);
        let head_bytes = sent_bytes.min(line.head_bytes);
        let end_at = self.at.unwrap_or(now);
        let whole = if line.status < ERROR_STATUS_MIN { Outcome::Complete } else { Outcome::Wrong };
        let first_byte_at = line.first_byte_at.or(self.first_byte_at).or(Some(end_at));
        JobRecord {
            job: JobRecord::UNNUMBERED,
            size_bytes: line.body_bytes,
            head_bytes,
            arrival_ns: line.arrived_at.0,
            start_ns: None,
            first_byte_ns: first_byte_at.filter(|_| sent_bytes > 0).map(|at| at.0),
            // A turn's clock stands, and a departure may be of the instant before it.
            end_ns: end_at.0.max(line.arrived_at.0),
            body_bytes: sent_bytes - head_bytes,
            status: line.status,
            outcome: self.cut.map_or(whole, |(_, outcome)| outcome),
            attempts: 1,
            group: class.into(),
            client: Some(conn.client),
            ahead_bytes,
        }
    }
}

impl Worker {
    /// Whether somebody wants to know of responses one by one, those of this log.
    pub(super) fn keeps_lines(&self, log: Option<&Arc<Log>>) -> bool {
        log.is_some() || self.parts.recorder.is_some()
    }

    /// Tells of a response, once.
    pub(super) fn log(&mut self, place: Place, ending: Ending) {
        self.count(place, &ending);
        let Some(line) = self.exchange(place).line.take() else { return };
        let conn = &self.conns[place.at];
        // Most responses depart in the turn their request came in, whose clock stands.
        let now = clock::now();
        if let Some(log) = &line.log {
            let body_bytes = ending.sent_bytes(&line).saturating_sub(line.head_bytes);
            let ahead_bytes = self.parts.transmitter.drain().ahead_bytes(conn.client);
            self.parts.log.write(log, &line.entry(conn.peer(), body_bytes, ahead_bytes, now));
        }
        self.record(place, &line, ending, now);
    }

    /// The connection ends with a request whose body has not come, or whose turn on it has not.
    pub(super) fn note_unanswered(&mut self, at: usize) {
        let conn = &mut self.conns[at];
        if conn.multiplexed.is_some() || conn.exchange.line.is_some() {
            return;
        }
        if let Some(kept) = conn.http1.take_unanswered() {
            let head = kept.view();
            let to = self.to(at, &head.request);
            self.note(at.into(), to.site, &head.request, (HTTP_1, head.minor_version));
        }
    }

    /// A request whose client left before there was a response: a job all the same, and a line.
    pub(super) fn record_unanswered(&mut self, place: Place) {
        if let Some(mut line) = self.exchange(place).line.take() {
            let outcome = self.outcome_of(&Failure::Disconnected);
            let now = clock::now();
            self.record(place, &line, Ending::now().cut(0, outcome), now);
            line.status = UNANSWERED_STATUS;
            if let Some(log) = line.log.take() {
                let conn = &self.conns[place.at];
                let ahead_bytes = self.parts.transmitter.drain().ahead_bytes(conn.client);
                self.parts.log.write(&log, &line.entry(conn.peer(), 0, ahead_bytes, now));
            }
        }
    }

    /// How a response that failed ended; what is cut because the server stops is the run's end, not the connection's.
    pub(super) fn outcome_of(&self, failure: &Failure) -> Outcome {
        match failure {
            Failure::Truncated { .. } | Failure::Unreadable { .. } => Outcome::Wrong,
            _ if self.is_time_up() => Outcome::Incomplete,
            Failure::Blocked | Failure::Absent | Failure::Disconnected | Failure::Stalled => Outcome::Reset,
        }
    }

    /// Cuts what is still being sent, so that its row says how far it came; a stopping server goes on no longer.
    pub(super) fn cut_open(&mut self) {
        let is_open = |conn: &Conn| conn.exchanges().any(|exchange| exchange.line.is_some());
        let open: Vec<usize> = self.conns.iter().filter(|(_, conn)| is_open(conn)).map(|(at, _)| at).collect();
        for at in open {
            self.abandon(at);
        }
        self.transmit();
    }

    fn record(&mut self, place: Place, line: &Line, ending: Ending, now: Nanos) {
        let class = self.exchange(place).class;
        let conn = &self.conns[place.at];
        if let Some(recorder) = &mut self.parts.recorder {
            let ahead_bytes = self.parts.transmitter.drain().ahead_bytes(conn.client);
            let record = ending.record(line, conn, class, ahead_bytes, now);
            recorder.write(now, Row { record, opens: !conn.has_answered });
        }
    }
}
