//! Memory of tables by slot, which are as long as there were jobs at once.

use super::Drain;

impl Drain {
    /// Slots of jobs and carriers that the tables have room for.
    pub fn slots(&self) -> usize {
        self.jobs.capacity()
    }

    /// Slots behind the last one in use are given back, and low ones are used first from now on, so that the next call can give back more.
    /// Costs as much as the tables are long. Gives how many slots are left.
    pub fn shrink(&mut self) -> usize {
        let is_carrier = |slot: usize| self.carriers.get(slot).is_some_and(Option::is_some);
        let used = (0..self.jobs.len()).rev().find(|&slot| self.jobs[slot].is_some() || is_carrier(slot));
        let slots = used.map_or(0, |slot| slot + 1);
        self.jobs.truncate(slots);
        self.jobs.shrink_to_fit();
        self.carriers.truncate(slots);
        self.carriers.shrink_to_fit();
        self.vacant.retain(|slot| (*slot as usize) < slots);
        self.vacant.sort_unstable_by(|a, b| b.cmp(a));
        self.vacant.shrink_to_fit();
        slots
    }
}

#[cfg(test)]
mod tests {
    use units::Nanos;
    use units::wire::Framing;

    use crate::{Arrival, Drain, Pace, Precedence, Size, policy};

    #[test]
    fn slots_behind_the_last_in_use_are_given_back() {
        for name in ["srpt", "fair", "fcfs"] {
            let mut drain = Drain::new(policy::parse(name).unwrap(), Pace::UNLIMITED);
            let now = Nanos::ZERO;
            let carrier = drain.open(Framing::ETHERNET);
            let jobs: Vec<_> = (1..=1000).map(|size| drain.arrive(now, Arrival::of(Size::Known(size)))).collect();
            let (last, others) = jobs.split_last().unwrap();
            others.iter().for_each(|&job| drain.on_abort(job));
            assert_eq!(drain.shrink(), 1001, "the last is in use");
            // New ones come into low places.
            let low: Vec<_> = (1..=10).map(|size| drain.arrive(now, Arrival::of(Size::Known(size)))).collect();
            drain.on_abort(*last);
            assert_eq!(drain.shrink(), 11);
            assert!(drain.slots() < 100 && drain.len() == 10);
            assert!(drain.job(*last).is_none() && low.iter().all(|&job| drain.job(job).is_some()));
            // And the order goes on.
            let on = drain.arrive_on(now, carrier, Arrival::of(Size::Known(5)), Precedence::default()).unwrap();
            let mut left = 11;
            while let Some(grant) = drain.poll_grant(now) {
                left -= usize::from(drain.on_sent(now, grant.job, grant.bytes_max).is_departed());
            }
            assert!(left == 0 && drain.is_empty() && drain.job(on).is_none());
            drain.close(carrier);
            assert_eq!(drain.shrink(), 0);
        }
    }
}
