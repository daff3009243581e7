//! `weirlab plan`: settings of classes that meet their objectives, found by simulation.
//!
//! A bounded grid of settings is simulated with several seeds, and those that meet are ordered by what the other classes pay. The first of them
//! is held against fresh seeds: of many settings tried, the best is partly luck.

mod candidate;
mod class;
mod judge;
mod output;

use std::path::PathBuf;

use cli::Failure;
use sched::policy::PolicySpec;
use sim::queue::ClassOf;
use units::Rate;

use candidate::{Candidate, KNOBS, Knob, grid};
use class::{ClassArg, ObjectiveArg, planned};
use judge::{Bench, Judged, Seeded};

/// The first of the seeds that no setting was chosen by.
const FRESH_FROM: u64 = 1_000_001;
/// Settings that are held against fresh seeds, until one holds.
const PICKS_MAX: usize = 5;
/// Links that are tried are up to so many times as fast.
const LINK_FACTOR_MAX: u64 = 16;
/// A packet in a second.
const LINK_BPS_MIN: u64 = 12_000;
/// The least link is found to this part of it.
const LINK_PART: u64 = 50;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  weirlab plan access.log --class paid:0.2 --class free:0.8 --objective 'paid: p99 of responses <= 64KiB under 200ms' --link 10mbit --rho 0.8
  weirlab plan synthetic --class a:0.5 --class b:0.5 --objective 'a: p95 of responses under 1s' --by slots --out plan")]
pub struct Args {
    /// Requests to plan for; `synthetic` is the trace that this program carries
    trace: PathBuf,
    /// A class and its share of the requests; twice at least
    #[arg(long = "class", value_name = "NAME:SHARE", required = true)]
    classes: Vec<ClassArg>,
    /// Objective of a class, in the words of class.objective; repeatable
    #[arg(long = "objective", value_name = "CLASS: OBJECTIVE", required = true)]
    objectives: Vec<ObjectiveArg>,
    /// Rate of the link
    #[arg(long, value_name = "RATE", default_value = "10mbit")]
    link: Rate,
    /// Offered load of the link, to which the trace is stretched
    #[arg(long, value_name = "X", default_value_t = 0.8)]
    rho: f64,
    /// Keys to set: weights, guaranteed, slots [default: each by itself]
    #[arg(long, value_enum, value_name = "KNOB", value_delimiter = ',')]
    by: Vec<Knob>,
    /// Order within each class, as class.policy has it
    #[arg(long, value_name = "SPEC", default_value = "srpt")]
    policy: PolicySpec,
    /// Deal whole clients of the trace to the classes, with the sizes they asked for [default: each request by itself]
    #[arg(long)]
    by_client: bool,
    /// Simulate the first so many requests of the trace
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    jobs: u64,
    /// Simulations of each setting, each with classes and sizes dealt anew
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(2..=100))]
    seeds: u64,
    /// Write plan.csv into this folder, made if missing
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
}

/// What was found.
struct Found {
    /// Those that meet first: nothing set, then the cheapest for the others before the dearer; then those that come nearest.
    judged: Vec<Judged>,
    /// Settings that met, and whether they did with fresh seeds: the last did, or none.
    held: Vec<(Judged, bool)>,
    /// Where none meets, with any seeds: the nearest setting on the least link that would do.
    faster: Option<(Rate, Judged)>,
}

pub fn main(args: Args) -> Result<(), Failure> {
    let bench = bench(&args)?;
    let knobs = if args.by.is_empty() { KNOBS.to_vec() } else { args.by.clone() };
    if let Some(folder) = &args.out {
        output::make(folder)?;
    }
    let mut candidates = vec![Candidate::plain(&bench.classes)];
    for knob in knobs {
        let (found, is_coarse) = grid(knob, &bench.classes);
        if is_coarse {
            eprintln!("weirlab: {} settings of {} are tried, with steps left out", found.len(), knob.name());
        }
        candidates.extend(found);
    }
    let found = find(&bench, &candidates, args.seeds)?;
    if let Some(folder) = &args.out {
        output::write(folder, &bench, &found.judged)?;
    }
    output::print(&bench, &found, args.seeds, args.json)?;
    let failed = |said: &str| Err(Failure::Failed(said.into()));
    match found.held.last() {
        Some((_, true)) => Ok(()),
        Some((_, false)) => failed("no setting that met all objectives held with other seeds"),
        None => failed("no setting meets all objectives on this link"),
    }
}

fn bench(args: &Args) -> Result<Bench, Failure> {
    let classes = planned(&args.classes, &args.objectives)?;
    if args.link.bits_per_s() < LINK_BPS_MIN {
        return Err(Failure::Usage(format!("--link {}: too slow for a link: write at least 12kbit", args.link)));
    }
    let mut trace = crate::trace::read_for_schedule(&args.trace, 1)?;
    if args.by_client && trace.arrivals.iter().any(|arrival| arrival.client.is_none()) {
        return Err(Failure::Usage("--by-client: requests of this trace have no client: leave it out".into()));
    }
    trace.arrivals.truncate(usize::try_from(args.jobs).unwrap_or(usize::MAX));
    let class_of = if args.by_client { ClassOf::Client } else { ClassOf::Job };
    let (link, rho, order) = (args.link, args.rho, args.policy.order().clone());
    Ok(Bench { classes, trace, link, rho, order, class_of })
}

fn find(bench: &Bench, candidates: &[Candidate], seeds: u64) -> Result<Found, Failure> {
    let seeded = bench.seeded(1..=seeds)?;
    let mut judged = bench.judge_all(candidates, &seeded, bench.link)?;
    judged.sort_by(|a, b| {
        let by_cost = a.others.mean.total_cmp(&b.others.mean);
        let by_burn = a.burn_max().total_cmp(&b.burn_max());
        // What needs no setting is not outdone by a difference of seeds.
        let by_plain = b.candidate.is_plain().cmp(&a.candidate.is_plain());
        b.meets.cmp(&a.meets).then(if a.meets { by_plain.then(by_cost) } else { by_burn.then(by_cost) })
    });
    let held = hold(bench, &judged, seeds)?;
    let faster = match judged.first() {
        // One that met needs no faster link, but other seeds.
        Some(nearest) if held.is_empty() => faster_link(bench, &nearest.candidate, &seeded)?,
        _ => None,
    };
    Ok(Found { judged, held, faster })
}

/// The first of those that meet whose means do with seeds by which nothing was chosen, and those before it.
fn hold(bench: &Bench, judged: &[Judged], seeds: u64) -> Result<Vec<(Judged, bool)>, Failure> {
    let fresh = bench.seeded(FRESH_FROM..FRESH_FROM + seeds)?;
    let mut held = Vec::new();
    for pick in judged.iter().filter(|judged| judged.meets).take(PICKS_MAX) {
        let again = bench.judge(&pick.candidate, &fresh, bench.link)?;
        let holds = again.burn_max() <= 1.0;
        held.push((again, holds));
        if holds {
            break;
        }
    }
    Ok(held)
}

/// The slowest link, to a fiftieth, on which this setting meets, with the same requests at the same instants.
fn faster_link(bench: &Bench, nearest: &Candidate, seeded: &[Seeded]) -> Result<Option<(Rate, Judged)>, Failure> {
    let on = |bits_per_s: u64| -> Result<Option<(Rate, Judged)>, Failure> {
        let Some(link) = Rate::from_bits_per_s(bits_per_s) else { return Ok(None) };
        let judged = bench.judge(nearest, seeded, link)?;
        Ok(judged.meets.then_some((link, judged)))
    };
    let own = bench.link.bits_per_s();
    let (mut low, mut best) = (own, None);
    let mut high = own;
    while best.is_none() && high < own.saturating_mul(LINK_FACTOR_MAX) {
        low = high;
        high = high.saturating_mul(2);
        best = on(high)?;
    }
    while best.is_some() && high - low > (low / LINK_PART).max(1) {
        let middle = rounded(low + (high - low) / 2);
        match on(middle)? {
            Some(found) => (high, best) = (middle, Some(found)),
            None => low = middle,
        }
    }
    Ok(best)
}

/// To four digits, which the part of a link is far above.
fn rounded(bits_per_s: u64) -> u64 {
    let unit = 10u64.pow(bits_per_s.max(1).ilog10().saturating_sub(3));
    bits_per_s / unit * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bench(objective: &str, rho: f64) -> Bench {
        let mut trace = crate::trace::shipped(1);
        trace.arrivals.truncate(1500);
        let classes = ["paid:0.2", "free:0.8"].map(|text| text.parse().unwrap());
        let Ok(classes) = planned(&classes, &[format!("paid: {objective}").parse().unwrap()]) else {
            panic!("they are right")
        };
        let order = "srpt".parse::<PolicySpec>().unwrap().order().clone();
        Bench { classes, trace, link: "10mbit".parse().unwrap(), rho, order, class_of: ClassOf::Job }
    }

    fn found(bench: &Bench) -> Found {
        let (candidates, _) = grid(Knob::Weights, &bench.classes);
        let Ok(found) = find(bench, &candidates, 3) else { panic!("it can be simulated") };
        found
    }

    /// The pick is simulated again with seeds that it was not chosen by.
    #[test]
    fn the_pick_holds_with_fresh_seeds_and_is_the_cheapest() {
        let bench = bench("p90 of responses <= 64KiB under 60ms", 0.9);
        let found = found(&bench);
        let (pick, holds) = found.held.last().unwrap();
        assert!(*holds && pick.kept[0].met.mean >= 0.9 && found.faster.is_none(), "{pick:?}");
        let costs: Vec<f64> =
            found.judged.iter().filter(|judged| judged.meets).map(|judged| judged.others.mean).collect();
        assert!(
            costs.is_sorted()
                && found.judged.iter().position(|judged| !judged.meets).is_none_or(|at| at == costs.len())
        );
        // Its own seeds: others than all above.
        let Ok(seeded) = bench.seeded(77..80) else { panic!("the load is right") };
        let Ok(again) = bench.judge(&pick.candidate, &seeded, bench.link) else { panic!("it can be simulated") };
        assert!(again.kept[0].met.mean >= 0.9, "{again:?}");
    }

    #[test]
    fn a_pick_that_does_not_hold_asks_for_more_seeds_and_no_link() {
        let bench = bench("p90 of responses <= 64KiB under 60ms", 0.9);
        let mut found = found(&bench);
        found.held.iter_mut().for_each(|(_, holds)| *holds = false);
        let said = output::text(&bench, &found, 3);
        assert!(said.contains(" does not hold with seeds 1000001 to 1000003: "), "{said}");
        assert!(said.ends_with("\n\nNone held with other seeds: try more --seeds or --jobs.\n"), "{said}");
    }

    #[test]
    fn the_same_plan_is_found_again() {
        let bench = bench("p90 of responses <= 64KiB under 60ms", 0.9);
        let (one, other) = (found(&bench), found(&bench));
        assert!(one.judged == other.judged && one.held == other.held);
    }

    #[test]
    fn where_none_meets_a_faster_link_is_named_that_does() {
        let bench = bench("p99 of responses <= 64KiB under 5ms", 0.9);
        let found = found(&bench);
        assert!(found.held.is_empty() && found.judged.iter().all(|judged| !judged.meets));
        let burns: Vec<f64> = found.judged.iter().map(Judged::burn_max).collect();
        assert!(burns.is_sorted() && burns[0] > 1.0, "the nearest first: {burns:?}");
        let (link, judged) = found.faster.unwrap();
        assert!(judged.meets && link > bench.link && judged.candidate == found.judged[0].candidate, "{link}");
        assert_eq!(rounded(link.bits_per_s()), link.bits_per_s());
    }
}
