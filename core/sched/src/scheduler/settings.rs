//! Changes the order and the pace of a scheduler that has jobs: operators change them while responses are being sent.
//!
//! The jobs keep their places, the bytes they have sent, and the reasons for which they wait. The new policy sees them
//! as if they had just arrived, in order of arrival. For clients with jobs, the bytes received beyond their share are
//! kept: if every client got a new allowance, the first of several downloads would have the link to itself for seconds
//! under an order that does not rank by size. All other state of the old policy (turns, virtual time) is lost.

use units::Nanos;

use super::Scheduler;
use super::class_limits::Limits;
use super::jobs::Jobs;
use super::order::Order;
use crate::policy::ClientTraits;
use crate::{Guard, Pace, Path, Policy};

/// The settings that an operator may change while jobs are in the system.
pub struct Settings {
    /// The new order and guard; `None` leaves the present ones.
    pub order: Option<(Box<dyn Policy>, Guard)>,
    pub pace: Pace,
}

impl Settings {
    /// Applies the settings from the next grant on. There must be no outstanding grant.
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

impl Scheduler {
    /// Registers a client again after a change of the order, and keeps its lead.
    pub fn on_client_again(&mut self, client: u32, traits: ClientTraits) {
        let policy = self.order.policy_mut();
        let ahead_bytes = policy.ahead_bytes(client);
        policy.on_client(client, traits);
        ahead_bytes.into_iter().for_each(|bytes| policy.on_ahead(client, bytes));
    }
}

/// Puts the jobs into the order of another policy.
fn reorder(scheduler: &mut Scheduler, policy: Box<dyn Policy>, guard: Guard) {
    let Scheduler { jobs, order, limits, .. } = scheduler;
    let ahead = ahead_of_clients(order, jobs);
    order.replace_policy(policy, guard);
    for at in jobs.open_connections() {
        order.policy_mut().on_open(at);
        jobs.connection_at_mut(at).withdraw();
    }
    let mut slots: Vec<u32> = jobs.occupied().collect();
    slots.sort_unstable_by_key(|slot| jobs.at(*slot).number);
    // The policy must have seen all of them before the first is enqueued.
    slots.iter().for_each(|slot| order.on_arrival(*slot, jobs.at(*slot), &Path::UNKNOWN));
    slots.into_iter().for_each(|slot| enqueue_ready(order, jobs, slot));
    ahead.into_iter().for_each(|(client, bytes)| order.policy_mut().on_ahead(client, bytes));
    limits.iter().for_each(|limits| hold(order, limits));
}

/// Returns the bytes by which each client with jobs is ahead of its share, if the order tracks them.
fn ahead_of_clients(order: &Order, jobs: &Jobs) -> Vec<(u32, u64)> {
    let mut clients: Vec<u32> = jobs.occupied().map(|slot| jobs.at(slot).client).collect();
    clients.sort_unstable();
    clients.dedup();
    clients.into_iter().filter_map(|client| Some((client, order.policy().ahead_bytes(client)?))).collect()
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
    use crate::policy::{ClientShare, PolicySpec};
    use crate::scheduler::connection::{Precedence, Why};
    use crate::{Arrival, JobId, Size, policy};

    const GUARD_PERMILLE: u32 = 10;

    fn settings(name: &str) -> Settings {
        let order = Some((policy::parse(name).unwrap(), Guard::new(GUARD_PERMILLE)));
        Settings { order, pace: Pace::UNLIMITED }
    }

    fn fair_among_clients(share: Option<ClientShare>) -> Settings {
        let policy = "fair".parse::<PolicySpec>().unwrap().build_among_clients(share);
        Settings { order: Some((policy, Guard::new(GUARD_PERMILLE))), pace: Pace::UNLIMITED }
    }

    fn of(name: &str) -> Scheduler {
        Scheduler::new(policy::parse(name).unwrap(), Pace::UNLIMITED).with_guard(Guard::new(GUARD_PERMILLE))
    }

    /// Serves the jobs, at most `bytes` at a time, until none is left; returns them in the order served.
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

    /// A download owes nothing for the bytes that it had before: after a change from any policy to `fair`, each
    /// download continues in its turn.
    #[test]
    fn a_change_to_fair_stops_nobody() {
        const ROUNDS: usize = 400;
        for from in policy::NAMES {
            for (clients, share) in
                [(1, None), (3, None), (1, Some(ClientShare::of_link(None))), (3, Some(ClientShare::of_link(None)))]
            {
                let mut scheduler = of(from);
                let connections: Vec<_> = (0..2).map(|_| scheduler.open(Framing::ETHERNET)).collect();
                let mut ids = Vec::new();
                for number in 0..6u32 {
                    let size = Size::Known(2_000_000 + 100_000 * u64::from(number));
                    let arrival = Arrival { client: number % clients, ..Arrival::of(size) };
                    let on = connections.get(number as usize / 2);
                    ids.push(match on {
                        Some(on) => scheduler.arrive_on(Nanos::ZERO, *on, arrival, Precedence::default()).unwrap(),
                        None => scheduler.arrive(Nanos::ZERO, arrival),
                    });
                    // Each job has had more bytes than the next.
                    for _ in 0..100 {
                        let Some(grant) = scheduler.poll_grant(Nanos::ZERO) else { break };
                        let _ = scheduler.on_sent(Nanos::ZERO, grant.job, grant.bytes_max.min(1400));
                    }
                }
                fair_among_clients(share).apply_to(Nanos::ZERO, &mut scheduler);
                let mut served: Vec<JobId> = Vec::new();
                for _ in 0..ROUNDS {
                    let grant = scheduler.poll_grant(Nanos::ZERO).unwrap();
                    let _ = scheduler.on_sent(Nanos::ZERO, grant.job, grant.bytes_max.min(1400));
                    served.push(grant.job);
                }
                for id in &ids {
                    // There are four turns, two of which have two streams each: one grant in eight, with a guard of one
                    // in a hundred.
                    let gap = served.split(|job| job == id).map(<[JobId]>::len).max().unwrap();
                    assert!(gap <= 12, "{from}, {clients} clients, {share:?}: {id:?} waits for {gap} grants");
                }
            }
        }
    }

    /// Each client's download has had more than its allowance. All of them continue, whatever the new order is: under
    /// `fcfs` the first would otherwise have a new allowance to itself, 3 MB, and then the second.
    #[test]
    fn a_change_of_policy_stops_no_client_s_download() {
        let share = ClientShare::of_link(None);
        let of = |name: &str| name.parse::<PolicySpec>().unwrap().build_among_clients(Some(share));
        for (from, to) in policy::NAMES.iter().flat_map(|from| [(from, "fcfs"), (from, "srpt"), (from, "fair")]) {
            let mut scheduler = Scheduler::new(of(from), Pace::UNLIMITED).with_guard(Guard::new(GUARD_PERMILLE));
            let arrival = |client| Arrival { client, ..Arrival::of(Size::Known(100_000_000 + u64::from(client))) };
            let ids = [0, 1, 2].map(|client| scheduler.arrive(Nanos::ZERO, arrival(client)));
            let serve = |scheduler: &mut Scheduler| {
                let grant = scheduler.poll_grant(Nanos::ZERO).unwrap();
                let _ = scheduler.on_sent(Nanos::ZERO, grant.job, grant.bytes_max.min(1400));
                grant.job
            };
            for _ in 0..45_000 {
                serve(&mut scheduler);
            }
            let order = Some((of(to), Guard::new(GUARD_PERMILLE)));
            Settings { order, pace: Pace::UNLIMITED }.apply_to(Nanos::ZERO, &mut scheduler);
            (0..3).for_each(|client| scheduler.on_client_again(client, ClientTraits::default()));
            let served: Vec<JobId> = (0..600).map(|_| serve(&mut scheduler)).collect();
            let had = ids.map(|id| served.iter().filter(|job| **job == id).count());
            assert!(had.iter().all(|had| (150..=250).contains(had)), "{from} to {to}: {had:?}");
        }
    }

    /// Downloads of one client on separate connections take turns, whatever another client has.
    #[test]
    fn downloads_of_a_client_take_turns_under_fair() {
        let policy = "fair".parse::<PolicySpec>().unwrap().build_among_clients(Some(ClientShare::of_link(None)));
        let mut scheduler = Scheduler::new(policy, Pace::UNLIMITED).with_guard(Guard::new(GUARD_PERMILLE));
        let ids = [0, 0, 1, 0].map(|client| {
            let arrival = Arrival { client, ..Arrival::of(Size::Known(2_000_000)) };
            scheduler.arrive(Nanos::ZERO, arrival)
        });
        let mut served: Vec<JobId> = Vec::new();
        for _ in 0..600 {
            let grant = scheduler.poll_grant(Nanos::ZERO).unwrap();
            let _ = scheduler.on_sent(Nanos::ZERO, grant.job, grant.bytes_max.min(1400));
            served.push(grant.job);
        }
        let grants = ids.map(|id| served.iter().filter(|job| **job == id).count());
        assert!(grants.iter().zip([100, 100, 300, 100]).all(|(had, fair)| had.abs_diff(fair) <= 20), "{grants:?}");
    }

    proptest! {
        /// Changes from each policy to each other midway: every byte is served, on each connection.
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
