//! TCP as Linux does it, as far as it decides when a response has arrived.
//!
//! Loss recovery is that of RFC 6675 (SACK): a segment is lost when three above it have arrived, or when it was sent
//! again and something sent clearly later has arrived; what is in flight is counted by the scoreboard. Of Linux there
//! is HyStart (CUBIC's early end of slow start), the tail loss probe (RFC 8985 section 7), the restart after idle, the
//! way segments are gathered into one packet (TSO autosizing), how much of a connection may wait in the host's own
//! qdisc (TCP small queues), that a sender is told when that qdisc has no room, and that a reduction is undone when a
//! timestamp shows it was needless (Eifel, RFC 3522). Not modelled: ECN, DSACK, adapting to reordering, the growth of
//! the receive window.

mod congestion;
mod receiver;
mod rtt;
mod scoreboard;
mod sender;

use units::Nanos;

pub use congestion::Congestion;
pub use receiver::{Receiver, Reply};
pub use rtt::Rtt;
pub use sender::{Segments, Sender, Settings};

/// The contents of an acknowledgement: all below `upto` has arrived, and of what lies above at least this block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acked {
    pub upto: u64,
    /// Start and end, relative to `upto`; empty if nothing is missing. The block with the newest segment, the first of
    /// RFC 2018's; if this acknowledgement is lost a later one of the same block tells as much.
    pub block: (u32, u32),
    /// When what it answers was sent (RFC 7323's echo).
    pub echo: Nanos,
}
