//! A line falls to a tenth or a twentieth of its rate while downloads run and a page is requested four times a second.
//! The pace must be near the new rate within seconds, whatever the queue in front of the line holds.

use sched::line::Bounds;
use sim::Hooks;
use sim::packet::{self, Config, Discipline, PathConfig, Sample, Server, Shaping, Tcp};
use units::{Nanos, Rate};
use workload::Job;

const FALLS_AT_S: u64 = 15;
const ENDS_AT_S: u64 = 50;
const PAGE_BYTES: u64 = 20_000;

struct Fall {
    from_mbit: f64,
    to_mbit: f64,
    queue_packets: u32,
    rtt_ms: u64,
    downloads: u64,
    told: String,
}

fn rate(mbit: f64) -> Rate {
    Rate::from_bits_per_s((mbit * 1e6) as u64).expect("a rate")
}

/// Returns a sample for each 100 ms.
fn samples(fall: &Fall) -> Vec<Sample> {
    let config = Config {
        link: rate(fall.from_mbit),
        bottleneck: Discipline::Fifo(fall.queue_packets),
        shaping: Shaping::Paced,
        policy: "srpt".parse().expect("a policy"),
        sees_queue: false,
        rate_changes: vec![(Nanos::from_secs(FALLS_AT_S), rate(fall.to_mbit))],
        told: Some(fall.told.parse::<Bounds>().expect("bounds")),
        tcp: Tcp::behind_router(),
        paths: vec![
            PathConfig {
                forward: Nanos(fall.rtt_ms * 500_000),
                back: Nanos(fall.rtt_ms * 500_000),
                ..PathConfig::default()
            };
            4
        ],
        server: Server { acks_ride: true, ..Server::default() },
        grace: Some(Nanos::ZERO),
        sample_every: Some(Nanos::from_millis(100)),
        ..Config::default()
    };
    let download = |nth| Job { arrival: Nanos(nth * 1_000_000), size_bytes: 1_000_000_000 + nth, client: None };
    let page = |nth| Job { arrival: Nanos::from_millis(100 + 250 * nth), size_bytes: PAGE_BYTES, client: None };
    let jobs = (0..fall.downloads).map(download).chain((0..4 * ENDS_AT_S).map(page));
    packet::run(&config, jobs, Hooks::none()).expect("a configuration").samples
}

/// Returns the pace relative to the line's new rate from this many seconds after the fall on: the mean, and the share
/// of samples that are far above.
fn pace_after(fall: &Fall, seconds: u64, samples: &[Sample]) -> (f64, f64) {
    let from_s = (FALLS_AT_S + seconds) as f64;
    let later = samples.iter().filter(|sample| (from_s..ENDS_AT_S as f64).contains(&sample.at_s));
    let paces = later.map(|sample| sample.pace_bps.map_or(f64::INFINITY, |pace| pace as f64 / 1e6 / fall.to_mbit));
    let paces: Vec<f64> = paces.collect();
    let far = paces.iter().filter(|pace| **pace > 1.6).count();
    (paces.iter().sum::<f64>() / paces.len() as f64, far as f64 / paces.len() as f64)
}

/// Earlier the pace stayed where it was, because too little left the fallen line to show that its queue was ours.
#[test]
fn the_pace_is_that_of_the_fallen_line_within_seconds() {
    let mut failed = Vec::new();
    for (from_mbit, to_mbit, within_s) in [(10.0, 1.0, 8), (100.0, 5.0, 10)] {
        for queue_packets in [20, 100, 1000] {
            for (rtt_ms, downloads, told) in [(30, 2, "auto"), (1, 4, "auto"), (30, 1, "told")] {
                // Not followed: one download keeps a queue of 12 s at the new rate. It outlasts three drains and is
                // attributed to other senders.
                if (from_mbit, queue_packets, downloads) == (10.0, 1000, 1) {
                    continue;
                }
                let told = if told == "auto" { told.to_owned() } else { format!("{from_mbit}mbit") };
                let fall = Fall { from_mbit, to_mbit, queue_packets, rtt_ms, downloads, told };
                let (mean, far) = pace_after(&fall, within_s, &samples(&fall));
                let case = format!(
                    "{from_mbit} to {to_mbit}, queue {queue_packets}, {rtt_ms} ms, {downloads} downloads, {}",
                    fall.told
                );
                println!("{case}: {mean:.2} {far:.2}");
                if !((0.6..1.3).contains(&mean) && far < 0.05) {
                    failed.push(format!("{case}: {mean:.2} of the line, far above in {far:.2}"));
                }
            }
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}
