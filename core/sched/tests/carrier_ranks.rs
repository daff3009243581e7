//! The laws of how carriers stand among others: by the first of their jobs, by the index of their chain, by their stage.

use proptest::prelude::*;
use sched::{Arrival, CHAIN_JOBS_MAX, CarrierRank, Drain, JobId, Pace, Precedence, Size, policy};
use units::Nanos;
use units::wire::Framing;

/// Means of up to eight are whole numbers of this.
const LCM_TO_8: u64 = 840;

/// A job of a carrier: carrier, size, urgency.
type Stream = (usize, u64, u8);

fn drain(spec: &str, rank: CarrierRank, pace: Pace) -> Drain {
    Drain::new(policy::parse(spec).unwrap(), pace).with_carrier_rank(rank)
}

fn streams(urgencies: std::ops::Range<u8>) -> impl Strategy<Value = Vec<Stream>> {
    prop::collection::vec((0usize..4, 1u64..40, urgencies), 1..30)
}

/// Which jobs are served, a unit each tick, while one arrives every third.
fn serve(spec: &str, rank: CarrierRank, streams: &[Stream]) -> Vec<usize> {
    let mut drain = drain(spec, rank, Pace::UNLIMITED);
    let framing = Framing::ETHERNET.with_segment(1);
    let carriers: Vec<_> = (0..4).map(|_| drain.open(framing)).collect();
    let (mut jobs, mut order): (Vec<JobId>, Vec<usize>) = (Vec::new(), Vec::new());
    for tick in 0.. {
        if tick % 3 == 0
            && let Some((at, bytes, urgency)) = streams.get(jobs.len())
        {
            let precedence = Precedence { urgency: *urgency, is_incremental: false };
            let arrival = Arrival::of(Size::Known(*bytes));
            jobs.push(drain.arrive_on(Nanos(tick), carriers[*at], arrival, precedence).unwrap());
        }
        match drain.poll_grant(Nanos(tick)) {
            Some(grant) => {
                order.push(jobs.iter().position(|job| *job == grant.job).unwrap());
                let _ = drain.on_sent(Nanos(tick), grant.job, 1);
            }
            None if jobs.len() == streams.len() => return order,
            None => {}
        }
    }
    unreachable!()
}

/// By the definition, of sizes in the client's order.
fn index_of(chain: &[u64]) -> u64 {
    let mean = |count: usize| chain[..count].iter().sum::<u64>() / count as u64;
    (1..=chain.len().min(CHAIN_JOBS_MAX)).map(mean).min().unwrap()
}

proptest! {
    /// The carrier with the least index, or the least stage, is served, and of it what its client wants first: by the definition, at every tick.
    #[test]
    fn the_least_is_served(streams in streams(0..8), by_chain: bool) {
        let mut left: Vec<u64> = streams.iter().map(|stream| stream.1).collect();
        let rank = if by_chain { CarrierRank::Chain } else { CarrierRank::Stage };
        let served = serve("srpt", rank, &streams);
        prop_assert_eq!(served.len() as u64, left.iter().sum::<u64>(), "work is conserved");
        let (mut tick, mut served) = (0usize, served.into_iter());
        while left.iter().any(|left| *left > 0) {
            let present = (tick / 3 + 1).min(streams.len());
            tick += 1;
            let chain = |carrier: usize| {
                let own = (0..present).filter(|at| streams[*at].0 == carrier && left[*at] > 0);
                let mut own: Vec<_> = own.map(|at| (streams[at].2, left[at], at)).collect();
                own.sort_unstable();
                let first = own.first()?;
                let sizes: Vec<u64> = own.iter().map(|job| job.1).collect();
                let has_wishes = (0..present).any(|at| streams[at].0 == carrier && streams[at].2 != 3);
                let stage = || own.iter().filter(|job| job.0 == first.0).map(|job| job.1).sum();
                Some((if by_chain { index_of(&sizes) } else if has_wishes { stage() } else { first.1 }, first.2))
            };
            let Some((_, expected)) = (0..4).filter_map(chain).min() else { continue };
            prop_assert_eq!(served.next(), Some(expected));
            left[expected] -= 1;
        }
    }

    /// Where all are as urgent, a chain is in order of size and stands by its first: the order is SRPT's, and that of carriers' firsts.
    #[test]
    fn of_one_urgency_it_is_srpt(streams in streams(3..4), spec in prop::sample::select(&["srpt", "psjf", "srrt"][..])) {
        for rank in [CarrierRank::Chain, CarrierRank::Stage] {
            prop_assert_eq!(serve(spec, rank, &streams), serve(spec, CarrierRank::First, &streams));
        }
        let mut alone = streams.clone();
        // Nobody shares a carrier with others.
        alone.truncate(4);
        alone.iter_mut().enumerate().for_each(|(at, stream)| stream.0 = at);
        let mut together = alone.clone();
        together.iter_mut().for_each(|stream| stream.0 = 0);
        prop_assert_eq!(serve(spec, CarrierRank::Chain, &alone), serve(spec, CarrierRank::Chain, &together));
    }

    /// An order that goes by no size, or by turns, is what it is without.
    #[test]
    fn other_orders_do_not_look_at_it(streams in streams(0..8), spec in prop::sample::select(&["fair", "fcfs", "las", "fsp", "fcf", "quick-fix", "srpt-bands:3,9"][..])) {
        for rank in [CarrierRank::Chain, CarrierRank::Stage] {
            prop_assert_eq!(serve(spec, rank, &streams), serve(spec, CarrierRank::First, &streams));
        }
    }

    /// All there at once: the sum of completion times is the least of all orders that keep each client's.
    #[test]
    fn it_is_optimal_for_chains(chains in prop::collection::vec(prop::collection::vec(1u64..30, 0..5), 1..4), cuts in prop::collection::vec(1u64..9, 1..20)) {
        let chains: Vec<Vec<u64>> =
            chains.into_iter().map(|chain| chain.into_iter().map(|size| size * LCM_TO_8).collect()).collect();
        let by_chain = completion(CarrierRank::Chain, &chains, &cuts);
        prop_assert_eq!(by_chain, least_completion(&chains));
        prop_assert!(by_chain <= completion(CarrierRank::First, &chains, &cuts));
    }
}

/// The sum of completion times where all come at 0, each grant cut to some eighths of it.
fn completion(rank: CarrierRank, chains: &[Vec<u64>], cuts: &[u64]) -> u64 {
    let mut drain = drain("srpt", rank, Pace::WHOLE);
    for chain in chains {
        let carrier = drain.open(Framing::ETHERNET.with_segment(1 << 62));
        for (urgency, size) in (0..).zip(chain) {
            let precedence = Precedence { urgency, is_incremental: false };
            drain.arrive_on(Nanos(0), carrier, Arrival::of(Size::Known(*size)), precedence).unwrap();
        }
    }
    let (mut now, mut sum, mut cuts) = (0, 0, cuts.iter().cycle());
    while let Some(grant) = drain.poll_grant(Nanos(now)) {
        let bytes = (grant.bytes_max * cuts.next().unwrap() / 8).clamp(1, grant.bytes_max);
        now += bytes;
        sum += if drain.on_sent(Nanos(now), grant.job, bytes).is_departed() { now } else { 0 };
    }
    sum
}

/// Of all ways to merge the chains.
fn least_completion(chains: &[Vec<u64>]) -> u64 {
    fn least(chains: &[Vec<u64>], done: &mut [usize], now: u64) -> u64 {
        let mut best = None;
        for at in 0..chains.len() {
            let Some(size) = chains[at].get(done[at]) else { continue };
            done[at] += 1;
            let end = now + size;
            let sum = end + least(chains, done, end);
            done[at] -= 1;
            best = Some(best.map_or(sum, |best: u64| best.min(sum)));
        }
        best.unwrap_or(0)
    }
    least(chains, &mut vec![0; chains.len()], 0)
}

/// The jobs in order of their ends, all there at 0: size and urgency on one carrier, and one of `other` on another.
fn ends(spec: &str, rank: CarrierRank, jobs: &[(u64, u8)], other: u64) -> Vec<usize> {
    let mut drain = drain(spec, rank, Pace::WHOLE);
    let [mine, yours] = [(); 2].map(|()| drain.open(Framing::ETHERNET.with_segment(1 << 62)));
    let all = jobs.iter().map(|job| (mine, *job)).chain([(yours, (other, 0))]);
    let arrive = |(carrier, (bytes, urgency))| {
        let precedence = Precedence { urgency, is_incremental: false };
        drain.arrive_on(Nanos(0), carrier, Arrival::of(Size::Known(bytes)), precedence).unwrap()
    };
    let ids: Vec<JobId> = all.map(arrive).collect();
    let mut order = Vec::new();
    while let Some(grant) = drain.poll_grant(Nanos(0)) {
        let _ = drain.on_sent(Nanos(0), grant.job, grant.bytes_max);
        order.push(ids.iter().position(|id| *id == grant.job).unwrap());
    }
    order
}

/// A client wants 10 before 2, another 7: together they are two of 6.
#[test]
fn small_ones_bring_a_large_one_forward() {
    let jobs = [(10, 0), (2, 1)];
    assert_eq!(ends("srpt", CarrierRank::Chain, &jobs, 7), [0, 1, 2]);
    assert_eq!(ends("srpt", CarrierRank::Chain, &jobs, 5), [2, 0, 1]);
    assert_eq!(ends("srpt", CarrierRank::First, &jobs, 7), [2, 0, 1]);
    assert_eq!(ends("srpt", CarrierRank::First, &jobs, 11), [0, 1, 2]);
    assert_eq!(ends("psjf", CarrierRank::Chain, &jobs, 7), [0, 1, 2]);
    assert_eq!(ends("srpt", CarrierRank::Stage, &jobs, 7), [2, 0, 1]);
    assert_eq!(ends("las", CarrierRank::Chain, &jobs, 7), ends("las", CarrierRank::First, &jobs, 7));
}

/// A client wants two of 4 first, another one of 7: no one of the two is of use alone.
#[test]
fn a_stage_is_served_whole() {
    let jobs = [(4, 0), (4, 0), (2, 1)];
    assert_eq!(ends("srpt", CarrierRank::Stage, &jobs, 7), [3, 0, 1, 2]);
    assert_eq!(ends("srpt", CarrierRank::Stage, &jobs, 9), [0, 1, 2, 3], "and once it is begun it only gets less");
    assert_eq!(ends("srpt", CarrierRank::First, &jobs, 7), [0, 1, 2, 3]);
    assert_eq!(ends("psjf", CarrierRank::Stage, &jobs, 7), [3, 0, 1, 2]);
    assert_eq!(
        ends("srpt", CarrierRank::Stage, &[(4, 3), (4, 3)], 7),
        [0, 1, 2],
        "where nothing is wished, each for itself"
    );
}

/// Between clients that share the link too, and for one client's two connections.
#[test]
fn clients_that_share_the_link_stand_by_it() {
    let share = policy::ClientShare { allowance_bytes: 1 << 40, idle_bytes_per_s: 1 };
    for client in [0, 1] {
        let spec: policy::PolicySpec = "srpt".parse().unwrap();
        let mut drain = Drain::new(spec.build_shared(share), Pace::WHOLE).with_carrier_rank(CarrierRank::Chain);
        let [mine, yours] = [(); 2].map(|()| drain.open(Framing::ETHERNET.with_segment(1 << 62)));
        let mut arrive = |carrier, client, bytes, urgency| {
            let arrival = Arrival { client, ..Arrival::of(Size::Known(bytes)) };
            drain.arrive_on(Nanos(0), carrier, arrival, Precedence { urgency, is_incremental: false }).unwrap()
        };
        let large = arrive(mine, 0, 10, 0);
        arrive(yours, client, 7, 0);
        arrive(mine, 0, 2, 1);
        assert_eq!(drain.poll_grant(Nanos(0)).map(|grant| grant.job), Some(large), "of client {client}");
    }
}
