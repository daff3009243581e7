//! The results of the pages of a run that loaded pages: `pages.json` next to the records of their requests.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::FileError;
use crate::run::{make, whole};

const FILE: &str = "pages.json";

/// A page that a visitor began. All instants are nanoseconds since the run began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageRecord {
    /// Its number among the pages of the load, the same for every server; the records of its requests have it as their
    /// client.
    pub page: u64,
    /// When its HTML was due; both times count from here.
    pub arrival_ns: u64,
    pub requests: u64,
    /// Bytes of all bodies that came whole.
    pub bytes: u64,
    /// When HTML, style sheets and the scripts that block had ended; if that never came, when the visitor left or the
    /// run ended.
    pub first_view_ns: u64,
    /// When these and the fonts had ended.
    pub with_fonts_ns: u64,
    /// When everything had ended, except images that wait for the visitor to scroll.
    pub full_ns: u64,
    /// Requests that did not complete, or were not made before the visitor left or the run ended.
    pub failed: u64,
    /// The visitor lost patience before the first view, and left. The times are then lower bounds.
    pub left: bool,
}

impl PageRecord {
    /// Writes `pages.json` into `folder` (made if missing).
    pub fn write_all(folder: &Path, pages: &[PageRecord]) -> Result<(), FileError> {
        make(folder)?;
        whole(&folder.join(FILE), |part| {
            let text = serde_json::to_string(pages).map_err(|error| FileError::new(part, error))?;
            fs::write(part, text + "\n").map_err(|error| FileError::new(part, error))
        })
    }

    /// Reads what [`PageRecord::write_all`] wrote; empty for a run that loaded no pages.
    pub fn read_all(folder: &Path) -> Result<Vec<PageRecord>, FileError> {
        let path = folder.join(FILE);
        match fs::read_to_string(&path) {
            Ok(text) => serde_json::from_str(&text).map_err(|error| FileError::new(&path, error)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(vec![]),
            Err(error) => Err(FileError::new(&path, error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_back_what_it_wrote() {
        let folder = std::env::temp_dir().join(format!("weir-pages-{}", std::process::id()));
        assert_eq!(PageRecord::read_all(&folder).unwrap(), []);
        let (first_view_ns, with_fonts_ns, full_ns, failed, left) = (4, 5, 6, 0, false);
        let page = PageRecord {
            page: 7,
            arrival_ns: 1,
            requests: 2,
            bytes: 3,
            first_view_ns,
            with_fonts_ns,
            full_ns,
            failed,
            left,
        };
        let pages = [page, PageRecord { failed: 1, left: true, ..page }];
        PageRecord::write_all(&folder, &pages).unwrap();
        assert_eq!(PageRecord::read_all(&folder).unwrap(), pages);
        fs::write(folder.join(FILE), "[{}]").unwrap();
        let said = PageRecord::read_all(&folder).unwrap_err();
        assert!(said.reason().to_string().contains("missing field"), "{}", said.reason());
        fs::remove_dir_all(&folder).unwrap();
    }
}
