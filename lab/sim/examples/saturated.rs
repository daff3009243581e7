//! Requests that wait for an application with too few workers: the mean response time by the order in which they are begun, over that of
//! first come, first served, on the same requests.
//!
//! ```sh
//! cargo run --release -p sim --example saturated -- [KEY=VALUE]...
//! ```
//!
//! For `seconds` requests come by a Poisson process at `rho` times what `workers` can do, then the application works off what waits. `routes` have
//! log-normal medians (`between` is the sigma of their logarithms, around `median` seconds) and are asked for alike; times within a
//! route are log-normal with sigma `within`. The queue is the server's own, its bound included, and what is known of a route is what requests
//! that have ended took. Prints for each order, over `seeds`: the ratio of the means of those completed, its 95 % interval, the mean, and the
//! longest wait in seconds; of a hundred requests, how many were refused.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sched::routes::{Route, ServiceRoute, ServiceTimes};
use sched::upstream_queue::{Begun, Bounds, Places, Turn};
use units::Nanos;

#[derive(Clone, Copy, PartialEq)]
enum Order {
    Fcfs,
    Learned,
    /// By what each takes, which nobody knows before.
    Known,
}

const ORDERS: [(&str, Order); 3] = [("fcfs", Order::Fcfs), ("learned", Order::Learned), ("known", Order::Known)];

#[derive(Clone, Copy)]
struct Request {
    at: Nanos,
    takes: Nanos,
    route: ServiceRoute,
}

struct Outcome {
    mean_s: f64,
    longest_wait_s: f64,
    refused: f64,
}

fn main() {
    let mut keys: BTreeMap<String, f64> = [
        ("rho", 1.2),
        ("seconds", 60.0),
        ("workers", 8.0),
        ("routes", 100.0),
        ("median", 0.02),
        ("between", 1.0),
        ("within", 0.5),
        ("seeds", 10.0),
    ]
    .map(|(key, value)| (key.to_string(), value))
    .into();
    for word in std::env::args().skip(1) {
        let (key, value) = word.split_once('=').unwrap_or_else(|| panic!("{word}: expected KEY=VALUE"));
        let known = keys.get_mut(key).unwrap_or_else(|| panic!("{key}: expected another key"));
        *known = value.parse().unwrap_or_else(|_| panic!("{word}: expected a number"));
    }
    let by_seed: Vec<Vec<Outcome>> = (1..=keys["seeds"] as u64)
        .map(|seed| {
            let requests = requests(&keys, seed);
            ORDERS.iter().map(|(_, order)| run(&requests, *order, keys["workers"] as usize)).collect()
        })
        .collect();
    println!("{:<10}{:>20}{:>10}{:>16}{:>10}", "", "over fcfs", "mean, s", "longest wait, s", "refused");
    for (at, (name, _)) in ORDERS.iter().enumerate() {
        let of = |value: fn(&Outcome) -> f64| by_seed.iter().map(|row| value(&row[at])).collect::<Vec<f64>>();
        let ratios: Vec<f64> = by_seed.iter().map(|row| row[at].mean_s / row[0].mean_s).collect();
        let interval = stats::interval_95(&ratios).expect("several seeds");
        let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
        let longest = of(|outcome| outcome.longest_wait_s).into_iter().fold(0.0, f64::max);
        println!(
            "{name:<10}{:>12.3} ±{:<6.3}{:>10.2}{longest:>16.1}{:>9.1}%",
            interval.mean,
            interval.half_width,
            mean(of(|outcome| outcome.mean_s)),
            100.0 * mean(of(|outcome| outcome.refused))
        );
    }
}

fn requests(keys: &BTreeMap<String, f64>, seed: u64) -> Vec<Request> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let medians: Vec<f64> =
        (0..keys["routes"] as usize).map(|_| keys["median"] * (keys["between"] * normal(&mut random)).exp()).collect();
    let within = keys["within"];
    let mean_s = medians.iter().sum::<f64>() / medians.len() as f64 * (within * within / 2.0).exp();
    let rate = keys["rho"] * keys["workers"] / mean_s;
    let (mut at, mut requests) = (0.0, Vec::new());
    loop {
        at += -(1.0 - random.random::<f64>()).ln() / rate;
        if at > keys["seconds"] {
            return requests;
        }
        let route = random.random_range(0..medians.len());
        let takes = medians[route] * (within * normal(&mut random)).exp();
        let path = format!("/{}", char::from_u32(0x4e00 + route as u32).expect("a letter"));
        let route = ServiceRoute::of(&Route { path: path.as_bytes(), ..Route::default() });
        requests.push(Request { at: nanos(at), takes: nanos(takes), route });
    }
}

/// Box and Muller.
fn normal(random: &mut ChaCha8Rng) -> f64 {
    let (radius, angle) = (1.0 - random.random::<f64>(), random.random::<f64>());
    (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
}

fn nanos(seconds: f64) -> Nanos {
    Nanos((seconds * 1e9) as u64)
}

fn run(requests: &[Request], order: Order, workers: usize) -> Outcome {
    let (mut places, mut services) = (Places::<usize>::default(), ServiceTimes::default());
    // All are of one client, which may have everything.
    let bounds = Bounds::halves(workers as u32).of_client(workers as u32);
    let mut ends: BinaryHeap<Reverse<(Nanos, usize)>> = BinaryHeap::new();
    let (mut took, mut longest, mut refused, mut next) = (Vec::new(), Nanos::ZERO, 0, 0);
    while next < requests.len() || !ends.is_empty() {
        let comes_at = requests.get(next).map_or(Nanos::MAX, |request| request.at);
        if let Some(&Reverse((now, ended))) = ends.peek()
            && now <= comes_at
        {
            ends.pop();
            took.push((now - requests[ended].at).0 as f64 / 1e9);
            services.note(requests[ended].route, requests[ended].takes);
            places.end(0);
            if let Some(begun) = places.begin_next() {
                longest = longest.max(now - requests[begun].at);
                ends.push(Reverse((now + requests[begun].takes, begun)));
            }
            continue;
        }
        let request = &requests[next];
        let service = match order {
            Order::Fcfs => Nanos::ZERO,
            Order::Learned => services.expected(request.route),
            Order::Known => request.takes,
        };
        match places.begin(Turn { service, since: comes_at, ..Turn::default() }, bounds, next) {
            Begun::Taken => ends.push(Reverse((comes_at + request.takes, next))),
            Begun::Waits => {}
            Begun::Full => refused += 1,
        }
        next += 1;
    }
    Outcome {
        mean_s: took.iter().sum::<f64>() / took.len() as f64,
        longest_wait_s: longest.0 as f64 / 1e9,
        refused: f64::from(refused) / requests.len() as f64,
    }
}
