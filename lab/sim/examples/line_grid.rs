//! What does it cost not to know the line's rate? Lines, distances, queues and loads crossed; every cell told its rate and told
//! otherwise, on the same jobs, from the first request on, over several seeds.
//!
//! ```sh
//! cargo run --release -p sim --example line_grid -- [KEY=VALUE,...]... [seeds=N] [told=WORD,...]
//! ```
//!
//! Keys: `link` (Mbit/s), `rtt` (ms, or mixed), `queue` (packets, fq_codel, policer), `rho`. `told` are words of `weir serve --uplink`, or
//! off; `loss` and `jitter` (ms) are those of every path, `steps` are the line's later rates (`30:4,60:10`, seconds and Mbit/s). Lines that fall to a tenth and
//! to a twentieth after 20 s are added unless there are steps or `falls=0`. Prints a row a cell: the mean response time told right, the ratio of each word to it (the mean over seeds), and the part of
//! the line that was used; then the quantiles of the ratios and the ten worst cells.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use sched::line::Bounds;
use sim::Hooks;
use sim::packet::{self, Config, Discipline, Outcome, PathConfig, Server, Shape, Shaping, Tcp};
use units::{Nanos, Rate};
use workload::{Filter, Job, LoadProfile, ReadOptions, Scaling};

const TRACE: &[u8] = include_bytes!("../../../traces/synthetic.csv.gz");
/// Lines that fall: their rate, the one after 20 s, both Mbit/s, and the load on the first, which is 1.2 on the second.
const FALLS: [(u64, f64, f64); 2] = [(10, 1.0, 0.12), (100, 5.0, 0.06)];
/// Packets that the queue in front of them holds.
const FALLS_QUEUES: [&str; 3] = ["20", "100", "1000"];
/// Addresses of clients, each a prefix of its own.
const CLIENTS: usize = 24;

#[derive(Clone, Debug)]
struct Cell {
    link: u64,
    rtt: String,
    queue: String,
    rho: f64,
    /// Of each packet on its way to a client.
    loss: f64,
    /// By how much its delay varies, up and down, in ms.
    jitter: f64,
    /// The line's other rates: at which second, Mbit/s.
    steps: Vec<(f64, f64)>,
}

fn main() {
    let keys = keys();
    let seeds: u64 = keys["seeds"][0].parse().expect("seeds=N");
    let seconds: f64 = keys["seconds"][0].parse().expect("seconds=N");
    let cells = cells(&keys);
    let told = &keys["told"];
    if keys["trace"][0] != "0" {
        return trace(&cells[0], &told[0], (seeds - 1, seconds), keys["trace"][0].parse().expect("ms"));
    }
    let (next, rows) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(cell) = cells.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let row = row(cell, told, seeds, seconds);
                    rows.lock().expect("no panic").push(row);
                }
            });
        }
    });
    let mut rows = rows.into_inner().expect("no panic");
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    println!("{:<32} {:>8} {}", "cell", "right ms", told.iter().map(|word| format!("{word:>16}")).collect::<String>());
    for (name, right, ratios) in &rows {
        let shown: String = ratios.iter().map(|(ratio, used)| format!("  {ratio:>7.3} ({used:.2})")).collect();
        println!("{name:<32} {right:>8.1} {shown}");
    }
    sum_up(told, &rows);
}

type Keys = BTreeMap<String, Vec<String>>;
type Row = (String, f64, Vec<(f64, f64)>);

fn keys() -> Keys {
    let mut keys: Keys = [
        ("link", "1,3,10,30,100"),
        ("rtt", "5,30,100,mixed"),
        ("queue", "20,100,1000,fq_codel,policer"),
        ("rho", "0.5,0.8,1.2"),
        ("seeds", "1"),
        ("told", "auto"),
        ("loss", "0"),
        ("jitter", "0"),
        ("steps", ""),
        ("falls", "1"),
        ("seconds", "60"),
        ("trace", "0"),
    ]
    .map(|(key, values)| (key.to_owned(), values.split(',').map(str::to_owned).collect()))
    .into();
    for word in std::env::args().skip(1) {
        let (key, values) = word.split_once('=').expect("KEY=VALUE");
        keys.insert(key.to_owned(), values.split(',').map(str::to_owned).collect());
    }
    keys
}

fn cells(keys: &Keys) -> Vec<Cell> {
    let step =
        |text: &String| text.split_once(':').map(|(at, rate)| (at.parse().expect("s"), rate.parse().expect("Mbit/s")));
    let steps: Vec<(f64, f64)> = keys["steps"].iter().filter_map(step).collect();
    let mut cells = Vec::new();
    for link in &keys["link"] {
        for rtt in &keys["rtt"] {
            for queue in &keys["queue"] {
                for rho in &keys["rho"] {
                    let (link, rho) = (link.parse().expect("Mbit/s"), rho.parse().expect("rho"));
                    let loss = keys["loss"][0].parse().expect("a share");
                    let jitter = keys["jitter"][0].parse().expect("ms");
                    let (rtt, queue, steps) = (rtt.clone(), queue.clone(), steps.clone());
                    cells.push(Cell { link, rtt, queue, rho, loss, jitter, steps });
                }
            }
        }
    }
    if steps.is_empty() && keys["falls"][0] != "0" {
        cells.extend(falls());
    }
    cells
}

fn falls() -> Vec<Cell> {
    let of = |(link, after, rho)| {
        let (rtt, steps) = ("30".to_owned(), vec![(20.0, after)]);
        FALLS_QUEUES.map(|queue| Cell {
            link,
            rtt: rtt.clone(),
            queue: queue.into(),
            rho,
            loss: 0.0,
            jitter: 0.0,
            steps: steps.clone(),
        })
    };
    FALLS.into_iter().flat_map(of).collect()
}

fn sum_up(told: &[String], rows: &[Row]) {
    for (at, word) in told.iter().enumerate() {
        let mut sorted: Vec<(f64, &str)> = rows.iter().map(|(name, _, ratios)| (ratios[at].0, name.as_str())).collect();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let quantile = |part: f64| sorted[((sorted.len() - 1) as f64 * part) as usize].0;
        println!("{word}: median {:.3}, nine of ten {:.3}, all {:.3}", quantile(0.5), quantile(0.9), quantile(1.0));
        sorted.iter().rev().take(10).for_each(|(ratio, name)| println!("  {ratio:.3} {name}"));
    }
}

fn row(cell: &Cell, told: &[String], seeds: u64, seconds: f64) -> Row {
    let mut right_sum = 0.0;
    let mut sums = vec![(0.0, 0.0); told.len()];
    for seed in 0..seeds {
        let jobs = jobs(cell, seed, seconds);
        let right = run(cell, "right", &jobs).summary.response_time_ms.mean;
        right_sum += right;
        for (sum, word) in sums.iter_mut().zip(told) {
            let outcome = run(cell, word, &jobs);
            sum.0 += outcome.summary.response_time_ms.mean / right;
            sum.1 += outcome.utilisation;
        }
    }
    let to: String = cell.steps.iter().map(|(_, mbit)| format!(" to {mbit}")).collect();
    let name = format!("{:>3} mbit {:>5} ms {:>8} rho {:.1}{to}", cell.link, cell.rtt, cell.queue, cell.rho);
    let count = seeds as f64;
    (name, right_sum / count, sums.into_iter().map(|(ratio, used)| (ratio / count, used / count)).collect())
}

fn trace(cell: &Cell, told: &str, (seed, seconds): (u64, f64), every_ms: u64) {
    let mut config = config(cell, told);
    config.sample_every = Some(Nanos::from_millis(every_ms));
    let outcome = packet::run(&config, jobs(cell, seed, seconds).into_iter(), Hooks::none()).expect("a configuration");
    let mut before = 0;
    for sample in &outcome.samples {
        let used = (sample.link_bytes - before) as f64 * 8.0 / every_ms as f64 / 1e3;
        before = sample.link_bytes;
        let queue_ms = sample.queue_bytes as f64 * 8.0 / cell.link as f64 / 1e3;
        let pace = sample.pace_bps.map_or("-".into(), |pace| format!("{:.3}", pace as f64 / 1e6));
        println!(
            "{:>8.2} pace {pace:>8} used {used:>7.3} queue {queue_ms:>7.1} ms drops {:>5} mean {:>8.1} ms",
            sample.at_s, sample.queue_drops, sample.response_time_ms_mean
        );
    }
}

fn jobs(cell: &Cell, seed: u64, seconds: f64) -> Vec<Job> {
    let log = workload::read(TRACE, &ReadOptions::default()).expect("the shipped trace");
    let trace = log.cut(&Filter::for_schedules()).trace(1);
    let load = LoadProfile::constant(cell.rho).expect("a load");
    let scaling = Scaling { load, link: link(cell), seconds: Some(seconds), per_connection: 1, repeat: Some(1) };
    let mut jobs = workload::schedule(&trace, &scaling).expect("a schedule").jobs;
    if seed > 0 {
        let mut sizes: Vec<u64> = jobs.iter().map(|job| job.size_bytes).collect();
        sizes.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
        jobs.iter_mut().zip(sizes).for_each(|(job, size)| job.size_bytes = size);
    }
    jobs
}

fn link(cell: &Cell) -> Rate {
    rate(cell.link as f64)
}

fn rate(mbit: f64) -> Rate {
    Rate::from_bits_per_s((mbit * 1e6) as u64).expect("a rate")
}

fn paths(cell: &Cell) -> Vec<PathConfig> {
    let half = |ms: f64| Nanos((ms * 5e5) as u64);
    let path = |ms: f64| PathConfig {
        forward: half(ms),
        back: half(ms),
        jitter: Nanos((cell.jitter * 1e6) as u64),
        loss: cell.loss,
        ..PathConfig::default()
    };
    match cell.rtt.as_str() {
        "mixed" => [5.0, 15.0, 30.0, 60.0, 100.0, 150.0].into_iter().cycle().take(CLIENTS).map(path).collect(),
        ms => vec![path(ms.parse().expect("ms")); CLIENTS],
    }
}

fn config(cell: &Cell, told: &str) -> Config {
    let (bottleneck, shape) = match cell.queue.as_str() {
        "fq_codel" => (Discipline::FqCodel(10_000), Shape::Wire),
        "policer" => (Discipline::Fifo(1000), Shape::Policer(15_000.max(cell.link * 1_000_000 / 8 / 100))),
        packets => (Discipline::Fifo(packets.parse().expect("packets")), Shape::Wire),
    };
    let (shaping, policy) = if told == "off" { (Shaping::Off, "fair") } else { (Shaping::Paced, "srpt") };
    let told = match told {
        "told" | "off" => None,
        // It cannot be left.
        "right" => {
            Bounds::told(link(cell)).most.map(|rate| Bounds { least: Some(rate), first: Some(rate), most: Some(rate) })
        }
        word => Some(word.parse::<Bounds>().expect("bounds")),
    };
    Config {
        link: link(cell),
        shape,
        bottleneck,
        shaping,
        policy: policy.parse().expect("a policy"),
        sees_queue: false,
        rate_changes: cell.steps.iter().map(|(at, mbit)| (Nanos((at * 1e9) as u64), rate(*mbit))).collect(),
        told,
        tcp: Tcp::behind_router(),
        paths: paths(cell),
        server: Server { acks_ride: shaping == Shaping::Paced, ..Server::default() },
        ..Config::default()
    }
}

fn run(cell: &Cell, told: &str, jobs: &[Job]) -> Outcome {
    packet::run(&config(cell, told), jobs.iter().copied(), Hooks::none()).expect("a configuration")
}
