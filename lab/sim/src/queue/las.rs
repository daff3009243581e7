//! Exact least attained service, which a scheduler only approaches as its grants shrink: the jobs with the least
//! service so far share the link equally.
//!
//! Jobs of equal attained service form a level. Only the lowest level is served; when it has caught up with the next the
//! two are one. A newcomer starts a new lowest level, so levels are a stack, and each is a heap of its jobs by size. The
//! smaller heap goes into the larger one: an event costs O(log² n) amortised. Amounts of service are kept as for processor sharing ([`super::ps`]).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use sched::Path;
use units::Nanos;

use super::ps::{Sharer, fixed, nearest, share};
use super::station::{Flight, Station};

#[derive(Default)]
pub struct LeastAttained {
    /// The instant up to which work has been accounted for.
    wall: u128,
    /// The levels, most attained first; the last one is served.
    levels: Vec<Level>,
    /// Heaps of levels that are gone: their memory is used again.
    spare: Vec<BinaryHeap<Reverse<Sharer>>>,
    jobs: usize,
}

struct Level {
    /// The service that each of its jobs has received, in 2^-20 ns.
    attained: u128,
    /// The job with the least service in all first; never empty.
    jobs: BinaryHeap<Reverse<Sharer>>,
}

impl LeastAttained {
    /// Merges the lowest level with the one above, with which it has caught up.
    fn merge(&mut self) {
        let Some(mut lowest) = self.levels.pop() else { return };
        if let Some(next) = self.levels.last_mut() {
            next.jobs.append(&mut lowest.jobs);
        }
        self.spare.push(lowest.jobs);
    }

    /// Removes the first job of the lowest level, which is complete.
    fn depart(&mut self) -> Option<Flight> {
        let level = self.levels.last_mut()?;
        let Reverse(Sharer { flight, .. }) = level.jobs.pop()?;
        self.jobs -= 1;
        if level.jobs.is_empty() {
            self.spare.extend(self.levels.pop().map(|level| level.jobs));
        }
        Some(flight)
    }
}

impl Station for LeastAttained {
    fn len(&self) -> usize {
        self.jobs
    }

    fn arrive(&mut self, flight: Flight, _path: Path) {
        self.jobs += 1;
        let mut jobs = self.spare.pop().unwrap_or_default();
        jobs.push(Reverse(Sharer { departs_at: fixed(flight.service), flight }));
        self.levels.push(Level { attained: 0, jobs });
        if self.levels.iter().rev().nth(1).is_some_and(|next| next.attained == 0) {
            self.merge();
        }
    }

    fn depart_by(&mut self, until: Nanos) -> Option<(Flight, Nanos)> {
        // Departures are reported in whole nanoseconds, so a response to one may be a fraction of a nanosecond early.
        let until = fixed(until).max(self.wall);
        loop {
            let next = self.levels.iter().rev().nth(1).map(|level| level.attained);
            let lowest = self.levels.last_mut().and_then(|level| {
                let service = level.jobs.peek()?.0.departs_at;
                Some((level, service))
            });
            let Some((level, service)) = lowest else {
                self.wall = until;
                return None;
            };
            let jobs = level.jobs.len() as u64;
            let target = next.map_or(service, |next| next.min(service));
            let at = self.wall + (target - level.attained) * u128::from(jobs);
            if at > until {
                let step = share(until - self.wall, jobs);
                level.attained += step;
                self.wall += step * u128::from(jobs);
                return None;
            }
            self.wall = at;
            level.attained = target;
            if target == service {
                return self.depart().map(|flight| (flight, nearest(at)));
            }
            self.merge();
        }
    }

    /// If slots are taken back, `las` is a policy of the scheduler instead (`super::discipline`).
    fn pause(&mut self, _at: Nanos, _number: u64) {
        unreachable!("exact least attained service pauses nobody");
    }

    fn resume(&mut self, _at: Nanos, _number: u64) {
        unreachable!("exact least attained service pauses nobody");
    }

    fn present(&self) -> Vec<Flight> {
        self.levels.iter().flat_map(|level| &level.jobs).map(|Reverse(sharer)| sharer.flight).collect()
    }
}
