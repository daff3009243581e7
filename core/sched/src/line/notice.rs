use units::{Nanos, Rate};

use super::Bounds;

/// The pace from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    pub pace: Option<Rate>,
    /// A line for the operator.
    pub notice: Option<Notice>,
}

/// What is known of the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Status {
    pub bounds: Bounds,
    /// The rate found; `None` before.
    pub rate: Option<Rate>,
    /// What is used of it now; `None`: as fast as sockets take bytes.
    pub pace: Option<Rate>,
    /// How long ago the rate was last confirmed.
    pub age: Nanos,
    /// In so many intervals the line was full.
    pub busy_intervals: u64,
    pub limit: Limit,
}

/// What limits the pace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Limit {
    /// Nothing was found: the line was never full.
    #[default]
    Unknown,
    /// The line's own rate.
    Line,
    /// Other senders on the same line.
    Others,
    /// The greatest rate that was allowed.
    Ceiling,
}

/// Why the pace falls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// The queue in front of all clients takes this long.
    Delay(Nanos),
    /// Of all bytes, this many thousandths are lost.
    Loss(u64),
    /// Of all bytes handed down, this many thousandths arrive.
    Plateau(u64),
}

/// A line for the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// The rate was found for the first time, or after it was lost.
    Found { rate: Rate },
    /// It is another than was told last.
    Changed { from: Rate, to: Rate },
    /// A queue or losses stayed at a slower pace too: they are of others.
    Others { rate: Rate, lasts: Nanos },
}
