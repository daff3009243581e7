//! Writes a trace such that no unfinished file stays: into a temporary file next to the target, which is then renamed.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use workload::Log;

use cli::Failure;

#[derive(clap::Args)]
pub struct Output {
    /// Where to write; gzipped if it ends in .gz.
    #[arg(long)]
    out: PathBuf,
    /// Print what was done as JSON.
    #[arg(long)]
    json: bool,
}

impl Output {
    /// Refuses to overwrite the file that is read, under any name, because the log would be lost.
    pub fn refuse(&self, read: &Path) -> Result<(), Failure> {
        let file = |path: &Path| fs::metadata(path).ok().filter(fs::Metadata::is_file).map(|of| (of.dev(), of.ino()));
        match file(&self.out) {
            Some(found) if file(read) == Some(found) => {
                let out = self.out.display();
                Err(Failure::Usage(format!("--out {out}: it is the file that is read: write another name")))
            }
            _ => Ok(()),
        }
    }

    /// Writes the log, then reports what was written; `from` describes its source.
    pub fn write(&self, from: &str, log: &Log) -> Result<(), Failure> {
        let gzip = self.out.extension().is_some_and(|extension| extension == "gz");
        replace(&self.out, |file| workload::write_csv(log, gzip, file))
            .map_err(|error| super::about(&self.out, error))?;
        if self.json {
            let out = self.out.to_string_lossy();
            let said = serde_json::json!({
                "from": from, "out": out, "requests": log.requests.len(), "bad_lines": log.bad.count,
            });
            return print(&format!("{said}\n"));
        }
        // Not on standard output, which may be the target.
        eprintln!("weirlab: {}: {} requests from {from}", self.out.display(), log.requests.len());
        Ok(())
    }
}

/// Prints to standard output. A closed pipe is an error, not a panic.
pub fn print(text: &str) -> Result<(), Failure> {
    use io::Write;
    let mut out = io::stdout().lock();
    let outcome = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    outcome.map_err(|error| Failure::Failed(format!("standard output: {error}")))
}

fn replace(path: &Path, write: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
    // A device or a pipe is written to, never replaced; a link keeps its target.
    let target = match fs::canonicalize(path) {
        Ok(found) if !found.is_file() => return write(&File::options().write(true).open(found)?),
        Ok(found) => found,
        Err(_) => path.to_path_buf(),
    };
    let Some(name) = target.file_name() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file name"));
    };
    let temporary = target.with_file_name(format!(".{}.{}.part", name.to_string_lossy(), std::process::id()));
    let file = File::options().write(true).create_new(true).open(&temporary)?;
    // Some file systems report a full disk only when they write to the disk.
    let outcome = write(&file).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&temporary, &target));
    if outcome.is_err() {
        // The first error is reported.
        let _ = fs::remove_file(&temporary);
    }
    outcome
}
