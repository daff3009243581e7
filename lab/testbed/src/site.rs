use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::LabError;
use crate::namespace::{is_dead, owner};
use crate::proc_stat::started;

/// The folder that the servers serve, `www-PID-START` after the process that owns it. It contains one sparse file
/// `SIZE.bin` for every requested size, and the same files in the folders of customers. It is removed when dropped; one
/// left by a killed process is removed by the next.
#[derive(Debug)]
pub struct Site {
    folder: PathBuf,
}

impl Site {
    /// Creates the folder in `parent`. It must not exist, because all of it is removed at the end.
    pub fn create(parent: &Path, sizes: &BTreeSet<u64>) -> Result<Site, LabError> {
        remove_leftovers(parent)?;
        let folder = parent.join(format!("www-{}", owner()));
        fs::create_dir(&folder).map_err(|e| LabError::path(&folder, e))?;
        let site = Site { folder };
        for size in sizes {
            let file = site.folder.join(format!("{size}.bin"));
            File::create(&file).and_then(|f| f.set_len(*size)).map_err(|e| LabError::path(&file, e))?;
        }
        Ok(site)
    }

    /// Adds the same files in these folders, each a path of a URL, for customers whose bytes are the same in memory.
    pub fn with_folders(self, folders: &BTreeSet<String>, sizes: &BTreeSet<u64>) -> Result<Site, LabError> {
        for folder in folders.iter().map(|folder| self.folder.join(folder.trim_matches('/'))) {
            fs::create_dir_all(&folder).map_err(|e| LabError::path(&folder, e))?;
            for name in sizes.iter().map(|size| format!("{size}.bin")) {
                let file = folder.join(&name);
                fs::hard_link(self.folder.join(&name), &file).map_err(|e| LabError::path(&file, e))?;
            }
        }
        Ok(self)
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            eprintln!("weirlab: cannot remove {}: {error}", self.folder.display());
        }
    }
}

fn remove_leftovers(parent: &Path) -> Result<(), LabError> {
    let entries = fs::read_dir(parent).map_err(|e| LabError::path(parent, e))?;
    for folder in entries.flatten().map(|entry| entry.path()) {
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let ["www", pid, start] = name.split('-').collect::<Vec<_>>()[..] else { continue };
        if is_dead(pid, start, started) {
            fs::remove_dir_all(&folder).map_err(|e| LabError::path(&folder, e))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parent(name: &str) -> PathBuf {
        let parent = std::env::temp_dir().join(format!("weir-site-{}-{name}", std::process::id()));
        fs::create_dir(&parent).unwrap();
        parent
    }

    #[test]
    fn makes_a_file_per_size_and_removes_them() {
        let parent = parent("makes");
        let site = Site::create(&parent, &BTreeSet::from([0, 41, 2_020_644])).unwrap();
        assert_eq!(fs::metadata(site.folder().join("2020644.bin")).unwrap().len(), 2_020_644);
        assert_eq!(fs::read_dir(site.folder()).unwrap().count(), 3);
        let folders = BTreeSet::from(["/a/".to_string(), "/x/b/".to_string()]);
        let site = site.with_folders(&folders, &BTreeSet::from([41])).unwrap();
        assert_eq!(fs::metadata(site.folder().join("x/b/41.bin")).unwrap().len(), 41);
        drop(site);
        assert_eq!(fs::read_dir(&parent).unwrap().count(), 0);
        fs::remove_dir(&parent).unwrap();
    }

    #[test]
    fn what_the_dead_left_is_removed_and_nothing_else() {
        let parent = parent("leftovers");
        // The first PID is above PID_MAX_LIMIT (4,194,304), the second is ours with another start, and the others are
        // not sites.
        let mine = format!("www-{}-1", std::process::id());
        for name in ["www-99999999-1", &mine, "www", "www-a-b", "results"] {
            fs::create_dir(parent.join(name)).unwrap();
        }
        let site = Site::create(&parent, &BTreeSet::new()).unwrap();
        assert!(Site::create(&parent, &BTreeSet::new()).is_err(), "it is ours and in use");
        drop(site);
        let mut left: Vec<_> = fs::read_dir(&parent).unwrap().flatten().map(|entry| entry.file_name()).collect();
        left.sort();
        assert_eq!(left, ["results", "www", "www-a-b"]);
        fs::remove_dir_all(&parent).unwrap();
    }
}
