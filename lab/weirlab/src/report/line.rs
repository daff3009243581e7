//! `weirlab report --line`: runs on lines whose rate is to be found, as a table, as JSON, and second by second as CSV.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ::report::{LineRuns, LineSecond, LineSeen};
use record::{Run, Samples};

use super::failed;
use super::folders::{ExperimentFolder, experiments};
use cli::Failure;

/// The table among the files of `--csv`.
const TABLE: &str = "lines.csv";

/// What is to be written, and what from.
pub(super) struct Wanted<'a> {
    pub folders: &'a [PathBuf],
    /// Name of the run that the others are divided by.
    pub over: &'a str,
    pub json: bool,
    /// Folder for the table and the seconds of every run.
    pub csv: Option<&'a Path>,
}

pub(super) fn write(wanted: &Wanted) -> Result<(), Failure> {
    let mut lines = LineRuns::default();
    if let Some(folder) = wanted.csv {
        fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    }
    for experiment in &experiments(wanted.folders)? {
        add(&mut lines, experiment, wanted.csv)?;
    }
    let table = lines.over(wanted.over).map_err(|reason| Failure::Usage(format!("--line: {reason}")))?;
    if let Some(folder) = wanted.csv {
        let file = folder.join(TABLE);
        fs::write(&file, table.csv()).map_err(|error| failed(&file, error))?;
    }
    let text = if wanted.json { serde_json::to_string(&table)? + "\n" } else { table.table() };
    Ok(io::stdout().write_all(text.as_bytes())?)
}

/// Runs are read one at a time. Folders of the same file with other seeds are one group.
fn add(lines: &mut LineRuns, experiment: &ExperimentFolder, csv: Option<&Path>) -> Result<(), Failure> {
    for point in &experiment.points {
        for folder in &point.runs {
            let run = Run::read(folder)?;
            let samples = Samples::read(folder)?.unwrap_or_default();
            let seen = LineSeen::read(folder, &samples.series(LineSeen::SENT))?;
            let name = name_without_seed(&experiment.name, run.manifest.seed);
            lines.add(&name, &point.name, &run, &seen).map_err(|error| failed(folder, error))?;
            if let Some(csv) = csv {
                let seed = format!("seed-{}", run.manifest.seed);
                let in_point = point.name.split('_').any(|word| word == seed);
                let words = [name.as_str(), &point.name, &run.manifest.name, if in_point { "" } else { &seed }];
                let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
                let file = csv.join(format!("{}.csv", words.join("_")));
                fs::write(&file, LineSecond::csv(&seen.seconds(&run.manifest)))
                    .map_err(|error| failed(&file, error))?;
            }
        }
    }
    Ok(())
}

/// What an experiment is called whose folder ends in its seed: `line-row` for `line-row-2` and seed 2.
fn name_without_seed(name: &str, seed: u64) -> String {
    let tails = [format!("-seed-{seed}"), format!("-{seed}")];
    tails.iter().find_map(|tail| name.strip_suffix(tail.as_str())).unwrap_or(name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_other_seeds_are_one_experiment() {
        for (name, seed, want) in [
            ("line-row-2", 2, "line-row"),
            ("line-row-seed-2", 2, "line-row"),
            ("line-row-2", 3, "line-row-2"),
            ("e", 1, "e"),
        ] {
            assert_eq!(name_without_seed(name, seed), want);
        }
    }
}
