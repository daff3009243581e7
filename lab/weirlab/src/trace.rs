//! The traces that commands replay, from a request log or from this program: all commands read logs by the same rules.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use workload::{BadLines, Format, Log, ReadOptions, Trace};

use cli::Failure;

/// The shipped trace, because no real log may be shipped.
const SHIPPED: &[u8] = include_bytes!("../../../traces/synthetic.csv.gz");

/// The name of the shipped trace in place of a file.
const SHIPPED_NAME: &str = "synthetic";

/// The trace that an experiment replays: from the log at `path` (or `synthetic`, the shipped one) the requests with a
/// body that were answered 200, with those of a whole second spread by `seed`. Bad lines are skipped with one line of
/// warning.
pub(crate) fn read_for_schedule(path: &Path, seed: u64) -> Result<Trace, Failure> {
    let log = read(path)?;
    warn_of_bad_lines(path, &log);
    let wanted = log.answered();
    if wanted.requests.is_empty() {
        let read = log.requests.len();
        return Err(about(path, format_args!("none of its {read} requests has a body and status 200 (or no status)")));
    }
    Ok(wanted.trace(seed))
}

/// The trace in this program. Its times have fractions, so the seed has no effect; the parameter exists so that every
/// source of jobs is called in the same way.
pub(crate) fn shipped(seed: u64) -> Trace {
    shipped_log().answered().trace(seed)
}

fn read(path: &Path) -> Result<Log, Failure> {
    if path == Path::new(SHIPPED_NAME) && !path.exists() {
        return Ok(shipped_log());
    }
    let file = File::open(path).map_err(|error| about(path, error))?;
    workload::read(BufReader::new(file), &ReadOptions::default()).map_err(|error| match error.line() {
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
