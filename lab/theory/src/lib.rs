//! Oracles for one link: the results of the best schedule and of perfectly fair sharing for the same jobs.
//!
//! A measured mean response time alone is not informative, because the jobs may have been easy. Every result is
//! therefore printed next to three figures computed for the same arrivals. [`clairvoyant_srpt`] is the *bound*: no
//! schedule of one link has a lower mean (Schrage 1968, "A proof of the optimality of the shortest remaining processing
//! time discipline"). It sends parts of packets and needs no handshake; [`packet_srpt`] is the same order with whole
//! packets and handshakes. [`ideal_ps`] is processor sharing without a queue below it, the ideal of a fair server.
//!
//! Nothing here shares code with the scheduler that it judges, and nothing here reads a clock.
//!
//! ```
//! use theory::{Demand, clairvoyant_srpt, ideal_ps};
//! use units::Nanos;
//! let jobs = [(0, 10), (2, 3)].map(|(arrival, service)| Demand { arrival: Nanos(arrival), service: Nanos(service) });
//! assert_eq!(clairvoyant_srpt(&jobs), [Nanos(13), Nanos(3)]);
//! assert_eq!(ideal_ps(&jobs), [Nanos(13), Nanos(6)]);
//! ```

pub mod alternating;
mod carrier;
pub mod mg1;
mod packet;
mod ps;
mod srpt;
#[cfg(test)]
mod tests;

pub use carrier::Carrier;
pub use packet::{Response, packet_bound, packet_srpt};
pub use ps::ideal_ps;
pub use srpt::clairvoyant_srpt;

use units::{Nanos, Rate, wire};

/// A job as a link sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Demand {
    pub arrival: Nanos,
    /// The time that the job takes alone on the link.
    pub service: Nanos,
}

/// Returns the time for which the link is busy with one response: head and body together in full-size segments, each
/// with the headers that the shaper counts.
///
/// It contains no handshake, no acknowledgement and no round trip. A real run has all of them, so a bound computed from
/// these times is below any possible run. It is rounded up to a nanosecond, which is less than a bit below 1 Gbit/s.
pub fn wire_service(head_bytes: u64, size_bytes: u64, link: Rate) -> Nanos {
    link.time_for(wire::bytes_of(head_bytes + size_bytes, wire::SEGMENT_BYTES))
}

/// Returns the time for which the link of queueing theory is busy with one job, which consists only of its size. It is
/// rounded down to a nanosecond; a simulator may round to the nearest.
pub fn plain_service(size_bytes: u64, link: Rate) -> Nanos {
    let ns = u128::from(size_bytes) * 8_000_000_000 / u128::from(link.bits_per_s());
    Nanos(u64::try_from(ns).unwrap_or(u64::MAX).max(1))
}

/// Returns job numbers in order of arrival; jobs that arrive together keep the given order.
fn by_arrival(demands: &[Demand]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..demands.len()).collect();
    order.sort_by_key(|&job| demands[job].arrival);
    order
}
