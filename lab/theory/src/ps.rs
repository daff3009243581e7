//! Processor sharing by virtual time, with one event per arrival and departure instead of one per share.
//!
//! Virtual time is the service that each present job has received since the beginning. With n jobs present it advances
//! by 1/n per unit of time. A job that arrives at virtual time V departs when virtual time reaches V + service,
//! whatever arrives in between, so a heap of those departure points is the whole state (the idea of Parekh & Gallager
//! 1993, "A generalized processor sharing approach to flow control", section III).
//!
//! 1/n is not an integer. Both clocks are therefore fixed point with [`FRACTION_BITS`] bits below the nanosecond, and
//! the remainder of the division is not dropped: the wall clock is set back by it, so that it is served in the next
//! interval. No work is lost or created, so busy periods end at the exact instant and nothing drifts. At each arrival,
//! only the division of less than n × 2⁻⁴⁰ ns among the present jobs may differ from the ideal.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use units::Nanos;

use crate::{Demand, by_arrival};

/// The number of fraction bits: a unit is 2⁻⁴⁰ ns. The largest product, a span times the present jobs, fits 128 bits
/// for spans up to 2⁶⁴ ns and 2²³ jobs.
const FRACTION_BITS: u32 = 40;

/// The maximum number of jobs, eight million; see [`FRACTION_BITS`].
const JOBS_MAX: usize = 1 << 23;

/// Returns the response time of each job, in the given order, under exact processor sharing.
///
/// Times are rounded to the nearest nanosecond, so a departure at a whole nanosecond is exact. The cost is O(n log n).
/// Panics on more than 2²³ jobs or if all the work ends later than [`Nanos::MAX`].
pub fn ideal_ps(demands: &[Demand]) -> Vec<Nanos> {
    assert!(
        demands.len() <= JOBS_MAX,
        "{} jobs are more than the {JOBS_MAX} that fixed point has room for",
        demands.len()
    );
    let mut responses = vec![Nanos::ZERO; demands.len()];
    let mut shared = Shared { wall: 0, virtual_time: 0, present: BinaryHeap::new() };
    for job in by_arrival(demands) {
        let Demand { arrival, service } = demands[job];
        shared.run_until(fixed(arrival), |done, at| responses[done] = nearest(at) - demands[done].arrival);
        shared.present.push(Reverse((shared.virtual_time + fixed(service), job)));
    }
    shared.run_until(fixed(Nanos::MAX), |done, at| responses[done] = nearest(at) - demands[done].arrival);
    assert!(shared.present.is_empty(), "the work ends after the last instant that can be written");
    responses
}

/// The link, shared equally by the jobs present. Instants and virtual times are in units of 2⁻⁴⁰ ns.
struct Shared {
    /// The instant up to which all work has been accounted for; less than n units before the last arrival.
    wall: u128,
    virtual_time: u128,
    /// The virtual time at which each present job departs, and its number.
    present: BinaryHeap<Reverse<(u128, usize)>>,
}

impl Shared {
    /// Serves until `until` and reports each departure (job, instant).
    fn run_until(&mut self, until: u128, mut depart: impl FnMut(usize, u128)) {
        while let Some(&Reverse((departs_at, job))) = self.present.peek() {
            let jobs = self.present.len() as u128;
            let at = self.wall + (departs_at - self.virtual_time) * jobs;
            if at > until {
                let step = (until - self.wall) / jobs;
                self.virtual_time += step;
                self.wall += step * jobs;
                return;
            }
            self.present.pop();
            self.virtual_time = departs_at;
            self.wall = at;
            depart(job, at);
        }
        self.wall = until;
    }
}

fn fixed(nanos: Nanos) -> u128 {
    u128::from(nanos.0) << FRACTION_BITS
}

fn nearest(instant: u128) -> Nanos {
    Nanos(u64::try_from((instant + (1 << (FRACTION_BITS - 1))) >> FRACTION_BITS).unwrap_or(u64::MAX))
}
