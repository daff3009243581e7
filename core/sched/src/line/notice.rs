use units::{Nanos, Rate};

use super::Bounds;

/// The pace from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    pub pace: Option<Rate>,
    /// A line for the operator.
    pub notice: Option<Notice>,
}

/// The known state of the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Status {
    pub bounds: Bounds,
    /// The rate that was found; `None` if none has been found yet.
    pub rate: Option<Rate>,
    /// The pace now; `None` means as fast as sockets take bytes.
    pub pace: Option<Rate>,
    /// The time since the rate was last confirmed.
    pub age: Nanos,
    /// The number of intervals so far in which the line was full.
    pub busy_intervals: u64,
    pub limit: Limit,
}

/// The cause that limits the pace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Limit {
    /// No limit was found, because the line was never full.
    #[default]
    Unknown,
    /// The limit is the line's own rate.
    Line,
    /// Other senders on the same line set the limit.
    Others,
    /// The maximum rate that the operator allows.
    Ceiling,
}

/// The reason why the pace falls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// All clients saw a queue with this delay.
    Delay(Nanos),
    /// This part of all bytes was lost, in thousandths.
    Loss(u64),
    /// Only this part of all bytes handed down arrived, in thousandths.
    Plateau(u64),
}

/// A line for the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// The rate was found for the first time, or after it was lost.
    Found { rate: Rate },
    /// The rate differs from the one last reported.
    Changed { from: Rate, to: Rate },
    /// A queue or losses persisted at a slower pace, so other senders cause them.
    Others { rate: Rate, lasts: Nanos },
}
