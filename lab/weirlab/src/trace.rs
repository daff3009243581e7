//! `weirlab trace`: from a request log, or a seed, to the trace that is wanted.
//!
//! Other commands take their jobs from here too ([`read_for_schedule`], [`shipped`]), so that every experiment reads
//! logs by the same rules.

mod change;
mod output;
mod when;

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use workload::{BadLines, Filter, Format, Log, ReadOptions, Trace};

use cli::Failure;

/// Created by `weirlab trace make`, because no real log may be shipped.
const SHIPPED: &[u8] = include_bytes!("../../../traces/synthetic.csv.gz");

/// The name of the shipped trace in place of a file.
const SHIPPED_NAME: &str = "synthetic";

#[derive(clap::Subcommand)]
pub enum Command {
    /// Write a trace as epoch_s,size_bytes,status,client, or the part of it that passes every condition given.
    Cut(change::CutArgs),
    /// Make a trace of Poisson arrivals and heavy-tailed sizes; without options, the one this program carries.
    Make(change::MakeArgs),
}

pub fn main(command: Command) -> Result<(), Failure> {
    match command {
        Command::Cut(args) => change::cut(&args),
        Command::Make(args) => change::make(&args),
    }
}

/// The trace that an experiment replays: from the log at `path` (or `synthetic`, the shipped one) the requests with a
/// body that were answered 200, with those of a whole second spread by `seed`. Bad lines are skipped with one line of
/// warning.
pub(crate) fn read_for_schedule(path: &Path, seed: u64) -> Result<Trace, Failure> {
    let log = read(path, &ReadOptions::default())?;
    warn_of_bad_lines(path, &log);
    let wanted = log.cut(&Filter::for_schedules());
    if wanted.requests.is_empty() {
        let read = log.requests.len();
        return Err(about(path, format_args!("none of its {read} requests has a body and status 200 (or no status)")));
    }
    Ok(wanted.trace(seed))
}

/// The trace in this program. Its times have fractions, so the seed has no effect; the parameter exists so that every
/// source of jobs is called in the same way.
pub(crate) fn shipped(seed: u64) -> Trace {
    shipped_log().cut(&Filter::for_schedules()).trace(seed)
}

/// The trace to read, and how to read it.
#[derive(clap::Args)]
struct Source {
    /// The trace, gzipped or not; `synthetic` is the one this program carries.
    file: PathBuf,
    /// worldcup, worldcup-csv, log or csv [default: told by the content].
    #[arg(long)]
    format: Option<Format>,
    /// Stop at the first bad line instead of passing over it.
    #[arg(long)]
    strict: bool,
}

impl Source {
    /// Reads the log, which must contain at least one request.
    fn read(&self) -> Result<Log, Failure> {
        let log = read(&self.file, &ReadOptions { format: self.format, strict: self.strict })?;
        if log.requests.is_empty() {
            return Err(about(&self.file, format_args!("no requests in it{}", said_of(&log.bad, log.format))));
        }
        Ok(log)
    }
}

fn read(path: &Path, options: &ReadOptions) -> Result<Log, Failure> {
    if path == Path::new(SHIPPED_NAME) && !path.exists() {
        return Ok(shipped_log());
    }
    let file = File::open(path).map_err(|error| about(path, error))?;
    workload::read(BufReader::new(file), options).map_err(|error| match error.line() {
        Some(line) => Failure::Failed(format!("{}:{line}: {error}", path.display())),
        None => about(path, error),
    })
}

fn shipped_log() -> Log {
    workload::read(SHIPPED, &ReadOptions::default()).expect("the trace in this program is well formed")
}

fn warn_of_bad_lines(path: &Path, log: &Log) {
    if log.bad.count > 0 {
        eprintln!("weirlab: {}: passed over{}", path.display(), said_of(&log.bad, log.format));
    }
}

/// `: 3 bad lines, the first line 12: reason`, or an empty text if there are none.
fn said_of(bad: &BadLines, format: Format) -> String {
    let entry = format.entry();
    let plural = if bad.count == 1 { "" } else { "s" };
    let first = bad.first.first();
    first.map_or(String::new(), |first| {
        format!(": {} bad {entry}{plural}, first {entry} {}: {}: `{}`", bad.count, first.line, first.reason, first.text)
    })
}

fn about(path: &Path, reason: impl std::fmt::Display) -> Failure {
    Failure::Failed(format!("{}: {reason}", path.display()))
}
