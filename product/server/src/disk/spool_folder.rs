//! The folder for spool files.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustix::fs::OFlags;
use rustix::io::Errno;

/// The folder for spool files, and the maximum total size of the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpoolConfig {
    pub folder: PathBuf,
    pub bytes_max: u64,
}

impl SpoolConfig {
    /// Creates a file in the folder as for a response, to check that this works.
    pub fn try_out(&self) -> io::Result<()> {
        make(&self.folder).map(drop)
    }
}

/// Returns the device of a folder, for the pool. Returns 0 if the folder is missing; each write then fails.
pub fn device(folder: &Path) -> u64 {
    fs::metadata(folder).map_or(0, |about| about.dev())
}

/// Creates a file without a name. On file systems that do not support that, removes the name immediately.
pub fn make(folder: &Path) -> io::Result<File> {
    let options = |flags: OFlags| {
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o600).custom_flags(flags.bits() as i32);
        options
    };
    match options(OFlags::TMPFILE).open(folder) {
        Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL)) => {}
        made => return made,
    }
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let path = folder.join(format!(".weir-spool-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed)));
    // Must not open another program's file, nor follow a symlink.
    let file = options(OFlags::NOFOLLOW).create_new(true).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}
