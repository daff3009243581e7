//! The end of a response, as the access log has it: each response is logged once, however it ends. Without a log and
//! without classes of a file, small responses that are sent together end together, and nothing is kept of them.

use std::time::Duration;

use units::Nanos;

use crate::body::Failure;
use crate::connection::Departure;
use crate::connection::Line;
use crate::logging::{AccessLog, Outcome, Sizes, Times};

/// From this status on a response is not what was asked for (RFC 9110 sections 15.5 and 15.6).
pub(super) const ERROR_STATUS_MIN: u16 = 400;

/// Logged where no response was begun before the client left, as in nginx's logs.
pub(super) const UNANSWERED_STATUS: u16 = 499;

/// How far a response came, and when. Instants that nobody noted are those of the telling.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ResponseEnd {
    /// Where that was not all: bytes, head included, and how it ended.
    cut: Option<(u64, Outcome)>,
    first_byte_at: Option<Nanos>,
    at: Option<Nanos>,
}

impl ResponseEnd {
    /// Just now, as a whole.
    pub fn now() -> ResponseEnd {
        ResponseEnd::default()
    }

    /// As a whole.
    pub fn of(departure: &Departure) -> ResponseEnd {
        ResponseEnd { cut: None, first_byte_at: departure.first_byte_at, at: Some(departure.ended_at) }
    }

    /// The same, cut after so many bytes.
    pub fn cut(self, sent_bytes: u64, outcome: Outcome) -> ResponseEnd {
        ResponseEnd { cut: Some((sent_bytes, outcome)), ..self }
    }

    /// Where it was cut.
    pub fn outcome(&self) -> Option<Outcome> {
        self.cut.map(|(_, outcome)| outcome)
    }

    /// When it ended, if that was noted, and the bytes that were sent where these were not all.
    pub fn measured(&self) -> (Option<Nanos>, Option<u64>) {
        (self.at, self.cut.map(|(sent_bytes, _)| sent_bytes))
    }

    pub fn sizes(&self, line: &Line) -> Sizes {
        let sent_bytes = self.cut.map_or(line.bytes(), |(sent_bytes, _)| sent_bytes);
        let head = sent_bytes.min(line.head_bytes.into());
        Sizes { size: line.body_bytes, head, body: sent_bytes - head }
    }

    /// `logged` is the time since 1970.
    pub fn times(&self, line: &Line, has_sent: bool, (now, logged): (Nanos, Duration), log: &mut AccessLog) -> Times {
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

/// How a response that failed ended; what is cut because the server stops is the run's end, not the connection's.
pub(super) fn outcome_of(failure: &Failure, is_time_up: bool) -> Outcome {
    match failure {
        Failure::Truncated { .. } | Failure::Unreadable { .. } | Failure::Source(_) | Failure::Overrun(_) => {
            Outcome::Wrong
        }
        _ if is_time_up => Outcome::Incomplete,
        Failure::Aborted => Outcome::Aborted,
        Failure::Blocked
        | Failure::Absent
        | Failure::Pending
        | Failure::Shut
        | Failure::Disconnected
        | Failure::Stalled => Outcome::Reset,
    }
}
