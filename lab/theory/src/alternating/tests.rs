use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use units::Nanos;

use super::*;
use crate::{Demand, clairvoyant_srpt, ideal_ps};

const LINK: &str = "10mbit";
const WEB: &str = "bounded-pareto:alpha=1.1,min=100,max=1e6";

fn queue(sizes: &str, profile: &str) -> Alternating {
    Alternating::new(sizes.parse().unwrap(), &profile.parse().unwrap(), LINK.parse().unwrap()).unwrap()
}

fn close(found: f64, right: f64, tolerance: f64, what: &str) {
    assert!((found / right - 1.0).abs() < tolerance, "{what}: {found}, not {right}");
}

fn mean(queue: &Alternating, policy: Policy) -> f64 {
    queue.solve(&policy).unwrap().response_ms()
}

#[test]
fn loads_that_the_link_carries_are_taken_apart() {
    // Half the time at 0.4, half at 0.8: a third of the jobs arrives in the first, two thirds in the second.
    for sizes in ["exponential:mean=5000", WEB] {
        let queue = queue(sizes, "1000,1000,0.4,0.8");
        for policy in [Policy::Fcfs, Policy::Ps, Policy::Srpt] {
            let of = |rho| {
                let queue = Mg1::new(sizes.parse().unwrap(), rho, LINK.parse().unwrap()).unwrap();
                let solution = queue.solve(&policy);
                [solution.response_ms(), solution.slowdown_mean()]
            };
            let ([low, low_slowdown], [high, high_slowdown]) = (of(0.4), of(0.8));
            let solution = queue.solve(&policy).unwrap();
            close(solution.response_ms(), (low + 2.0 * high) / 3.0, 1e-9, sizes);
            close(solution.slowdown_mean(), (low_slowdown + 2.0 * high_slowdown) / 3.0, 1e-9, sizes);
            assert_eq!(solution.backlog_jobs(), 0.0);
        }
    }
}

/// Random jobs of this many seconds.
fn demands(sizes: &str, profile: &str, seconds: u64) -> Vec<Demand> {
    let (sizes, profile): (Distribution, LoadProfile) = (sizes.parse().unwrap(), profile.parse().unwrap());
    let (sampler, mut rng) = (sizes.sampler(), ChaCha8Rng::seed_from_u64(5));
    let link: Rate = LINK.parse().unwrap();
    let work_ns = sizes.mean() * 8e9 / link.bits_per_s() as f64;
    let mut demands = Vec::new();
    let mut arrival = Nanos::ZERO;
    while arrival < Nanos::from_secs(seconds) {
        arrival = profile.after(arrival, -work_ns * (1.0 - rng.random::<f64>()).ln());
        demands.push(Demand { arrival, service: link.time_for(sampler.sample(&mut rng)) });
    }
    demands
}

fn mean_ms(responses: &[Nanos]) -> f64 {
    responses.iter().map(|response| response.as_millis_f64()).sum::<f64>() / responses.len() as f64
}

#[test]
fn long_phases_are_as_simulated() {
    // Ten turns of 35,000 jobs, whose sizes vary so little that the fluid dominates chance.
    let (sizes, profile) = ("exponential:mean=5000", "100,100,0.2,1.2");
    let (queue, demands) = (queue(sizes, profile), demands(sizes, profile, 2000));
    close(mean(&queue, Policy::Ps), mean_ms(&ideal_ps(&demands)), 0.05, "ps");
    close(mean(&queue, Policy::Srpt), mean_ms(&clairvoyant_srpt(&demands)), 0.1, "srpt");
    let mut free_at = Nanos::ZERO;
    let fcfs = demands.iter().map(|demand| {
        free_at = free_at.max(demand.arrival) + demand.service;
        free_at - demand.arrival
    });
    close(mean(&queue, Policy::Fcfs), mean_ms(&fcfs.collect::<Vec<_>>()), 0.05, "fcfs");
}

#[test]
fn the_trends_of_003() {
    for name in ["W1", "W2", "W4", "W5", "W9", "W10"] {
        let queue = queue(WEB, name);
        let [fair, srpt] = [Policy::Ps, Policy::Srpt].map(|policy| queue.solve(&policy).unwrap());
        // The backlog and the mean are far higher under FAIR; the largest jobs fare about the same.
        assert!(fair.backlog_jobs() > 5.0 * srpt.backlog_jobs(), "{name}");
        assert!(fair.response_ms() > 2.0 * srpt.response_ms(), "{name}");
        close(srpt.response_ms_at(1e6), fair.response_ms_at(1e6), 0.25, name);
    }
}

#[test]
fn the_clock_runs_both_ways_and_the_backlog_drains() {
    let queue = queue(WEB, "W1");
    let fair = Fair::new(&queue);
    let clock = fair.clock.as_ref().unwrap();
    for at in [0.0, 1e5, 1e7, 3.1e7, 3.2e7, 5e7, 6.2e7] {
        assert!((clock.time(clock.at(at)) - at).abs() < 1e-3, "{at}");
    }
    // The backlog in jobs, integrated over the clock, is the time in which the fluid drains: work divided by spare
    // capacity.
    let (time, clock) = *clock.low.last().unwrap();
    let drains_in = (1.2 - 1.0) * queue.high.lasts / (1.0 - 0.2);
    close(time - clock / (1.0 - 0.2), drains_in, 0.02, "drain");
}

#[test]
fn an_overload_that_never_drains_is_refused() {
    let of = |profile: &str| Alternating::new(WEB.parse().unwrap(), &profile.parse().unwrap(), LINK.parse().unwrap());
    let said = of("10,10,0.5,1.5").unwrap_err().to_string();
    assert!(said.starts_with("the mean load is 1: there is no steady state"), "{said}");
    let told = queue(WEB, "W1").solve(&Policy::Las).unwrap_err().to_string();
    assert!(told.starts_with("no approximation is known for policy `las`"), "{told}");
    // The order of the phases makes no difference.
    let [one, other] = ["20,10,0.3,1.4", "10,20,1.4,0.3"].map(|profile| mean(&queue(WEB, profile), Policy::Srpt));
    assert_eq!(one, other);
}
