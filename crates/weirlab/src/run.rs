//! `weirlab run`: an experiment file from start to table. The experiment itself is the crate `lab`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use ::report::SkippedRun;
use lab::{Conducted, Experiment, Interrupt, Plan, Programs};

use crate::{report, trace};
use cli::Failure;

#[derive(clap::Args)]
pub struct Args {
    /// The experiment, for example experiments/first-light.toml
    #[arg(value_name = "FILE.toml")]
    file: PathBuf,
    /// How long requests arrive, instead of what the file says
    #[arg(long, value_name = "N", value_parser = seconds)]
    seconds: Option<u64>,
    /// Same seed, same jobs; instead of what the file says
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Offered load, 1 is a full link; instead of what the file says
    #[arg(long, value_name = "X", value_parser = rho)]
    rho: Option<f64>,
    /// Request trace to replay, instead of what the file says
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Only these runs, by name
    #[arg(long, value_name = "RUN,RUN", value_delimiter = ',')]
    only: Vec<String>,
    /// Folder for the results [default: runs/NAME-<unix time>]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Leave out runs that need what this machine lacks (a qdisc, a server) and say so, instead of running none
    #[arg(long)]
    skip_missing: bool,
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
}

pub fn main(args: Args) -> Result<(), Failure> {
    let experiment = resolve(&args)?;
    let name = args.file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let out = args.out.unwrap_or_else(|| default_out(&name));
    let Conducted { runs, skipped } = conduct(&experiment, &out, args.skip_missing)?;
    eprintln!("the runs are kept in {}", out.display());
    let skipped = skipped.into_iter().map(|run| SkippedRun { name: run.name, reason: run.reason }).collect();
    report::print(&name, &runs, skipped, args.json)
}

/// Does the runs of an experiment; `out` is the folder for the results.
pub(crate) fn conduct(experiment: &Experiment, out: &Path, skip_missing: bool) -> Result<Conducted, Failure> {
    let interrupt = Interrupt::listen()?;
    let (programs, sizes) = (our_programs()?, sizes(experiment)?);
    let plan = Plan { experiment, sizes: &sizes, out, programs: &programs, skip_missing };
    Ok(lab::conduct(&plan, &interrupt)?)
}

/// `runs/NAME-<unix time>`: sorted by age, and out of version control.
pub(crate) fn default_out(name: &str) -> PathBuf {
    let unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Path::new("runs").join(format!("{name}-{unix_s}"))
}

/// Reads a length of run on the command line.
pub(crate) fn seconds(text: &str) -> Result<u64, String> {
    lab::check_seconds(text.parse().map_err(|_| format!("`{text}` is not a number of whole seconds"))?)
}

fn rho(text: &str) -> Result<f64, String> {
    lab::check_rho(text.parse().map_err(|_| format!("`{text}` is not a number"))?)
}

/// The experiment of the file, changed by what the command line says.
fn resolve(args: &Args) -> Result<Experiment, Failure> {
    let mut experiment = Experiment::read(&args.file)?;
    experiment.seconds = args.seconds.unwrap_or(experiment.seconds);
    experiment.seed = args.seed.unwrap_or(experiment.seed);
    experiment.rho = args.rho.unwrap_or(experiment.rho);
    experiment.trace = args.trace.clone().or(experiment.trace);
    if !args.only.is_empty() {
        experiment.keep_only(&args.only).map_err(Failure::Usage)?;
    }
    Ok(experiment)
}

/// `weir` beside this very program, so that a build is tested against itself; else the one in PATH.
fn our_programs() -> Result<Programs, Failure> {
    let weirlab = std::env::current_exe()?;
    let beside = weirlab.with_file_name("weir");
    let weir = if beside.is_file() { Some(beside) } else { lab::find_program("weir").ok() };
    Ok(Programs { weir, weirlab })
}

/// The sizes `weirlab load` will ask for: those of the very schedule it will make.
fn sizes(experiment: &Experiment) -> Result<BTreeSet<u64>, Failure> {
    let trace = match &experiment.trace {
        Some(file) => trace::read_for_schedule(file, experiment.seed)?,
        None => trace::shipped(experiment.seed),
    };
    let scaling = workload::Scaling {
        rho: experiment.rho,
        link: experiment.link,
        seconds: Some(experiment.seconds as f64),
        per_connection: experiment.per_connection,
    };
    let schedule = workload::schedule(&trace, &scaling)?;
    Ok(schedule.jobs.iter().map(|job| job.size_bytes).collect())
}
