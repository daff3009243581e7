//! Finished runs, one small file each. A file appears whole or not at all, and its name is a digest of everything that
//! determines what is in it; so a file that is there is a run that need not be done again, whoever did it and when.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use record::Digest;
use serde::{Deserialize, Serialize};

use crate::model::Fields;
use crate::{Measured, SweepError};

/// Raised when what is written about a run changes: older files are then of other runs.
const FORMAT: u32 = 2;

/// More than any run's file takes, tables included: 140 size bins and 300 points of a CCDF are 45 KB.
const RUN_BYTES_MAX: u64 = 64 * 1024;

/// Everything that determines the result of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunSpec {
    format: u32,
    pub model: String,
    /// Of the model, see [`crate::Model::version`].
    version: String,
    pub fields: Fields,
    pub seed: u64,
    /// What is in the files that the run reads.
    files: BTreeMap<PathBuf, String>,
}

#[derive(Serialize, Deserialize)]
struct Kept<S, M> {
    spec: S,
    measured: M,
}

/// The folder `runs` of a sweep's results; as long as it lives nobody else writes there.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    /// Numbers the files that have no name yet.
    parts: AtomicU64,
    _lock: File,
}

impl RunSpec {
    pub(crate) fn new(
        model: &str,
        version: String,
        fields: &Fields,
        seed: u64,
        files: &BTreeMap<PathBuf, String>,
    ) -> RunSpec {
        RunSpec { format: FORMAT, model: model.into(), version, fields: fields.clone(), seed, files: files.clone() }
    }

    /// The name of the run's file. All maps in it are ordered, so equal runs have equal texts.
    fn file_name(&self) -> String {
        let text = serde_json::to_vec(self).expect("names and finite numbers have a JSON");
        Digest::new().with(&text).text() + ".json"
    }
}

impl Store {
    /// Makes the folder if missing and removes what runs in flight left behind when a sweep was killed.
    pub fn open(out: &Path) -> Result<Store, SweepError> {
        let folder = out.join("runs");
        fs::create_dir_all(&folder).map_err(|e| SweepError::path(&folder, e))?;
        let lock_path = folder.join("lock");
        let lock = File::create(&lock_path).map_err(|e| SweepError::path(&lock_path, e))?;
        lock.try_lock().map_err(|e| match e {
            TryLockError::WouldBlock => SweepError::path(out, "another sweep is writing there"),
            TryLockError::Error(e) => SweepError::path(&lock_path, e),
        })?;
        for entry in fs::read_dir(&folder).map_err(|e| SweepError::path(&folder, e))? {
            let path = entry.map_err(|e| SweepError::path(&folder, e))?.path();
            if path.extension().is_some_and(|extension| extension == "tmp") {
                fs::remove_file(&path).map_err(|e| SweepError::path(&path, e))?;
            }
        }
        Ok(Store { folder, parts: AtomicU64::new(0), _lock: lock })
    }

    /// Whether the disk has room for the results of this many runs; the error says how much is missing.
    pub fn check_room(out: &Path, runs: usize) -> Result<(), String> {
        let existing = out.ancestors().find(|folder| folder.exists() && !folder.as_os_str().is_empty());
        let stat =
            rustix::fs::statvfs(existing.unwrap_or(Path::new("."))).map_err(|e| format!("{}: {e}", out.display()))?;
        check_room(runs, stat.f_bavail.saturating_mul(stat.f_frsize), out)
    }

    pub fn has(&self, run: &RunSpec) -> bool {
        self.read(run).is_some()
    }

    /// The run's result, if it is kept. A file that is damaged, or by an impossible chance of another run, counts as none.
    pub fn read(&self, run: &RunSpec) -> Option<Measured> {
        let text = fs::read(self.folder.join(run.file_name())).ok()?;
        let kept: Kept<RunSpec, Measured> = serde_json::from_slice(&text).ok()?;
        (kept.spec.file_name() == run.file_name()).then_some(kept.measured)
    }

    pub fn keep(&self, run: &RunSpec, measured: &Measured) -> Result<(), SweepError> {
        let path = self.folder.join(run.file_name());
        let part = self.folder.join(format!("{}.tmp", self.parts.fetch_add(1, Ordering::Relaxed)));
        let write = || {
            let text = serde_json::to_vec(&Kept { spec: run, measured })?;
            let mut file = File::create(&part)?;
            file.write_all(&text)?;
            // On the disk before it has its name: a machine that dies must not leave a whole name with half a file.
            file.sync_data()?;
            fs::rename(&part, &path)
        };
        write().map_err(|e| SweepError::path(&path, e))
    }
}

fn check_room(runs: usize, free_bytes: u64, out: &Path) -> Result<(), String> {
    let needed_bytes = runs as u64 * RUN_BYTES_MAX;
    if needed_bytes <= free_bytes {
        return Ok(());
    }
    let megabytes = |bytes: u64| bytes.div_ceil(1_000_000);
    Err(format!(
        "{runs} runs may take {} MB, but {} has {} MB free: ask for fewer runs or write elsewhere",
        megabytes(needed_bytes),
        out.display(),
        megabytes(free_bytes)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Folder;
    use serde_json::Value;

    fn run(rho: f64, seed: u64) -> RunSpec {
        RunSpec::new("queue", "1".into(), &Fields::from([("rho".into(), Value::from(rho))]), seed, &BTreeMap::new())
    }

    fn measured() -> Measured {
        Measured { metrics: BTreeMap::from([("response_time_ms_mean".into(), 0.1 + 0.2)]), ..Measured::default() }
    }

    #[test]
    fn keeps_and_finds_again() {
        let folder = Folder::new("store");
        let store = Store::open(folder.path()).unwrap();
        store.keep(&run(0.8, 1), &measured()).unwrap();
        assert_eq!(store.read(&run(0.8, 1)), Some(measured()));
        for other in [run(0.8, 2), run(0.80001, 1), RunSpec { version: "2".into(), ..run(0.8, 1) }] {
            assert!(!store.has(&other), "{other:?}");
        }
        let files = BTreeMap::from([(PathBuf::from("a.csv"), "00".into())]);
        assert!(!store.has(&RunSpec { files, ..run(0.8, 1) }));
    }

    #[test]
    fn half_a_file_is_no_run() {
        let folder = Folder::new("half");
        let store = Store::open(folder.path()).unwrap();
        store.keep(&run(0.8, 1), &measured()).unwrap();
        let path = folder.path().join("runs").join(run(0.8, 1).file_name());
        let text = fs::read(&path).unwrap();
        fs::write(&path, &text[..text.len() / 2]).unwrap();
        assert!(!store.has(&run(0.8, 1)));
        fs::write(folder.path().join("runs/x.tmp"), "").unwrap();
        drop(store);
        Store::open(folder.path()).unwrap();
        assert!(!folder.path().join("runs/x.tmp").exists());
    }

    #[test]
    fn one_sweep_at_a_time() {
        let folder = Folder::new("lock");
        let _store = Store::open(folder.path()).unwrap();
        assert!(Store::open(folder.path()).unwrap_err().to_string().ends_with("another sweep is writing there"));
    }

    #[test]
    fn too_large_for_the_disk() {
        assert_eq!(check_room(10, 655_360, Path::new("out")), Ok(()));
        let said = check_room(1000, 655_360, Path::new("out")).unwrap_err();
        assert_eq!(said, "1000 runs may take 66 MB, but out has 1 MB free: ask for fewer runs or write elsewhere");
        Store::check_room(Path::new("no/such/folder"), 1).unwrap();
    }
}
