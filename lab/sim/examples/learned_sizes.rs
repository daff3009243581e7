//! What is lost where sizes are not known, and what learning them per route wins back: mean response times over that of SRPT, which
//! knows every size, on the same jobs.
//!
//! ```sh
//! cargo run --release -p sim --example learned_sizes -- [KEY=VALUE,...]...
//! ```
//!
//! `rho`: loads. `buffer`: bytes of a response that are read ahead; sizes up to that are known. Jobs: `routes` of log-normal
//! medians (`median` in bytes, `between` the sigma of their logarithms) and log-normal sizes (`within`), asked for alike or by
//! `zipf`; or those of a `trace` of lines PATH STATUS BYTES, in its order, a `head` of bytes added to each. With `noise` each job has an estimate with a
//! log-normal error of that sigma, and its power of two is the route. `skip` jobs at the start are not counted, `jobs` are; over `seeds` of
//! sizes and instants, of which a trace gives the sizes. Prints a row a load: each order's ratio and half of its 95 % interval over seeds.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use sim::unknown::{Estimate, Index, Job, Mix, Noise, Order, Popularity, at_load, jobs_of_trace, run};

const ORDERS: [(&str, Order); 8] = [
    ("gittins", Order::Learned(Index::Gittins)),
    ("m-serpt", Order::Learned(Index::MSerpt)),
    ("psjf-mean", Order::Learned(Index::Psjf)),
    ("srpt-mean", Order::Learned(Index::Srpt)),
    ("las", Order::Las),
    ("fcfs", Order::Fcfs),
    ("psjf-est", Order::Estimated(Estimate::Psjf)),
    ("srpt-est", Order::Estimated(Estimate::Srpt)),
];

fn main() {
    let keys = keys();
    let number = |key: &str| keys[key][0].parse::<f64>().unwrap_or_else(|_| panic!("{key}={}", keys[key][0]));
    let seeds = number("seeds") as u64;
    let orders = if number("noise") > 0.0 { &ORDERS[..] } else { &ORDERS[..6] };
    println!("{:<32} {}", "", orders.iter().map(|(name, _)| format!("{name:>16}")).collect::<String>());
    for buffer in &keys["buffer"] {
        for rho in &keys["rho"] {
            let point = (rho.parse().expect("rho"), buffer.parse().expect("buffer"));
            let (next, rows) = (AtomicU64::new(1), Mutex::new(Vec::new()));
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        while let Some(seed) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|seed| *seed <= seeds)
                        {
                            let ratios = ratios(&keys, &number, point, orders, seed);
                            rows.lock().expect("no panic").push(ratios);
                        }
                    });
                }
            });
            let rows = rows.into_inner().expect("no panic");
            let columns = (0..orders.len()).map(|at| rows.iter().map(|row| row[at]).collect::<Vec<f64>>());
            let shown = columns.map(|ratios| match stats::interval_95(&ratios) {
                Some(interval) => format!("  {:>7.3} ±{:<5.3}", interval.mean, interval.half_width),
                None => format!("  {:>14.3}", ratios[0]),
            });
            println!("{:<32} {}", format!("rho {rho}, buffer {buffer}"), shown.collect::<String>());
        }
    }
}

type Keys = BTreeMap<String, Vec<String>>;

fn keys() -> Keys {
    let defaults = [
        ("rho", "0.8,0.95"),
        ("buffer", "0,65536"),
        ("routes", "100"),
        ("popularity", "zipf"),
        ("median", "8000"),
        ("between", "1.5"),
        ("within", "1"),
        ("noise", "0"),
        ("trace", ""),
        ("head", "250"),
        ("skip", "1000"),
        ("jobs", "50000"),
        ("seeds", "10"),
    ];
    let split = |key: &str, value: &str| (key.to_string(), value.split(',').map(str::to_string).collect());
    let mut keys: Keys = defaults.iter().map(|(key, value)| split(key, value)).collect();
    for argument in std::env::args().skip(1) {
        let (key, value) = argument.split_once('=').unwrap_or_else(|| panic!("`{argument}`: write KEY=VALUE"));
        assert!(
            keys.contains_key(key),
            "`{key}`: choose one of {}",
            keys.keys().cloned().collect::<Vec<_>>().join(", ")
        );
        let (key, values) = split(key, value);
        keys.insert(key, values);
    }
    keys
}

fn ratios(
    keys: &Keys,
    number: &(dyn Fn(&str) -> f64 + Sync),
    (rho, buffer): (f64, u64),
    orders: &[(&str, Order)],
    seed: u64,
) -> Vec<f64> {
    let (skip, count) = (number("skip") as usize, number("jobs") as usize);
    let mut jobs = jobs(keys, number, skip + count, seed);
    if number("noise") > 0.0 {
        Noise { sigma: number("noise") }.on(&mut jobs, seed);
    }
    at_load(&mut jobs, rho, seed);
    let mean = |order| run(&jobs, order, buffer).mean_ns(skip..jobs.len());
    let best = mean(Order::Srpt);
    orders.iter().map(|(_, order)| mean(*order) / best).collect()
}

fn jobs(keys: &Keys, number: &(dyn Fn(&str) -> f64 + Sync), count: usize, seed: u64) -> Vec<Job> {
    let trace = &keys["trace"][0];
    if !trace.is_empty() {
        let text = std::fs::read_to_string(trace).unwrap_or_else(|error| panic!("{trace}: {error}"));
        let mut jobs = jobs_of_trace(&text, number("head") as u64).unwrap_or_else(|error| panic!("{trace}: {error}"));
        jobs.truncate(count);
        return jobs;
    }
    let popularity = match keys["popularity"][0].as_str() {
        "uniform" => Popularity::Uniform,
        "zipf" => Popularity::Zipf,
        other => panic!("popularity={other}: write uniform or zipf"),
    };
    let mix = Mix {
        routes: number("routes") as usize,
        popularity,
        median_bytes: number("median"),
        sigma_between: number("between"),
        sigma_within: number("within"),
    };
    mix.jobs(count, seed)
}
