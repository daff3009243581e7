//! TCP as in Linux, as far as it affects when a response has arrived.
//!
//! Loss recovery follows RFC 6675 (SACK). A segment is lost when three above it have arrived, or when it was
//! retransmitted and something sent clearly later has arrived; the scoreboard counts what is in flight. From Linux come
//! HyStart (CUBIC's early end of slow start), the tail loss probe (RFC 8985 section 7), the restart after idle, the
//! grouping of segments into one packet (TSO autosizing), the limit on a connection's bytes in the host's own qdisc
//! (TCP small queues), the notification of a sender if that qdisc has no room, and the undoing of a reduction that a
//! timestamp shows to have been unnecessary (Eifel, RFC 3522). Not modelled: ECN, DSACK, adapting to reordering, and
//! the growth of the receive window.

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

/// The contents of an acknowledgement: everything below `upto` has arrived, and at least this block above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acked {
    pub upto: u64,
    /// The start and end of the block, relative to `upto`; empty if nothing is missing. It is the block with the newest
    /// segment, the first of RFC 2018. If this acknowledgement is lost, a later one of the same block contains as much.
    pub block: (u32, u32),
    /// The instant at which the acknowledged segment was sent (the echo of RFC 7323).
    pub echo: Nanos,
}
