//! `weirlab report --out`: experiments read one point at a time, and written as a page, as Markdown and as CSV.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ::report::{Chapter, Counters, Described, PointRuns, Resolution, Simulated, SkippedRun};
use record::{Manifest, Run, Samples};
use testbed::{ExperimentFile, Overrides};
use workload::LoadProfile;

use super::failed;
use super::folders::{ExperimentFolder, PointFolder, experiments};
use cli::Failure;

/// Stretches of overload that are shaded at most: W5 has 90 in 30 minutes.
const SHADED_MAX: usize = 500;

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
    pub html: Option<&'a Path>,
    pub markdown: Option<&'a Path>,
    /// A folder.
    pub csv: Option<&'a Path>,
    /// The figures of claims that are kept in results.
    pub claims: Option<&'a Path>,
    /// Folder of the tables of simulated sweeps.
    pub simulated: Option<&'a Path>,
    pub title: Option<&'a str>,
}

pub(super) fn write(wanted: &Wanted) -> Result<(), Failure> {
    let found = experiments(wanted.folders)?;
    let runs: usize = found.iter().flat_map(|experiment| &experiment.points).map(|point| point.runs.len()).sum();
    let resolution = Resolution::for_runs(runs);
    let mut chapters = Vec::new();
    for experiment in &found {
        chapters.push(chapter(experiment, wanted.simulated, resolution)?);
    }
    if chapters.iter().all(|chapter| chapter.points.is_empty()) {
        let folders: Vec<String> = wanted.folders.iter().map(|folder| folder.display().to_string()).collect();
        return Err(Failure::Failed(format!("{}: nothing is left to report", folders.join(", "))));
    }
    let title = wanted.title.map_or_else(|| title(&chapters), str::to_string);
    let write = |file: &Path, text: &str| fs::write(file, text).map_err(|error| failed(file, error));
    if let Some(file) = wanted.html {
        write(file, &::report::html(&title, &chapters))?;
    }
    if let Some(file) = wanted.markdown {
        write(file, &::report::markdown(&title, &chapters))?;
    }
    if let Some(file) = wanted.claims {
        write(file, &::report::claims_json(&::report::kept_claims(&chapters)))?;
    }
    if let Some(folder) = wanted.csv {
        fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
        ::report::csv(&chapters).iter().try_for_each(|(name, text)| write(&folder.join(name), text))?;
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
    experiment: testbed::Experiment,
}

fn chapter(folder: &ExperimentFolder, simulated: Option<&Path>, resolution: Resolution) -> Result<Chapter, Failure> {
    let (described, points) = match &folder.file {
        Some(file) => {
            let text = fs::read_to_string(file).map_err(|error| failed(file, error))?;
            (Described::parse(&text, file)?, points_of(&text, file))
        }
        None => (Described::default(), vec![]),
    };
    let simulated = simulated.zip(described.figure.as_ref().and_then(|figure| figure.simulated.as_ref()));
    let simulated = simulated.map(|(folder, name)| read_simulated(folder, name)).transpose()?.flatten();
    let mut chapter = Chapter::new(&folder.name, described, simulated, resolution);
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
            experiment: point.experiment.clone(),
        }
    };
    read.points().iter().map(point).collect()
}

/// The load of a run: a constant one as its manifest has it, since the command line may have said another than the file; none of
/// users, who make their own.
fn profile(experiment: &testbed::Experiment, manifest: &Manifest) -> Option<LoadProfile> {
    match &experiment.load.profile {
        Some(profile) => profile.parse().ok(),
        None => experiment.load.rho.and_then(|_| LoadProfile::constant(manifest.rho).ok()),
    }
}

/// When the load is above 1, of so many seconds since the run began.
fn overload(profile: &LoadProfile, seconds: f64) -> Vec<[f64; 2]> {
    if profile.as_constant().is_some() {
        return if profile.mean_rho() > 1.0 { vec![[0.0, seconds]] } else { vec![] };
    }
    let mut found: Vec<[f64; 2]> = Vec::new();
    let mut begins = 0.0;
    for phase in profile.phases().iter().cycle() {
        if begins >= seconds || found.len() == SHADED_MAX {
            break;
        }
        let ends = begins + phase.lasts.as_secs_f64();
        // A ramp crosses 1 where the straight line between its ends does.
        let crosses = |from: f64, to: f64| begins + (ends - begins) * ((1.0 - from) / (to - from)).clamp(0.0, 1.0);
        let (from, to) = (phase.from_rho, phase.to_rho);
        let above = match (from > 1.0, to > 1.0) {
            (true, true) => Some([begins, ends]),
            (true, false) => Some([begins, crosses(from, to)]),
            (false, true) => Some([crosses(from, to), ends]),
            (false, false) => None,
        };
        if let Some([from, to]) = above {
            match found.last_mut().filter(|last| last[1] >= from) {
                Some(last) => last[1] = to.min(seconds),
                None => found.push([from, to.min(seconds)]),
            }
        }
        begins = ends;
    }
    found
}

/// A sweep's table, as results keep it or as the sweep wrote it; a sweep that is not there is named.
fn read_simulated(folder: &Path, name: &str) -> Result<Option<Simulated>, Failure> {
    let files = [folder.join(format!("{name}-table.md")), folder.join(name).join("table.md")];
    let Some(file) = files.iter().find(|file| file.is_file()) else {
        eprintln!("weirlab: {}: no such table, so nothing simulated stands beside it", files[0].display());
        return Ok(None);
    };
    let text = fs::read_to_string(file).map_err(|error| failed(file, error))?;
    Simulated::parse(&text).map(Some).ok_or_else(|| failed(file, "it holds no table of a sweep"))
}

fn read(point: &PointFolder, of_file: Option<&PointOfFile>) -> Result<PointRuns, Failure> {
    let mut given = PointRuns { name: point.name.clone(), ..PointRuns::default() };
    for folder in &point.runs {
        given.runs.push(Run::read(folder)?);
        given.counters.push(counters(folder)?);
    }
    if let Some((of_file, run)) = of_file.zip(given.runs.first()) {
        given.values = of_file.values.clone();
        given.overload = profile(&of_file.experiment, &run.manifest)
            .map_or(vec![], |profile| overload(&profile, run.manifest.seconds));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overload_is_when_the_load_is_above_one() {
        let of = |profile: &str, seconds| overload(&profile.parse().unwrap(), seconds);
        assert_eq!(of("W1", 70.0), [[25.0, 50.0]]);
        assert_eq!(of("W1", 80.0), [[25.0, 50.0], [75.0, 80.0]], "until the run's own end");
        let constant = |rho| overload(&LoadProfile::constant(rho).unwrap(), 60.0);
        assert_eq!((constant(1.2), constant(1.0)), (vec![[0.0, 60.0]], vec![]));
    }
}
