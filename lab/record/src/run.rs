use std::fs;
use std::path::{Path, PathBuf};

use crate::{FileError, JobRecord, Manifest, PageRecord, records};

const MANIFEST: &str = "manifest.json";

/// A finished run: its manifest and its records in arrival order.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    pub manifest: Manifest,
    pub records: Vec<JobRecord>,
    /// Pages in order of arrival, if any were loaded.
    pub pages: Vec<PageRecord>,
}

impl Run {
    /// The file that marks a run as finished.
    pub const MANIFEST: &str = MANIFEST;

    /// Writes the records (`records.parquet`), then `manifest.json`, into `folder` (made if missing): a run cut short has no manifest. Each file takes its name only when it is whole, so
    /// a full disk or a signal loses nothing that was there before.
    pub fn write(&self, folder: &Path) -> Result<(), FileError> {
        make(folder)?;
        whole(&folder.join(records::FILE), |part| records::write(part, &self.records))?;
        if !self.pages.is_empty() {
            PageRecord::write_all(folder, &self.pages)?;
        }
        Run::write_manifest(folder, &self.manifest)
    }

    /// Writes only the manifest.
    pub fn write_manifest(folder: &Path, manifest: &Manifest) -> Result<(), FileError> {
        whole(&folder.join(MANIFEST), |part| {
            let text = serde_json::to_string_pretty(manifest).map_err(|error| FileError::new(part, error))?;
            fs::write(part, text + "\n").map_err(|error| FileError::new(part, error))
        })
    }

    /// Reads only the manifest.
    pub fn read_manifest(folder: &Path) -> Result<Manifest, FileError> {
        let path = folder.join(MANIFEST);
        let text = fs::read_to_string(&path).map_err(|e| FileError::new(&path, e))?;
        serde_json::from_str(&text).map_err(|e| FileError::new(&path, e))
    }

    /// True if a finished run is in this folder.
    pub fn is_in(folder: &Path) -> bool {
        folder.join(MANIFEST).exists()
    }

    /// Reads what [`Run::write`] wrote.
    pub fn read(folder: &Path) -> Result<Run, FileError> {
        let manifest = Run::read_manifest(folder)?;
        let records = records::read(&folder.join(records::FILE))?;
        Ok(Run { manifest, records, pages: PageRecord::read_all(folder)? })
    }
}

pub(crate) fn make(folder: &Path) -> Result<(), FileError> {
    fs::create_dir_all(folder).map_err(|error| FileError::new(folder, error))
}

/// Writes a file under a temporary name next to its own, and renames it when it is whole; the part of a failed one is
/// removed.
pub(crate) fn whole(path: &Path, write: impl FnOnce(&Path) -> Result<(), FileError>) -> Result<(), FileError> {
    let part = part_of(path);
    let written = write(&part)
        .map_err(|error| error.at(path))
        .and_then(|()| fs::rename(&part, path).map_err(|error| FileError::new(path, error)));
    if written.is_err() {
        // It may not even have been begun.
        let _ = fs::remove_file(&part);
    }
    written
}

/// The temporary name of a file. The extension stays, because it shows which format is meant.
fn part_of(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".part-{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Outcome;
    use std::collections::BTreeMap;

    fn manifest() -> Manifest {
        Manifest {
            link_bps: 10_000_000,
            rho: 0.8,
            seconds: 60.0,
            server_cpu: Some(0.01),
            lateness_ns_p99: Some(1000),
            environment: BTreeMap::from([("qdisc".into(), "htb".into())]),
            ..Manifest::new("weir-off")
        }
    }

    fn run() -> Run {
        let record = JobRecord {
            job: 0,
            size_bytes: 10,
            head_bytes: 200,
            arrival_ns: 5,
            start_ns: Some(6),
            first_byte_ns: None,
            end_ns: 105,
            body_bytes: 3,
            status: 200,
            outcome: Outcome::Incomplete,
            attempts: 1,
            group: 0,
            client: None,
            ahead_bytes: None,
        };
        Run {
            manifest: manifest(),
            records: vec![record.clone(), JobRecord { job: 1, first_byte_ns: Some(7), ..record }],
            pages: vec![],
        }
    }

    #[test]
    fn reads_back_what_it_wrote() {
        let folder = std::env::temp_dir().join(format!("weir-record-{}", std::process::id()));
        run().write(&folder).unwrap();
        assert_eq!(Run::read(&folder).unwrap(), run());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn every_outcome_is_read_back() {
        let folder = std::env::temp_dir().join(format!("weir-record-outcomes-{}", std::process::id()));
        let mut run = run();
        let of = |(job, outcome): (usize, Outcome)| JobRecord {
            job: job as u64,
            outcome,
            attempts: 1 + job as u32,
            group: 7,
            client: None,
            ahead_bytes: None,
            ..run.records[0].clone()
        };
        run.records = Outcome::ALL.into_iter().enumerate().map(of).collect();
        run.write(&folder).unwrap();
        assert_eq!(Run::read(&folder).unwrap(), run);
        fs::remove_dir_all(&folder).unwrap();
    }

    /// `/dev/full` stands for a full disk.
    #[test]
    fn a_full_disk_is_named_and_costs_no_finished_run() {
        let folder = std::env::temp_dir().join(format!("weir-record-full-{}", std::process::id()));
        run().write(&folder).unwrap();
        for name in [records::FILE, MANIFEST] {
            let path = folder.join(name);
            std::os::unix::fs::symlink("/dev/full", part_of(&path)).unwrap();
            let mut other = run();
            other.manifest.name = "other".into();
            let said = other.write(&folder).unwrap_err().to_string();
            assert!(said.starts_with(&format!("{}: ", path.display())) && said.contains("No space left"), "{said}");
            assert_eq!(Run::read(&folder).unwrap(), run());
            assert!(!part_of(&path).exists());
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn says_which_file_is_missing() {
        let said = Run::read(Path::new("/nonexistent")).unwrap_err().to_string();
        assert!(said.starts_with("/nonexistent/manifest.json: "), "{said}");
    }
}
