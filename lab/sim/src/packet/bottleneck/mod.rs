//! The bottleneck: a link of a given rate at the server's egress, and its queue.
//!
//! The queue contains packets as the stack hands them down. A packet may hold many segments (GSO), and a limit counts
//! it as one, as the kernel's qdiscs do.

mod arena;
mod bands;
mod link;

use serde::Deserialize;
use units::Nanos;

use super::ConnId;
use arena::{Arena, List};
pub use bands::Queue;
pub use link::{Link, Shape};

/// The contents of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    SynAck,
    /// Acknowledges data of the client, and contains no data.
    Ack,
    /// Bytes of the stream from `seq` on; `fin` follows the last byte.
    Data {
        seq: u64,
        bytes: u32,
        fin: bool,
        /// True for a retransmission, which belongs to no grant.
        again: bool,
    },
}

/// A packet as seen by a qdisc.
#[derive(Debug, Clone, Copy)]
pub struct Packet {
    pub conn: ConnId,
    pub load: Load,
    /// The bytes as the link counts them, including the headers of every segment.
    pub wire_bytes: u32,
    pub queued_at: Nanos,
    /// Band 0 is for packets without data; the policy's best band is 1.
    pub band: u8,
}

/// The queue in front of the link; limits are in packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Discipline {
    /// A single FIFO, drop-tail.
    Fifo(u32),
    /// Strict priority: band 0 for packets without data, then the policy's bands, each a FIFO with this limit.
    Bands(u32),
}

impl Discipline {
    pub fn limit(self) -> u32 {
        match self {
            Discipline::Fifo(limit) | Discipline::Bands(limit) => limit,
        }
    }
}

/// The bands of a priority queue: one for packets without data and sixteen for a policy, as many as `prio` has.
pub const BANDS_MAX: usize = 17;

impl Queue {
    pub fn new(discipline: Discipline) -> Queue {
        match discipline {
            Discipline::Fifo(limit) => Queue::of_bands(1, limit),
            Discipline::Bands(limit) => Queue::of_bands(BANDS_MAX, limit),
        }
    }
}
