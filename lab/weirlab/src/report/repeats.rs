//! `weirlab report --over`: the same runs over several seeds, and what each is to one of them.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ::report::{Factors, Origin, Repeats, ReportError};
use record::Run;

use super::failed;
use super::folders::{ExperimentFolder, experiments};
use cli::Failure;

/// What is the same in an experiment with another seed, and in one with another text for people.
const KEYS_OF_NO_SETTING: [&str; 3] = ["seed", "question", "figure"];

/// What is to be written, and what from.
pub(super) struct Wanted<'a> {
    pub folders: &'a [PathBuf],
    /// Name of the run that the others are divided by.
    pub over: &'a str,
    pub json: bool,
    pub markdown: Option<&'a Path>,
    pub title: Option<&'a str>,
}

pub(super) fn write(wanted: &Wanted) -> Result<(), Failure> {
    let mut repeats = Repeats::default();
    for experiment in &experiments(wanted.folders)? {
        add(&mut repeats, experiment)?;
    }
    let factors = repeats.over(wanted.over).map_err(|reason| Failure::Usage(format!("--over: {reason}")))?;
    if let Some(file) = wanted.markdown {
        let title = wanted.title.map_or_else(|| format!("Weir: every run over {}", wanted.over), str::to_string);
        fs::write(file, factors.markdown(&title)).map_err(|error| failed(file, error))?;
    }
    print(&factors, wanted.json)
}

/// Points are read one at a time: a hundred runs of 90,000 requests do not fit in memory.
fn add(repeats: &mut Repeats, experiment: &ExperimentFolder) -> Result<(), Failure> {
    let settings = experiment.file.as_deref().map(settings).transpose()?.unwrap_or_default();
    for point in &experiment.points {
        let mut by_seed: BTreeMap<u64, Vec<Run>> = BTreeMap::new();
        for folder in &point.runs {
            let run = Run::read(folder)?;
            by_seed.entry(run.manifest.seed).or_default().push(run);
        }
        let origin = Origin { experiment: &experiment.name, settings: &settings, point: &point.name };
        for (seed, runs) in by_seed {
            let place = Path::new(&experiment.name).join(&point.name);
            match repeats.add(origin, &runs) {
                Ok(()) => {}
                Err(error @ ReportError::SeedTwice { .. }) => return Err(failed(&place, error)),
                Err(reason) => eprintln!("weirlab: {}: seed {seed} left out, {reason}", place.display()),
            }
        }
    }
    Ok(())
}

/// What an experiment file says but for its seeds; one that cannot be read as such says its text.
fn settings(file: &Path) -> Result<String, Failure> {
    let text = fs::read_to_string(file).map_err(|error| failed(file, error))?;
    let Ok(mut table) = text.parse::<toml::Table>() else { return Ok(text) };
    KEYS_OF_NO_SETTING.iter().for_each(|key| drop(table.remove(*key)));
    if let Some(vary) = table.get_mut("vary").and_then(toml::Value::as_table_mut) {
        vary.remove("seed");
    }
    table.retain(|key, value| key != "vary" || value.as_table().is_none_or(|vary| !vary.is_empty()));
    Ok(table.to_string())
}

fn print(factors: &Factors, json: bool) -> Result<(), Failure> {
    let text = if json { serde_json::to_string(factors)? + "\n" } else { factors.table() };
    Ok(io::stdout().write_all(text.as_bytes())?)
}
