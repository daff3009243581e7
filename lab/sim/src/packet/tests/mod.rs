//! The model as a whole; modules with their own files have their tests there.

mod limits;
mod paced;
mod paths;
mod queues;
mod senders;
mod users;

use proptest::prelude::*;
use record::{JobRecord, Outcome as JobOutcome};
use units::{Nanos, wire};
use workload::{HEAD_BYTES_NOMINAL, Job};

use super::{Config, Discipline, Outcome, PathConfig, Shaping, Tcp, User, run};
use crate::Hooks;

/// Jobs of these sizes at these milliseconds.
fn jobs(list: &[(u64, u64)]) -> Vec<Job> {
    list.iter().map(|&(ms, size_bytes)| Job { arrival: Nanos::from_millis(ms), size_bytes, client: None }).collect()
}

/// Poisson arrivals that load 10 Mbit/s to rho, with bounded Pareto sizes (alpha 1.1) of 300 B to 300 KB.
fn heavy_jobs(rho: f64, count: usize) -> Vec<Job> {
    pareto_jobs(rho, count, (300.0, 300_000.0))
}

fn pareto_jobs(rho: f64, count: usize, (least, most): (f64, f64)) -> Vec<Job> {
    use rand::{Rng, SeedableRng};
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(7);
    let alpha = 1.1;
    let mut sizes = Vec::new();
    for _ in 0..count {
        let u: f64 = rng.random();
        let ratio: f64 = 1.0 - u * (1.0 - (least / most).powf(alpha));
        sizes.push((least * ratio.powf(-1.0 / alpha)) as u64);
    }
    let bytes: u64 = sizes.iter().map(|size| workload::wire_bytes(*size) + wire::CONNECTION_BYTES).sum();
    let gap_ns = bytes as f64 * 800.0 / rho / count as f64;
    let mut at = 0.0;
    let mut arrive = |size_bytes| {
        at += -gap_ns * (1.0 - rng.random::<f64>()).ln();
        Job { arrival: Nanos(at as u64), size_bytes, client: None }
    };
    sizes.into_iter().map(&mut arrive).collect()
}

fn outcome(config: &Config, jobs: &[Job]) -> Outcome {
    run(config, jobs.iter().copied(), Hooks::none()).unwrap()
}

fn records(config: &Config, jobs: &[Job]) -> (Outcome, Vec<JobRecord>) {
    let mut records = Vec::new();
    let mut keep = |record| records.push(record);
    let outcome = run(config, jobs.iter().copied(), Hooks { record: Some(&mut keep), progress: None }).unwrap();
    records.sort_by_key(|record: &JobRecord| record.job);
    (outcome, records)
}

fn delay(ms: u64) -> PathConfig {
    PathConfig { forward: Nanos::from_millis(ms), back: Nanos::from_millis(ms), ..PathConfig::default() }
}

/// The three kinds of shaping, with the bottlenecks that they need.
fn shapings() -> [(Shaping, Discipline, &'static str); 4] {
    [
        (Shaping::Off, Discipline::Fifo(20), "fair"),
        (Shaping::Paced, Discipline::Fifo(100), "srpt"),
        (Shaping::Paced, Discipline::Fifo(5), "fair"),
        (Shaping::Bands, Discipline::Bands(20), "srpt-bands:1000,5000"),
    ]
}

#[test]
fn a_lone_response_takes_what_slow_start_takes() {
    // Fourteen segments in windows of 2, 4 and 8 at 1 Gbit/s, 50 ms each way, every segment acknowledged: three and a
    // half round trips for the handshake, the request and the two windows before the last, and one way for the last
    // window.
    let tcp = Tcp {
        initial_window: 2,
        gso_segments: 1,
        small_queues: false,
        delayed_ack: Nanos::ZERO,
        congestion: super::Congestion::Reno,
        ..Tcp::default()
    };
    let config = Config { link: "1gbit".parse().unwrap(), tcp, paths: vec![delay(50)], ..Config::default() };
    let (_, records) = records(&config, &jobs(&[(0, 14 * 1448 - HEAD_BYTES_NOMINAL)]));
    let segment_ns = 12_112;
    // SYN-ACK and the acknowledgement of the request, one segment before each of two windows, and the last window.
    let sending_ns = (74 + 66) * 8 + 2 * segment_ns + 8 * segment_ns;
    assert_eq!(records[0].response_time(), Nanos::from_millis(400) + Nanos(sending_ns));
    assert_eq!(records[0].first_byte_ns, Some(200_000_000 + (74 + 66) * 8 + segment_ns));
}

#[test]
fn the_link_carries_what_was_asked_for_and_nothing_else() {
    let jobs = heavy_jobs(0.7, 3000);
    let expected: u64 = jobs.iter().map(|job| workload::wire_bytes(job.size_bytes) + wire::CONNECTION_BYTES).sum();
    for (shaping, bottleneck, policy) in shapings() {
        // With unlimited queues and a window that fits into them nothing is lost.
        let bottleneck = match bottleneck {
            Discipline::Fifo(_) => Discipline::Fifo(100_000),
            Discipline::Bands(_) => Discipline::Bands(100_000),
        };
        let tcp = Tcp { gso_segments: 1, tail_loss_probe: false, initial_rto: Nanos::from_secs(60), ..Tcp::default() };
        let tcp = Tcp { min_rto: Nanos::from_secs(60), ..tcp };
        let config = Config { shaping, bottleneck, policy: policy.parse().unwrap(), tcp, ..Config::default() };
        let outcome = outcome(&config, &jobs);
        assert_eq!((outcome.complete, outcome.queue_drops), (3000, 0), "{shaping:?}");
        // The last acknowledgement of a FIN may still be queued when the last job is complete. A packet that moves to a
        // better band overtakes its predecessors, which looks like a loss.
        let excess = outcome.link_bytes as i64 - expected as i64;
        let again = (outcome.resent_bytes as i64) * 1514 / 1448 + 66;
        assert!((-66..=again).contains(&excess), "{shaping:?}: {excess}, sent again {}", outcome.resent_bytes);
        assert!(outcome.resent_bytes == 0 || shaping == Shaping::Bands, "{shaping:?}");
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    let path = PathConfig { loss: 0.02, loss_back: 0.01, jitter: Nanos::from_millis(3), ..delay(10) };
    let config = Config { paths: vec![path], sample_every: Some(Nanos::from_millis(100)), ..Config::default() };
    let jobs = heavy_jobs(0.8, 2000);
    let first = outcome(&config, &jobs);
    assert_eq!(first, outcome(&config, &jobs));
    assert_ne!(first, outcome(&Config { seed: 2, ..config }, &jobs));
    assert!(first.path_losses > 0 && first.samples.len() > 10);
}

#[test]
fn paced_srpt_beats_fair_and_both_beat_a_fifo_of_the_kernels() {
    let jobs = heavy_jobs(0.8, 4000);
    let mean = |shaping, policy: &str| {
        let config = Config { shaping, policy: policy.parse().unwrap(), ..Config::default() };
        outcome(&config, &jobs).summary.response_time_ms.mean
    };
    let (off, fair, srpt) = (mean(Shaping::Off, "fair"), mean(Shaping::Paced, "fair"), mean(Shaping::Paced, "srpt"));
    assert!(srpt * 1.3 < fair && fair * 1.3 < off, "srpt {srpt}, fair {fair}, off {off}");
}

#[test]
fn nonsense_is_refused_with_its_name() {
    let wrong = |config: Config| run(&config, std::iter::empty(), Hooks::none()).unwrap_err().to_string();
    let base = Config::default;
    let nan = PathConfig { loss: f64::NAN, ..PathConfig::default() };
    for (config, says) in [
        (Config { bottleneck: Discipline::Fifo(0), ..base() }, "fifo limit of 0 is out of range: write 1 to"),
        (Config { paths: vec![], ..base() }, "paths of 0 is out of range"),
        (Config { paths: vec![nan], ..base() }, "loss of NaN is out of range: write 0.0 to 0.9"),
        (Config { per_connection: 0, ..base() }, "per_connection of 0"),
        (
            Config {
                shaping: Shaping::Bands,
                bottleneck: Discipline::Bands(9),
                policy: "srpt".parse().unwrap(),
                ..base()
            },
            "needs a policy with bands",
        ),
        (Config { tcp: Tcp { segment_bytes: 10, ..Tcp::default() }, ..base() }, "segment of 10"),
    ] {
        let said = wrong(config);
        assert!(said.contains(says) && !said.contains('\n'), "{said}");
    }
}

#[test]
fn no_jobs_are_an_empty_outcome() {
    let outcome = outcome(&Config::default(), &[]);
    assert_eq!((outcome.complete, outcome.packets, outcome.summary.jobs), (0, 0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever is lost, delayed or given up, every job ends once, and a complete job has all its bytes.
    #[test]
    fn every_job_ends_once_and_whole(
        sizes in prop::collection::vec((0u64..400, 1u64..60_000), 1..25),
        shaping in prop::sample::select(shapings().to_vec()),
        (loss, loss_back) in (0.0f64..0.2, 0.0f64..0.2),
        (rtt_ms, jitter_ms) in (0u64..50, 0u64..20),
        per_connection in 1u32..4,
        patience_ms in prop::option::of(50u64..5000),
        (workers, tight, cookies, of_2003) in (prop::option::of(1u32..4), any::<bool>(), any::<bool>(), any::<bool>()),
        segment_bytes in 200u32..1448,
    ) {
        let (shaping, bottleneck, policy) = shaping;
        let mut jobs = jobs(&sizes);
        jobs.sort_by_key(|job| job.arrival);
        let path = PathConfig { loss, loss_back, jitter: Nanos::from_millis(jitter_ms), ..delay(rtt_ms / 2) };
        let queue = if tight { 2 } else { 1000 };
        let server = super::Server { syn_queue: queue, accept_queue: queue, workers, syn_cookies: cookies, ..Default::default() };
        let tcp = if of_2003 { Tcp::of_2003() } else { Tcp::default() };
        let config = Config {
            shaping,
            bottleneck,
            policy: policy.parse().unwrap(),
            paths: vec![path, delay(1)],
            per_connection,
            user: patience_ms.map(|ms| User { aborts_after: Nanos::from_millis(ms), retries: 2 }),
            server,
            tcp: Tcp { segment_bytes, ..tcp },
            ..Config::default()
        };
        let (outcome, records) = records(&config, &jobs);
        prop_assert_eq!(records.len(), jobs.len());
        for (record, job) in records.iter().zip(&jobs) {
            prop_assert_eq!((record.size_bytes, record.arrival_ns), (job.size_bytes, job.arrival.0));
            let is_whole = record.body_bytes == job.size_bytes && record.status == 200;
            prop_assert!(is_whole || record.outcome != JobOutcome::Complete, "{:?}", record);
            prop_assert!(record.end_ns >= record.arrival_ns);
        }
        prop_assert_eq!(outcome.complete + outcome.aborted + outcome.refused, jobs.len() as u64);
        prop_assert!(patience_ms.is_some() || outcome.aborted == 0);
    }
}
