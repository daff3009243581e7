//! Jobs per second of the model of one link, and what a job costs when many others are in the system.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use sim::Hooks;
use sim::queue::{Arrivals, Config, Horizon, Paths, run};
use units::Nanos;
use workload::{Job, LoadProfile};

/// Whole runs of 200,000 jobs: what `weirlab sim` does, without starting a program.
fn jobs_per_second(criterion: &mut Criterion) {
    const JOBS: u64 = 200_000;
    let mut group = criterion.benchmark_group("jobs");
    group.throughput(Throughput::Elements(JOBS)).sample_size(10);
    for dist in ["exponential:mean=5000", "bounded-pareto:alpha=1.1,min=100,max=1e7"] {
        for (policy, rho) in
            [("srpt", 0.8), ("srpt", 0.99), ("las", 0.8), ("las", 0.99), ("fcf", 0.8), ("ps", 0.8), ("fcfs", 0.8)]
        {
            let load = LoadProfile::constant(rho).expect("a load");
            let arrivals = Arrivals::Poisson { sizes: dist.parse().expect("a distribution"), load };
            let config = Config { horizon: Horizon::Jobs(JOBS), ..config(policy, arrivals) };
            let name = dist.split(':').next().unwrap_or(dist);
            group.bench_function(format!("{policy}/{rho}/{name}"), |bencher| {
                bencher.iter(|| run(&config, Hooks::none()).expect("the config is right"));
            });
        }
    }
}

/// n jobs come within a moment and are then served: the cost of a job should grow as log n, so that the curve of time
/// per element over n on a logarithmic axis is a line.
fn jobs_in_system(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("in-system");
    group.sample_size(10);
    for jobs in [100, 1_000, 10_000, 100_000, 1_000_000] {
        group.throughput(Throughput::Elements(jobs));
        for policy in ["srpt", "fcf", "las", "ps", "fcfs"] {
            let config = config(policy, Arrivals::Replay(burst(jobs)));
            group.bench_with_input(BenchmarkId::new(policy, jobs), &config, |bencher, config| {
                bencher.iter(|| run(config, Hooks::none()).expect("the config is right"));
            });
        }
    }
}

/// A job every nanosecond, sizes over three decades by a fixed linear congruence.
fn burst(jobs: u64) -> Vec<Job> {
    let mut state = 1u64;
    let mut size = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        100 + (state >> 33) % 100_000
    };
    (0..jobs).map(|at| Job { arrival: Nanos(at), size_bytes: size(), client: None }).collect()
}

fn config(policy: &str, arrivals: Arrivals) -> Config {
    let link = "10mbit".parse().expect("a rate");
    Config { paths: Paths::Internet, ..Config::new(policy, link, arrivals, Horizon::AllOfReplay) }
}

criterion_group!(benches, jobs_per_second, jobs_in_system);
criterion_main!(benches);
