//! Converts bytes to time on one link, and defines which bytes count.

use units::wire::{CONNECTION_BYTES, SEGMENT_BYTES};
use units::{Nanos, Rate};
use workload::{Distribution, HEAD_BYTES_NOMINAL, wire_bytes};

/// The bytes of a job that take up the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wire {
    /// Only the size, as in queueing theory.
    #[default]
    Plain,
    /// Also a nominal head, the headers of full segments, and a connection per job, as [`workload::schedule`] counts
    /// them.
    Tcp,
}

impl Wire {
    /// The bytes on the link for a job of this size.
    pub fn bytes(self, size_bytes: u64) -> u64 {
        match self {
            Wire::Plain => size_bytes,
            Wire::Tcp => wire_bytes(size_bytes) + CONNECTION_BYTES,
        }
    }

    /// The bytes of only the response, without the connection. Slowdown is relative to them.
    pub fn response_bytes(self, size_bytes: u64) -> u64 {
        match self {
            Wire::Plain => size_bytes,
            Wire::Tcp => wire_bytes(size_bytes),
        }
    }

    /// The mean bytes on the link over a distribution of sizes.
    pub fn mean_bytes(self, sizes: &Distribution) -> f64 {
        match self {
            Wire::Plain => sizes.mean_drawn(),
            Wire::Tcp => {
                let fixed = (HEAD_BYTES_NOMINAL + CONNECTION_BYTES) as f64;
                fixed + sizes.mean_drawn() + units::wire::PACKET_OVERHEAD_BYTES as f64 * mean_segments(sizes)
            }
        }
    }
}

/// Computes the mean number of segments, the sum over k ≥ 0 of P(more than k segments). In the tail, where sizes are
/// rare, the sum proceeds in ever longer steps by the trapezoidal rule.
fn mean_segments(sizes: &Distribution) -> f64 {
    let above = |segments: u64| {
        let bytes = (segments * SEGMENT_BYTES).saturating_sub(HEAD_BYTES_NOMINAL);
        // Sizes are rounded to the nearest whole byte.
        if segments == 0 { 1.0 } else { sizes.survival(bytes as f64 + 0.5) }
    };
    let (mut sum, mut segments) = (0.0, 0u64);
    while segments < 1 << 40 {
        let step = (segments >> 12).max(1);
        let (here, there) = (above(segments), above(segments + step));
        if here < 1e-12 {
            break;
        }
        // Over [segments, segments + step): the first term in full, the others interpolated between it and the next.
        sum += if step == 1 { here } else { step as f64 * (here + there) / 2.0 };
        segments += step;
    }
    sum
}

/// The link time of bytes.
#[derive(Debug, Clone, Copy)]
pub struct Line {
    /// Nanoseconds per byte in units of 2^-32, so that a job costs one multiplication instead of a 128-bit division.
    per_byte: u128,
}

impl Line {
    pub fn new(link: Rate) -> Line {
        Line { per_byte: (8_000_000_000u128 << 32) / u128::from(link.bits_per_s()) }
    }

    /// The bytes per nanosecond.
    pub fn bytes_per_ns(&self) -> f64 {
        (1u64 << 32) as f64 / self.per_byte as f64
    }

    /// The time of this many bytes, rounded to the nearest nanosecond, at least one. Exact if a byte takes whole
    /// nanoseconds.
    pub fn time_for(&self, bytes: u64) -> Nanos {
        let ns = (u128::from(bytes) * self.per_byte + (1 << 31)) >> 32;
        Nanos(u64::try_from(ns).unwrap_or(u64::MAX).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_bytes_over_rate() {
        for (link, bytes, ns) in [("10mbit", 5000, 4_000_000), ("1gbit", 1, 8), ("3mbit", 3, 8000), ("100gbit", 1, 1)] {
            assert_eq!(Line::new(link.parse().unwrap()).time_for(bytes), Nanos(ns), "{bytes} bytes at {link}");
        }
    }

    /// Compares the mean with a sum over every size of a uniform distribution of 1 to 100,000 bytes.
    #[test]
    fn the_mean_on_the_wire() {
        let sizes: Vec<u64> = (1..=100_000).collect();
        let exact = sizes.iter().map(|&size| Wire::Tcp.bytes(size) as f64).sum::<f64>() / sizes.len() as f64;
        let found = Wire::Tcp.mean_bytes(&Distribution::empirical(&sizes).unwrap());
        assert!((found / exact - 1.0).abs() < 1e-6, "{found} for {exact}");
    }
}
