use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng};
use units::{Nanos, Rate};

use super::*;

fn demands(pairs: &[(u64, u64)]) -> Vec<Demand> {
    pairs.iter().map(|&(arrival, service)| Demand { arrival: Nanos(arrival), service: Nanos(service) }).collect()
}

fn numbers(responses: Vec<Nanos>) -> Vec<u64> {
    responses.into_iter().map(|response| response.0).collect()
}

/// A simple third opinion: the job that arrived first is served to its end.
fn fcfs(demands: &[Demand]) -> Vec<Nanos> {
    let mut responses = vec![Nanos::ZERO; demands.len()];
    let mut free_at = Nanos::ZERO;
    for job in by_arrival(demands) {
        free_at = free_at.max(demands[job].arrival) + demands[job].service;
        responses[job] = free_at - demands[job].arrival;
    }
    responses
}

/// The departure instants in order: the k-th is when the k-th job left, whichever it was.
fn departures(demands: &[Demand], responses: &[Nanos]) -> Vec<Nanos> {
    let mut instants: Vec<Nanos> = demands.iter().zip(responses).map(|(d, &r)| d.arrival + r).collect();
    instants.sort();
    instants
}

/// The end of each busy period, computed only from arrivals and work: the same for every work-conserving schedule.
fn busy_period_ends(demands: &[Demand]) -> Vec<Nanos> {
    let mut ends = Vec::new();
    let mut free_at = Nanos::ZERO;
    for (position, job) in by_arrival(demands).into_iter().enumerate() {
        if position > 0 && demands[job].arrival > free_at {
            ends.push(free_at);
        }
        free_at = free_at.max(demands[job].arrival) + demands[job].service;
    }
    ends.extend((!demands.is_empty()).then_some(free_at));
    ends
}

mod by_hand {
    use super::*;

    #[test]
    fn no_jobs() {
        assert!(clairvoyant_srpt(&[]).is_empty() && ideal_ps(&[]).is_empty());
    }

    #[test]
    fn one_job_is_alone() {
        let one = demands(&[(7, 1000)]);
        assert_eq!((numbers(clairvoyant_srpt(&one)), numbers(ideal_ps(&one))), (vec![1000], vec![1000]));
    }

    #[test]
    fn srpt_preempts_and_comes_back() {
        // 10 runs 0–2, 3 runs 2–3, 1 runs 3–4, 3 continues 4–6, 10 continues 6–14.
        assert_eq!(numbers(clairvoyant_srpt(&demands(&[(0, 10), (2, 3), (3, 1)]))), [14, 4, 1]);
    }

    #[test]
    fn srpt_ranks_by_what_remains_not_by_size() {
        // At 8 the first job has 2 left and keeps the link against a new 3.
        assert_eq!(numbers(clairvoyant_srpt(&demands(&[(0, 10), (8, 3)]))), [10, 5]);
    }

    #[test]
    fn srpt_breaks_ties_by_arrival_then_by_order_given() {
        // At 4 both have 6 left: the earlier continues.
        assert_eq!(numbers(clairvoyant_srpt(&demands(&[(0, 10), (4, 6)]))), [10, 12]);
        assert_eq!(numbers(clairvoyant_srpt(&demands(&[(4, 6), (0, 10)]))), [12, 10]);
        assert_eq!(numbers(clairvoyant_srpt(&demands(&[(1, 5), (1, 5)]))), [5, 10]);
    }

    #[test]
    fn ps_shares_equally() {
        assert_eq!(numbers(ideal_ps(&demands(&[(0, 10), (0, 10)]))), [20, 20]);
        // Alone 0–4 (6 left), shared 4–8 (2 done, 4 left), alone 8–12.
        assert_eq!(numbers(ideal_ps(&demands(&[(0, 10), (4, 2)]))), [12, 4]);
        // Thirds: 1 leaves at 3, then halves: 2 leaves at 5, then 3 at 6; exact despite the division by three.
        assert_eq!(numbers(ideal_ps(&demands(&[(0, 1), (0, 2), (0, 3)]))), [3, 5, 6]);
    }

    #[test]
    fn ps_rounds_to_the_nearest() {
        // Three share 0–1: 5/3 left each. Four share 1–5: the last leaves, the others have 2/3 left and end at 7.
        assert_eq!(numbers(ideal_ps(&demands(&[(0, 2), (0, 2), (0, 2), (1, 1)]))), [7, 7, 7, 4]);
        // Alone 0–1: 2 left. Two share 1–2: 3/2 and 1/2 left. With three, that 1/2 takes until 3.5: response 2.5,
        // rounded up.
        assert_eq!(numbers(ideal_ps(&demands(&[(0, 3), (1, 1), (2, 9)])))[1], 3);
    }

    #[test]
    fn an_idle_gap_starts_afresh() {
        let jobs = demands(&[(0, 5), (0, 7), (100, 5), (100, 7)]);
        assert_eq!(numbers(clairvoyant_srpt(&jobs)), [5, 12, 5, 12]);
        assert_eq!(numbers(ideal_ps(&jobs)), [10, 12, 10, 12]);
    }

    #[test]
    fn the_wire_counts_headers_and_nothing_else() {
        let link: Rate = "8mbit".parse().unwrap();
        assert_eq!(wire_service(240, 1000, link), Nanos::from_micros(1240 + 66));
        assert_eq!(wire_service(240, 1209, link), Nanos::from_micros(1449 + 2 * 66));
    }
}

prop_compose! {
    /// Up to 60 jobs, with loads from almost idle to far above 1, and with ties in arrival and in service.
    fn arrivals()(gap_max in 0u64..2000, service_max in 1u64..2000, jobs in 0usize..60)
        (gaps in prop::collection::vec(0..=gap_max, jobs), services in prop::collection::vec(1..=service_max, jobs))
        -> Vec<Demand> {
        let mut arrival = Nanos::ZERO;
        gaps.into_iter().zip(services).map(|(gap, service)| {
            arrival += Nanos(gap);
            Demand { arrival, service: Nanos(service) }
        }).collect()
    }
}

fn total(responses: &[Nanos]) -> u64 {
    responses.iter().map(|response| response.0).sum()
}

proptest! {
    /// On every path, not only on average, the k-th departure is never later, so there are never more jobs present. No
    /// tolerance is needed: SRPT's instants are whole nanoseconds, and rounding the others to the nearest keeps their
    /// order.
    #[test]
    fn srpt_never_has_more_jobs_present(jobs in arrivals()) {
        let best = departures(&jobs, &clairvoyant_srpt(&jobs));
        for other in [ideal_ps(&jobs), fcfs(&jobs)] {
            for (k, (best, other)) in best.iter().zip(departures(&jobs, &other)).enumerate() {
                prop_assert!(*best <= other, "departure {k}: {best:?} under SRPT, {other:?} under another");
            }
        }
    }

    #[test]
    fn srpt_has_the_least_mean(jobs in arrivals()) {
        let best = total(&clairvoyant_srpt(&jobs));
        prop_assert!(best <= total(&ideal_ps(&jobs)) && best <= total(&fcfs(&jobs)));
    }

    /// Both serve whenever a job is present: each busy period ends when the work implies, to the nanosecond.
    #[test]
    fn work_is_conserved(jobs in arrivals()) {
        let ends = busy_period_ends(&jobs);
        for responses in [clairvoyant_srpt(&jobs), ideal_ps(&jobs)] {
            let departures = departures(&jobs, &responses);
            for end in &ends {
                prop_assert!(departures.binary_search(end).is_ok(), "nobody departs at {end:?}, the end of a busy period");
            }
            prop_assert_eq!(departures.last(), ends.last());
        }
    }

    #[test]
    fn nobody_is_faster_than_alone(jobs in arrivals()) {
        for responses in [clairvoyant_srpt(&jobs), ideal_ps(&jobs)] {
            prop_assert!(jobs.iter().zip(responses).all(|(job, response)| response >= job.service));
        }
    }

    /// SRPT immediately serves the job with the least to send when it arrives.
    #[test]
    fn the_smallest_job_waits_for_nobody(jobs in arrivals(), at in 0u64..100_000) {
        let mut jobs = jobs;
        jobs.push(Demand { arrival: Nanos(at), service: Nanos(1) });
        let response = *clairvoyant_srpt(&jobs).last().unwrap();
        let twins = jobs.iter().filter(|job| job.service == Nanos(1)).count() as u64;
        // Only jobs with one unit left at the same instant may go before it: the current one and others like it.
        prop_assert!(response <= Nanos(1 + twins), "{response:?}");
    }

    /// Time in other units gives the same schedule: exactly for SRPT, and for PS up to its rounding, half a unit on
    /// each side.
    #[test]
    fn scale_does_not_matter(jobs in arrivals(), scale in 1u64..1_000_000) {
        let scaled: Vec<Demand> = jobs.iter()
            .map(|job| Demand { arrival: Nanos(job.arrival.0 * scale), service: Nanos(job.service.0 * scale) }).collect();
        for (small, large) in clairvoyant_srpt(&jobs).into_iter().zip(clairvoyant_srpt(&scaled)) {
            prop_assert_eq!(small.0 * scale, large.0);
        }
        for (small, large) in ideal_ps(&jobs).into_iter().zip(ideal_ps(&scaled)) {
            prop_assert!((small.0 * scale).abs_diff(large.0) <= scale.div_ceil(2) + 1, "{small:?} × {scale}, {large:?}");
        }
    }

    /// The order in which jobs are listed is independent of their arrivals.
    #[test]
    fn order_given_does_not_matter(jobs in arrivals()) {
        let backwards: Vec<Demand> = jobs.iter().rev().copied().collect();
        let mut ps = ideal_ps(&backwards);
        ps.reverse();
        prop_assert_eq!(ps, ideal_ps(&jobs));
        prop_assert_eq!(total(&clairvoyant_srpt(&backwards)), total(&clairvoyant_srpt(&jobs)));
    }
}

/// A uniform number in (0, 1] from the seeded generator; it is never zero, so its logarithm is finite.
fn uniform(random: &mut TestRng) -> f64 {
    ((random.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
}

/// Poisson arrivals, exponential service with mean 1 ms, load `rho`.
fn mm1(seed: u8, rho: f64, jobs: usize) -> Vec<Demand> {
    let mut random = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
    let mut arrival = Nanos::ZERO;
    (0..jobs)
        .map(|_| {
            arrival += Nanos((-uniform(&mut random).ln() / rho * 1e6) as u64);
            Demand { arrival, service: Nanos((-uniform(&mut random).ln() * 1e6) as u64) }
        })
        .collect()
}

/// M/M/1 under processor sharing has mean response time 1/(mu − lambda) (Kleinrock 1976, Queueing Systems II, 4.4):
/// the 99 % confidence interval of 20 replications covers it and is narrow enough to notice an error of 3 %.
#[test]
fn ps_agrees_with_the_closed_form_for_mm1() {
    const REPLICATIONS: u8 = 20;
    const JOBS: usize = 20_000;
    /// The number of jobs left out at the beginning, where the empty start still has an effect.
    const WARM_UP: usize = 2_000;
    /// Student's t for 99 %, 19 degrees of freedom.
    const T: f64 = 2.861;
    let (rho, expected_ms) = (0.7, 1.0 / (1.0 - 0.7));
    let means: Vec<f64> = (1..=REPLICATIONS)
        .map(|seed| {
            let responses = ideal_ps(&mm1(seed, rho, JOBS));
            total(&responses[WARM_UP..]) as f64 / 1e6 / (JOBS - WARM_UP) as f64
        })
        .collect();
    let mean = means.iter().sum::<f64>() / f64::from(REPLICATIONS);
    let variance = means.iter().map(|m| (m - mean).powi(2)).sum::<f64>() / f64::from(REPLICATIONS - 1);
    let half_width = T * (variance / f64::from(REPLICATIONS)).sqrt();
    assert!((mean - expected_ms).abs() <= half_width, "{mean} ± {half_width} ms does not cover {expected_ms} ms");
    assert!(half_width <= 0.03 * expected_ms, "± {half_width} ms is too wide to tell anything");
}
