//! The folder of an experiment's results: who works there, which runs are finished, and which were interrupted.
//!
//! A run is finished when its manifest has the digest of everything that determines its result. The digest is written
//! last. An interrupted experiment therefore continues where it was, and two experiments never mix in one folder.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use record::{Manifest, Run};

use crate::LabError;

/// The copy of the experiment next to its runs, which reports read.
const COPY: &str = "experiment.toml";
/// The entry of a manifest's environment that marks a run as finished.
pub(crate) const DIGEST: &str = "experiment_digest";

/// The folder of one experiment file.
#[derive(Debug, Clone, Copy)]
pub struct Folder<'a> {
    pub path: &'a Path,
    /// The text of the experiment that is kept there.
    pub text: &'a str,
    /// The expected digest of every run, by the path of its folder in this one.
    pub expected: &'a BTreeMap<PathBuf, String>,
}

/// A folder that no other process uses as long as this exists.
#[derive(Debug)]
pub(crate) struct Claim {
    _lock: File,
}

impl Folder<'_> {
    /// Returns an error if the folder contains a run that does not belong to this experiment.
    pub(crate) fn check(&self) -> Result<(), LabError> {
        for inner in runs_in(self.path) {
            let run = inner.strip_prefix(self.path).unwrap_or(&inner);
            let digest = manifest(&inner).and_then(|manifest| manifest.environment.get(DIGEST).cloned());
            let reason = match (self.expected.get(run), digest) {
                (Some(wanted), Some(is)) if *wanted == is => continue,
                // The load had ended, but the run was interrupted before its figures were complete.
                (Some(_), None) if self.path.join(COPY).is_file() => continue,
                (Some(_), Some(_)) => "it was made of other settings or other jobs",
                (Some(_), None) => "nothing says how it was made",
                (None, _) => "this experiment has no such run",
            };
            return Err(LabError::OtherExperiment { run: inner, reason });
        }
        Ok(())
    }

    /// Creates the folder if missing, reserves it, and removes interrupted runs.
    pub(crate) fn claim(&self) -> Result<Claim, LabError> {
        fs::create_dir_all(self.path).map_err(|e| LabError::path(self.path, e))?;
        let copy = self.path.join(COPY);
        let was_here = copy.is_file();
        let open = OpenOptions::new().create(true).write(true).truncate(false).open(&copy);
        let lock = open.map_err(|e| LabError::path(&copy, e))?;
        lock.try_lock().map_err(|e| match e {
            TryLockError::WouldBlock => LabError::Taken { folder: self.path.into() },
            TryLockError::Error(e) => LabError::path(&copy, e),
        })?;
        self.check()?;
        for run in self.expected.keys().filter(|_| was_here) {
            let folder = self.path.join(run);
            if folder.is_dir() && finished(&folder).is_none() {
                fs::remove_dir_all(&folder).map_err(|e| LabError::path(&folder, e))?;
            }
        }
        // Written only if it changes: on a full disk the old copy would be lost, and with it the question that its runs
        // answer.
        if fs::read_to_string(&copy).ok().as_deref() != Some(self.text) {
            fs::write(&copy, self.text).map_err(|e| LabError::path(&copy, e))?;
        }
        Ok(Claim { _lock: lock })
    }
}

/// The manifest of this folder, if the run is finished.
pub(crate) fn finished(folder: &Path) -> Option<Manifest> {
    manifest(folder).filter(|manifest| manifest.environment.contains_key(DIGEST))
}

fn manifest(folder: &Path) -> Option<Manifest> {
    Run::read_manifest(folder).ok()
}

/// The folders of runs in a folder of results, including those of points.
fn runs_in(folder: &Path) -> Vec<PathBuf> {
    let inner = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
    };
    let outer = inner(folder);
    let deeper = outer.iter().flat_map(|point| inner(point));
    let mut found: Vec<PathBuf> = outer.iter().cloned().chain(deeper).filter(|path| Run::is_in(path)).collect();
    found.sort();
    found
}
