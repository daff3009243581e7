//! The folder of an experiment's results: who works there, what is finished in it, and what was cut short.
//!
//! A run is finished when its manifest has the digest of everything that decided its result; the digest is written last. So
//! what was interrupted goes on where it was, and two experiments never mix in one folder.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use record::{Manifest, Run};

use crate::LabError;

/// Beside the runs: what they answer, and what a report reads.
const COPY: &str = "experiment.toml";
/// The entry of a manifest's environment that makes a run finished.
pub(crate) const DIGEST: &str = "experiment_digest";

/// The folder of one experiment file.
#[derive(Debug, Clone, Copy)]
pub struct Folder<'a> {
    pub path: &'a Path,
    /// The experiment as it is kept there.
    pub text: &'a str,
    /// Digest of every run that may be there, by its folder's path in this one.
    pub expected: &'a BTreeMap<PathBuf, String>,
}

/// A folder in which nobody else works as long as this lives.
#[derive(Debug)]
pub(crate) struct Claim {
    _lock: File,
}

impl Folder<'_> {
    /// An error if there is a run in the folder that this experiment does not make.
    pub(crate) fn check(&self) -> Result<(), LabError> {
        for inner in runs_in(self.path) {
            let run = inner.strip_prefix(self.path).unwrap_or(&inner);
            let digest = manifest(&inner).and_then(|manifest| manifest.environment.get(DIGEST).cloned());
            let reason = match (self.expected.get(run), digest) {
                (Some(wanted), Some(is)) if *wanted == is => continue,
                // The load had ended, and its run was cut short before its figures were complete.
                (Some(_), None) if self.path.join(COPY).is_file() => continue,
                (Some(_), Some(_)) => "it was made of other settings or other jobs",
                (Some(_), None) => "nothing says how it was made",
                (None, _) => "this experiment has no such run",
            };
            return Err(LabError::OtherExperiment { run: inner, reason });
        }
        Ok(())
    }

    /// Makes the folder if missing, keeps others out of it, and removes runs that were cut short.
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
        // Written where it changes only: on a full disk an old one would be lost, and with it what its runs answer.
        if fs::read_to_string(&copy).ok().as_deref() != Some(self.text) {
            fs::write(&copy, self.text).map_err(|e| LabError::path(&copy, e))?;
        }
        Ok(Claim { _lock: lock })
    }
}

/// The manifest of a finished run in this folder.
pub(crate) fn finished(folder: &Path) -> Option<Manifest> {
    manifest(folder).filter(|manifest| manifest.environment.contains_key(DIGEST))
}

fn manifest(folder: &Path) -> Option<Manifest> {
    Run::read_manifest(folder).ok()
}

/// The folders of runs in a folder of results, those of points included.
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
