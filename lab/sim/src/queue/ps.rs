//! Exact processor sharing, which a scheduler only approaches as its grants shrink: each of the n jobs in the system
//! gets 1/n of the link.
//!
//! Virtual time is the service that each present job has received. A job departs when virtual time has advanced by its
//! own service, whatever else happens, so the only state is a heap of those points, and an event costs O(log n). As 1/n
//! of an interval is not a whole number, virtual time is stored in units of 2^-20 ns, and the remainder of a division
//! is served in the next interval, so that no work is lost or created. This can shift a departure by n × 2^-20 ns.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use sched::Path;
use units::Nanos;

use super::station::{Flight, Station};

/// Instants and amounts of service are in units of 2^-20 ns.
pub(super) const FRACTION_BITS: u32 = 20;

#[derive(Default)]
pub struct ProcessorSharing {
    /// The instant up to which work has been accounted for, less than n units before the last event.
    wall: u128,
    virtual_time: u128,
    present: BinaryHeap<Reverse<Sharer>>,
    /// The paused jobs; their `departs_at` is the service that each still needs.
    paused: Vec<Sharer>,
}

/// A job, and the virtual time at which it departs: the service that each job present has had by then.
pub(super) struct Sharer {
    pub departs_at: u128,
    pub flight: Flight,
}

/// Ordered by departure, then by arrival.
impl Ord for Sharer {
    fn cmp(&self, other: &Sharer) -> Ordering {
        (self.departs_at, self.flight.number).cmp(&(other.departs_at, other.flight.number))
    }
}

impl PartialOrd for Sharer {
    fn partial_cmp(&self, other: &Sharer) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Sharer {
    fn eq(&self, other: &Sharer) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Sharer {}

impl Station for ProcessorSharing {
    fn len(&self) -> usize {
        self.present.len() + self.paused.len()
    }

    fn arrive(&mut self, flight: Flight, _path: Path) {
        let departs_at = self.virtual_time + fixed(flight.service);
        self.present.push(Reverse(Sharer { departs_at, flight }));
    }

    fn depart_by(&mut self, until: Nanos) -> Option<(Flight, Nanos)> {
        // Departures are reported in whole nanoseconds, so a response to one may be a fraction of a nanosecond early.
        let until = fixed(until).max(self.wall);
        let Some(Reverse(first)) = self.present.peek() else {
            self.wall = until;
            return None;
        };
        let jobs = self.present.len() as u64;
        let at = self.wall + (first.departs_at - self.virtual_time) * u128::from(jobs);
        if at > until {
            let step = share(until - self.wall, jobs);
            self.virtual_time += step;
            self.wall += step * u128::from(jobs);
            return None;
        }
        self.wall = at;
        self.virtual_time = first.departs_at;
        self.present.pop().map(|Reverse(sharer)| (sharer.flight, nearest(at)))
    }

    fn pause(&mut self, _at: Nanos, number: u64) {
        let Some(paused) = self.present.iter().find(|Reverse(sharer)| sharer.flight.number == number) else { return };
        let wants = paused.0.departs_at - self.virtual_time;
        self.paused.push(Sharer { departs_at: wants, flight: paused.0.flight });
        self.present.retain(|Reverse(sharer)| sharer.flight.number != number);
    }

    fn resume(&mut self, _at: Nanos, number: u64) {
        let Some(place) = self.paused.iter().position(|sharer| sharer.flight.number == number) else { return };
        let Sharer { departs_at: wants, flight } = self.paused.swap_remove(place);
        self.present.push(Reverse(Sharer { departs_at: self.virtual_time + wants, flight }));
    }

    fn present(&self) -> Vec<Flight> {
        let present = self.present.iter().map(|Reverse(sharer)| sharer);
        present.chain(&self.paused).map(|sharer| sharer.flight).collect()
    }
}

pub(super) fn fixed(span: Nanos) -> u128 {
    u128::from(span.0) << FRACTION_BITS
}

/// Rounds an instant to whole nanoseconds. The result is never after an `until` that the instant was not after.
pub(super) fn nearest(at: u128) -> Nanos {
    Nanos(((at + (1 << (FRACTION_BITS - 1))) >> FRACTION_BITS) as u64)
}

/// Divides a span by a number of jobs, rounded down. It uses 64 bits if possible, because a 128-bit division is several
/// times slower; between two arrivals they suffice up to 2^44 ns, almost five hours.
pub(super) fn share(span: u128, jobs: u64) -> u128 {
    match u64::try_from(span) {
        Ok(span) => u128::from(span / jobs),
        Err(_) => span / u128::from(jobs),
    }
}
