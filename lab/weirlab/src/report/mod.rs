//! `weirlab report`: the table and JSON of runs that were recorded before, a page of whole experiments, or one run over
//! the others with several seeds.
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
use folders::MANIFEST;

mod book;
mod folders;
mod line;
mod repeats;

/// What is kept of runs in git.
const SUMMARY: &str = "summary.json";

#[derive(clap::Args)]
pub struct Args {
    /// Folders of runs, or folders that hold folders of runs (or, alone, one of which only summary.json was kept), or access logs of
    /// weir in JSON; the first run is what the others are compared with. For --md also experiments with points, and
    /// folders of experiments
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// The rate of the link below the server, for access logs
    #[arg(long, value_name = "RATE")]
    link: Option<Rate>,
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
    /// Write claims, verdicts and runs as Markdown; with --over its table, beside printing it
    #[arg(long, value_name = "FILE.md")]
    md: Option<PathBuf>,
    /// With --line: write its table and what each run left of its line into this folder
    #[arg(long, value_name = "DIR", requires = "line")]
    csv: Option<PathBuf>,
    /// Print one table of runs repeated with several seeds (seed in [vary], or folders of one experiment made with --seed):
    /// every run's time over this run's, by everything but the seed, this run's losses first. The factor is of the means, and
    /// of the largest 0.5 % of requests; it is taken seed by seed (geometric mean, 95 % interval by Student's t). Void runs, runs that
    /// beat their wire time and seeds without the other run are left out and counted. Goes with --json, --md and --title
    #[arg(long, value_name = "RUN", conflicts_with = "csv")]
    over: Option<String>,
    /// Print one table of runs on lines whose rate is to be found, over this run, mostly told-right: their times, also of the half with the
    /// smallest bodies, how much of the line they used, and when the rate was found; seeds as with --over. Goes with --json, and
    /// with --csv: the table, and of every run what left the bottleneck in each second, what could, and what the server said
    #[arg(long, value_name = "RUN", conflicts_with_all = ["md", "over"])]
    line: Option<String>,
    /// Write what became of each claim into this file, as results keep it (claims.json) for the page of all items of the papers
    #[arg(long, value_name = "FILE.json", conflicts_with_all = ["over", "line"])]
    claims: Option<PathBuf>,
    /// What the Markdown is called
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
}

pub fn main(args: Args) -> Result<(), Failure> {
    if let Some(file) = kept(&args.folders)? {
        return print_kept(&file, &args);
    }
    if let Some(over) = &args.over {
        return repeats::write(&repeats::Wanted {
            folders: &args.folders,
            over,
            json: args.json,
            markdown: args.md.as_deref(),
            title: args.title.as_deref(),
        });
    }
    if let Some(over) = &args.line {
        return line::write(&line::Wanted { folders: &args.folders, over, json: args.json, csv: args.csv.as_deref() });
    }
    let is_book = args.md.is_some() || args.claims.is_some();
    if is_book {
        return write_book(&args);
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
    if !file.is_file() || Run::has_records(folder) || !folders::runs_in(&folders::folders_in(folder)?).is_empty() {
        return Ok(None);
    }
    Ok(Some(file))
}

fn print_kept(file: &Path, args: &Args) -> Result<(), Failure> {
    let needs_records = [&args.md, &args.csv, &args.claims].iter().any(|wanted| wanted.is_some());
    if needs_records || args.over.is_some() || args.line.is_some() {
        return Err(failed(
            file,
            "only this summary was kept, and no records to compare or to write: run the experiment again",
        ));
    }
    let text = fs::read_to_string(file).map_err(|error| failed(file, error))?;
    let kept = ::report::Kept::parse(&text).map_err(|error| failed(file, error))?;
    let text = if args.json { text.trim_end().to_string() + "\n" } else { kept.table() };
    Ok(io::stdout().write_all(text.as_bytes())?)
}

fn write_book(args: &Args) -> Result<(), Failure> {
    if args.json {
        return Err(Failure::Usage("--md and --claims do not go with --json".into()));
    }
    book::write(&book::Wanted {
        folders: &args.folders,
        markdown: args.md.as_deref(),
        claims: args.claims.as_deref(),
        title: args.title.as_deref(),
    })
}

/// Checks what the report will make of an experiment before anything is run for it.
pub(crate) fn check_figure(file: &testbed::ExperimentFile, path: &Path) -> Result<(), Failure> {
    let Some(figure) = ::report::Described::parse(&file.text, path)?.figure else { return Ok(()) };
    let points: Vec<&str> = file.points().iter().map(|point| point.name.as_str()).collect();
    let is_unknown = |wanted: &&String| !points.iter().any(|point| ::report::is_at(wanted, point));
    match figure.expects().filter_map(|expect| expect.point.as_ref()).find(is_unknown) {
        Some(point) => {
            let reason = format!("a figure.expect speaks of point `{point}`; the points are {}", points.join(", "));
            Err(failed(path, reason))
        }
        None => Ok(()),
    }
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
    let found = folders::runs_in(&folders::folders_in(folder)?);
    if found.is_empty() {
        return Err(failed(folder, format!("no run here: neither it nor a folder in it has a {MANIFEST}")));
    }
    Ok(found)
}

/// What the runs are called together: the folder that holds them.
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
