//! What is shared with the programs in the kernel: `struct settings` and `struct counters` of `bpf/ranked.bpf.c`.

use units::{Nanos, Rate};

use crate::netlink::{u32_at, u64_at};

/// The name of the kind, zero-padded, in front of both: by it the maps of one qdisc are told from those of another.
pub const KIND_BYTES: usize = 16;

/// What a ranked qdisc goes by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub rate: Rate,
    /// Flows that wait in queues of their own; packets of further ones share a queue.
    pub flows_max: u32,
    /// Packets in all; beyond it the flow with the worst rank loses its last one.
    pub packets_max: u32,
    /// Packets of one flow; beyond it its own newest is dropped.
    pub flow_packets_max: u32,
    /// Bytes in all, as `packets_max`; exceeded by at most a packet.
    pub bytes_max: u64,
    /// How late the pacing timer may be, while packets wait, without a loss of throughput. What it missed is then sent at
    /// once: no more than the link would have carried by that time.
    pub late_max: Nanos,
    /// What a frame takes on the wire beside what the kernel counts, Ethernet header included (38 below a 1514-byte frame
    /// are 24 of preamble, checksum and gap; a DSL line has others).
    pub overhead_bytes: u32,
    /// The share of the bytes, in thousandths, that goes to the flow that has waited longest, whatever its rank.
    pub guard_permille: u32,
}

/// What a ranked qdisc has counted since it was installed, and what waits in it now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Sent.
    pub packets: u64,
    pub bytes: u64,
    /// Dropped because all queues together were full, from the flow with the worst rank.
    pub dropped_full: u64,
    /// Dropped because their own flow's queue was full.
    pub dropped_flow: u64,
    /// Dropped because the kernel had no memory for their place in the order.
    pub dropped_memory: u64,
    /// Taken into the shared queue because there were too many flows.
    pub excess_packets: u64,
    /// Sent out of order, to the flow that had waited longest.
    pub guard_bytes: u64,
    pub backlog_bytes: u64,
    pub backlog_packets: u32,
    /// Flows with packets waiting.
    pub flows: u32,
    pub flows_peak: u32,
    /// How often the qdisc had packets and waited for the link.
    pub waits: u32,
}

impl Settings {
    pub fn encode(&self, kind: &str) -> Vec<u8> {
        let mut bytes = encode_kind(kind).to_vec();
        for word in [self.rate.bits_per_s().div_ceil(8), self.bytes_max] {
            bytes.extend(word.to_ne_bytes());
        }
        let late_max_ns = u32::try_from(self.late_max.0).unwrap_or(u32::MAX);
        let bounds = [self.flows_max, self.packets_max, self.flow_packets_max, self.guard_permille];
        for word in [late_max_ns, self.overhead_bytes].into_iter().chain(bounds) {
            bytes.extend(word.to_ne_bytes());
        }
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Option<Settings> {
        let wide = |nth: usize| u64_at(bytes, KIND_BYTES + 8 * nth);
        let word = |nth: usize| u32_at(bytes, KIND_BYTES + 2 * 8 + 4 * nth);
        Some(Settings {
            rate: wide(0)?.checked_mul(8).and_then(Rate::from_bits_per_s)?,
            bytes_max: wide(1)?,
            late_max: Nanos(word(0)?.into()),
            overhead_bytes: word(1)?,
            flows_max: word(2)?,
            packets_max: word(3)?,
            flow_packets_max: word(4)?,
            guard_permille: word(5)?,
        })
    }
}

impl Stats {
    pub fn decode(bytes: &[u8]) -> Option<Stats> {
        let wide = |nth: usize| u64_at(bytes, KIND_BYTES + 8 * nth);
        let word = |nth: usize| u32_at(bytes, KIND_BYTES + 8 * 8 + 4 * nth);
        Some(Stats {
            packets: wide(0)?,
            bytes: wide(1)?,
            dropped_full: wide(2)?,
            dropped_flow: wide(3)?,
            dropped_memory: wide(4)?,
            excess_packets: wide(5)?,
            guard_bytes: wide(6)?,
            backlog_bytes: wide(7)?,
            backlog_packets: word(0)?,
            flows: word(1)?,
            flows_peak: word(2)?,
            waits: word(3)?,
        })
    }
}

/// The last byte stays zero.
pub fn encode_kind(kind: &str) -> [u8; KIND_BYTES] {
    let mut bytes = [0; KIND_BYTES];
    for (to, from) in bytes[..KIND_BYTES - 1].iter_mut().zip(kind.bytes()) {
        *to = from;
    }
    bytes
}
