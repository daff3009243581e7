//! The server's limits, and impatient users.

use super::*;
use crate::packet::Server;

#[test]
fn a_full_syn_queue_costs_the_initial_timeout_and_then_twice_that() {
    let server = Server { syn_queue: 1, ..Server::default() };
    let config = Config { server, tcp: Tcp::of_2003(), paths: vec![delay(50)], ..Config::default() };
    let (outcome, records) = records(&config, &jobs(&[(0, 100), (0, 100), (0, 100)]));
    let seconds: Vec<_> = records.iter().map(|record| record.response_time().0 / 1_000_000_000).collect();
    assert_eq!((seconds, outcome.syn_drops), (vec![0, 3, 9], 3));
    let cookies = Config { server: Server { syn_cookies: true, ..server }, ..config };
    assert_eq!(super::outcome(&cookies, &jobs(&[(0, 100), (0, 100), (0, 100)])).syn_drops, 0);
}

#[test]
fn a_syn_that_never_gets_in_is_refused_in_the_end() {
    let tcp = Tcp { syn_retries: 2, ..Tcp::default() };
    let path = PathConfig { loss_back: 0.9, ..PathConfig::default() };
    let config = Config { tcp, paths: vec![path], ..Config::default() };
    let (outcome, records) = records(&config, &jobs(&[(0, 100); 20]));
    // 1 + 2 + 4 seconds. Some accepted connections are given up later, because the server does not receive their
    // request.
    let refused = records.iter().filter(|record| record.end_ns == 7_000_000_000).count() as u64;
    assert!(refused >= 10 && refused <= outcome.refused, "{refused} of {}", outcome.refused);
}

#[test]
fn a_connection_waits_for_a_worker() {
    let config = Config { server: Server { workers: Some(1), ..Server::default() }, ..Config::default() };
    let list = [(0, 125_000), (1, 100)];
    let (_, alone) = records(&config, &jobs(&list));
    // 125,000 bytes take at least 100 ms; the second job waits for all of that time.
    assert!(alone[1].response_time() > Nanos::from_millis(100), "{:?}", alone[1]);
    let (_, shared) = records(&Config { server: Server::default(), ..config }, &jobs(&list));
    assert!(shared[1].response_time() < alone[1].response_time());
}

#[test]
fn a_full_accept_queue_drops_the_end_of_the_handshake() {
    let server = Server { workers: Some(1), accept_queue: 1, ..Server::default() };
    let config = Config { server, ..Config::default() };
    let (outcome, records) = records(&config, &jobs(&[(0, 250_000), (1, 100), (2, 100)]));
    assert!(outcome.accept_drops > 0);
    // The third finds room only when it or the server retransmits, at least 200 ms later.
    assert!(records[2].response_time() > records[1].response_time(), "{records:?}");
    assert_eq!(outcome.complete, 3);
}

#[test]
fn a_user_aborts_tries_again_and_gives_up() {
    // The first never completes in 100 ms. It is tried three times, and all its bytes are discarded.
    let user = User { aborts_after: Nanos::from_millis(100), retries: 2 };
    let config = Config { user: Some(user), ..Config::default() };
    let (outcome, records) = records(&config, &jobs(&[(0, 1_000_000), (1000, 100)]));
    assert_eq!((outcome.aborted, outcome.complete), (1, 1));
    assert_eq!((records[0].outcome, records[0].response_time()), (JobOutcome::Aborted, Nanos::from_millis(300)));
    assert!(outcome.link_bytes > 300_000, "what was sent in vain was sent: {}", outcome.link_bytes);
}

#[test]
fn a_run_that_ends_early_counts_what_is_left() {
    let config = Config { grace: Some(Nanos::from_millis(40)), ..Config::default() };
    let (outcome, records) = records(&config, &jobs(&[(0, 100), (10, 1_000_000)]));
    assert_eq!((outcome.complete, outcome.incomplete, outcome.summary.jobs), (1, 1, 2));
    assert_eq!(records[1].response_time(), Nanos::from_millis(40));
}

/// Schroeder & Harchol-Balter 2006, section 4, with its limits; rho 1.2 for 50 s.
#[test]
fn under_overload_srpt_has_few_connections_and_fair_drops_syns() {
    let server = Server { syn_queue: 512, accept_queue: 512, workers: Some(350), ..Server::default() };
    let jobs = pareto_jobs(1.2, 14_000, (900.0, 2_000_000.0));
    let run = |shaping, bottleneck, policy: &str| {
        let config = Config {
            shaping,
            bottleneck,
            policy: policy.parse().unwrap(),
            server,
            tcp: Tcp::of_2003(),
            sample_every: Some(Nanos::from_millis(100)),
            grace: Some(Nanos::ZERO),
            ..Config::default()
        };
        outcome(&config, &jobs)
    };
    let fair = run(Shaping::Off, Discipline::Fifo(100), "fair");
    let bands = run(Shaping::Bands, Discipline::Bands(100), "srpt-bands:1000,2000,5000,50000");
    assert!(fair.syn_drops > 50 && bands.syn_drops == 0, "{} and {}", fair.syn_drops, bands.syn_drops);
    let at_server = |sample: &crate::packet::Sample| sample.syn_queue + sample.accept_queue + sample.active;
    let most = |outcome: &Outcome| outcome.samples.iter().map(at_server).max().unwrap();
    assert!(most(&fair) > 3 * most(&bands), "{} and {}", most(&fair), most(&bands));
    let mean = |outcome: &Outcome| outcome.summary.response_time_ms.mean;
    assert!(mean(&bands) * 3.0 < mean(&fair), "{} and {}", mean(&bands), mean(&fair));
}
