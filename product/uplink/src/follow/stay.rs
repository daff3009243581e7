//! Measures, by Little's law, how long bytes stay beyond the interface.

use units::Nanos;

/// The number of packets over which a mean is taken. The next constants are the minimum time and the minimum number of
/// packets for a mean.
const MEAN_PACKETS: f64 = 40.0;
const MEAN_FOR: Nanos = Nanos::from_millis(100);
const MEAN_PACKETS_MIN: f64 = 24.0;
const PACKET_BYTES: f64 = 1514.0;

/// The stay of bytes beyond the interface, from departure to acknowledgement. By Little's law, the sum of the stays is
/// the number of bytes in flight, integrated over time. Old values lose weight.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stay {
    pub byte_ns: f64,
    pub acked_bytes: f64,
    /// The value of the sum if each byte had stayed for its connection's minimum.
    pub least_byte_ns: f64,
}

/// The stays of all connections' bytes: until the last sight, and since then.
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
    /// Adds a period in which `other`'s bytes were in flight or acknowledged.
    pub fn add(&mut self, other: &Stay) {
        self.byte_ns += other.byte_ns;
        self.acked_bytes += other.acked_bytes;
        self.least_byte_ns += other.least_byte_ns;
    }

    /// Removes the part that is replaced by this period and these bytes.
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
