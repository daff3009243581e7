//! Closed load.

use super::*;
use crate::packet::{ClosedLoad, run_users};

fn load(users: u32, seconds: u64) -> ClosedLoad {
    let sizes = "exponential:mean=5000".parse().unwrap();
    ClosedLoad { users, sizes, until: Nanos::from_secs(seconds), requests_max: u64::MAX }
}

fn closed(config: &Config, load: &ClosedLoad) -> (Outcome, Vec<JobRecord>) {
    let mut records = Vec::new();
    let mut keep = |record| records.push(record);
    let outcome = run_users(config, load, Hooks { record: Some(&mut keep), progress: None }).unwrap();
    records.sort_by_key(|record: &JobRecord| record.job);
    (outcome, records)
}

#[test]
fn one_user_never_has_two_requests() {
    let (outcome, records) = closed(&Config { paths: vec![delay(50)], ..Config::default() }, &load(1, 600));
    assert!(records.len() > 100 && outcome.complete == records.len() as u64, "{}", records.len());
    assert!(records.windows(2).all(|pair| pair[0].end_ns <= pair[1].arrival_ns));
    assert_eq!(outcome.connections_max, 1 + u64::from(outcome.connections_max > 1), "the last may still be closing");
    assert!(records.iter().all(|record| record.arrival_ns < 600_000_000_000));
}

/// Little's law: the number of users divided by the request rate is the mean of response time and pause together, so a
/// path that is a second slower makes every cycle a second longer.
#[test]
fn a_slow_path_is_asked_less() {
    let cycle = |delay_ms| {
        let (_, records) = closed(&Config { paths: vec![delay(delay_ms)], ..Config::default() }, &load(50, 4000));
        50.0 * 4000.0 / records.len() as f64
    };
    let (near, far) = (cycle(0), cycle(250));
    assert!((0.93..1.07).contains(&(far - near)), "{far} and {near}");
}

#[test]
fn users_keep_their_path_and_their_files() {
    let config = Config { paths: vec![delay(5), delay(500)], ..Config::default() };
    let (_, records) = closed(&config, &load(2, 400));
    let far = records.iter().filter(|record| record.response_time() > Nanos::from_secs(1)).count();
    assert!(far > 20 && records.len() - far > far, "{far} of {}", records.len());
    let mut sizes = [Config::default(), Config { paths: vec![delay(200)], ..Config::default() }].map(|config| {
        let (_, records) = closed(&config, &ClosedLoad { requests_max: 50, ..load(1, 1 << 20) });
        records.iter().map(|record| record.size_bytes).collect::<Vec<_>>()
    });
    assert_eq!(sizes[0].len(), 50);
    assert_eq!(std::mem::take(&mut sizes[0]), sizes[1]);
}

#[test]
fn asking_ends_and_what_is_left_has_its_grace() {
    let config = Config { grace: Some(Nanos::from_secs(2)), paths: vec![delay(10_000)], ..Config::default() };
    let (outcome, _) = closed(&config, &load(100, 30));
    assert!(outcome.incomplete > 0 && (outcome.simulated_s - 32.0).abs() < 1e-6, "{outcome:?}");
    let (outcome, _) = closed(&Config::default(), &load(20, 100));
    assert!(outcome.simulated_s < 100.1, "no pause that leads to no request is waited for: {outcome:?}");
    let config = Config { per_connection: 2, ..Config::default() };
    let said = run_users(&config, &load(1, 1), Hooks::none()).unwrap_err().to_string();
    assert!(said.starts_with("per_connection of users of 2 is out of range"), "{said}");
}
