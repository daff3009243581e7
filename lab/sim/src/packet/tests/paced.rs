//! Paced shaping on a line with delay.

use super::*;
use crate::packet::Shape;

const PACKET_MS: f64 = 1.2112;

/// A line at 10 Mbit/s where Weir paces, either visible to Weir or one hop further on.
fn paced(shape: Shape, sees_queue: bool) -> Config {
    let tcp = if sees_queue { Tcp::default() } else { Tcp::behind_router() };
    Config { shaping: Shaping::Paced, policy: "srpt".parse().unwrap(), shape, sees_queue, tcp, ..Config::default() }
}

const BUCKET_BYTES: u64 = 1600;

/// All positions of a line of this rate.
fn lines() -> [Config; 4] {
    let bucket = Shape::Bucket(BUCKET_BYTES);
    let both = Shape::BucketWire(BUCKET_BYTES);
    [paced(bucket, true), paced(both, true), paced(Shape::Wire, true), paced(Shape::Wire, false)]
}

/// A SYN-ACK waits for the packet on the line, on average half of its time, and the response for the packet handed down
/// by then. Earlier it waited for another packet in the wire behind a bucket, or on an invisible line after a pause: up
/// to 4.4 ms.
#[test]
fn a_newcomer_beside_a_download_waits_for_the_packet_on_the_line_and_one_more() {
    let mut list = vec![(0, 6_000_000)];
    // The intervals are no multiple of a packet's time.
    list.extend((1..80).map(|n| (n * 53, 500)));
    for config in lines() {
        let (_, records) = records(&config, &jobs(&list));
        let mean = records[1..].iter().map(|record| record.response_time().as_millis_f64()).sum::<f64>() / 79.0;
        let bytes = wire::SYN_ACK_BYTES + wire::PACKET_OVERHEAD_BYTES + workload::wire_bytes(500);
        let own_ms = bytes as f64 * 8.0 / 10_000.0;
        assert!(mean < PACKET_MS * 1.5 + own_ms + 0.25, "{:?}, seen {}: {mean}", config.shape, config.sees_queue);
    }
}

/// Idle time is not made up for, which costs no throughput, near or far.
#[test]
fn the_line_is_full_in_overload_near_and_far() {
    let jobs = heavy_jobs(1.3, 15_000);
    for config in lines() {
        for ms in [0, 25, 75] {
            let config = Config { paths: vec![delay(ms)], grace: Some(Nanos::ZERO), ..config.clone() };
            let used = outcome(&config, &jobs).utilisation;
            let pace = if config.sees_queue { 1.0 } else { 0.98 };
            let (shape, seen) = (config.shape, config.sees_queue);
            assert!(used >= 0.97 * pace, "{shape:?}, seen {seen}, {ms} ms each way: {used}");
        }
    }
}

/// This holds whatever happened to the responses. Earlier, retransmissions after a connection's last response were not
/// charged: with 2 % of losses 1.6 to 1.8 % of the bytes. The remaining difference is retransmitted SYN-ACKs, which the
/// kernel does not report.
#[test]
fn what_was_charged_is_what_has_left() {
    let user = User { aborts_after: Nanos::from_millis(300), retries: 1 };
    for config in lines() {
        for (user, path, per_connection) in [
            (None, PathConfig::default(), 1),
            (None, PathConfig { loss: 0.02, ..delay(20) }, 1),
            (None, delay(20), 4),
            (Some(user), delay(20), 1),
        ] {
            let config = Config { user, paths: vec![path], per_connection, ..config.clone() };
            let outcome = outcome(&config, &heavy_jobs(0.9, 2000));
            let off = outcome.charged_bytes.unwrap() as f64 / outcome.link_bytes as f64 - 1.0;
            assert!(off.abs() < 0.002, "{:?} {user:?} {path:?} {per_connection}: {off}", config.shape);
            assert_eq!(outcome.aborted > 0, user.is_some());
        }
    }
}

/// The configured rate is 30 % too high and the queue is in a router: round trips reveal it.
#[test]
fn a_rate_that_is_told_too_high_is_found_out() {
    let config = paced(Shape::Wire, false);
    let told = Config { told: "13mbit".parse().ok(), ..config.clone() };
    let mean = |config: &Config| {
        let jobs = heavy_jobs(0.8, 6000);
        let (_, records) = records(config, &jobs);
        let later = &records[1000..];
        let mut small: Vec<_> = later.iter().filter(|r| r.size_bytes < 1000).map(|r| r.response_time()).collect();
        small.sort();
        small[small.len() / 2].as_millis_f64()
    };
    let (right, wrong) = (mean(&config), mean(&told));
    assert!(wrong < 2.0 * right, "{wrong} ms, told right {right}");
}

/// Earlier the acknowledgement of a request was a separate packet on every connection.
#[test]
fn the_acknowledgement_of_a_request_rides_on_a_response_that_begins_in_time() {
    let bytes = |acks_ride, list: &[(u64, u64)]| {
        let server = crate::packet::Server { acks_ride, ..Default::default() };
        outcome(&Config { server, ..paced(Shape::Wire, true) }, &jobs(list)).link_bytes
    };
    let alone: Vec<_> = (0..20).map(|n| (100 * n, 500)).collect();
    assert_eq!(bytes(false, &alone) - bytes(true, &alone), 20 * wire::PACKET_OVERHEAD_BYTES);
    // The second waits for the first for longer than 40 ms, so it is acknowledged separately.
    let late = [(0, 100_000), (10, 200_000)];
    assert_eq!(bytes(false, &late) - bytes(true, &late), wire::PACKET_OVERHEAD_BYTES);
}
