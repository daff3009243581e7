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
    for same in ["25,25,.2,1.2", "25s@0.2,25s@1.2", " 25000ms@0.2, 25s @ 1.2 "] {
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
fn a_ramp_offers_what_is_under_its_line() {
    let ramp = profile("30s@0.5,60s@0.5-1.5");
    assert_eq!(ramp, profile("30s@0.5,ramp:60s@0.5-1.5"));
    assert_eq!(ramp.mean_rho(), (15.0 + 60.0) / 90.0);
    let offered = |s| ramp.offered(Nanos::from_secs(s)) / 1e9;
    assert_eq!((offered(30), offered(60), offered(90), offered(120)), (15.0, 15.0 + 22.5, 75.0, 90.0));
    let after = |work_s: f64| ramp.after(Nanos::ZERO, work_s * 1e9);
    assert_eq!(after(15.0 + 22.5), Nanos::from_secs(60));
    assert_eq!(after(75.0), Nanos::from_secs(90));
    // The falling phase, across its end into the next turn.
    let fall = profile("10s@1-0.5,10s@0.5");
    assert_eq!(fall.after(Nanos::from_secs(5), (3.125 + 5.0 + 2.0) * 1e9).as_secs_f64().round(), 22.0);
}

#[test]
fn is_written_as_it_is_read() {
    for text in ["constant:0.8", "25s@0.2,25s@1.2", "30s@0.5,60s@0.5-1.4", "0.05s@0.001,13.3s@5"] {
        assert_eq!(profile(text).to_string(), text);
    }
    assert_eq!(profile("ramp:1m@0.5-1.4").to_string(), "60s@0.5-1.4");
    assert_eq!(profile("1s@1e-3"), LoadProfile::constant(1e-3).unwrap());
}

#[test]
fn what_is_no_profile_says_what_is_right() {
    for (text, said) in [
        ("W11", "`W11` is no load profile: write W1 to W10"),
        ("", "25s@0.2,25s@1.2"),
        ("1,2,3", "25s@0.2,25s@1.2"),
        ("constant:x", "constant:0.8"),
        ("1,0,0.5,1", "a phase of 0 s"),
        ("1,1,-0.5,1", "a load of -0.5"),
        ("1,1,nan,1", "a load of NaN"),
        ("25s@0.2,25s", "`25s` is no phase"),
        ("25s@0.2,", "`` is no phase"),
        ("25s@", "`25s@` is no phase"),
        ("ramp:25s@0.2", "60s@0.5-1.4"),
        ("60s@0.5-x", "`60s@0.5-x` is no phase"),
        ("25@0.2", "phase `25@0.2`: `25` is not a duration"),
        ("0s@0.2", "a phase of 0 s"),
        ("5s@0", "a load of 0"),
        ("5s@0.5-2000", "a load of 2000"),
    ] {
        let error = text.parse::<LoadProfile>().unwrap_err().to_string();
        assert!(error.contains(said), "{text}: {error}");
    }
    let many = vec!["1s@0.5"; PHASES_MAX + 1].join(",");
    assert_eq!(many.parse::<LoadProfile>(), Err(ProfileError::Phases(PHASES_MAX + 1)));
}

/// The arithmetic of low and high loads from before other phases existed, so that results kept from then remain valid.
fn after_of_two(low: Phase, high: Phase, at: Nanos, work_ns: f64) -> Nanos {
    let turn = low.lasts.0 + high.lasts.0;
    let work = |phase: Phase| phase.lasts.0 as f64 * phase.from_rho;
    let mean_rho = (work(low) + work(high)) / (low.lasts.0 as f64 + high.lasts.0 as f64);
    let turn_work = turn as f64 * mean_rho;
    let turns = (work_ns / turn_work).floor();
    let (mut at, mut work_ns) = (at + Nanos((turns * turn as f64) as u64), work_ns - turns * turn_work);
    for _ in 0..3 {
        let into = at.0 % turn;
        let (phase, left) = if into < low.lasts.0 { (low, low.lasts.0 - into) } else { (high, turn - into) };
        if work_ns <= left as f64 * phase.from_rho {
            return at + nearest(work_ns / phase.from_rho);
        }
        work_ns -= left as f64 * phase.from_rho;
        at += Nanos(left);
    }
    at
}

fn phases() -> impl Strategy<Value = Vec<Phase>> {
    let phase = (1u64..100_000_000_000, 0.01f64..5.0, 0.01f64..5.0, any::<bool>());
    let phase = phase.prop_map(|(ns, from_rho, to_rho, is_level)| Phase {
        lasts: Nanos(ns),
        from_rho,
        to_rho: if is_level { from_rho } else { to_rho },
    });
    prop::collection::vec(phase, 1..8)
}

proptest! {
    #[test]
    fn two_levels_are_what_they_were(
        lasts in (1u64..1_000_000_000_000, 1u64..1_000_000_000_000),
        rho in (0.01f64..5.0, 0.01f64..5.0),
        at in 0u64..1_000_000_000_000,
        work_ns in 0.0f64..1e13,
    ) {
        let level = |ns, rho| Phase { lasts: Nanos(ns), from_rho: rho, to_rho: rho };
        let (low, high) = (level(lasts.0, rho.0), level(lasts.1, rho.1));
        let found = LoadProfile::new(vec![low, high]).unwrap().after(Nanos(at), work_ns);
        prop_assert_eq!(found, after_of_two(low, high, Nanos(at), work_ns));
        let constant = LoadProfile::constant(rho.0).unwrap();
        prop_assert_eq!(constant.after(Nanos(at), work_ns), Nanos(at) + nearest(work_ns / rho.0));
    }

    /// At the end of each phase, and at any instant within it, the offered work agrees with its loads.
    #[test]
    fn work_and_instants_are_each_others_inverse(phases in phases(), turns in 0u64..3, at in 0.0f64..1.0) {
        let profile = LoadProfile::new(phases.clone()).unwrap();
        let turn: u64 = phases.iter().map(|phase| phase.lasts.0).sum();
        let at = Nanos(turns * turn + (turn as f64 * at) as u64);
        let work_ns = profile.offered(at);
        let found = profile.after(Nanos::ZERO, work_ns);
        prop_assert!(found.0.abs_diff(at.0) <= 2 + (at.0 >> 40), "{found:?} for {at:?}");
        let mut ends = Nanos(turns * turn);
        for phase in &phases {
            let (begins, mean) = (ends, (phase.from_rho + phase.to_rho) / 2.0);
            ends += phase.lasts;
            let offered = profile.offered(ends) - profile.offered(begins);
            let right = phase.lasts.0 as f64 * mean;
            prop_assert!((offered - right).abs() <= 1e-9 * profile.offered(ends) + 1e-3, "{offered} for {right}");
        }
        prop_assert_eq!(profile.to_string().parse::<LoadProfile>().map(|same| same.phases.len()), Ok(phases.len()));
    }
}
