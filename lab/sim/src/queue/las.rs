//! Exact least attained service, which a scheduler only approaches as its grants shrink: the jobs with the least
//! service so far share the link equally.
//!
//! Jobs of equal attained service form a level. Only the lowest level is served; when it catches up with the next, they
//! become one. A new job starts a new lowest level, so the levels are a stack. Each is a meldable heap of its jobs by
//! size, and an event costs O(log n) amortised. Amounts of service are stored as for processor sharing ([`super::ps`]).

use sched::Path;
use units::Nanos;

use super::meld::Melds;
use super::ps::{fixed, nearest, share};
use super::station::{Flight, Station};

#[derive(Default)]
pub struct LeastAttained {
    /// The instant up to which work has been accounted for.
    wall: u128,
    /// The levels, most attained first; the last one is served.
    levels: Vec<Level>,
    melds: Melds,
    jobs: usize,
}

struct Level {
    /// The service that each of its jobs has received, in 2^-20 ns.
    attained: u128,
    jobs: u64,
    /// The job with the smallest total service; the heap is never empty.
    root: u32,
}

impl LeastAttained {
    /// Merges the lowest level with the one above, with which it has caught up.
    fn merge(&mut self) {
        let Some(lowest) = self.levels.pop() else { return };
        if let Some(next) = self.levels.last_mut() {
            next.root = self.melds.meld(next.root, lowest.root);
            next.jobs += lowest.jobs;
        }
    }

    /// Removes the first job of the lowest level, which is complete.
    fn depart(&mut self) -> Option<Flight> {
        let level = self.levels.last_mut()?;
        let (flight, root) = self.melds.pop(level.root);
        self.jobs -= 1;
        level.jobs -= 1;
        match root {
            Some(root) => level.root = root,
            None => drop(self.levels.pop()),
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
        let root = self.melds.single(flight);
        self.levels.push(Level { attained: 0, jobs: 1, root });
        if self.levels.iter().rev().nth(1).is_some_and(|next| next.attained == 0) {
            self.merge();
        }
    }

    fn depart_by(&mut self, until: Nanos) -> Option<(Flight, Nanos)> {
        // Departures are reported in whole nanoseconds, so a response to one may be a fraction of a nanosecond early.
        let until = fixed(until).max(self.wall);
        loop {
            let next = self.levels.iter().rev().nth(1).map(|level| level.attained);
            let Some(level) = self.levels.last_mut() else {
                self.wall = until;
                return None;
            };
            let service = fixed(self.melds.flight(level.root).service);
            let target = next.map_or(service, |next| next.min(service));
            let at = self.wall + (target - level.attained) * u128::from(level.jobs);
            if at > until {
                let step = share(until - self.wall, level.jobs);
                level.attained += step;
                self.wall += step * u128::from(level.jobs);
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

    fn left_over(&self) -> Vec<Flight> {
        self.levels.iter().flat_map(|level| self.melds.all(level.root)).collect()
    }
}
