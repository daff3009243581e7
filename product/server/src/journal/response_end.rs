//! The end of a response, as recorded in the access log. Each response is logged once, however it ends. Without a log
//! and without classes, small responses that are sent together also end together, and nothing is stored about them.

use std::time::Duration;

use units::Nanos;

use crate::body::Failure;
use crate::connection::Departure;
use crate::connection::LogEntry;
use crate::logging::{AccessLog, Outcome, Sizes, Times};

/// The minimum status of an error response (RFC 9110 sections 15.5 and 15.6).
pub const ERROR_STATUS_MIN: u16 = 400;

/// The status logged if the client left before a response began, as in nginx's logs.
pub const UNANSWERED_STATUS: u16 = 499;

/// The status of a client whose request did not arrive in time (RFC 9110 section 15.5.9).
pub const LATE_STATUS: u16 = 408;

/// The end of a response: how far it got, and when. A time that was not recorded is the time of the report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResponseEnd {
    /// The bytes sent including the head, and the outcome, if the response was cut off.
    cut: Option<(u64, Outcome)>,
    first_byte_at: Option<Nanos>,
    at: Option<Nanos>,
}

impl ResponseEnd {
    /// Returns the end of a complete response, now.
    pub fn now() -> ResponseEnd {
        ResponseEnd::default()
    }

    /// Returns the end of a complete response that departed.
    pub fn of(departure: &Departure) -> ResponseEnd {
        ResponseEnd { cut: None, first_byte_at: departure.first_byte_at, at: Some(departure.ended_at) }
    }

    /// Returns the same end, cut off after `sent_bytes`.
    pub fn cut(self, sent_bytes: u64, outcome: Outcome) -> ResponseEnd {
        ResponseEnd { cut: Some((sent_bytes, outcome)), ..self }
    }

    /// Returns the outcome, if the response was cut.
    pub fn outcome(&self) -> Option<Outcome> {
        self.cut.map(|(_, outcome)| outcome)
    }

    /// Returns the time of the end, if recorded, and the bytes sent, if the response was cut off.
    pub fn measured(&self) -> (Option<Nanos>, Option<u64>) {
        (self.at, self.cut.map(|(sent_bytes, _)| sent_bytes))
    }

    pub fn sizes(&self, line: &LogEntry) -> Sizes {
        let sent_bytes = self.cut.map_or(line.bytes(), |(sent_bytes, _)| sent_bytes);
        let head = sent_bytes.min(line.head_bytes.into());
        Sizes { size: line.body_bytes, head, body: sent_bytes - head }
    }

    /// Returns the times for the log. `logged` is the time since 1970.
    pub fn times(
        &self,
        line: &LogEntry,
        has_sent: bool,
        (now, logged): (Nanos, Duration),
        log: &mut AccessLog,
    ) -> Times {
        // The clock of a turn does not advance, and a departure may have the time before it.
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

/// Classifies the end of a failed response. If the response was cut off because the server stops, it is incomplete and
/// not reset.
pub fn outcome_of(failure: &Failure, is_time_up: bool) -> Outcome {
    match failure {
        Failure::Truncated { .. }
        | Failure::Unreadable { .. }
        | Failure::Source
        | Failure::Length
        | Failure::Overrun(_) => Outcome::Wrong,
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
