use std::io;
use std::path::PathBuf;
use std::time::Duration;

use record::FileError;
use thiserror::Error;

use crate::threads::ThreadError;

/// Why there will be no records, or no manifest to them: the file, and what would be right.
#[derive(Debug, Error)]
pub enum RecordsError {
    #[error("cannot write records `{path}`: {1}; name a file in a folder that can be written", path = .0.display())]
    File(PathBuf, #[source] io::Error),
    /// Rows of another run are in the file.
    #[error("records `{}` hold another run: move it away, or name another file", .0.display())]
    Taken(PathBuf),
    /// A finished run is in the folder.
    #[error("folder of records `{}` holds another run: name a file in another folder", .0.display())]
    TakenFolder(PathBuf),
    /// The ending promises columns.
    #[error("records `{}` would be text, not Parquet: name a file that ends in .csv", .0.display())]
    NotText(PathBuf),
    #[error(transparent)]
    Thread(ThreadError),
    #[error("cannot write the manifest {0}; the records have none")]
    Manifest(#[source] FileError),
    /// At the end; so long was waited for.
    #[error("records `{path}`: not all written after {1:?}; stopped without the rest and the manifest", path = .0.display())]
    Late(PathBuf, Duration),
}
