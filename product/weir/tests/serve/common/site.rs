use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

static SITES: AtomicU32 = AtomicU32::new(0);

/// A folder for one test, removed when the test ends. The served folder is `site` in it, so that there are files
/// outside that must not be reached.
pub struct Site {
    folder: PathBuf,
}

impl Site {
    pub fn new() -> Site {
        let name = format!("weir-test-{}-{}", std::process::id(), SITES.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(folder.join("site")).unwrap();
        Site { folder }
    }

    /// A site with these files.
    pub fn with(files: &[(&str, &[u8])]) -> Site {
        let site = Site::new();
        for (name, content) in files {
            site.write(name, content);
        }
        site
    }

    /// A site with files of these sizes, named `size-N`, each with its own [`content`].
    pub fn of_sizes(sizes: &[usize]) -> Site {
        let site = Site::new();
        for &size in sizes {
            site.write(format!("size-{size}"), &content(size));
        }
        site
    }

    pub fn served(&self) -> PathBuf {
        self.folder.join("site")
    }

    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.served().join(name)
    }

    /// A path next to the served folder.
    pub fn outside(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub fn write(&self, name: impl AsRef<Path>, content: &[u8]) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Replaces a file atomically, as a careful publisher does.
    pub fn replace(&self, name: &str, content: &[u8]) {
        let new = self.outside("new");
        fs::write(&new, content).unwrap();
        fs::rename(new, self.path(name)).unwrap();
    }

    pub fn link(&self, to: impl AsRef<Path>, name: &str) {
        std::os::unix::fs::symlink(to, self.path(name)).unwrap();
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Bytes in which no two parts are alike, different for every size, so that one file cannot be confused with another,
/// nor a part with the following part.
pub fn content(size: usize) -> Vec<u8> {
    let mut state = size as u64 ^ 0x9e37_79b9_7f4a_7c15;
    let mut bytes = Vec::with_capacity(size + 8);
    while bytes.len() < size {
        // xorshift64 (Marsaglia 2003).
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_le_bytes());
    }
    bytes.truncate(size);
    bytes
}
