use std::error::Error;
use std::path::{Path, PathBuf};

/// A file of results that could not be read or written, and the reason.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct FileError {
    path: PathBuf,
    #[source]
    reason: Box<dyn Error + Send + Sync>,
}

impl FileError {
    pub(crate) fn new(path: &Path, reason: impl Into<Box<dyn Error + Send + Sync>>) -> FileError {
        FileError { path: path.into(), reason: reason.into() }
    }

    /// An error in this line of a text file, counted from 1.
    pub(crate) fn in_line(path: &Path, line: usize, reason: String) -> FileError {
        FileError { path: format!("{}:{line}", path.display()).into(), reason: reason.into() }
    }

    /// The same error for another path.
    pub(crate) fn at(self, path: &Path) -> FileError {
        FileError { path: path.into(), ..self }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn reason(&self) -> String {
        self.reason.to_string()
    }
}
