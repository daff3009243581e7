//! A log file whose disk may fail. A failure is reported once, and the lines lost until writing works again are
//! counted. A line that was written in part is ended before the next one.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::stderr;

/// The destination of lines.
#[derive(Debug)]
pub struct Output {
    /// The open file. `None` while it is closed; the next write opens it by its name.
    pub file: Option<File>,
    /// The path of the file; `None` for standard output, which cannot be reopened.
    pub path: Option<PathBuf>,
    /// True if opening the file created it.
    pub is_made: bool,
}

/// Reports problems as lines on standard error. If standard error fails too, the lines are lost.
pub struct Complaints {
    pub to: Box<dyn Write + Send>,
    /// True if access is confined to folders that were determined at the start.
    pub is_sandboxed: bool,
}

impl Complaints {
    pub fn tell(&mut self, text: &str) {
        let _ = self.to.write_all(stderr::line(text).as_bytes());
    }

    /// Describes the error of opening a file. Mentions the sandbox if another folder may have replaced the one
    /// determined at the start.
    fn explained(&self, error: &io::Error) -> String {
        let may_be = self.is_sandboxed && error.kind() == ErrorKind::PermissionDenied;
        let why = if may_be { OUT_OF_REACH } else { "" };
        format!("{error}{why}")
    }
}

const OUT_OF_REACH: &str =
    ", or its folder was created after the start and is outside weir's sandbox: run `weir upgrade`";

#[derive(Debug)]
pub struct Sink {
    pub output: Output,
    /// The number of lines lost since writing began to fail; `None` while writing works.
    failing: Option<u64>,
    /// True if the last write stopped inside a line.
    torn: bool,
}

impl Output {
    /// Opens a file, creating it if it is missing. Without a path, opens standard output.
    pub fn open(path: Option<&Path>) -> io::Result<Output> {
        match path {
            Some(path) => {
                let (file, is_made) = append_to(path)?;
                Ok(Output { file: Some(file), path: Some(path.into()), is_made })
            }
            None => {
                let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
                Ok(Output { file: Some(file), path: None, is_made: false })
            }
        }
    }

    /// Returns true if the file can be closed and reopened without loss, unlike pipes and terminals.
    pub fn is_closable(&self) -> io::Result<bool> {
        let Some(file) = &self.file else { return Err(ErrorKind::NotConnected.into()) };
        Ok(file.metadata()?.is_file() && self.path.is_some())
    }

    pub fn name(&self) -> String {
        self.path.as_ref().map_or("standard output".into(), |path| path.display().to_string())
    }

    /// Returns the number of bytes written, and the error if not all were.
    fn write(&mut self, bytes: &[u8]) -> (usize, io::Result<()>) {
        if let Err(error) = self.open_again() {
            return (0, Err(error));
        }
        let Some(file) = &mut self.file else { return (0, Err(ErrorKind::NotConnected.into())) };
        let mut written = 0;
        while written < bytes.len() {
            match file.write(&bytes[written..]) {
                Ok(0) => return (written, Err(ErrorKind::WriteZero.into())),
                Ok(more) => written += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return (written, Err(error)),
            }
        }
        (written, Ok(()))
    }

    fn open_again(&mut self) -> io::Result<()> {
        if let (None, Some(path)) = (&self.file, &self.path) {
            self.file = Some(append_to(path)?.0);
        }
        Ok(())
    }
}

/// The mode of a new log, regardless of the umask: it contains addresses of clients and names of users.
const MODE: u32 = 0o640;

/// Opens a file for appending, without blocking: a pipe without a reader is an error. Also returns whether the file was
/// created.
fn append_to(path: &Path) -> io::Result<(File, bool)> {
    let without_waiting = OFlags::NONBLOCK.bits().cast_signed();
    let mut options = File::options();
    options.append(true).mode(MODE).custom_flags(without_waiting);
    let (opened, is_made) = match options.open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => (options.create(true).open(path), true),
        opened => (opened, false),
    };
    let file = opened.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::NXIO) => io::Error::new(error.kind(), "nobody reads this pipe"),
        _ => error,
    })?;
    if file.metadata()?.file_type().is_fifo() {
        let flags = rustix::fs::fcntl_getfl(&file)?;
        rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    }
    Ok((file, is_made))
}

/// Formats `1 line`, `2 lines`.
pub fn count_of(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

impl Sink {
    pub fn new(output: Output) -> Sink {
        Sink { output, failing: None, torn: false }
    }

    pub fn is_open(&self) -> bool {
        self.output.file.is_some()
    }

    /// Closes the file; the next write reopens it.
    pub fn close(&mut self) {
        self.output.file = None;
    }

    /// Closes the file permanently.
    pub fn discard(&mut self) {
        (self.output.file, self.output.path) = (None, None);
    }

    /// Returns false if too many files are open.
    pub fn has_descriptor(&mut self) -> bool {
        let opened = self.output.open_again();
        !opened.is_err_and(|error| matches!(Errno::from_io_error(&error), Some(Errno::MFILE | Errno::NFILE)))
    }

    /// Reopens the file by its name. Returns false if there is no name, or if reopening failed and the old file is
    /// kept.
    pub fn reopen(&mut self, complaints: &mut Complaints) -> bool {
        let Some(path) = &self.output.path else { return false };
        match append_to(path) {
            Ok((file, _)) => {
                self.output.file = Some(file);
                self.torn = false;
                true
            }
            Err(error) => {
                let (name, why) = (self.output.name(), complaints.explained(&error));
                complaints.tell(&format!("access log: cannot reopen {name}: {why}; writing to the old file"));
                false
            }
        }
    }

    pub fn write(&mut self, bytes: &[u8], complaints: &mut Complaints) {
        if self.torn && self.output.write(b"\n").1.is_ok() {
            self.torn = false;
        }
        let (written, result) = if self.torn { (0, Ok(())) } else { self.output.write(bytes) };
        let complete = written == bytes.len();
        let lost = bytes[written..].iter().filter(|&&byte| byte == b'\n').count() as u64;
        self.torn |= !complete && written > 0 && bytes[written - 1] != b'\n';
        let name = || self.output.name();
        match (self.failing, result) {
            (None, Err(error)) => {
                let why = complaints.explained(&error);
                complaints.tell(&format!(
                    "access log: cannot write {}: {why}; serving continues without it; free space, or reopen it \
                        elsewhere",
                    name()
                ));
                self.failing = Some(lost);
            }
            (Some(before), _) if !complete => self.failing = Some(before + lost),
            (Some(before), _) => {
                complaints.tell(&format!("access log: writing {} again, {} lost", name(), count_of(before, "line")));
                self.failing = None;
            }
            (None, Ok(())) => {}
        }
    }
}
