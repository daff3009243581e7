use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use units::Nanos;

/// Processor sharing behind a FIFO: a fixed number of requests share the processor equally, and others wait for a slot.
///
/// Between idle times, all requests in service receive service at the same rate. A single counter therefore grows, and
/// a request is done when the counter has grown by its demand.
pub(super) struct Processor {
    slots: usize,
    waiting: VecDeque<(u32, Nanos)>,
    /// The jobs in service: the counter value at which each is done, and its client.
    sharing: BinaryHeap<Reverse<(u64, u32)>>,
    /// The service per job, in units of 1 / [`PARTS`] ns, as of `at`.
    attained: u64,
    at: Nanos,
    /// The generation of the last predicted completion.
    pub generation: u64,
    pub busy: Nanos,
}

/// The resolution, so that the rounding error of each change, 2^-16 ns, is negligible. A busy period may last three
/// days before the counter overflows.
const PARTS: u64 = 1 << 16;

impl Processor {
    pub fn new(slots: u32) -> Processor {
        Processor {
            slots: slots as usize,
            waiting: VecDeque::new(),
            sharing: BinaryHeap::new(),
            attained: 0,
            at: Nanos::ZERO,
            generation: 0,
            busy: Nanos::ZERO,
        }
    }

    pub fn arrive(&mut self, now: Nanos, client: u32, demand: Nanos) {
        self.advance(now);
        self.waiting.push_back((client, demand));
        self.admit();
    }

    /// Returns a request that is done now.
    pub fn depart(&mut self, now: Nanos) -> Option<u32> {
        self.advance(now);
        let &Reverse((done, client)) = self.sharing.peek()?;
        if done > self.attained {
            return None;
        }
        self.sharing.pop();
        self.admit();
        Some(client)
    }

    /// Returns when the next request will be done if none arrives before, under a new generation.
    pub fn foretell(&mut self) -> Option<Nanos> {
        let &Reverse((done, _)) = self.sharing.peek()?;
        self.generation += 1;
        let left = (done - self.attained.min(done)) * self.sharing.len() as u64;
        Some(self.at + Nanos(left.div_ceil(PARTS)))
    }

    fn advance(&mut self, now: Nanos) {
        let since = now - self.at;
        self.at = now;
        if self.sharing.is_empty() {
            self.attained = 0;
            return;
        }
        self.busy += since;
        self.attained += since.0 * PARTS / self.sharing.len() as u64;
    }

    fn admit(&mut self) {
        while self.sharing.len() < self.slots {
            let Some((client, demand)) = self.waiting.pop_front() else { break };
            self.sharing.push(Reverse((self.attained + demand.0 * PARTS, client)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns when each of these (arrival, demand) departs, in microseconds.
    fn departures(slots: u32, jobs: &[(u64, u64)]) -> Vec<u64> {
        let mut processor = Processor::new(slots);
        let mut departed = vec![0; jobs.len()];
        let mut next = 0;
        while departed.contains(&0) {
            let done = processor.foretell();
            let arrival = jobs.get(next).map(|&(at, _)| Nanos::from_micros(at));
            match (done, arrival) {
                (Some(done), arrival) if arrival.is_none_or(|at| done <= at) => {
                    while let Some(client) = processor.depart(done) {
                        departed[client as usize] = done.0 / 1000;
                    }
                }
                _ => {
                    processor.arrive(arrival.unwrap(), next as u32, Nanos::from_micros(jobs[next].1));
                    next += 1;
                }
            }
        }
        departed
    }

    #[test]
    fn all_in_service_share_equally() {
        // Alone until 10, then two share: the second is done after 20 more, when the first has 20 − 10 − 10 = 0 left
        // too.
        assert_eq!(departures(8, &[(0, 20), (10, 10)]), [30, 30]);
        assert_eq!(departures(8, &[(0, 30), (0, 10), (0, 20)]), [60, 30, 50]);
    }

    #[test]
    fn one_place_is_a_fifo() {
        assert_eq!(departures(1, &[(0, 30), (5, 10), (6, 20)]), [30, 40, 60]);
    }

    #[test]
    fn the_third_waits_for_a_place() {
        assert_eq!(departures(2, &[(0, 10), (0, 20), (0, 5)]), [20, 35, 30]);
    }
}
