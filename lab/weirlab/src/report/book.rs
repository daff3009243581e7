//! `weirlab report --md`: experiments read one point at a time, and written as Markdown, or as what results keep of claims.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ::report::{Chapter, Counters, Described, PointRuns, SkippedRun};
use record::{Run, Samples};
use testbed::{ExperimentFile, Overrides};

use super::failed;
use super::folders::{ExperimentFolder, PointFolder, experiments};
use cli::Failure;

/// States in which a connection may have bytes to send, columns of the samples: a server that has handed the kernel the whole
/// response closes its side (RFC 9293, section 3.3.2) long before the client has it. Together they are `connections`.
const HOLDING: [&str; 5] = [
    "connections_established",
    "connections_fin_wait_1",
    "connections_close_wait",
    "connections_last_ack",
    "connections_closing",
];

/// What is to be written of a report, and what from.
pub(super) struct Wanted<'a> {
    pub folders: &'a [PathBuf],
    pub markdown: Option<&'a Path>,
    /// The figures of claims that are kept in results.
    pub claims: Option<&'a Path>,
    pub title: Option<&'a str>,
}

pub(super) fn write(wanted: &Wanted) -> Result<(), Failure> {
    let found = experiments(wanted.folders)?;
    let mut chapters = Vec::new();
    for experiment in &found {
        chapters.push(chapter(experiment)?);
    }
    if chapters.iter().all(|chapter| chapter.points.is_empty()) {
        let folders: Vec<String> = wanted.folders.iter().map(|folder| folder.display().to_string()).collect();
        return Err(Failure::Failed(format!("{}: nothing is left to report", folders.join(", "))));
    }
    let title = wanted.title.map_or_else(|| title(&chapters), str::to_string);
    let write = |file: &Path, text: &str| fs::write(file, text).map_err(|error| failed(file, error));
    if let Some(file) = wanted.markdown {
        write(file, &::report::markdown(&title, &chapters))?;
    }
    if let Some(file) = wanted.claims {
        write(file, &::report::claims_json(&::report::kept_claims(&chapters)))?;
    }
    Ok(())
}

fn title(chapters: &[Chapter]) -> String {
    match chapters {
        [only] => format!("Weir: {}", only.name),
        _ => "Weir: the papers' figures, measured".into(),
    }
}

/// What the experiment file says of a point.
struct PointOfFile {
    name: String,
    values: Vec<(String, String)>,
}

fn chapter(folder: &ExperimentFolder) -> Result<Chapter, Failure> {
    let (described, points) = match &folder.file {
        Some(file) => {
            let text = fs::read_to_string(file).map_err(|error| failed(file, error))?;
            (Described::parse(&text, file)?, points_of(&text, file))
        }
        None => (Described::default(), vec![]),
    };
    let mut chapter = Chapter::new(&folder.name, described);
    let place = |point: &PointFolder| points.iter().position(|of_file| of_file.name == point.name);
    let mut folders: Vec<(Option<usize>, &PointFolder)> = folder.points.iter().map(|p| (place(p), p)).collect();
    folders.sort_by_key(|(place, _)| place.unwrap_or(points.len()));
    let mut absent = absent(folder, &chapter.described.runs, &points);
    for (place, point) in folders {
        let mut given = read(point, place.map(|place| &points[place]))?;
        given.skipped = absent.remove(&point.name).unwrap_or_default();
        if let Err(reason) = chapter.add(given) {
            eprintln!("weirlab: {}/{}: left out, {reason}", folder.name, point.name);
            chapter.leave_out(&point.name, "", &reason);
        }
    }
    for (point, runs) in absent {
        runs.iter().for_each(|run| chapter.leave_out(&point, &run.name, &run.reason));
    }
    chapter.finish();
    Ok(chapter)
}

/// The runs that are not here, by the name of their point: those somebody said why of, and those that the file has. Of a point
/// without any run one entry without a name stands for those nobody said anything of.
fn absent(folder: &ExperimentFolder, runs: &[String], points: &[PointOfFile]) -> BTreeMap<String, Vec<SkippedRun>> {
    let mut absent: BTreeMap<String, Vec<SkippedRun>> = BTreeMap::new();
    for (run, reason) in &folder.left_out.reasons {
        let (point, name) = run.rsplit_once('/').unwrap_or(("", run));
        absent.entry(point.into()).or_default().push(SkippedRun { name: name.into(), reason: reason.clone() });
    }
    for point in points.iter().filter(|_| folder.is_whole) {
        let here = folder.points.iter().find(|here| here.name == point.name).map_or(&[][..], |here| &here.runs);
        let known = absent.entry(point.name.clone()).or_default();
        let is_here = |name: &str| here.iter().any(|run| run.file_name().is_some_and(|is| is == name));
        let missing = runs.iter().filter(|name| !is_here(name) && !known.iter().any(|run| run.name == **name));
        let missing: Vec<String> = missing.cloned().collect();
        let names = if here.is_empty() && missing.len() == runs.len() { vec![String::new()] } else { missing };
        let reason = || "no finished run is here".to_string();
        known.extend(names.into_iter().map(|name| SkippedRun { name, reason: reason() }));
    }
    absent
}

/// The points in the order of the file; none where it cannot be read as today's laboratory would, which is no reason not to
/// report what was measured.
fn points_of(text: &str, file: &Path) -> Vec<PointOfFile> {
    let Ok(read) = ExperimentFile::parse(text, file, &Overrides::default()) else { return vec![] };
    let point = |point: &testbed::Point| {
        let value = |value: &toml::Value| value.as_str().map_or_else(|| value.to_string(), str::to_string);
        PointOfFile {
            name: point.name.clone(),
            values: point.values.iter().map(|(key, of)| (key.clone(), value(of))).collect(),
        }
    };
    read.points().iter().map(point).collect()
}

fn read(point: &PointFolder, of_file: Option<&PointOfFile>) -> Result<PointRuns, Failure> {
    let mut given = PointRuns { name: point.name.clone(), ..PointRuns::default() };
    for folder in &point.runs {
        given.runs.push(Run::read(folder)?);
        given.counters.push(counters(folder)?);
    }
    if let Some(of_file) = of_file {
        given.values = of_file.values.clone();
    }
    Ok(given)
}

fn counters(folder: &Path) -> Result<Counters, Failure> {
    let samples = Samples::read(folder)?.unwrap_or_default();
    let mut counters: Counters =
        samples.columns.iter().map(|column| (column.clone(), samples.series(column))).collect();
    let mut held: BTreeMap<u64, u64> = BTreeMap::new();
    for (at_ns, count) in HOLDING.iter().flat_map(|column| counters.get(*column)).flatten() {
        *held.entry(*at_ns).or_default() += count;
    }
    if !held.is_empty() {
        counters.insert("connections".into(), held.into_iter().collect());
    }
    Ok(counters)
}
