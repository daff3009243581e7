//! Which folders hold runs, points of an experiment, or whole experiments.
//!
//! `OUT/RUN/`, or where something varies `OUT/POINT/RUN/`, with `OUT/experiment.toml` beside, and `OUT/left-out.json` where runs
//! were left out; a folder without runs and without those files is one of experiments.

use std::fs;
use std::path::{Path, PathBuf};

use record::{LeftOut, Run};

use cli::Failure;

pub(super) const MANIFEST: &str = "manifest.json";
const EXPERIMENT: &str = "experiment.toml";

/// Folders below each other that are looked into: of experiments, of points, of runs, and two to group them by.
const DEPTH_MAX: usize = 5;

/// An experiment as it lies on disk.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ExperimentFolder {
    pub name: String,
    /// `experiment.toml`, where it was kept.
    pub file: Option<PathBuf>,
    /// In order of name; one without a name where nothing varies.
    pub points: Vec<PointFolder>,
    /// Why runs are not here, by their folder in this one.
    pub left_out: LeftOut,
    /// Whether it was given as a whole, so that what is missing is to be named; not so where runs were given one by one.
    pub is_whole: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PointFolder {
    pub name: String,
    /// In order of name.
    pub runs: Vec<PathBuf>,
}

/// Every experiment in these folders.
pub(super) fn experiments(folders: &[PathBuf]) -> Result<Vec<ExperimentFolder>, Failure> {
    let mut found: Vec<ExperimentFolder> = Vec::new();
    for folder in folders {
        let before = found.len();
        if folder.join(MANIFEST).is_file() {
            add_run(&mut found, folder);
            continue;
        }
        look(folder, DEPTH_MAX, &mut found)?;
        if found.len() == before {
            return Err(super::failed(folder, format!("no run here: neither it nor a folder in it has a {MANIFEST}")));
        }
    }
    Ok(found)
}

/// Runs given one by one are one experiment if they lie in one folder.
fn add_run(found: &mut Vec<ExperimentFolder>, run: &Path) {
    let holder = fs::canonicalize(run).ok().and_then(|run| run.parent().map(Path::to_path_buf)).unwrap_or_default();
    let name = name_of(&holder);
    match found.iter_mut().find(|experiment| experiment.name == name && experiment.points.len() == 1) {
        Some(experiment) => experiment.points[0].runs.push(run.into()),
        None => {
            let file = Some(holder.join(EXPERIMENT)).filter(|file| file.is_file());
            let points = vec![PointFolder { name: String::new(), runs: vec![run.into()] }];
            found.push(ExperimentFolder { name, file, points, ..ExperimentFolder::default() });
        }
    }
}

fn look(folder: &Path, depth: usize, found: &mut Vec<ExperimentFolder>) -> Result<(), Failure> {
    let Some(depth) = depth.checked_sub(1) else { return Ok(()) };
    let inner = folders_in(folder)?;
    let file = Some(folder.join(EXPERIMENT)).filter(|file| file.is_file());
    let (runs, left_out) = (runs_in(&inner), LeftOut::read(folder)?);
    let has_reasons = !left_out.reasons.is_empty();
    let whole = |file, points| ExperimentFolder { name: name_of(folder), file, points, left_out, is_whole: true };
    if !runs.is_empty() {
        found.push(whole(file, vec![PointFolder { name: String::new(), runs }]));
        return Ok(());
    }
    if file.is_none() {
        return inner.iter().try_for_each(|inner| look(inner, depth, found));
    }
    let mut points = Vec::new();
    for point in &inner {
        let runs = runs_in(&folders_in(point)?);
        if !runs.is_empty() {
            points.push(PointFolder { name: name_of(point), runs });
        }
    }
    if !points.is_empty() || has_reasons {
        found.push(whole(file, points));
    }
    Ok(())
}

/// Those that are of finished runs; one cut short is named and left out.
pub(super) fn runs_in(folders: &[PathBuf]) -> Vec<PathBuf> {
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
pub(super) fn folders_in(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| super::failed(folder, error))? {
        let inner = entry.map_err(|error| super::failed(folder, error))?.path();
        if inner.is_dir() {
            found.push(inner);
        }
    }
    found.sort();
    Ok(found)
}

/// As it was given, a link by its own name; `.` has none.
fn name_of(folder: &Path) -> String {
    let name = |folder: &Path| folder.file_name().map(|name| name.to_string_lossy().into_owned());
    name(folder).or_else(|| name(&fs::canonicalize(folder).ok()?)).unwrap_or_else(|| "runs".into())
}
