//! The laws of how connections rank among others: by their stage, what the first view needs (urgency 0 and 1)
//! and then all the rest.

use proptest::prelude::*;
use sched::{Arrival, JobId, Pace, Precedence, Scheduler, Size, policy};
use units::Nanos;
use units::wire::Framing;

/// A job of a connection: connection, size, urgency.
type Stream = (usize, u64, u8);

fn streams(urgencies: std::ops::Range<u8>) -> impl Strategy<Value = Vec<Stream>> {
    prop::collection::vec((0usize..4, 1u64..40, urgencies), 1..30)
}

/// The jobs that are served, a unit each tick, while one arrives every third.
fn serve(spec: &str, streams: &[Stream]) -> Vec<usize> {
    let mut scheduler = Scheduler::new(policy::parse(spec).unwrap(), Pace::UNLIMITED);
    let framing = Framing::ETHERNET.with_segment(1);
    let connections: Vec<_> = (0..4).map(|_| scheduler.open(framing)).collect();
    let (mut jobs, mut order): (Vec<JobId>, Vec<usize>) = (Vec::new(), Vec::new());
    for tick in 0.. {
        if tick % 3 == 0
            && let Some((at, bytes, urgency)) = streams.get(jobs.len())
        {
            let precedence = Precedence { urgency: *urgency, is_incremental: false };
            let arrival = Arrival::of(Size::Known(*bytes));
            jobs.push(scheduler.arrive_on(Nanos(tick), connections[*at], arrival, precedence).unwrap());
        }
        match scheduler.poll_grant(Nanos(tick)) {
            Some(grant) => {
                order.push(jobs.iter().position(|job| *job == grant.job).unwrap());
                let _ = scheduler.on_sent(Nanos(tick), grant.job, 1);
            }
            None if jobs.len() == streams.len() => return order,
            None => {}
        }
    }
    unreachable!()
}

proptest! {
    /// The connection with the smallest stage is served, and within it what its client wants first: by the definition,
    /// at every tick.
    #[test]
    fn the_least_is_served(streams in streams(0..8)) {
        let mut left: Vec<u64> = streams.iter().map(|stream| stream.1).collect();
        let served = serve("srpt", &streams);
        prop_assert_eq!(served.len() as u64, left.iter().sum::<u64>(), "work is conserved");
        let (mut tick, mut served) = (0usize, served.into_iter());
        while left.iter().any(|left| *left > 0) {
            let present = (tick / 3 + 1).min(streams.len());
            tick += 1;
            let stage_of = |connection: usize| {
                let own = (0..present).filter(|at| streams[*at].0 == connection && left[*at] > 0);
                let mut own: Vec<_> = own.map(|at| (streams[at].2, left[at], at)).collect();
                own.sort_unstable();
                let first = own.first()?;
                let has_wishes = (0..present).any(|at| streams[at].0 == connection && streams[at].2 != 3);
                let is_view = |urgency: u8| urgency <= 1;
                let of_stage = own.iter().filter(|job| is_view(job.0) || !is_view(first.0));
                let stage = || of_stage.map(|job| job.1).sum();
                Some((if has_wishes { stage() } else { first.1 }, first.2))
            };
            let Some((_, expected)) = (0..4).filter_map(stage_of).min() else { continue };
            prop_assert_eq!(served.next(), Some(expected));
            left[expected] -= 1;
        }
    }

    /// A client that marks everything urgent never goes before others that it would not go before without wishes.
    #[test]
    fn everything_urgent_gains_nothing(streams in streams(0..8)) {
        let is_first_with = |urgency| {
            let mut scheduler = Scheduler::new(policy::parse("srpt").unwrap(), Pace::UNLIMITED);
            let connections: Vec<_> = (0..4).map(|_| scheduler.open(Framing::ETHERNET)).collect();
            let mut own = Vec::new();
            for (at, bytes, wish) in &streams {
                let urgency = if *at == 0 { urgency } else { *wish };
                let precedence = Precedence { urgency, is_incremental: false };
                let arrival = Arrival::of(Size::Known(*bytes));
                let job = scheduler.arrive_on(Nanos::ZERO, connections[*at], arrival, precedence).unwrap();
                own.extend((*at == 0).then_some(job));
            }
            own.contains(&scheduler.poll_grant(Nanos::ZERO).unwrap().job)
        };
        prop_assert!(is_first_with(3) || !is_first_with(0));
    }

    /// Without wishes, the connection of a job changes nothing: the order is SRPT's.
    #[test]
    fn without_wishes_it_is_srpt(streams in streams(3..4), spec in prop::sample::select(&["srpt", "psjf", "srrt"][..])) {
        let mut alone = streams.clone();
        // No job shares a connection with others.
        alone.truncate(4);
        alone.iter_mut().enumerate().for_each(|(at, stream)| stream.0 = at);
        let mut together = alone.clone();
        together.iter_mut().for_each(|stream| stream.0 = 0);
        prop_assert_eq!(serve(spec, &alone), serve(spec, &together));
    }
}

/// The jobs in order of their ends, all there at 0: size and urgency on one connection, and one of `other` on another.
fn ends(spec: &str, jobs: &[(u64, u8)], other: u64) -> Vec<usize> {
    let mut scheduler = Scheduler::new(policy::parse(spec).unwrap(), Pace::WHOLE);
    let [mine, yours] = [(); 2].map(|()| scheduler.open(Framing::ETHERNET.with_segment(1 << 62)));
    let all = jobs.iter().map(|job| (mine, *job)).chain([(yours, (other, 0))]);
    let arrive = |(connection, (bytes, urgency))| {
        let precedence = Precedence { urgency, is_incremental: false };
        scheduler.arrive_on(Nanos(0), connection, Arrival::of(Size::Known(bytes)), precedence).unwrap()
    };
    let ids: Vec<JobId> = all.map(arrive).collect();
    let mut order = Vec::new();
    while let Some(grant) = scheduler.poll_grant(Nanos(0)) {
        let _ = scheduler.on_sent(Nanos(0), grant.job, grant.bytes_max);
        order.push(ids.iter().position(|id| *id == grant.job).unwrap());
    }
    order
}

/// A client wants two of 4 first, another client one of 7: neither of the two is useful alone.
#[test]
fn a_stage_is_served_whole() {
    let jobs = [(4, 0), (4, 1), (2, 2)];
    assert_eq!(ends("srpt", &jobs, 7), [3, 0, 1, 2]);
    assert_eq!(ends("srpt", &jobs, 9), [0, 1, 2, 3], "and once it is begun it only gets less");
    assert_eq!(ends("psjf", &jobs, 7), [3, 0, 1, 2]);
    assert_eq!(ends("srpt", &[(4, 3), (4, 3)], 7), [0, 1, 2], "where nothing is wished, each for itself");
    assert_eq!(ends("srpt", &[(4, 2), (4, 4)], 7), [2, 0, 1], "behind the first view, all that is wished is one stage");
}

/// Between clients that share the link too, and for one client's two connections.
#[test]
fn clients_that_share_the_link_stand_by_it() {
    let share = policy::ClientShare { allowance_bytes: 1 << 40, idle_bytes_per_s: 1 };
    for client in [0, 1] {
        let spec: policy::PolicySpec = "srpt".parse().unwrap();
        let mut scheduler = Scheduler::new(spec.build_shared(share), Pace::WHOLE);
        let [mine, yours] = [(); 2].map(|()| scheduler.open(Framing::ETHERNET.with_segment(1 << 62)));
        let mut arrive = |connection, client, bytes, urgency| {
            let arrival = Arrival { client, ..Arrival::of(Size::Known(bytes)) };
            scheduler.arrive_on(Nanos(0), connection, arrival, Precedence { urgency, is_incremental: false }).unwrap()
        };
        // Two of 4 are wanted together: the other client's 7 is less than both.
        arrive(mine, 0, 4, 0);
        arrive(mine, 0, 4, 0);
        let other = arrive(yours, client, 7, 0);
        assert_eq!(scheduler.poll_grant(Nanos(0)).map(|grant| grant.job), Some(other), "of client {client}");
    }
}
