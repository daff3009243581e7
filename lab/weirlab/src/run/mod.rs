//! `weirlab run`: experiment files from start to table. The crate `testbed` conducts the experiment itself.

mod points;

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use record::Run;
use report::{SkippedRun, Summary};
use testbed::{Conducted, ExperimentFile, Folder, Interrupt, Machines, Order, Overrides, Plan, Programs};

use cli::Failure;
use points::Prepared;

/// The folder of served files in a machine in virtual time. It is in memory, on a file system that answers immediately.
const VIRTUAL_SITE: &str = "/run";

#[derive(clap::Args)]
pub struct Args {
    /// The experiments, for example experiments/pages/first-light.toml
    #[arg(required = true, value_name = "FILE.toml")]
    files: Vec<PathBuf>,
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
    /// Folder for the results, with one in it for each of several experiments; what is finished there is not done again
    /// [default: runs/NAME-<unix time>]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// So many machines at once at most, with --virtual [default: 1 for each processor]
    #[arg(long, value_name = "N", requires = "is_virtual")]
    parallel: Option<usize>,
    /// On a real Linux in virtual time instead of this host: nothing is late, a busy host changes no figure, and every queue of
    /// today's Linux is there; needs `scripts/setup.sh virtual`, but not root. A machine may use 3 GiB of memory, or as many MiB as
    /// WEIRLAB_MACHINE_MIB says
    #[arg(long = "virtual")]
    is_virtual: bool,
    /// Leave out runs that need what this machine lacks (a qdisc, a server) and say so, instead of running none
    #[arg(long)]
    skip_missing: bool,
    /// Print one JSON object for each experiment instead of tables
    #[arg(long)]
    json: bool,
}

/// An experiment, with the known properties of its jobs.
struct Task {
    file: ExperimentFile,
    prepared: Prepared,
    out: PathBuf,
    /// The arguments that make `weirlab` repeat it.
    again: Vec<String>,
}

pub fn main(args: Args) -> Result<(), Failure> {
    let files = args.files.iter().map(|file| read(file, &args)).collect::<Result<Vec<_>, Failure>>()?;
    let out =
        args.out.clone().unwrap_or_else(|| default_out(if let [one] = &files[..] { &one.name } else { "several" }));
    let (interrupt, programs) = (Interrupt::listen()?, our_programs()?);
    let tasks = tasks(files, &out, &args)?;
    let machines = args.is_virtual.then(|| Machines::new(args.parallel.filter(|&given| given > 0))).transpose()?;
    let plans: Vec<Vec<Plan>> = tasks.iter().map(|task| task.plans(&programs, args.skip_missing)).collect();
    let folders: Vec<Folder> = tasks.iter().map(Task::folder).collect();
    let flat: Vec<Plan> = plans.iter().flatten().cloned().collect();
    let site = if testbed::is_virtual() { Path::new(VIRTUAL_SITE) } else { &out };
    let order = Order { folders: &folders, plans: &flat, site, judge: &report::void_reason, machines };
    let mut conducted = testbed::conduct(&order, &interrupt)?.into_iter();
    eprintln!("the runs are kept in {}", out.display());
    let mut failed = vec![];
    for task in &tasks {
        let ended: Vec<Conducted> = conducted.by_ref().take(task.file.points().len()).collect();
        failed.extend(ended.iter().flat_map(|point| &point.failed).map(|run| format!("{}: {}", run.name, run.reason)));
        task.print(ended, args.json)?;
    }
    match failed.first() {
        None => Ok(()),
        Some(first) => Err(Failure::Failed(format!("{} runs failed, the first {first}", failed.len()))),
    }
}

/// `runs/NAME-<unix time>`, which is sorted by age and not under version control.
fn default_out(name: &str) -> PathBuf {
    let unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Path::new("runs").join(format!("{name}-{unix_s}"))
}

/// Parses the length of a run on the command line.
fn seconds(text: &str) -> Result<u64, String> {
    testbed::check_seconds(text.parse().map_err(|_| format!("`{text}` is not a number of whole seconds"))?)
}

fn rho(text: &str) -> Result<f64, String> {
    testbed::check_rho(text.parse().map_err(|_| format!("`{text}` is not a number"))?)
}

/// The experiment of the file, with the changes of the command line.
fn read(file: &Path, args: &Args) -> Result<ExperimentFile, Failure> {
    let overrides = Overrides { seconds: args.seconds, seed: args.seed, rho: args.rho, trace: args.trace.clone() };
    let path = file;
    let file = ExperimentFile::read(path, &overrides)?;
    for (key, is_given) in [("rho", args.rho.is_some()), ("seconds", args.seconds.is_some())] {
        if is_given && file.varies_key(key) {
            return Err(Failure::Usage(format!("--{key}: {} varies it: choose with --points", file.name)));
        }
    }
    Ok(file)
}

/// The experiments, each with its folder, reduced to the requested runs and points.
fn tasks(files: Vec<ExperimentFile>, out: &Path, args: &Args) -> Result<Vec<Task>, Failure> {
    let (is_one, mut names) = (files.len() == 1, BTreeSet::new());
    let task = |(path, mut file): (&PathBuf, ExperimentFile)| {
        if !names.insert(file.name.clone()) {
            return Err(Failure::Usage(format!("two experiments are named {}: rename one", file.name)));
        }
        let whole = file.clone();
        file.keep_only(&args.only, &args.points).map_err(Failure::Usage)?;
        let out = if is_one { out.into() } else { out.join(&file.name) };
        // A machine in virtual time does one run in its own folder, in which there are no other runs.
        let known = if testbed::is_virtual() { &file } else { &whole };
        Ok(Task { prepared: Prepared::of(known)?, file, out, again: again(path, args)? })
    };
    args.files.iter().zip(files).map(task).collect()
}

/// Returns the arguments of `weirlab` that repeat this experiment from any folder.
fn again(file: &Path, args: &Args) -> Result<Vec<String>, Failure> {
    let whole = |path: &Path| -> Result<String, Failure> { Ok(std::path::absolute(path)?.display().to_string()) };
    let mut words = vec!["run".to_owned(), whole(file)?];
    let mut flag = |name: &str, value: Option<String>| words.extend(value.into_iter().flat_map(|v| [name.into(), v]));
    flag("--seconds", args.seconds.map(|seconds| seconds.to_string()));
    flag("--seed", args.seed.map(|seed| seed.to_string()));
    flag("--rho", args.rho.map(|rho| format!("{rho:?}")));
    flag("--trace", args.trace.as_deref().map(whole).transpose()?);
    Ok(words)
}

impl Task {
    fn plans<'a>(&'a self, programs: &'a Programs, skip_missing: bool) -> Vec<Plan<'a>> {
        let points = self.file.points().iter();
        points
            .map(|point| self.prepared.plan(&self.file.name, point, &self.out, programs, skip_missing, &self.again))
            .collect()
    }

    fn folder(&self) -> Folder<'_> {
        Folder { path: &self.out, text: &self.file.text, expected: &self.prepared.expected }
    }

    /// Prints the results of the points; if nothing varies, one object or table without a point.
    fn print(&self, ended: Vec<Conducted>, json: bool) -> Result<(), Failure> {
        let mut points = vec![];
        for (point, ended) in self.file.points().iter().zip(ended) {
            let runs = ended.runs.iter().map(|folder| Run::read(folder)).collect::<Result<Vec<_>, _>>()?;
            if runs.is_empty() {
                continue;
            }
            let skipped =
                ended.skipped.into_iter().map(|run| SkippedRun { name: run.name, reason: run.reason }).collect();
            let (point, values) = (point.name.clone(), serde_json::to_value(&point.values)?);
            points.push(PointSummary { point, values, summary: Summary::of(&self.file.name, &runs, skipped) });
        }
        let text = match (&points[..], json) {
            ([only], true) if only.point.is_empty() => serde_json::to_string(&only.summary)? + "\n",
            (_, true) => serde_json::json!({ "experiment": self.file.name, "points": points }).to_string() + "\n",
            (_, false) => points.iter().map(PointSummary::table).collect::<Vec<_>>().join("\n"),
        };
        // Not `print!`, which panics if the reader has closed the pipe.
        Ok(io::stdout().write_all(text.as_bytes())?)
    }
}

/// The summary of one point of an experiment, which is the only one if nothing varies.
#[derive(serde::Serialize)]
struct PointSummary {
    point: String,
    /// The varied keys and their values.
    values: serde_json::Value,
    #[serde(flatten)]
    summary: Summary,
}

impl PointSummary {
    fn table(&self) -> String {
        let table = report::table(&self.summary);
        if self.point.is_empty() { table } else { format!("{}\n{table}", self.point) }
    }
}

/// `weir` next to this program, so that a build is tested with itself, or otherwise from PATH.
fn our_programs() -> Result<Programs, Failure> {
    let weirlab = std::env::current_exe()?;
    let beside = weirlab.with_file_name("weir");
    let weir = if beside.is_file() { Some(beside) } else { testbed::find_program("weir").ok() };
    Ok(Programs { weir, weirlab })
}
