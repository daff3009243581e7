//! Loss and delay.

use super::*;
use crate::packet::Congestion;

/// The payload bits per second of one large response under Reno, with this loss on the way to the client.
fn throughput_bps(loss: f64) -> f64 {
    let tcp = Tcp { congestion: Congestion::Reno, gso_segments: 1, delayed_ack: Nanos::ZERO, ..Tcp::default() };
    let path = PathConfig { loss, ..delay(25) };
    let config = Config { link: "1gbit".parse().unwrap(), tcp, paths: vec![path], ..Config::default() };
    let size = 40_000_000;
    let (_, records) = records(&config, &jobs(&[(0, size)]));
    size as f64 * 8.0 / records[0].response_time().as_secs_f64()
}

#[test]
fn reno_follows_the_square_root_law() {
    // Mathis et al., "The macroscopic behavior of the TCP congestion avoidance algorithm", 1997: with every segment
    // acknowledged, sqrt(3/2) segments per round trip divided by the square root of the loss.
    for loss in [0.005, 0.01, 0.02f64] {
        let expected = 1448.0 * 8.0 / 0.050 * (1.5 / loss).sqrt();
        let ratio = throughput_bps(loss) / expected;
        assert!((0.7..1.3).contains(&ratio), "at loss {loss}: {ratio} of the law");
    }
}

#[test]
fn a_lost_segment_in_the_middle_costs_a_round_trip_not_a_timeout() {
    // Deterministic: from many seeds those with exactly one loss, which is not at either end.
    let config = |seed| Config {
        paths: vec![PathConfig { loss: 0.02, ..delay(50) }],
        link: "100mbit".parse().unwrap(),
        seed,
        ..Config::default()
    };
    let one = jobs(&[(0, 30_000)]);
    let clean = records(&Config { paths: vec![delay(50)], ..config(0) }, &one).1[0].response_time();
    let mut quick = 0;
    for seed in 0..60 {
        let (outcome, records) = records(&config(seed), &one);
        let later = records[0].response_time() - clean;
        if outcome.path_losses == 1 && outcome.resent_bytes > 0 && later < Nanos::from_millis(210) {
            assert!(later <= Nanos::from_millis(110), "seed {seed}: {later:?}");
            quick += 1;
        }
    }
    assert!(quick >= 5, "{quick}");
}

#[test]
fn delay_adds_two_round_trips_and_loss_adds_timeouts() {
    let mean = |path: PathConfig| {
        let config =
            Config { shaping: Shaping::Paced, policy: "srpt".parse().unwrap(), paths: vec![path], ..Config::default() };
        outcome(&config, &heavy_jobs(0.5, 2000)).summary.response_time_ms.mean
    };
    let near = mean(PathConfig::default());
    let far = mean(delay(50));
    assert!((195.0..230.0).contains(&(far - near)), "{far} and {near}");
    assert!(mean(PathConfig { loss: 0.05, ..delay(50) }) > far + 20.0);
}

#[test]
fn connections_take_the_paths_in_turn() {
    let config = Config { paths: vec![delay(10), delay(100)], ..Config::default() };
    let (_, records) = records(&config, &jobs(&[(0, 100), (1000, 100), (2000, 100)]));
    let times: Vec<_> = records.iter().map(|record| record.response_time().0 / 10_000_000).collect();
    assert_eq!(times, [4, 40, 4]);
}

#[test]
fn requests_share_a_connection_one_after_the_other() {
    let config = Config { per_connection: 3, paths: vec![delay(50)], ..Config::default() };
    let (_, records) = records(&config, &jobs(&[(0, 100), (1000, 100), (2000, 100), (3000, 100), (3001, 100)]));
    let round_trips: Vec<_> = records.iter().map(|record| record.response_time().0 / 100_000_000).collect();
    // The fourth opens another connection, and the fifth, which finds that one in use, opens one more.
    assert_eq!(round_trips, [2, 1, 1, 2, 2]);
}

#[test]
fn an_idle_connection_is_closed_and_the_next_request_opens_one() {
    let server = crate::packet::Server { keep_alive: Nanos::from_millis(500), ..Default::default() };
    let config = Config { per_connection: 3, paths: vec![delay(50)], server, ..Config::default() };
    let (_, records) = records(&config, &jobs(&[(0, 100), (5000, 100)]));
    assert_eq!(records[1].response_time().0 / 100_000_000, 2);
}
