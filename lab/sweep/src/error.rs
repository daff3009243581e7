use std::fmt;
use std::path::{Path, PathBuf};

/// Why a sweep could not be done, or not to its end.
#[derive(Debug)]
pub enum SweepError {
    /// The experiment file asks for what cannot be; nothing was run.
    Plan { file: PathBuf, line: Option<usize>, reason: String },
    /// A file or folder could not be read or written.
    Path { path: PathBuf, reason: String },
    /// A run failed; those finished are kept.
    Run { what: String, reason: String },
    /// Somebody wanted it to stop; `done` of `all` runs are kept.
    Interrupted { done: usize, all: usize },
}

impl SweepError {
    pub(crate) fn path(path: &Path, reason: impl fmt::Display) -> SweepError {
        SweepError::Path { path: path.into(), reason: reason.to_string() }
    }
}

impl fmt::Display for SweepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SweepError::Plan { file, line: Some(line), reason } => write!(f, "{}:{line}: {reason}", file.display()),
            SweepError::Plan { file, line: None, reason } => write!(f, "{}: {reason}", file.display()),
            SweepError::Path { path, reason } => write!(f, "{}: {reason}", path.display()),
            SweepError::Run { what, reason } => write!(f, "run {what}: {reason}"),
            SweepError::Interrupted { done, all } => {
                write!(f, "interrupted: {done} of {all} runs are kept, the same command goes on from there")
            }
        }
    }
}

impl std::error::Error for SweepError {}
