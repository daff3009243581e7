//! Oracles for one link: what the best schedule could do, and what perfectly fair sharing would do, with the same jobs.
//!
//! A measured mean response time says little alone: the jobs may have been easy. So every result is printed beside
//! three figures computed for the very same arrivals. [`clairvoyant_srpt`] is the *bound*: no schedule of one link has a
//! lower mean (Schrage 1968, "A proof of the optimality of the shortest remaining processing time discipline").
//! It sends parts of packets and needs no handshake; [`packet_srpt`] is the same order of whole packets, with handshakes.
//! [`ideal_ps`] is processor sharing without a queue below it, what a fair server strives for.
//!
//! Nothing here shares code with the scheduler it judges, and nothing here reads a clock.
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
    /// Time the job takes alone on the link.
    pub service: Nanos,
}

/// How long the link is busy with one response: head and body together in full-size segments, each with the headers
/// the shaper counts.
///
/// There is no handshake, no acknowledgement and no round trip in it. A real run has them all, so the bound made of
/// these times lies below what any run can reach. Rounded up to a nanosecond, which is less than a bit below 1 Gbit/s.
pub fn wire_service(head_bytes: u64, size_bytes: u64, link: Rate) -> Nanos {
    link.time_for(wire::bytes_of(head_bytes + size_bytes, wire::SEGMENT_BYTES))
}

/// How long the link of queueing theory is busy with one job, which is its size and nothing else. Rounded down to a
/// nanosecond: a simulator may round to the nearest.
pub fn plain_service(size_bytes: u64, link: Rate) -> Nanos {
    let ns = u128::from(size_bytes) * 8_000_000_000 / u128::from(link.bits_per_s());
    Nanos(u64::try_from(ns).unwrap_or(u64::MAX).max(1))
}

/// Job numbers in order of arrival; jobs that arrive together stay in the order given.
fn by_arrival(demands: &[Demand]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..demands.len()).collect();
    order.sort_by_key(|&job| demands[job].arrival);
    order
}
