//! Expressions in place of policies.

use super::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The expression of a policy is equivalent to the policy, job by job, in fluid service and in chunks, on every
    /// link.
    #[test]
    fn expressions_are_their_policies(jobs in arrivals(), scale in prop::sample::select(vec![1u64, 3, 800]), chunk in 1u64..50) {
        let scaled: Vec<Job> = jobs.iter().map(|job| Job { arrival: Nanos(job.arrival.0 * scale), ..*job }).collect();
        let link = Rate::from_bits_per_s(8_000_000_000 / scale).unwrap();
        let ends = |policy: &str, chunk_bytes| departures(&Config { chunk_bytes, link, ..replay(policy, &scaled) });
        for (policy, rank) in [
            ("fcfs", "rank:0"),
            ("srpt", "rank:left"),
            ("srpt", "rank:left * 3 + 1KB"),
            ("srpt", "rank:size - sent"),
            ("psjf", "rank:size"),
            ("psjf", "rank:log2(size)"),
            ("srpt-bands:20,100,500", "rank:step(left, 20B) + step(left, 100B) + step(left, 500B)"),
            ("fcfs", "rank:arrived"),
            ("srrt", "rank:srrt"),
        ] {
            for chunk_bytes in [None, Some(chunk)] {
                prop_assert_eq!(ends(policy, chunk_bytes), ends(rank, chunk_bytes), "{} and {}", policy, rank);
            }
        }
        prop_assert_eq!(ends("las", Some(chunk)), ends("rank:sent", Some(chunk)));
    }
}

/// A rank that grows with service is served in chunks of a fiftieth of the mean size, unless other chunks are
/// requested. Least attained service is exact, and other ranks are served in whole jobs.
#[test]
fn a_rank_that_takes_turns_is_served_in_chunks() {
    let chunk = |policy: &str| {
        let config = poisson(policy, "exponential:mean=5000", 0.5, 100);
        run(&config, Hooks::none()).unwrap().chunk_bytes
    };
    assert_eq!(
        ["rank:left", "rank:sent", "rank:sent * 2", "rank:gittins", "rank:size - sent"].map(chunk),
        [None, None, Some(99), Some(99), None]
    );
}

/// The order by the index of all sizes knows no single size. For sizes with a decreasing hazard rate it is least
/// attained service, for equal sizes first come, first served.
#[test]
fn an_index_does_not_know_sizes() {
    let mean = |policy: &str, dist| {
        run(&poisson(policy, dist, 0.8, 20_000), Hooks::none()).unwrap().summary.response_time_ms.mean
    };
    let heavy = "hyperexponential:p=0.9,mean1=1000,mean2=40000";
    let [gittins, mserpt, las, srpt] = ["rank:gittins", "rank:mserpt", "las", "srpt"].map(|policy| mean(policy, heavy));
    assert!((gittins / las - 1.0).abs() < 0.05 && (mserpt / las - 1.0).abs() < 0.05, "{gittins} {mserpt} {las}");
    assert!(srpt < 0.7 * gittins, "{srpt} {gittins}");
    let equal = "deterministic:size=6000";
    let [gittins, fcfs, las] = ["rank:gittins", "fcfs", "las"].map(|policy| mean(policy, equal));
    assert!((gittins / fcfs - 1.0).abs() < 0.01 && las > 2.0 * fcfs, "{gittins} {fcfs} {las}");
}

/// The errors belong to the jobs: the same numbers have the same errors, whatever the policy.
#[test]
fn noise_lies_between_knowing_and_not() {
    let mean = |policy: &str| {
        let config = poisson(policy, "bounded-pareto:alpha=1.5,min=500,max=1e6", 0.8, 20_000);
        run(&config, Hooks::none()).unwrap().summary.response_time_ms.mean
    };
    let found = ["rank:size", "rank:noisy(size, 0.5)", "rank:noisy(size, 2)", "fcfs"].map(mean);
    assert!(found.is_sorted_by(|a, b| a < b), "{found:?}");
    assert_eq!(mean("rank:noisy(size, 0)"), found[0]);
}
