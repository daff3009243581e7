//! The state of the line as it is reported to an operator.

use units::{Nanos, Rate};

use super::notice::{Limit, Notice, Status};
use super::{Bounds, rate};

/// The rate found for the line, and the rate last reported.
#[derive(Debug, Default)]
pub(super) struct Found {
    rate: Option<u64>,
    at: Nanos,
    busy_intervals: u64,
    limit: Limit,
    /// The rate of the last notice.
    told: Option<u64>,
}

impl Found {
    /// Records an interval in which the line was full, as shown by its use or its queue. Returns the time since the
    /// last such interval.
    pub fn on_full(&mut self, now: Nanos) -> Nanos {
        let before = std::mem::replace(&mut self.at, now);
        self.busy_intervals += 1;
        now - before
    }

    /// Records a measurement of the line. Returns a notice for the first rate, and for any rate that differs by a
    /// twentieth.
    pub fn on_line(&mut self, now: Nanos, line: u64) -> Option<Notice> {
        (self.rate, self.at, self.limit) = (Some(line), now, Limit::Line);
        let before = self.told;
        if before.is_some_and(|before| before.abs_diff(line) * 20 < before) {
            return None;
        }
        self.told = Some(line);
        Some(match before {
            None => Notice::Found { rate: rate(line) },
            Some(before) => Notice::Changed { from: rate(before), to: rate(line) },
        })
    }

    /// Records that the line carries this pace too. Returns a notice if it is a quarter more than the rate last
    /// reported.
    pub fn on_raised(&mut self, pace: u64) -> Option<Notice> {
        self.rate = Some(pace);
        let before = self.told.filter(|before| pace > before + before / 4)?;
        self.told = Some(pace);
        Some(Notice::Changed { from: rate(before), to: rate(pace) })
    }

    /// Records that delay or losses persist at a slower pace, so other senders cause them.
    pub fn on_others(&mut self, lasts: Nanos, pace: u64) -> Notice {
        self.limit = Limit::Others;
        Notice::Others { rate: rate(pace), lasts }
    }

    pub fn status(&self, now: Nanos, bounds: Bounds, pace: Option<Rate>) -> Status {
        let is_ceiling = pace.is_some() && pace == bounds.most && self.limit != Limit::Others;
        let limit = if is_ceiling { Limit::Ceiling } else { self.limit };
        let Found { rate: line, at, busy_intervals, .. } = *self;
        Status { bounds, rate: line.map(rate), pace, age: now - at, busy_intervals, limit }
    }
}
