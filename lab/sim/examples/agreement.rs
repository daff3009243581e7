//! Does the simulator agree with the formulas? Every policy with a closed form, at three loads, under four distributions:
//! the mean response time, the mean slowdown, and the mean response time of five classes of size, each with the 99 %
//! confidence interval of independent replications, beside what `theory` says, which shares no code with either the
//! simulator or the scheduler.
//!
//! One interval in a hundred misses the truth by construction; the last line says how many did. An interval that
//! misses by more than its own half width again (`off` above 2) is what a mistake looks like.
//!
//! ```sh
//! cargo run --release -p sim --example agreement -- [THREADS [PERCENT]] > results/agreement.csv
//! ```
//!
//! PERCENT of the jobs are simulated: 100 takes about half an hour of CPU time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use sim::queue::{Arrivals, Config, Horizon, Outcome, run};
use sim::{Hooks, SizeBin};
use stats::interval_99;
use theory::mg1::{Mg1, Policy, Solution};
use workload::{Distribution, LoadProfile};

const POLICIES: [&str; 6] = ["fcfs", "ps", "srpt", "psjf", "las", "srpt-bands:5"];

/// Sizes up to 10 MB, so that the largest come often enough within a replication. The alternative, a larger bound, makes
/// means that no affordable run can confirm.
const DISTRIBUTIONS: [&str; 4] = [
    "exponential:mean=5000",
    "lognormal:mu=7.5,sigma=1.5",
    "bounded-pareto:alpha=1.5,min=500,max=1e7",
    "bounded-pareto:alpha=1.1,min=100,max=1e7",
];

/// Load, jobs counted and jobs not counted before them, per replication. The queue forgets how it began within some
/// E[X²] / (E[X]² (1 − rho)²) jobs: 270,000 for the heaviest tail at 0.95.
const LOADS: [(f64, u64, u64); 3] = [(0.5, 500_000, 100_000), (0.8, 1_000_000, 300_000), (0.95, 4_000_000, 2_000_000)];

const REPLICATIONS: u64 = 30;

/// Classes of size are the bins [x, 1.2 x) at these quantiles.
const QUANTILES: [f64; 5] = [0.1, 0.5, 0.9, 0.99, 0.999];

const LINK: &str = "10mbit";

/// One combination to check.
struct Cell {
    policy: &'static str,
    dist: &'static str,
    load: (f64, u64, u64),
}

fn main() {
    let mut args = std::env::args().skip(1).map(|word| word.parse::<u64>().expect("whole numbers: THREADS PERCENT"));
    let (threads, percent) = (args.next().unwrap_or(1), args.next().unwrap_or(100));
    let cells: Vec<Cell> = LOADS
        .into_iter()
        .flat_map(|load| DISTRIBUTIONS.map(|dist| POLICIES.map(|policy| Cell { policy, dist, load })))
        .flatten()
        .collect();
    println!("policy,dist,rho,what,theory,mean,ci99_lo,ci99_hi,off");
    let (next, counts) = (AtomicUsize::new(0), Mutex::new((0, 0)));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(cell) = cells.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (checked, missed) = check(cell, percent);
                    let mut counts = counts.lock().expect("no thread panics while it counts");
                    *counts = (counts.0 + checked, counts.1 + missed);
                }
            });
        }
    });
    let (checked, missed) = counts.into_inner().expect("all threads have ended");
    eprintln!("{missed} of {checked} intervals miss the closed form; {:.1} are expected to", checked as f64 / 100.0);
}

/// Prints a line per figure; how many there were, and how many intervals do not contain what theory says.
fn check(cell: &Cell, percent: u64) -> (u32, u32) {
    let sizes: Distribution = cell.dist.parse().expect("a distribution");
    let queue = Mg1::new(sizes.clone(), cell.load.0, LINK.parse().expect("a rate")).expect("a load below 1");
    let cuts_of = |bands| sched::policy::best_cuts(|u| sizes.quantile(u), bands);
    let solution = queue.solve(&Policy::parse(cell.policy, cuts_of).expect("a policy"));
    let outcomes: Vec<Outcome> = (1..=REPLICATIONS).map(|seed| replicate(cell, &sizes, percent, seed)).collect();
    let of = |figure: &dyn Fn(&Outcome) -> f64| outcomes.iter().map(figure).collect::<Vec<f64>>();
    let mut figures = vec![
        ("response_ms".into(), solution.response_ms(), of(&|outcome| outcome.summary.response_time_ms.mean)),
        ("slowdown".into(), solution.slowdown_mean(), of(&|outcome| outcome.summary.slowdown_mean)),
    ];
    let bins = stats::GrowthBins::new();
    for quantile in QUANTILES {
        let bin = bins.bin_of(sizes.quantile(quantile) as u64);
        let (from, to) = (bins.start(bin).unwrap_or(0), bins.start(bin + 1).unwrap_or(u64::MAX));
        let found = of(&|outcome| {
            let here = |found: &&SizeBin| found.from_bytes == from;
            outcome.summary.by_size.iter().find(here).map_or(f64::NAN, |found| found.group.response_time_ms_mean)
        });
        let theory = response_between(&solution, &sizes, from, to);
        figures.push((format!("response_ms at {from} to {} bytes", to - 1), theory, found));
    }
    let checked = figures.len() as u32;
    let missed = figures.into_iter().filter(|(what, theory, found)| !is_inside(cell, what, *theory, found)).count();
    (checked, missed as u32)
}

fn is_inside(cell: &Cell, what: &str, theory: f64, found: &[f64]) -> bool {
    let interval = interval_99(found).expect("more than one replication");
    let off = (interval.mean - theory).abs() / interval.half_width;
    println!(
        "{},\"{}\",{},{what},{theory:.6},{:.6},{:.6},{:.6},{off:.2}",
        cell.policy,
        cell.dist,
        cell.load.0,
        interval.mean,
        interval.mean - interval.half_width,
        interval.mean + interval.half_width,
    );
    off <= 1.0
}

fn replicate(cell: &Cell, sizes: &Distribution, percent: u64, seed: u64) -> Outcome {
    let (rho, jobs, warm_up) = cell.load;
    let load = LoadProfile::constant(rho).expect("a load");
    let config = Config {
        warm_up_jobs: warm_up * percent / 100,
        seed,
        ..Config::new(
            cell.policy,
            LINK.parse().expect("a rate"),
            Arrivals::Poisson { sizes: sizes.clone(), load },
            Horizon::Jobs(jobs * percent / 100),
        )
    };
    run(&config, Hooks::none()).expect("the config is right")
}

/// The mean over the sizes from one to before the other: over whole bytes as they are drawn, since a cut between bands
/// may lie among them, or over this many parts where there are more.
fn response_between(solution: &Solution, sizes: &Distribution, from: u64, to: u64) -> f64 {
    const PARTS_MAX: u64 = 2048;
    let bytes = (to - from).div_ceil(PARTS_MAX);
    let (mut sum, mut weights) = (0.0, 0.0);
    for first in (from..to).step_by(bytes as usize) {
        let after = (first + bytes).min(to);
        let weight = sizes.cdf(after as f64 - 0.5) - sizes.cdf(first as f64 - 0.5);
        if weight > 0.0 {
            sum += weight * solution.response_ms_at((first + after - 1) as f64 / 2.0);
            weights += weight;
        }
    }
    sum / weights
}
