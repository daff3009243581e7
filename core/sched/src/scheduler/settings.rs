//! Changes the order and the pace of a scheduler that has jobs: an operator changes them while responses are being
//! sent.
//!
//! The jobs stay where they are, with what they have received and what they wait for. The new policy sees them as if
//! they had just arrived, in order of arrival. Any further state of the old policy (turns, shares of clients, virtual
//! time) is forgotten.

use units::Nanos;

use super::Scheduler;
use super::class_limits::Limits;
use super::jobs::Jobs;
use super::order::Order;
use crate::{Guard, Pace, Path, Policy};

/// The settings that an operator may change while jobs are in the system.
pub struct Settings {
    /// `None` keeps the order and the guard.
    pub order: Option<(Box<dyn Policy>, Guard)>,
    pub pace: Pace,
}

impl Settings {
    /// Applies them from the next grant on. No grant may be outstanding.
    pub fn apply_to(self, now: Nanos, scheduler: &mut Scheduler) {
        scheduler.advance_turns(now);
        scheduler.pacer.change(now, self.pace);
        if let Some((policy, guard)) = self.order {
            reorder(scheduler, policy, guard);
        }
        if let Some(rate) = self.pace.rate {
            scheduler.order.policy_mut().on_rate(rate);
        }
    }
}

/// Puts the jobs into the order of another policy.
fn reorder(scheduler: &mut Scheduler, policy: Box<dyn Policy>, guard: Guard) {
    let Scheduler { jobs, order, limits, .. } = scheduler;
    order.replace_policy(policy, guard);
    for at in jobs.open_connections() {
        order.policy_mut().on_open(at);
        jobs.connection_at_mut(at).offered = None;
    }
    let mut slots: Vec<u32> = jobs.occupied().collect();
    slots.sort_unstable_by_key(|slot| jobs.at(*slot).number);
    // The policy must have seen all of them before the first is enqueued.
    slots.iter().for_each(|slot| order.on_arrival(*slot, jobs.at(*slot), &Path::UNKNOWN));
    slots.into_iter().for_each(|slot| enqueue_ready(order, jobs, slot));
    limits.iter().for_each(|limits| hold(order, limits));
}

fn enqueue_ready(order: &mut Order, jobs: &mut Jobs, slot: u32) {
    if jobs.at(slot).is_ready() {
        order.enqueue(jobs, slot);
    }
}

/// Holds the classes that are at their maximum rate.
fn hold(order: &mut Order, limits: &Limits) {
    limits.held().for_each(|class| order.policy_mut().hold(class, true));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use units::Rate;
    use units::wire::Framing;

    use super::*;
    use crate::scheduler::connection::{Precedence, Why};
    use crate::{Arrival, JobId, Size, policy};

    const GUARD_PERMILLE: u32 = 10;

    fn settings(name: &str) -> Settings {
        let order = Some((policy::parse(name).unwrap(), Guard::new(GUARD_PERMILLE)));
        Settings { order, pace: Pace::UNLIMITED }
    }

    fn of(name: &str) -> Scheduler {
        Scheduler::new(policy::parse(name).unwrap(), Pace::UNLIMITED).with_guard(Guard::new(GUARD_PERMILLE))
    }

    /// The jobs in the order served, at most `bytes` at a time, until none is left.
    fn drain(scheduler: &mut Scheduler, bytes: u64) -> Vec<JobId> {
        let mut served = Vec::new();
        while let Some(grant) = scheduler.poll_grant(Nanos::ZERO) {
            served.push(grant.job);
            let _ = scheduler.on_sent(Nanos::ZERO, grant.job, grant.bytes_max.min(bytes));
        }
        served
    }

    #[test]
    fn what_waits_is_ranked_by_the_new_policy() {
        let mut scheduler = of("fcfs");
        let [large, small] = [5000, 10].map(|bytes| scheduler.arrive(Nanos::ZERO, Arrival::of(Size::Known(bytes))));
        assert_eq!(scheduler.poll_grant(Nanos::ZERO).unwrap().job, large);
        settings("srpt").apply_to(Nanos::ZERO, &mut scheduler);
        assert_eq!(scheduler.poll_grant(Nanos::ZERO).unwrap().job, small);
        settings("fcfs").apply_to(Nanos::ZERO, &mut scheduler);
        assert_eq!(scheduler.poll_grant(Nanos::ZERO).unwrap().job, large);
    }

    #[test]
    fn who_waits_for_a_reader_goes_on_waiting() {
        let mut scheduler = of("srpt");
        let [one, other] = [10, 20].map(|bytes| scheduler.arrive(Nanos::ZERO, Arrival::of(Size::Known(bytes))));
        scheduler.on_wait(one, Why::Connection);
        settings("fsp").apply_to(Nanos::ZERO, &mut scheduler);
        assert_eq!(scheduler.poll_grant(Nanos::ZERO).unwrap().job, other);
        scheduler.on_wait_over(Nanos::ZERO, one, Why::Connection);
        assert_eq!(scheduler.poll_grant(Nanos::ZERO).unwrap().job, one);
    }

    #[test]
    fn another_pace_holds_at_once() {
        let rate = |mbit: u64| Rate::from_bits_per_s(mbit * 1_000_000).unwrap();
        let mut scheduler = Scheduler::new(policy::parse("srpt").unwrap(), Pace::of_line(rate(8)));
        let job = scheduler.arrive(Nanos::ZERO, Arrival::of(Size::Known(1_000_000)));
        let grant = scheduler.poll_grant(Nanos::ZERO).unwrap();
        let _ = scheduler.on_sent(Nanos::ZERO, job, grant.bytes_max);
        let before = scheduler.poll_timeout().unwrap();
        let slower = Settings { order: None, pace: Pace { cross_permille: 0, ..Pace::of_line(rate(4)) } };
        slower.apply_to(Nanos::ZERO, &mut scheduler);
        assert_eq!(scheduler.poll_timeout().unwrap().0.div_ceil(2), before.0, "what is below takes twice as long");
        assert_eq!(scheduler.pacer().ledger().cross_traffic().share_permille(), 0);
    }

    proptest! {
        /// Changes from each policy to each other, midway: every byte is served, on each connection.
        #[test]
        fn nothing_is_lost(
            from in 0..policy::NAMES.len(),
            to in 0..policy::NAMES.len(),
            sizes in proptest::collection::vec((1..20_000u64, 0..4usize, any::<bool>()), 1..20),
            served in 0..20usize,
        ) {
            let mut scheduler = of(policy::NAMES[from]);
            let connections: Vec<_> = (0..3).map(|_| scheduler.open(Framing::ETHERNET)).collect();
            let mut ids = Vec::new();
            for (bytes, on, is_held) in &sizes {
                let arrival = Arrival::of(Size::Known(*bytes));
                let id = match connections.get(*on) {
                    Some(on) => scheduler.arrive_on(Nanos::ZERO, *on, arrival, Precedence::default()).unwrap(),
                    None => scheduler.arrive(Nanos::ZERO, arrival),
                };
                if *is_held {
                    scheduler.on_wait(id, Why::Connection);
                }
                ids.push(id);
            }
            for _ in 0..served {
                let Some(grant) = scheduler.poll_grant(Nanos::ZERO) else { break };
                let _ = scheduler.on_sent(Nanos::ZERO, grant.job, grant.bytes_max.min(700));
            }
            settings(policy::NAMES[to]).apply_to(Nanos::ZERO, &mut scheduler);
            let expected = policy::parse(policy::NAMES[to]).unwrap();
            prop_assert_eq!(scheduler.order().policy().name(), expected.name());
            drain(&mut scheduler, 700);
            let held: Vec<_> = sizes.iter().zip(&ids).filter(|((.., is_held), _)| *is_held).collect();
            prop_assert_eq!(scheduler.jobs().len(), held.len(), "all others have left");
            held.into_iter().for_each(|(_, id)| scheduler.on_wait_over(Nanos::ZERO, *id, Why::Connection));
            drain(&mut scheduler, 700);
            prop_assert!(scheduler.jobs().is_empty());
        }
    }
}
