//! Packets per second of the model of TCP over a bottleneck: whole runs, every segment and acknowledgement counted.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sim::Hooks;
use sim::packet::{Config, Discipline, PathConfig, Shaping, poisson, run};
use units::Nanos;
use workload::{Distribution, Job, LoadProfile};

fn packets_per_second(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("packets");
    let sizes: Distribution = "bounded-pareto:alpha=1.1,min=500,max=1e6".parse().expect("a distribution");
    let load = LoadProfile::constant(0.8).expect("a load");
    let far = PathConfig { forward: Nanos::from_millis(25), back: Nanos::from_millis(25), ..PathConfig::default() };
    for (name, config) in [
        ("off", Config::default()),
        ("off-50ms", Config { paths: vec![far], ..Config::default() }),
        ("off-50ms-1%", Config { paths: vec![PathConfig { loss: 0.01, ..far }], ..Config::default() }),
        ("fq_codel", Config { bottleneck: Discipline::FqCodel(10_240), ..Config::default() }),
        (
            "paced-srpt",
            Config { shaping: Shaping::Paced, policy: "srpt".parse().expect("a policy"), ..Config::default() },
        ),
    ] {
        let jobs: Vec<Job> = poisson(&sizes, load.clone(), config.link, 1, 1).take(20_000).collect();
        let simulate = || run(&config, jobs.iter().copied(), Hooks::none()).expect("the config is right");
        group.throughput(Throughput::Elements(simulate().packets)).sample_size(10);
        group.bench_function(name, |bencher| bencher.iter(simulate));
    }
}

criterion_group!(benches, packets_per_second);
criterion_main!(benches);
