use proptest::prelude::*;

use super::parse::NAMED;
use super::*;

fn profile(text: &str) -> LoadProfile {
    text.parse().unwrap()
}

/// Table I states each workload's kind and its mean load, to one decimal, next to the numbers used here.
#[test]
fn the_papers_workloads_have_the_mean_load_it_says() {
    let published = [0.7, 0.7, 0.9, 0.9, 0.9, 0.9, 0.8, 0.8, 0.9, 0.9];
    for (number, ((name, [low_s, high_s, low_rho, high_rho]), mean)) in (1..).zip(NAMED.into_iter().zip(published)) {
        let profile: LoadProfile = name.parse().unwrap();
        assert_eq!(name, format!("W{number}"));
        assert_eq!(profile, LoadProfile::alternating(low_s, high_s, low_rho, high_rho).unwrap());
        assert!((profile.mean_rho() - mean).abs() < 0.005, "{name}: {}", profile.mean_rho());
        assert!(low_rho < 1.0 && high_rho > 1.0, "{name}: {low_rho} and {high_rho}");
        assert_eq!(low_s == high_s, number <= 6, "{name}: as long low as high only where it alternates");
    }
    for same in ["25,25,.2,1.2", " 25 , 25,0.2, 1.2 "] {
        assert_eq!(profile(same), profile("w1"), "{same}");
    }
}

#[test]
fn work_is_offered_at_the_pace_of_the_phase() {
    let profile = profile("10,20,0.5,2");
    let after = |at_s, work_s| profile.after(Nanos::from_secs(at_s), work_s * 1e9).as_secs_f64();
    assert_eq!(after(0, 2.0), 4.0);
    // 5 s of work by the end of the low phase, the other 10 in half the time.
    assert_eq!(after(0, 15.0), 15.0);
    // A whole turn offers 45 s of work.
    assert_eq!(after(0, 45.0), 30.0);
    assert_eq!(after(5, 45.0 * 3.0), 95.0);
    assert_eq!(after(25, 10.0 + 5.0 + 4.0), 42.0);
    assert_eq!(LoadProfile::constant(0.5).unwrap().after(Nanos(7), 10.0), Nanos(27));
}

#[test]
fn what_is_no_profile_says_what_is_right() {
    for (text, said) in [
        ("W11", "`W11` is no load profile: write W1 to W10"),
        ("", "such as 25,25,0.2,1.2"),
        ("1,2,3", "such as 25,25,0.2,1.2"),
        ("25s@0.2,25s@1.2", "such as 25,25,0.2,1.2"),
        ("1,0,0.5,1", "a phase of 0 s"),
        ("1,1,-0.5,1", "a load of -0.5"),
        ("1,1,nan,1", "a load of NaN"),
    ] {
        let error = text.parse::<LoadProfile>().unwrap_err().to_string();
        assert!(error.contains(said), "{text}: {error}");
    }
}

/// The arithmetic of low and high loads of the first results, which remain valid.
fn after_of_two(low: Phase, high: Phase, at: Nanos, work_ns: f64) -> Nanos {
    let turn = low.lasts.0 + high.lasts.0;
    let work = |phase: Phase| phase.lasts.0 as f64 * phase.rho;
    let mean_rho = (work(low) + work(high)) / (low.lasts.0 as f64 + high.lasts.0 as f64);
    let turn_work = turn as f64 * mean_rho;
    let turns = (work_ns / turn_work).floor();
    let (mut at, mut work_ns) = (at + Nanos((turns * turn as f64) as u64), work_ns - turns * turn_work);
    for _ in 0..3 {
        let into = at.0 % turn;
        let (phase, left) = if into < low.lasts.0 { (low, low.lasts.0 - into) } else { (high, turn - into) };
        if work_ns <= left as f64 * phase.rho {
            return at + nearest(work_ns / phase.rho);
        }
        work_ns -= left as f64 * phase.rho;
        at += Nanos(left);
    }
    at
}

proptest! {
    #[test]
    fn two_levels_are_what_they_were(
        lasts in (1u64..1_000_000_000_000, 1u64..1_000_000_000_000),
        rho in (0.01f64..5.0, 0.01f64..5.0),
        at in 0u64..1_000_000_000_000,
        work_ns in 0.0f64..1e13,
    ) {
        let level = |ns, rho| Phase { lasts: Nanos(ns), rho };
        let (low, high) = (level(lasts.0, rho.0), level(lasts.1, rho.1));
        let found = LoadProfile::of(vec![low, high]).after(Nanos(at), work_ns);
        prop_assert_eq!(found, after_of_two(low, high, Nanos(at), work_ns));
        let constant = LoadProfile::constant(rho.0).unwrap();
        prop_assert_eq!(constant.after(Nanos(at), work_ns), Nanos(at) + nearest(work_ns / rho.0));
    }

    /// At the end of each phase, and at any instant within it, the offered work agrees with its loads.
    #[test]
    fn work_and_instants_are_each_others_inverse(
        phases in prop::collection::vec((1u64..100_000_000_000, 0.01f64..5.0), 1..3),
        turns in 0u64..3,
        at in 0.0f64..1.0,
    ) {
        let phases: Vec<Phase> = phases.into_iter().map(|(ns, rho)| Phase { lasts: Nanos(ns), rho }).collect();
        let profile = LoadProfile::of(phases.clone());
        let turn: u64 = phases.iter().map(|phase| phase.lasts.0).sum();
        let at = Nanos(turns * turn + (turn as f64 * at) as u64);
        let work_ns = profile.offered(at);
        let found = profile.after(Nanos::ZERO, work_ns);
        prop_assert!(found.0.abs_diff(at.0) <= 2 + (at.0 >> 40), "{found:?} for {at:?}");
        let mut ends = Nanos(turns * turn);
        for phase in &phases {
            let begins = ends;
            ends += phase.lasts;
            let offered = profile.offered(ends) - profile.offered(begins);
            let right = phase.lasts.0 as f64 * phase.rho;
            prop_assert!((offered - right).abs() <= 1e-9 * profile.offered(ends) + 1e-3, "{offered} for {right}");
        }
    }
}
