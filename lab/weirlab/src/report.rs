//! `weirlab report`: the table and JSON of runs that were recorded before, as `weirlab run` prints them. Claims, and runs over several seeds, are
//! judged in Python (`python -m weirlab report`).
//!
//! A result without a manifest does not exist: a folder that holds records but no manifest is of a run that was cut
//! short, and is named on standard error and left out.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ::report::SkippedRun;
use record::{LeftOut, Run};
use units::Rate;

use cli::Failure;

const MANIFEST: &str = "manifest.json";

/// The file of runs that is kept in git.
const SUMMARY: &str = "summary.json";

#[derive(clap::Args)]
pub struct Args {
    /// Folders of runs, or folders that hold folders of runs (or, alone, one of which only summary.json was kept), or access logs of
    /// weir in JSON; the first run is what the others are compared with
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// The rate of the link below the server, for access logs
    #[arg(long, value_name = "RATE")]
    link: Option<Rate>,
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
}

pub fn main(args: Args) -> Result<(), Failure> {
    if let Some(file) = kept(&args.folders)? {
        return print_kept(&file, args.json);
    }
    let (runs, skipped) = read_all(&args)?;
    print(&experiment_name(&args.folders), &runs, skipped, args.json)
}

/// The runs of all that was named, and those that were left out of it.
fn read_all(args: &Args) -> Result<(Vec<Run>, Vec<SkippedRun>), Failure> {
    let (mut runs, mut skipped) = (Vec::new(), Vec::new());
    for folder in &args.folders {
        if folder.is_file() {
            runs.push(Run::read_access_log(folder, args.link)?);
            continue;
        }
        for run_folder in run_folders(folder)? {
            runs.push(Run::read(&run_folder)?);
        }
        let left_out = LeftOut::read(folder)?.reasons.into_iter();
        skipped.extend(left_out.map(|(name, reason)| SkippedRun { name, reason }));
    }
    Ok((runs, skipped))
}

/// The summary of a folder that holds nothing else: runs whose records were not kept.
fn kept(folders: &[PathBuf]) -> Result<Option<PathBuf>, Failure> {
    let [folder] = folders else { return Ok(None) };
    let file = folder.join(SUMMARY);
    if !file.is_file() || Run::has_records(folder) || !runs_in(&folders_in(folder)?).is_empty() {
        return Ok(None);
    }
    Ok(Some(file))
}

fn print_kept(file: &Path, json: bool) -> Result<(), Failure> {
    let text = fs::read_to_string(file).map_err(|error| failed(file, error))?;
    let kept = ::report::Kept::parse(&text).map_err(|error| failed(file, error))?;
    let text = if json { text.trim_end().to_string() + "\n" } else { kept.table() };
    Ok(io::stdout().write_all(text.as_bytes())?)
}

/// Prints the summary of these runs, and of those that were left out: the table, or with `json` one object and nothing else.
pub(crate) fn print(experiment: &str, runs: &[Run], skipped: Vec<SkippedRun>, json: bool) -> Result<(), Failure> {
    let summary = ::report::Summary { skipped, ..::report::summarize(experiment, runs)? };
    let text = if json { serde_json::to_string(&summary)? + "\n" } else { ::report::table(&summary) };
    // Not `print!`, which panics when the reader has gone, as in `weirlab report DIR | head`.
    Ok(io::stdout().write_all(text.as_bytes())?)
}

/// The summary of one point of an experiment; of the only one, if nothing varies.
#[derive(serde::Serialize)]
pub(crate) struct PointSummary {
    point: String,
    /// The keys varied and their values.
    values: serde_json::Value,
    #[serde(flatten)]
    summary: ::report::Summary,
}

impl PointSummary {
    pub(crate) fn new(point: &str, values: serde_json::Value, summary: ::report::Summary) -> PointSummary {
        PointSummary { point: point.into(), values, summary }
    }
}

/// Prints the summaries of all points; where nothing varies, just as those of runs without points.
pub(crate) fn print_points(experiment: &str, points: &[PointSummary], json: bool) -> Result<(), Failure> {
    let text = match (points, json) {
        ([only], true) if only.point.is_empty() => serde_json::to_string(&only.summary)? + "\n",
        (_, true) => serde_json::json!({ "experiment": experiment, "points": points }).to_string() + "\n",
        (_, false) => points.iter().map(as_table).collect::<Vec<_>>().join("\n"),
    };
    Ok(io::stdout().write_all(text.as_bytes())?)
}

fn as_table(point: &PointSummary) -> String {
    let table = ::report::table(&point.summary);
    if point.point.is_empty() { table } else { format!("{}\n{table}", point.point) }
}

/// The folder itself if it is of a run, else those in it that are, by name.
fn run_folders(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    if folder.join(MANIFEST).is_file() {
        return Ok(vec![folder.into()]);
    }
    let found = runs_in(&folders_in(folder)?);
    if found.is_empty() {
        return Err(failed(folder, format!("no run here: neither it nor a folder in it has a {MANIFEST}")));
    }
    Ok(found)
}

/// Those that are of finished runs; one cut short is named and left out.
fn runs_in(folders: &[PathBuf]) -> Vec<PathBuf> {
    let is_finished = |folder: &&PathBuf| {
        let is_finished = folder.join(MANIFEST).is_file();
        if !is_finished && Run::has_records(folder) {
            let folder = folder.display();
            eprintln!("weirlab: {folder}: left out, it has records but no {MANIFEST}: the run was cut short");
        }
        is_finished
    };
    folders.iter().filter(is_finished).cloned().collect()
}

/// By name.
fn folders_in(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| failed(folder, error))? {
        let inner = entry.map_err(|error| failed(folder, error))?.path();
        if inner.is_dir() {
            found.push(inner);
        }
    }
    found.sort();
    Ok(found)
}

/// Returns what the runs are called together: the folder that holds them.
fn experiment_name(folders: &[PathBuf]) -> String {
    let holder = |folder: &PathBuf| {
        let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.clone());
        let holder = if folder.join(MANIFEST).is_file() { folder.parent() } else { Some(folder.as_path()) };
        holder.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned())
    };
    folders.first().and_then(holder).unwrap_or_else(|| "runs".into())
}

pub(crate) fn failed(path: &Path, reason: impl std::fmt::Display) -> Failure {
    Failure::Failed(format!("{}: {reason}", path.display()))
}
