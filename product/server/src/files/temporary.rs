//! Temporary folders for tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use units::Nanos;

use super::{Cache, CacheLimits, Entry, Found, Root};

/// An empty, unique folder, removed when dropped.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("weir-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Folder(path)
    }

    pub fn path(&self, inside: impl AsRef<Path>) -> PathBuf {
        self.0.join(inside)
    }

    /// Writes a file, creating missing folders.
    pub fn put(&self, inside: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(inside);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// The entry of a file at the top, as a new cache loads it.
    pub fn entry(&self, name: &str) -> Arc<Entry> {
        let root = Root::open(&self.0, Default::default()).unwrap();
        let path = format!("/{name}");
        let found =
            Cache::new(root.into(), CacheLimits::per_worker(1)).lookup_waiting(path.as_bytes(), Nanos::from_secs(1));
        let Ok(Found::File(entry)) = found else { panic!("{found:?}") };
        entry
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
