//! The rate of the line, found from what leaves and what is acknowledged.

mod look;
mod notice;

use units::{Nanos, Rate};

pub use look::{Look, Looks, Seen};
pub use notice::{Change, Limit, Notice, Status};

/// Between what the line's rate is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bounds {
    /// Never slower than this.
    pub least: Option<Rate>,
    /// The search begins here, instead of as fast as sockets take bytes.
    pub first: Option<Rate>,
    /// Never faster.
    pub most: Option<Rate>,
}

/// Finds the line's rate, and says how fast bytes may leave.
///
/// The caller tells it every look at a connection ([`Estimator::on_look`]). When an interval is over ([`Estimator::is_due`]) it looks at all
/// connections that have unacknowledged bytes, and asks for a judgement ([`Estimator::judge`]).
#[derive(Debug)]
pub struct Estimator {
    bounds: Bounds,
    pace: Option<Rate>,
}

impl Estimator {
    pub fn new(bounds: Bounds) -> Estimator {
        Estimator { bounds, pace: bounds.first }
    }

    /// How fast bytes may leave; `None`: as fast as sockets take them, since the line's rate is not known.
    pub fn pace(&self) -> Option<Rate> {
        self.pace
    }

    /// A connection was looked at; `client` (a hash of its prefix) is called where something is to be learned. `charged_bytes` is all that
    /// was handed to the link so far.
    pub fn on_look(&mut self, _now: Nanos, _charged_bytes: u64, _client: impl FnOnce() -> u64, _look: Look) {}

    /// Whether an interval is over: all connections that have unacknowledged bytes are to be looked at, and then
    /// [`Estimator::judge`] called.
    pub fn is_due(&self, _now: Nanos) -> bool {
        false
    }

    /// Ends the interval. Gives the pace where it changes, or a line for the operator.
    pub fn judge(&mut self, _now: Nanos, _charged_bytes: u64) -> Option<Change> {
        None
    }

    /// What is known, for an operator.
    pub fn status(&self, _now: Nanos) -> Status {
        Status { bounds: self.bounds, ..Status::default() }
    }
}
