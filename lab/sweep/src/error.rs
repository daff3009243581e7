use std::error::Error;
use std::path::{Path, PathBuf};

/// Why a sweep could not be done, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The experiment file asks for what cannot be; nothing was run.
    #[error("{}{}: {reason}", file.display(), line.map_or(String::new(), |line| format!(":{line}")))]
    Plan { file: PathBuf, line: Option<usize>, reason: String },
    /// A file or folder could not be read or written.
    #[error("{path}: {reason}")]
    Path {
        path: PathBuf,
        #[source]
        reason: Box<dyn Error + Send + Sync>,
    },
    #[error(transparent)]
    File(#[from] record::FileError),
    /// A run failed; those finished are kept.
    #[error("run {what}: {reason}")]
    Run { what: String, reason: String },
    /// Somebody wanted it to stop; `done` of `all` runs are kept.
    #[error("interrupted: {done} of {all} runs are kept, the same command goes on from there")]
    Interrupted { done: usize, all: usize },
}

impl SweepError {
    pub(crate) fn path(path: &Path, reason: impl Into<Box<dyn Error + Send + Sync>>) -> SweepError {
        SweepError::Path { path: path.into(), reason: reason.into() }
    }
}
