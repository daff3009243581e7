//! The time that bytes stay beyond the interface, by Little's law.

use units::Nanos;

/// The number of packets that make up a mean by Little's law; then its minimum time, and the minimum number of packets
/// for a mean.
const MEAN_PACKETS: f64 = 40.0;
const MEAN_FOR: Nanos = Nanos::from_millis(100);
const MEAN_PACKETS_MIN: f64 = 24.0;
const PACKET_BYTES: f64 = 1514.0;

/// The stay of bytes beyond the interface, from their departure to their acknowledgement, by Little's law: the sum of
/// the stays is the number of bytes in flight, integrated over time. It fades.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stay {
    pub byte_ns: f64,
    pub acked_bytes: f64,
    /// The value of the sum if each byte had stayed for the minimum of its connection.
    pub least_byte_ns: f64,
}

/// The stay of all connections' bytes: until the last sight, and since then.
#[derive(Debug, Default)]
pub struct Stays {
    pub all: Stay,
    pub next: Stay,
}

impl Stays {
    pub fn end_sight(&mut self, lasted: Nanos) {
        let next = std::mem::take(&mut self.next);
        self.all.fade(lasted, next.acked_bytes);
        self.all.add(&next);
    }
}

impl Stay {
    /// Adds a time in which these bytes were in flight and these were acknowledged.
    pub fn add(&mut self, other: &Stay) {
        self.byte_ns += other.byte_ns;
        self.acked_bytes += other.acked_bytes;
        self.least_byte_ns += other.least_byte_ns;
    }

    /// Forgets the part that this time and these bytes replace.
    pub fn fade(&mut self, lasted: Nanos, acked_bytes: f64) {
        let part = (acked_bytes / (MEAN_PACKETS * PACKET_BYTES)).min(lasted.0 as f64 / MEAN_FOR.0 as f64).min(1.0);
        for sum in [&mut self.byte_ns, &mut self.acked_bytes, &mut self.least_byte_ns] {
            *sum *= 1.0 - part;
        }
    }

    fn is_enough(&self) -> bool {
        self.acked_bytes >= MEAN_PACKETS_MIN * PACKET_BYTES
    }

    pub fn mean(&self) -> Option<Nanos> {
        self.is_enough().then(|| Nanos((self.byte_ns / self.acked_bytes) as u64))
    }

    /// Returns the mean time that bytes stayed beyond the minimum.
    pub fn excess(&self) -> Option<Nanos> {
        self.is_enough().then(|| Nanos(((self.byte_ns - self.least_byte_ns).max(0.0) / self.acked_bytes) as u64))
    }
}
