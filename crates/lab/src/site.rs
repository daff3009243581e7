use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::LabError;

/// The folder the servers serve: one sparse file `SIZE.bin` for every size asked for. Removed when dropped.
#[derive(Debug)]
pub struct Site {
    folder: PathBuf,
}

impl Site {
    /// Makes the folder, which must not exist, since all of it is removed at the end.
    pub fn create(folder: &Path, sizes: &BTreeSet<u64>) -> Result<Site, LabError> {
        fs::create_dir(folder).map_err(|e| LabError::path(folder, e))?;
        let site = Site { folder: folder.into() };
        for size in sizes {
            let file = folder.join(format!("{size}.bin"));
            File::create(&file).and_then(|f| f.set_len(*size)).map_err(|e| LabError::path(&file, e))?;
        }
        Ok(site)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makes_a_file_per_size_and_removes_them() {
        let folder = std::env::temp_dir().join(format!("weir-site-{}", std::process::id()));
        let site = Site::create(&folder, &BTreeSet::from([0, 41, 2_020_644])).unwrap();
        assert_eq!(fs::metadata(folder.join("2020644.bin")).unwrap().len(), 2_020_644);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 3);
        drop(site);
        assert!(!folder.exists());
    }

    #[test]
    fn a_folder_that_exists_is_left_alone() {
        let folder = std::env::temp_dir().join(format!("weir-site-taken-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        assert!(Site::create(&folder, &BTreeSet::new()).is_err());
        assert!(folder.exists());
        fs::remove_dir(&folder).unwrap();
    }
}
