use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::LabError;
use crate::namespace::{is_dead, owner};
use crate::proc_stat::started;
use crate::tool;

/// The folder that the servers serve, `www-PID-START` after the process that owns it. It contains one sparse file
/// `SIZE.bin` for every requested size, the same files in the folders of customers, and copies of sites that are read.
/// It is removed when dropped; one left by a killed process is removed by the next.
#[derive(Debug)]
pub struct Site {
    folder: PathBuf,
    /// Copies of sites that are read.
    copies: Vec<PathBuf>,
}

impl Site {
    /// Creates the folder in `parent`. It must not exist, because all of it is removed at the end.
    pub fn create(parent: &Path, sizes: &BTreeSet<u64>) -> Result<Site, LabError> {
        remove_leftovers(parent)?;
        let folder = parent.join(format!("www-{}", owner()));
        fs::create_dir(&folder).map_err(|e| LabError::path(&folder, e))?;
        let site = Site { folder, copies: vec![] };
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

    /// Adds a copy of the site in this folder, with the targets of its links and the times of its files. Not every
    /// server follows links.
    pub fn with_copy(mut self, of: &Path) -> Result<Site, LabError> {
        let from = of.canonicalize().map_err(|e| LabError::path(of, e))?.display().to_string();
        let to = copy_of(&self.folder, self.copies.len()).display().to_string();
        tool::run_words(&["cp", "-rL", "--preserve=timestamps", &from, &to])?;
        self.copies.push(of.into());
        Ok(self)
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder to be served: the copy of this site, or the files by size.
    pub fn root(&self, site: Option<&Path>) -> PathBuf {
        let copy = self.copies.iter().position(|copied| Some(copied.as_path()) == site);
        copy.map_or_else(|| self.folder.clone(), |copy| copy_of(&self.folder, copy))
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            eprintln!("weirlab: cannot remove {}: {error}", self.folder.display());
        }
    }
}

fn copy_of(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("site-{number}"))
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
    fn a_site_is_copied_with_what_its_links_lead_to() {
        let parent = parent("copies");
        let from = parent.join("from");
        fs::create_dir_all(from.join("a")).unwrap();
        fs::write(from.join("a/x.js"), "1").unwrap();
        std::os::unix::fs::symlink("a/x.js", from.join("y.js")).unwrap();
        let site = Site::create(&parent, &BTreeSet::new()).unwrap().with_copy(&from).unwrap();
        let root = site.root(Some(&from));
        assert!(fs::symlink_metadata(root.join("y.js")).unwrap().is_file() && root.starts_with(site.folder()));
        let modified = |file: &Path| fs::metadata(file).unwrap().modified().unwrap();
        assert_eq!(modified(&root.join("a/x.js")), modified(&from.join("a/x.js")));
        assert_eq!(site.root(None), site.folder());
        drop(site);
        fs::remove_dir_all(&parent).unwrap();
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
