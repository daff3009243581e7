//! Compares the packet model with the testbed: the same jobs, the same bottleneck, and means within 15 %.
//!
//! `testbed.csv` has a row for each compared run of the testbed. A row without `mean_ms` has no run yet and is not
//! compared; `cargo test -p sim --test testbed -- --nocapture` prints the model's results for every row, in the order
//! of the file.
//!
//! | column | what it is |
//! |---|---|
//! | `server` | `fair` (nginx, or Weir with the shaping off), `paced` (srpt), `paced-fair`, `bands` (srpt in thirteen bands); `-own-acks`: by a Weir that acknowledged requests at once |
//! | `line` | `htb` (a token bucket on our interface), `htb-wire` (and a wire of its rate behind it), `router` (a wire one hop on; blind), `router-htb` (a token bucket there) |
//! | `packets` | `gso` (up to 64 KB), `single` (one segment) |
//! | `rho`, `rtt_ms`, `loss` | the load, the round trip beside the queue, the share of packets lost on the way to the client |
//! | `mean_ms` | mean response time that the testbed measured |
//! | `source` | where that stands |
//!
//! All have 10 Mbit/s, a FIFO of 100 packets (bands: 100 each), CUBIC, a new connection for each request, and the first
//! 60 s of the shipped trace. The model is `weirlab sim --model packet --trace traces/synthetic.csv.gz --seconds 60
//! --rho R --rtt T --loss L` with `--shaper` `htb`, `htb-wire` or `wire` according to the line, `--tcp router` if it is
//! one hop on, `--gso-segments 1` for single packets, and `--shaping off --policy fair`, `--shaping paced --policy
//! srpt`, `--shaping paced --policy fair`, or `--shaping bands --policy srpt-bands:13`.

use sim::Hooks;
use sim::packet::{self, Config, Discipline, PathConfig, Server, Shape, Shaping, Tcp};
use units::Nanos;
use workload::{Job, LoadProfile, ReadOptions, Scaling};

const ROWS: &str = include_str!("testbed.csv");
const TRACE: &[u8] = include_bytes!("../../../traces/synthetic.csv.gz");
const SECONDS: f64 = 60.0;
const WITHIN: f64 = 0.15;

struct Row<'a> {
    name: &'a str,
    config: Config,
    rho: f64,
    mean_ms: Option<f64>,
}

fn row(line: &str) -> Row<'_> {
    let fields: Vec<&str> = line.split(',').collect();
    let [server, at, packets, rho, rtt_ms, loss, mean_ms, _source] = fields[..] else {
        panic!("eight columns: {line}")
    };
    let (server, acks_ride) =
        server.strip_suffix("-own-acks").map_or((server, server != "fair"), |server| (server, false));
    let number = |text: &str| text.parse::<f64>().unwrap_or_else(|error| panic!("{line}: `{text}`: {error}"));
    let (shaping, bottleneck, policy) = match server {
        "fair" => (Shaping::Off, Discipline::Fifo(100), "fair"),
        "paced" => (Shaping::Paced, Discipline::Fifo(100), "srpt"),
        "paced-fair" => (Shaping::Paced, Discipline::Fifo(100), "fair"),
        "bands" => (Shaping::Bands, Discipline::Bands(100), "srpt-bands:13"),
        _ => panic!("{line}: no server `{server}`"),
    };
    let (shape, is_router) = match at {
        "htb" => (Shape::Bucket(1600), false),
        "htb-wire" => (Shape::BucketWire(1600), false),
        "router" => (Shape::Wire, true),
        "router-htb" => (Shape::Bucket(1600), true),
        _ => panic!("{line}: no line `{at}`"),
    };
    let tcp = if is_router { Tcp::behind_router() } else { Tcp::default() };
    let gso_segments = match packets {
        "gso" => tcp.gso_segments,
        "single" => 1,
        _ => panic!("{line}: no packets `{packets}`"),
    };
    let half = Nanos((number(rtt_ms) * 5e5) as u64);
    let path = PathConfig { forward: half, back: half, loss: number(loss), ..PathConfig::default() };
    let tcp = Tcp { gso_segments, ..tcp };
    let paths = vec![path];
    let (sees_queue, policy) = (!is_router, policy.parse().unwrap());
    let config = Config { shaping, bottleneck, policy, shape, sees_queue, tcp, paths, ..Config::default() };
    let server = Server { acks_ride, ..Server::default() };
    let config = Config { server, ..config };
    let mean_ms = (!mean_ms.is_empty()).then(|| number(mean_ms));
    Row { name: line, config, rho: number(rho), mean_ms }
}

fn jobs(rho: f64) -> Vec<Job> {
    let log = workload::read(TRACE, &ReadOptions::default()).unwrap();
    let trace = log.answered().trace(1);
    let link = Config::default().link;
    let load = LoadProfile::constant(rho).unwrap();
    let scaling = Scaling { load, link, seconds: Some(SECONDS), per_connection: 1, repeat: None };
    workload::schedule(&trace, &scaling).unwrap().jobs
}

#[test]
fn means_are_within_15_percent_of_the_testbed_s() {
    let mut compared = 0;
    let mut off = Vec::new();
    for row in ROWS.lines().filter(|line| !line.starts_with('#')).skip(1).map(row) {
        let outcome = packet::run(&row.config, jobs(row.rho).into_iter(), Hooks::none()).unwrap();
        let mean_ms = outcome.summary.response_time_ms.mean;
        println!("{}: model {mean_ms:.2} ms", row.name);
        let Some(measured_ms) = row.mean_ms else { continue };
        compared += 1;
        if (mean_ms / measured_ms - 1.0).abs() > WITHIN {
            off.push(format!("{}: model {mean_ms:.2} ms", row.name));
        }
    }
    assert!(compared >= 25, "{compared} rows have a mean to compare with");
    assert!(off.is_empty(), "more than 15 % off:\n{}", off.join("\n"));
}
