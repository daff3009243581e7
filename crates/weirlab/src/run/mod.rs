//! `weirlab run`: experiment files from start to table. The experiment itself is the crate `lab`.

mod points;

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use ::report::SkippedRun;
use lab::{Conducted, ExperimentFile, Interrupt, Overrides, Programs};
use record::Run;

use crate::report;
use cli::Failure;
use points::{Prepared, prepare};

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
    /// Only these points of an experiment that varies something, by name
    #[arg(long, value_name = "POINT,POINT", value_delimiter = ',')]
    points: Vec<String>,
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
    let file = resolve(&args)?;
    let out = args.out.unwrap_or_else(|| default_out(&file.name));
    let interrupt = Interrupt::listen()?;
    let (programs, prepared) = (our_programs()?, prepare(&file)?);
    let mut points = vec![];
    for prepared in &prepared {
        let folder = out.join(&prepared.point.name);
        let plan = prepared.plan(&folder, &programs, args.skip_missing);
        points.push(summary(&file.name, prepared, lab::conduct(&plan, &interrupt)?)?);
    }
    let copy = out.join("experiment.toml");
    std::fs::write(&copy, &file.text).map_err(|e| Failure::Failed(format!("{}: {e}", copy.display())))?;
    eprintln!("the runs are kept in {}", out.display());
    report::print_points(&file.name, &points, args.json)
}

/// Does the runs of an experiment without points; `out` is the folder for the results.
pub(crate) fn conduct(file: &ExperimentFile, out: &Path) -> Result<Vec<Run>, Failure> {
    let interrupt = Interrupt::listen()?;
    let (programs, prepared) = (our_programs()?, prepare(file)?);
    let mut runs = vec![];
    for prepared in &prepared {
        runs.extend(lab::conduct(&prepared.plan(out, &programs, false), &interrupt)?.runs);
    }
    Ok(runs)
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

fn summary(name: &str, prepared: &Prepared, conducted: Conducted) -> Result<report::PointSummary, Failure> {
    let skipped = conducted.skipped.into_iter().map(|run| SkippedRun { name: run.name, reason: run.reason }).collect();
    let summary = ::report::Summary { skipped, ..::report::summarize(name, &conducted.runs)? };
    Ok(report::PointSummary::new(&prepared.point.name, prepared.values()?, summary))
}

/// The experiment of the file, changed by what the command line says.
fn resolve(args: &Args) -> Result<ExperimentFile, Failure> {
    let overrides = Overrides { seconds: args.seconds, seed: args.seed, rho: args.rho, trace: args.trace.clone() };
    let mut file = ExperimentFile::read(&args.file, &overrides)?;
    for (key, is_given) in [("rho", args.rho.is_some()), ("seconds", args.seconds.is_some())] {
        if is_given && file.varies_key(key) {
            return Err(Failure::Usage(format!("--{key}: {} varies it: choose with --points", file.name)));
        }
    }
    file.keep_only(&args.only, &args.points).map_err(Failure::Usage)?;
    Ok(file)
}

/// `weir` beside this very program, so that a build is tested against itself; else the one in PATH.
fn our_programs() -> Result<Programs, Failure> {
    let weirlab = std::env::current_exe()?;
    let beside = weirlab.with_file_name("weir");
    let weir = if beside.is_file() { Some(beside) } else { lab::find_program("weir").ok() };
    Ok(Programs { weir, weirlab })
}
