use std::cmp::Reverse;
use std::collections::BinaryHeap;

use units::Nanos;

use crate::{Demand, by_arrival};

/// Returns the response time of each job, in the given order, under preemptive SRPT with every size known on arrival.
///
/// Among jobs with equal remaining service, the one that arrived first goes first, then the one given first. The result
/// is exact, because all instants are integers. The cost is O(n log n), because each arrival interrupts at most one
/// job. Panics if all the work ends later than [`Nanos::MAX`].
pub fn clairvoyant_srpt(demands: &[Demand]) -> Vec<Nanos> {
    let mut responses = vec![Nanos::ZERO; demands.len()];
    let mut link = Link { now: Nanos::ZERO, waiting: BinaryHeap::new() };
    let order = by_arrival(demands);
    for (position, &job) in order.iter().enumerate() {
        let Demand { arrival, service } = demands[job];
        link.run_until(arrival, |done, at| responses[order[done]] = at - demands[order[done]].arrival);
        link.waiting.push(Reverse((service, position)));
    }
    link.run_until(Nanos::MAX, |done, at| responses[order[done]] = at - demands[order[done]].arrival);
    assert!(link.waiting.is_empty(), "the work ends after the last instant that can be written");
    responses
}

struct Link {
    now: Nanos,
    /// The remaining service and the position in order of arrival; the smallest is served.
    waiting: BinaryHeap<Reverse<(Nanos, usize)>>,
}

impl Link {
    /// Serves until `until` and reports each departure (position in order of arrival, instant).
    fn run_until(&mut self, until: Nanos, mut depart: impl FnMut(usize, Nanos)) {
        while let Some(Reverse((remaining, position))) = self.waiting.pop() {
            let room = until - self.now;
            if remaining > room {
                self.waiting.push(Reverse((remaining - room, position)));
                break;
            }
            self.now += remaining;
            depart(position, self.now);
        }
        self.now = until;
    }
}
