//! The bottleneck: a link of a given rate at the server's egress, and what waits for it.
//!
//! What is queued is what the stack hands down: a packet here may hold many segments (GSO), and a limit counts it as
//! one, as the kernel's qdiscs do.

mod arena;
mod bands;
mod link;

use serde::Deserialize;
use units::Nanos;

use super::ConnId;
use arena::{Arena, List};
pub use bands::Queue;
pub use link::{Link, Shape};

/// The load of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    SynAck,
    /// Acknowledges what the client sent, without data.
    Ack,
    /// Bytes of the stream from `seq` on; `fin` follows the last of them.
    Data {
        seq: u64,
        bytes: u32,
        fin: bool,
        /// Sent before, so it belongs to no grant.
        again: bool,
    },
}

/// A packet as a qdisc sees it.
#[derive(Debug, Clone, Copy)]
pub struct Packet {
    pub conn: ConnId,
    pub load: Load,
    /// The bytes as the link counts them, the headers of every segment included.
    pub wire_bytes: u32,
    pub queued_at: Nanos,
    /// 0 is for what is not data; a policy's best band is 1.
    pub band: u8,
}

/// Which queue stands above the link; limits are packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Discipline {
    /// A single FIFO, drop-tail.
    Fifo(u32),
    /// Strict priority: band 0 for what is not data, then the policy's; each a FIFO with this limit.
    Bands(u32),
}

impl Discipline {
    pub fn limit(self) -> u32 {
        match self {
            Discipline::Fifo(limit) | Discipline::Bands(limit) => limit,
        }
    }
}

/// Bands of a priority queue: one for what is not data and sixteen for a policy, as many as `prio` has.
pub const BANDS_MAX: usize = 17;

impl Queue {
    pub fn new(discipline: Discipline) -> Queue {
        match discipline {
            Discipline::Fifo(limit) => Queue::of_bands(1, limit),
            Discipline::Bands(limit) => Queue::of_bands(BANDS_MAX, limit),
        }
    }
}
