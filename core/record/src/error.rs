use std::path::{Path, PathBuf};

/// A file of results that could not be read or written: which, and why.
#[derive(Debug)]
pub struct FileError {
    path: PathBuf,
    reason: String,
}

impl FileError {
    pub(crate) fn new(path: &Path, reason: impl std::fmt::Display) -> FileError {
        FileError { path: path.into(), reason: reason.to_string() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl std::fmt::Display for FileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.reason)
    }
}

impl std::error::Error for FileError {}
