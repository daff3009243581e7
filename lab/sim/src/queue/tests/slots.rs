//! Slots in front of the link, tested by the laws of a closed load: shares of a full link, and no lost jobs.

use super::*;

fn webstone(policy: &str, slots: Option<SlotSpec>) -> Config {
    Config {
        arrivals: Arrivals::WebStone { of: WebStone::Wa, clients: vec![15, 15] },
        link: "10mbit".parse().unwrap(),
        slots,
        horizon: Horizon::Jobs(5_000),
        warm_up_jobs: 300,
        ..replay(policy, &[])
    }
}

fn spec(slots: [u32; 2], sharing: Sharing) -> Option<SlotSpec> {
    Some(SlotSpec { slots: slots.to_vec(), sharing, buffer_bytes: 0 })
}

fn per_s(config: &Config) -> [f64; 2] {
    let found = run(config, Hooks::none()).unwrap();
    [found.customers[0].per_s, found.customers[1].per_s]
}

/// On a link that is always full and shared equally, each class has the share of its running jobs: 15 of 15 + 3, and so
/// on.
#[test]
fn a_class_has_the_share_of_its_slots() {
    for (slots, of_a) in [([15, 3], 15.0 / 18.0), ([15, 1], 15.0 / 16.0), ([5, 5], 0.5), ([15, 15], 0.5)] {
        for policy in ["ps", "fair"] {
            let [a, b] = per_s(&webstone(policy, spec(slots, Sharing::Own)));
            assert!((a / (a + b) / of_a - 1.0).abs() < 0.05, "{slots:?}, {policy}: {a} and {b} per second");
            // 10 Mbit/s over 18.5 KB.
            assert!(((a + b) / 67.57 - 1.0).abs() < 0.03, "{slots:?}, {policy}: {} per second", a + b);
        }
    }
}

/// Free slots of other classes are used. With room for all there is no difference, and no class waits.
#[test]
fn shared_slots_that_are_enough_change_nothing() {
    for sharing in [Sharing::Any, Sharing::AnyUntilWanted] {
        for policy in ["ps", "srpt", "fair", "las"] {
            let with = webstone(policy, spec([29, 1], sharing));
            // Exact las does not support slots that are taken back; it is then a policy of the scheduler.
            let chunk_bytes = (policy == "las" && sharing == Sharing::AnyUntilWanted).then_some(CHUNK_BYTES_USUAL);
            let without = Config { slots: None, chunk_bytes, ..with.clone() };
            assert_eq!(departures(&with), departures(&without), "{policy}, {sharing:?}");
        }
    }
}

/// If the higher class has as many slots as clients, taken back when needed, it never waits, whatever the lower class
/// has in flight.
#[test]
fn taken_back_slots_make_the_higher_class_wait_for_nobody() {
    for policy in ["ps", "srpt", "fair"] {
        let config = webstone(policy, spec([15, 0], Sharing::AnyUntilWanted));
        let [a, b] = per_s(&config);
        assert!(b < 0.01 * a, "{policy}: {a} and {b} per second");
        let [_, without] = per_s(&Config { slots: spec([15, 0], Sharing::Any), ..config });
        assert!(without > 2.0, "{policy}: {without} per second if they are not taken back");
    }
}

/// Bytes that fit into the buffer are not delayed by slots: if every response fits, slots change nothing under ps.
#[test]
fn a_buffer_lets_slots_go_early() {
    let whole = Some(SlotSpec { slots: vec![1, 1], sharing: Sharing::Own, buffer_bytes: 200_000 });
    let [a, b] = per_s(&webstone("ps", whole));
    assert!((a / b - 1.0).abs() < 0.05, "{a} and {b} per second");
    let some = Some(SlotSpec { slots: vec![15, 1], sharing: Sharing::Own, buffer_bytes: 8_000 });
    let [a, b] = per_s(&webstone("ps", some));
    assert!(a / (a + b) > 0.55 && a / (a + b) < 0.93, "{a} and {b} per second");
}

#[test]
fn the_same_seed_is_the_same_run_and_mistakes_are_told() {
    let config = webstone("ps", spec([5, 3], Sharing::AnyUntilWanted));
    assert_eq!(departures(&config), departures(&config));
    let said = |config: &Config| check(config).unwrap_err().to_string();
    assert!(said(&webstone("ps", spec([0, 0], Sharing::Own))).starts_with("slots: 0 slots"));
    let endless = Config { horizon: Horizon::AllOfReplay, ..config.clone() };
    assert!(said(&endless).starts_with("jobs: clients ask without end"));
    let costly = Config { job_cost: Nanos::from_secs(2), ..config };
    assert!(said(&costly).starts_with("job_cost: 2 s"));
}

proptest! {
    /// Bytes are conserved whatever the slots and their order of return. Each job of an open load leaves once, not
    /// before its own time, and the link is never idle while a job with a slot waits.
    #[test]
    fn every_job_leaves(jobs in arrivals(), slots in 1u32..4, buffer_bytes in 0u64..300) {
        for sharing in [Sharing::Own, Sharing::Any, Sharing::AnyUntilWanted] {
            for (policy, chunk_bytes) in [("ps", None), ("srpt", None), ("fair", Some(50))] {
                let class_shares = vec![0.5, 0.5];
                let slots = Some(SlotSpec { slots: vec![slots, 1], sharing, buffer_bytes });
                let config = Config { class_shares, slots, chunk_bytes, ..replay(policy, &jobs) };
                let (outcome, records) = recorded(&config);
                prop_assert_eq!((outcome.departed, outcome.incomplete), (jobs.len() as u64, 0));
                let kept = records.iter().all(|record| record.end_ns >= record.arrival_ns + record.size_bytes);
                prop_assert!(kept, "{} {:?}", policy, sharing);
                let work: u64 = jobs.iter().map(|job| job.size_bytes).sum();
                let last = records.iter().map(|record| record.end_ns).max().unwrap_or(0);
                let all_at_once = jobs.iter().map(|job| job.arrival.0).max().unwrap_or(0);
                prop_assert!(last <= all_at_once + work);
            }
        }
    }
}
