use record::JobRecord;

use super::*;
use crate::Hooks;

/// A config small enough for a test, with a busy server (disk at 0.9). With so few requests, chance reverses the order
/// of the means in one seed of four.
fn config(policy: &str) -> Config {
    let (policy, disk) = (policy.parse().unwrap(), Disk { position_us: 30_000, ..Disk::default() });
    Config { policy, users: 70, requests: 20_000, warm_up: 2_000, seed: 2, disk, ..Config::default() }
}

fn records(config: &Config) -> (Outcome, Vec<JobRecord>) {
    let mut records = Vec::new();
    let mut keep = |record| records.push(record);
    let outcome = run(config, Hooks { record: Some(&mut keep), progress: None }).unwrap();
    (outcome, records)
}

/// One user without competition and without losses.
fn alone() -> Config {
    Config {
        users: 1,
        requests: 300,
        warm_up: 0,
        http: Http { requests_per_connection: u32::MAX, ..Http::default() },
        internet: Internet { loss: 0.0, rtt_spread: 1.0, ..Internet::default() },
        ..Config::default()
    }
}

/// The time of a request of this size at an idle server, in nanoseconds: processor, each block, each segment.
fn service_ns(config: &Config, size: u64, is_new: bool) -> u64 {
    let blocks = (0..size.div_ceil(16_384)).map(|block| (size - block * 16_384).min(16_384));
    let disk: u64 = blocks.map(|bytes| config.disk.position_us * 1000 + bytes * 50).sum();
    let processor = 1_000_000 + u64::from(is_new) * 300_000 + 10_000 * size / 1024;
    processor + disk + (size + 40 * size.div_ceil(1460)) * 80
}

#[test]
fn alone_the_response_time_is_the_sum_of_its_parts() {
    // The only user has 14 kbit/s and a round trip of 90 ms (the first row of table 1).
    let config = alone();
    let (outcome, records) = records(&config);
    let mut last_end: Option<u64> = None;
    let mut checked = 0;
    for job in &records {
        // Within one segment there is neither a window nor a second visit anywhere.
        let is_new = last_end.is_none_or(|end| job.arrival_ns - end > 14_900_000_000);
        if job.size_bytes <= 1460
            && last_end.is_none_or(|end| (job.arrival_ns - end).abs_diff(15_000_000_000) > 1 << 30)
        {
            let access_ns = ((300 + 40 + job.size_bytes + 40) * 8_000_000_000).div_ceil(14_000);
            let round_trips = if is_new { 2 } else { 1 };
            let sum = round_trips * 90_000_000 + access_ns + service_ns(&config, job.size_bytes, is_new);
            assert!(job.response_time().0.abs_diff(sum) < 10, "{job:?}: {sum}");
            checked += 1;
        }
        last_end = Some(job.end_ns);
    }
    assert!(checked > 50, "{checked} small requests");
    assert_eq!((outcome.server.timeouts, outcome.server.waiting_over_service < 1e-9), (0, true));
}

#[test]
fn alone_the_server_delay_is_the_service() {
    let config = alone();
    let (outcome, records) = records(&config);
    let connections = outcome.server.connections;
    let service: u64 = records.iter().map(|job| service_ns(&config, job.size_bytes, false)).sum();
    let mean_ms = (service + connections * 300_000) as f64 / records.len() as f64 / 1e6;
    assert!((outcome.server.server_delay_ms.mean / mean_ms - 1.0).abs() < 1e-6, "{mean_ms} ms");
}

#[test]
fn a_fast_client_far_away_pays_round_trips() {
    // Seven users have 10 Mbit/s. The slowest users make few requests, so their means say little.
    let config = Config { users: 100, requests: 3_000, ..alone() };
    let config = Config { disk: Disk { position_us: 0, ..Disk::default() }, ..config };
    let (outcome, _) = records(&config);
    let fast = &outcome.server.by_bandwidth[7];
    assert!(fast.requests > 100 && (20.0..500.0).contains(&fast.response_time_ms), "{fast:?}");
    let by_bandwidth: Vec<f64> = outcome.server.by_bandwidth.iter().map(|class| class.response_time_ms).collect();
    assert!(by_bandwidth[3..].is_sorted_by(|slow, fast| slow > fast), "{by_bandwidth:?}");
}

#[test]
fn every_request_is_answered_once_and_in_full() {
    let (outcome, records) = records(&config("srpt"));
    assert_eq!(outcome.summary.jobs, 20_000);
    assert_eq!(records.len(), 20_000);
    let mut numbers: Vec<u64> = records.iter().map(|job| job.job).collect();
    numbers.sort();
    assert!(numbers.into_iter().eq(0..20_000), "those that count, each once");
    assert!(records.iter().all(|job| job.body_bytes == job.size_bytes && job.first_byte_ns <= Some(job.end_ns)));
    let by_size: u64 = outcome.server.by_size_class.iter().map(|class| class.requests).sum();
    let by_bandwidth: u64 = outcome.server.by_bandwidth.iter().map(|class| class.requests).sum();
    assert_eq!((by_size, by_bandwidth), (20_000, 20_000));
}

#[test]
fn the_population_is_constant() {
    let (_, records) = records(&config("fcfs"));
    // +1 when a user sends a request, −1 when it is answered: never more than the number of users.
    let mut changes: Vec<(u64, i32)> = records.iter().flat_map(|job| [(job.arrival_ns, 1), (job.end_ns, -1)]).collect();
    changes.sort();
    let mut asking = 0;
    for (_, change) in changes {
        asking += change;
        assert!((0..=70).contains(&asking));
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    let outcome = |seed| run(&Config { seed, requests: 3_000, ..config("srpt") }, Hooks::none()).unwrap();
    assert_eq!(outcome(1), outcome(1));
    assert_ne!(outcome(1), outcome(2));
}

#[test]
fn every_user_asks_for_the_same_files_under_every_policy() {
    let sizes = |policy: &str| {
        let mut jobs = records(&Config { warm_up: 0, ..config(policy) }).1;
        jobs.sort_by_key(|job| job.arrival_ns);
        let mut of_users = vec![Vec::new(); 70];
        jobs.iter().for_each(|job| of_users[job.client.unwrap() as usize].push(job.size_bytes));
        of_users
    };
    for (fcfs, srpt) in sizes("fcfs").iter().zip(&sizes("srpt")) {
        let both = fcfs.len().min(srpt.len());
        assert!(both > 20, "{both} requests of a user");
        assert_eq!(fcfs[..both], srpt[..both]);
    }
}

/// If a user had a single stream of draws, one loss more or less would shift all later draws.
#[test]
fn policies_differ_by_the_server_and_not_by_chance() {
    let config = |policy: &str| Config { requests: 3_000, users: 20, ..config(policy) };
    let [fcfs, srpt] = ["fcfs", "srpt"].map(|policy| run(&config(policy), Hooks::none()).unwrap().server);
    assert_eq!(fcfs.by_bandwidth.len(), srpt.by_bandwidth.len());
    for (fcfs, srpt) in fcfs.by_bandwidth.iter().zip(&srpt.by_bandwidth) {
        let ratio = srpt.response_time_ms / fcfs.response_time_ms;
        assert!((0.8..1.2).contains(&ratio), "{ratio}: {fcfs:?} {srpt:?}");
    }
}

#[test]
fn small_requests_gain_and_large_ones_pay() {
    let [fcfs, srpt] = ["fcfs", "srpt"].map(|policy| run(&config(policy), Hooks::none()).unwrap().server);
    assert!(fcfs.utilisation.disk > 0.8 && srpt.utilisation.disk > 0.8, "{:?}", fcfs.utilisation);
    assert!(srpt.waiting_over_service * 1.5 < fcfs.waiting_over_service);
    assert!(srpt.server_delay_ms.mean < fcfs.server_delay_ms.mean);
    let delay = |outcome: &ServerOutcome, class: usize| outcome.by_size_class[class].server_delay_ms;
    assert!((0..4).all(|class| delay(&srpt, class) < delay(&fcfs, class)));
    assert!(delay(&srpt, 7) > delay(&fcfs, 7));
}

/// The mean server delay of clients with up to 56 kbit/s, and of those with 1 Mbit/s or more.
fn slow_and_fast(outcome: &ServerOutcome) -> [f64; 2] {
    [0..4, 5..8].map(|classes| {
        let classes = &outcome.by_bandwidth[classes];
        let requests: u64 = classes.iter().map(|class| class.requests).sum();
        classes.iter().map(|class| class.server_delay_ms * class.requests as f64).sum::<f64>() / requests as f64
    })
}

#[test]
fn fastest_connection_first_prefers_the_fast_and_costs_the_server() {
    // Beta 16 strengthens the tendency so that a short run shows it.
    let [srpt, fcf] = ["srpt", "fcf:16"].map(|policy| run(&config(policy), Hooks::none()).unwrap().server);
    let ([srpt_slow, srpt_fast], [fcf_slow, fcf_fast]) = (slow_and_fast(&srpt), slow_and_fast(&fcf));
    assert!(fcf_slow / fcf_fast > 1.2 * srpt_slow / srpt_fast, "{srpt_slow} {srpt_fast} {fcf_slow} {fcf_fast}");
    assert!(srpt.server_delay_ms.mean < fcf.server_delay_ms.mean);
}

#[test]
fn losses_cost_timeouts_and_nothing_else() {
    let lossy = run(&Config { requests: 5_000, ..config("fcfs") }, Hooks::none()).unwrap().server;
    // Go-back-N retransmits more than was lost, but within a small window.
    assert!(lossy.timeouts > 0 && (0.04..0.08).contains(&lossy.retransmitted), "{}", lossy.retransmitted);
    let clean = Config { internet: Internet { loss: 0.0, ..Internet::default() }, requests: 5_000, ..config("fcfs") };
    let clean = run(&clean, Hooks::none()).unwrap().server;
    assert!(clean.retransmitted < 0.01 && clean.response_time_ms_per_user < lossy.response_time_ms_per_user);
}

#[test]
fn a_run_that_would_wait_for_the_starved_for_ever_is_an_error() {
    let saturated = Disk { position_us: 60_000, ..Disk::default() };
    let config = Config { disk: saturated, requests: 300, ..config("fcf:16") };
    let error = run(&config, Hooks::none()).unwrap_err().to_string();
    assert!(error.starts_with("until: ") && error.contains("so fcf:16 starves them"), "{error}");
    run(&Config { until: Until::Count, ..config }, Hooks::none()).unwrap();
}
