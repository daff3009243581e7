use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use record::FileError;

use crate::threads::ThreadError;

/// Why there will be no records, or no manifest to them: the file, and what would be right.
#[derive(Debug)]
pub enum RecordsError {
    File(PathBuf, io::Error),
    /// Rows of another run are in the file.
    Taken(PathBuf),
    /// A finished run is in the folder.
    TakenFolder(PathBuf),
    /// The ending promises columns.
    NotText(PathBuf),
    Thread(ThreadError),
    Manifest(FileError),
    /// At the end; so long was waited for.
    Late(PathBuf, Duration),
}

impl fmt::Display for RecordsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordsError::File(path, error) => {
                write!(
                    f,
                    "cannot write records `{}`: {error}; name a file in a folder that can be written",
                    path.display()
                )
            }
            RecordsError::Taken(path) => {
                write!(f, "records `{}` hold another run: move it away, or name another file", path.display())
            }
            RecordsError::TakenFolder(path) => {
                write!(f, "folder of records `{}` holds another run: name a file in another folder", path.display())
            }
            RecordsError::NotText(path) => {
                write!(f, "records `{}` would be text, not Parquet: name a file that ends in .csv", path.display())
            }
            RecordsError::Thread(error) => write!(f, "{error}"),
            RecordsError::Manifest(error) => write!(f, "cannot write the manifest {error}; the records have none"),
            RecordsError::Late(path, waited) => {
                let path = path.display();
                write!(
                    f,
                    "records `{path}`: not all written after {waited:?}; stopped without the rest and the manifest"
                )
            }
        }
    }
}

impl std::error::Error for RecordsError {}
