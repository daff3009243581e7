//! `weirlab sim`: one simulation. The crate `sim` has the models; this module creates their configurations from specs,
//! and tables or JSON from their outcomes. Python's sweeps call it for every cell of a grid, first with `--check`.

mod closed_form;
mod output;
mod packet;
mod packet_spec;
mod queue;
mod server;
mod spec;
mod webstone_spec;

pub use packet_spec::PacketSpec;
pub use spec::{Model, Paths, SimSpec, Wire};
pub use webstone_spec::WebStoneSpec;

use std::time::Instant;

use cli::Failure;
use indicatif::{ProgressBar, ProgressStyle};
use output::Took;
use serde_json::{Map, Value, json};
use sim::{Hooks, Summary};
use workload::Distribution;

use crate::load::machine;

/// The result of one simulation of any model.
pub struct SimOutcome {
    pub summary: Summary,
    /// The figures specific to this model, as they appear in the JSON after the summary; the same for the same spec.
    pub details: Map<String, Value>,
    /// The rate of the link, or of the server's network.
    pub link_bps: u64,
    /// The number of jobs that left, including the warm-up, from which the speed is computed.
    pub simulated_jobs: u64,
}

/// Checks whether [`run`] would start. All mistakes in the spec are found here, and nothing is simulated.
pub fn check(spec: &SimSpec) -> Result<(), Failure> {
    spec.refuse_others()?;
    match spec.model {
        Model::Queue => queue::check(spec),
        Model::Server => server::check(spec),
        Model::Packet => packet::check(spec),
    }
}

/// Runs the simulation. It is pure, except that it may read a trace. A run without a counted job is an error, because
/// it has no mean.
pub fn run(spec: &SimSpec, hooks: Hooks) -> Result<SimOutcome, Failure> {
    let outcome = match spec.model {
        Model::Queue => queue::run(spec, hooks),
        Model::Server => server::run(spec, hooks),
        Model::Packet => packet::run(spec, hooks),
    }?;
    if outcome.summary.jobs == 0 {
        let left = outcome.simulated_jobs;
        return Err(Failure::Failed(format!(
            "no job was counted ({left} left, all of the warm-up): write more --jobs or --seconds, smaller sizes or a smaller --warm-up"
        )));
    }
    Ok(outcome)
}

/// Returns a remark if sizes are so small that rounding to whole bytes changes the mean. The load is then right, but
/// the sizes are not.
fn rounding(spec: &SimSpec) -> Option<String> {
    let sizes = distribution(spec.dist.as_deref()?).ok()?;
    let (asked, drawn) = (sizes.mean(), sizes.mean_drawn());
    let is_far = (drawn / asked - 1.0).abs() > ROUNDING_SAID;
    is_far.then(|| {
        format!("sizes are whole bytes, at least 1: those drawn have a mean of {drawn:.3}, not {asked:.3}; the load is of what is drawn")
    })
}

/// The begin of `--dist trace:FILE`.
const TRACE: &str = "trace:";

/// The distribution that `--dist` names; of a trace the sizes that an experiment would replay.
fn distribution(spec: &str) -> Result<Distribution, Failure> {
    let sizes = match spec.strip_prefix(TRACE) {
        Some(file) => {
            // The seed spreads arrivals inside a second, and only the sizes are taken.
            let trace = crate::trace::read_for_schedule(file.as_ref(), 0)?;
            let sizes: Vec<u64> = trace.arrivals.iter().map(|arrival| arrival.size_bytes).collect();
            Distribution::empirical(&sizes)
        }
        None => spec.parse(),
    };
    sizes.map_err(queue::wrong("dist"))
}

/// The minimum change of the mean that is reported, as a share of it.
const ROUNDING_SAID: f64 = 0.005;

/// Returns a remark if a rank is simulated in chunks that were not requested.
fn chunks(spec: &SimSpec, outcome: &SimOutcome) -> Option<String> {
    let bytes = outcome.details.get("service")?.get("chunk_bytes")?;
    let is_usual = spec.chunk.is_none() && spec.policy.starts_with("rank:");
    is_usual.then(|| {
        format!("{} may grow as a job is served: service is in chunks of {bytes} bytes (--chunk)", spec.policy)
    })
}

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  weirlab sim --policy srpt --rho 0.8 --dist exponential:mean=5000
  weirlab sim --policy srpt --rho 0.8 --trace access.log
  weirlab sim --policy ps --webstone WA --class A:15 --class B:15 --slots A:15,B:3 --jobs 100000")]
pub struct Args {
    #[command(flatten)]
    spec: SimSpec,
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
    /// Simulate nothing: check the flags, and print as JSON what a closed form says of them, the commit, and a digest of the sources that
    /// decide what comes of them
    #[arg(long)]
    check: bool,
}

/// The digest of the sources (see `build.rs`), so that results of different programs are not mixed.
const MODEL_DIGEST: &str = env!("WEIR_MODEL_DIGEST");

pub fn main(args: Args) -> Result<(), Failure> {
    let Args { spec, json, check: is_check } = args;
    check(&spec)?;
    if is_check {
        let (theory, commit) = (closed_form::of(&spec).unwrap_or_default(), machine::commit());
        println!("{}", json!({ "digest": MODEL_DIGEST, "commit": commit, "theory": theory }));
        return Ok(());
    }
    if let Some(said) = rounding(&spec) {
        eprintln!("weirlab: {said}");
    }
    let bar = if json { ProgressBar::hidden() } else { progress_bar(&spec) };
    let mut progress = |jobs| bar.set_position(jobs);
    let hooks = Hooks { record: None, progress: Some(&mut progress) };
    let (started, cpu_before) = (Instant::now(), output::cpu());
    let outcome = run(&spec, hooks)?;
    let took = Took { elapsed: started.elapsed(), cpu: output::cpu() - cpu_before };
    bar.finish_and_clear();
    if let Some(said) = chunks(&spec, &outcome) {
        eprintln!("weirlab: {said}");
    }
    output::print(&spec, &outcome, took, json)
}

/// A progress bar on standard error, if that is a terminal.
fn progress_bar(spec: &SimSpec) -> ProgressBar {
    let template = "{elapsed} {wide_bar} {human_pos} jobs, {per_sec}";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = match spec.jobs {
        Some(jobs) => ProgressBar::new(jobs + spec.warm_up.unwrap_or(0)),
        None => ProgressBar::no_length(),
    };
    bar.with_style(style)
}
