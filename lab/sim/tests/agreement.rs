//! Compares the simulator with the closed forms of `theory`, which shares no code with it. Seeds are fixed, so an
//! interval that contains the true value now always will.

use sim::queue::{Arrivals, Config, Horizon, Outcome, SizeRank, run};
use sim::{Hooks, SizeBin};
use theory::mg1::{Knows, Mg1, Policy, Solution};
use workload::{Distribution, LoadProfile};

const POLICIES: [&str; 6] = ["fcfs", "ps", "srpt", "psjf", "las", "srpt-bands:5"];
const REPLICATIONS: u64 = 30;
/// The two-sided point of Student's t for 99 % and 29 degrees of freedom.
const STUDENT_T: f64 = 2.756;
const LINK: &str = "10mbit";

/// The mean over the replications, and half the width of its 99 % interval.
#[derive(Debug)]
struct Interval {
    mean: f64,
    half_width: f64,
}

impl Interval {
    fn of(values: &[f64]) -> Interval {
        let count = REPLICATIONS as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
        Interval { mean, half_width: STUDENT_T * (variance / count).sqrt() }
    }
}

/// Compares mean response time, mean slowdown, and the response time of jobs of median size.
fn check_agreement(dist: &str, rho: f64, jobs: u64) {
    let sizes: Distribution = dist.parse().unwrap();
    let bins = stats::GrowthBins::new();
    let bin = bins.bin_of(sizes.quantile(0.5) as u64);
    let (from, to) = (bins.start(bin).unwrap(), bins.start(bin + 1).unwrap());
    let queue = Mg1::new(sizes.clone(), rho, LINK.parse().unwrap()).unwrap();
    let median = |outcome: &Outcome| {
        let here = |found: &&SizeBin| found.from_bytes == from;
        outcome.summary.by_size.iter().find(here).unwrap().group.response_time_ms_mean
    };
    for policy in POLICIES {
        let cuts_of = |bands| sched::policy::best_cuts(|u| sizes.quantile(u), bands);
        let solution = queue.solve(&Policy::parse(policy, cuts_of).unwrap());
        let outcomes: Vec<Outcome> =
            (1..=REPLICATIONS).map(|seed| replicate(policy, &sizes, rho, jobs, seed)).collect();
        let check = |what: &str, theory: f64, figure: &dyn Fn(&Outcome) -> f64| {
            let found = Interval::of(&outcomes.iter().map(figure).collect::<Vec<_>>());
            let off = (found.mean - theory).abs() / found.half_width;
            assert!(off <= 1.0, "{policy}, {dist} at {rho}, {what}: {found:?} misses {theory}");
            assert!(
                found.half_width < 0.1 * theory,
                "{policy}, {dist} at {rho}, {what}: {found:?} is too wide to tell"
            );
        };
        check("response time", solution.response_ms(), &|outcome| outcome.summary.response_time_ms.mean);
        check("slowdown", solution.slowdown_mean(), &|outcome| outcome.summary.slowdown_mean);
        check("median size", response_between(&solution, &sizes, from, to), &median);
    }
}

fn replicate(policy: &str, sizes: &Distribution, rho: f64, jobs: u64, seed: u64) -> Outcome {
    let load = LoadProfile::constant(rho).unwrap();
    let arrivals = Arrivals::Poisson { sizes: sizes.clone(), load };
    let config = Config {
        warm_up_jobs: jobs / 10,
        seed,
        ..Config::new(policy, LINK.parse().unwrap(), arrivals, Horizon::Jobs(jobs))
    };
    run(&config, Hooks::none()).unwrap()
}

/// The mean over whole bytes, as sizes are drawn.
fn response_between(solution: &Solution, sizes: &Distribution, from: u64, to: u64) -> f64 {
    let (mut sum, mut shares) = (0.0, 0.0);
    for size in (from..to).map(|size| size as f64) {
        let share = sizes.cdf(size + 0.5) - sizes.cdf(size - 0.5);
        if share > 0.0 {
            sum += share * solution.response_ms_at(size);
            shares += share;
        }
    }
    sum / shares
}

#[test]
fn exponential_at_half_load() {
    check_agreement("exponential:mean=5000", 0.5, 20_000);
}

#[test]
fn exponential_at_high_load() {
    check_agreement("exponential:mean=5000", 0.8, 20_000);
}

/// The tail is bounded at a size that short runs meet.
#[test]
fn heavy_tail_at_half_load() {
    check_agreement("bounded-pareto:alpha=1.5,min=500,max=1e5", 0.5, 20_000);
}

/// Ranks of known sizes, of learned ones, and of sizes with errors; some fall as a job is served, some rise, and some
/// do both.
const RANKS: [&str; 12] = [
    "left",
    "size",
    "sent",
    "gittins",
    "mserpt",
    "noisy(size, 0.5)",
    "noisy(left, 1)",
    "min(left, 8KB)",
    "step(size, 4KB) + step(size, 16KB)",
    "step(left, 4KB) * sent",
    "size * left",
    "max(sent, size / 2)",
];

/// The simulator, which uses the server's scheduler, and the closed form share only the program of an expression. The
/// sizes have a hazard rate that rises and then falls, so that every rank gives a different order.
#[test]
fn ranks_agree_with_their_closed_forms() {
    let sizes: Distribution = "lognormal:mu=8,sigma=0.9".parse().unwrap();
    let queue = Mg1::new(sizes.clone(), 0.7, LINK.parse().unwrap()).unwrap();
    let mut found = Vec::new();
    for text in RANKS {
        let rank = SizeRank::new(text.parse().unwrap(), &|u| sizes.quantile(u)).unwrap();
        let (size, errors) = rank.knows();
        let of = |job: theory::mg1::Served| rank.value(job.size, job.sent, job.deviate);
        let theory = queue.solve_rank(Knows { size, errors }, &rank.cuts(), &of).response_ms();
        let mean = |seed| {
            let load = LoadProfile::constant(0.7).unwrap();
            let arrivals = Arrivals::Poisson { sizes: sizes.clone(), load };
            let policy = format!("rank:{text}");
            let config = Config::new(&policy, LINK.parse().unwrap(), arrivals, Horizon::Jobs(2000));
            // If turns are taken, a new job waits for the current chunk.
            let chunk_bytes = policy.parse::<sched::policy::PolicySpec>().unwrap().takes_turns().then_some(100);
            let config = Config { warm_up_jobs: 500, seed, chunk_bytes, ..config };
            run(&config, Hooks::none()).unwrap().summary.response_time_ms.mean
        };
        let interval = Interval::of(&(1..=REPLICATIONS).map(mean).collect::<Vec<_>>());
        let off = (interval.mean - theory).abs() / interval.half_width;
        assert!(off <= 1.0, "{text}: {interval:?} misses {theory}");
        assert!(interval.half_width < 0.1 * theory, "{text}: {interval:?} is too wide to tell");
        found.push(theory);
    }
    let [left, size, sent, gittins, mserpt, noisy, ..] = found[..] else { panic!("{found:?}") };
    assert!(left < size && size < noisy && noisy < gittins && gittins < mserpt && mserpt < sent, "{found:?}");
}
