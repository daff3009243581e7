//! Shortest remaining response time: rank = RTT · (1 + remaining / congestion window), in nanoseconds.
//!
//! The rank is the time until the last byte reaches the client if the client's path is the bottleneck (AlSa'deh &
//! Yahya, "Shortest remaining response time scheduling for improved web server performance", 2008, section 3; their
//! cwnd · MSS is our window in bytes). Good if clients differ in distance and loss and the server's link is not the
//! only bottleneck. Bad for distant clients. Also bad if the link is the only bottleneck: the estimate leaves out the
//! time spent there, so the order differs from SRPT's.
//!
//! An unknown round trip counts as 100 ms, and an unknown window as ten full segments, TCP's initial window (RFC 6928).
//! If no path is known, the order equals `srpt`. The remainder of a job of unknown size counts as the bytes it has
//! attained.

use crate::policy::{Rank, unknown_rank};
use crate::{Job, Path};
use units::{Nanos, wire};

pub struct Srrt;

impl Srrt {
    /// The round trip assumed before the first sample: between the nearest and the farthest of the paper's clients.
    pub const RTT_ASSUMED: Nanos = Nanos::from_millis(100);
    /// The window assumed before it is known.
    pub const CWND_ASSUMED_BYTES: u64 = 10 * wire::SEGMENT_BYTES;
}

/// The minimum round trip, equal to the granularity of the kernel's values, so that jobs on a path without delay are
/// still ordered by size.
const RTT_MIN: Nanos = Nanos::from_micros(1);

impl Rank for Srrt {
    fn name(&self) -> &str {
        "srrt"
    }

    fn is_size(&self) -> bool {
        true
    }

    fn needs_path(&self) -> bool {
        true
    }

    fn rank(&self, job: &Job, path: &Path) -> u64 {
        let remaining = job.known_left().unwrap_or_else(|| unknown_rank(job));
        let rtt = path.rtt.unwrap_or(Srrt::RTT_ASSUMED).max(RTT_MIN).0;
        let window = path.cwnd_bytes.unwrap_or(Srrt::CWND_ASSUMED_BYTES).max(1);
        // 100 ms and 100 GB still fit in 64 bits, for which a division is several times cheaper.
        let transfer = match rtt.checked_mul(remaining) {
            Some(product) => product / window,
            None => u64::try_from(u128::from(rtt) * u128::from(remaining) / u128::from(window)).unwrap_or(u64::MAX),
        };
        rtt.saturating_add(transfer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Size;
    use proptest::prelude::*;

    fn job(remaining: u64) -> Job {
        Job::of_size(Size::Known(remaining))
    }

    #[test]
    fn the_formula() {
        let path = Path { rtt: Some(Nanos::from_millis(50)), cwnd_bytes: Some(14_600), throughput_bps: None };
        assert_eq!(Srrt.rank(&job(29_200), &path), Nanos::from_millis(150).0);
        assert_eq!(Srrt.rank(&job(7_300), &path), Nanos::from_millis(75).0);
    }

    #[test]
    fn an_unknown_path_is_100_ms_and_ten_segments() {
        assert_eq!(Srrt.rank(&job(14_480), &Path::default()), Nanos::from_millis(200).0);
        // Beyond 64 bits: 1 TB at 100 ms.
        assert_eq!(
            Srrt.rank(&job(1_448_000_000_000), &Path::default()),
            Nanos::from_millis(100).0 + 10_000_000_000_000_000
        );
    }

    proptest! {
        /// With no path known it is SRPT, and the narrow and the wide multiplication agree.
        #[test]
        fn unknown_paths_order_by_size(a in 1u64..1 << 50, b in 1u64..1 << 50) {
            let of = |bytes| Srrt.rank(&job(bytes), &Path::default());
            prop_assert_eq!(a.cmp(&b), of(a).cmp(&of(b)));
        }

        /// A shorter round trip or a wider window never makes a rank worse.
        #[test]
        fn a_better_path_is_a_better_rank(bytes in 1u64..1 << 60, rtt in 0u64..1 << 40, more in 0u64..1 << 40, cwnd in 0u64..1 << 30, wider in 0u64..1 << 30) {
            let at = |rtt, cwnd| {
                Srrt.rank(&job(bytes), &Path { rtt: Some(Nanos(rtt)), cwnd_bytes: Some(cwnd), throughput_bps: None })
            };
            prop_assert!(at(rtt, cwnd) <= at(rtt + more, cwnd));
            prop_assert!(at(rtt, cwnd + wider) <= at(rtt, cwnd));
        }
    }
}
