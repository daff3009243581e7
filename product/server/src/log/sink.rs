//! A file of lines whose disk may fail: trouble is told once, what is lost meanwhile is counted, and a line that was cut
//! short is ended before the next begins.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

/// Where lines are written.
#[derive(Debug)]
pub struct Output {
    /// None while it is closed; the next write opens it by its name.
    pub file: Option<File>,
    /// None for standard output, which cannot be opened anew.
    pub path: Option<PathBuf>,
    /// What an empty file begins with.
    head: Vec<u8>,
    /// There was no such file before it was opened.
    pub is_made: bool,
}

/// Lines on standard error. If that fails too, there is nobody left to tell.
pub struct Complaints(pub Box<dyn Write + Send>);

impl Complaints {
    pub fn tell(&mut self, text: &str) {
        let _ = self.0.write_all(format!("weir: {text}\n").as_bytes());
    }
}

#[derive(Debug)]
pub struct Sink {
    /// What is written, for messages: `access log`.
    what: &'static str,
    pub output: Output,
    /// Lines lost since writing began to fail; None while it works.
    failing: Option<u64>,
    /// Since the beginning.
    lost: u64,
    /// The last write stopped inside a line.
    torn: bool,
}

impl Output {
    /// A file, made if missing; without a path standard output.
    pub fn open(path: Option<&Path>) -> io::Result<Output> {
        match path {
            Some(path) => Output::with_head(path, Vec::new()),
            None => {
                let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
                Ok(Output { file: Some(file), path: None, head: Vec::new(), is_made: false })
            }
        }
    }

    /// A file of which an empty one begins with `head`.
    pub fn with_head(path: &Path, head: Vec<u8>) -> io::Result<Output> {
        let (file, is_made) = append_to(path, &head)?;
        Ok(Output { file: Some(file), path: Some(path.into()), head, is_made })
    }

    /// Whether it can be closed and opened again without a difference: no pipe, no terminal.
    pub fn is_closable(&self) -> io::Result<bool> {
        let Some(file) = &self.file else { return Err(ErrorKind::NotConnected.into()) };
        Ok(file.metadata()?.is_file() && self.path.is_some())
    }

    pub fn name(&self) -> String {
        self.path.as_ref().map_or("standard output".into(), |path| path.display().to_string())
    }

    /// How much was written, and what stopped it if that was not all.
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
            self.file = Some(append_to(path, &self.head)?.0);
        }
        Ok(())
    }

    /// Takes the part of a line at the end of what was written back, where lines are rows of a table: half a row would make the
    /// table unreadable. False: that cannot be, or need not.
    fn cut(&self, written: &[u8]) -> bool {
        let Some(file) = self.file.as_ref().filter(|_| !self.head.is_empty()) else { return false };
        let part = written.iter().rev().take_while(|&&byte| byte != b'\n').count() as u64;
        let end = file.metadata().ok().and_then(|metadata| metadata.len().checked_sub(part));
        end.is_some_and(|end| file.set_len(end).is_ok())
    }
}

/// A file that has no room for its head is left as empty as it was. A pipe that nobody reads is an error, where it would be
/// waited for: nobody is to wait for a log. Tells also whether the file was made for this.
fn append_to(path: &Path, head: &[u8]) -> io::Result<(File, bool)> {
    let without_waiting = OFlags::NONBLOCK.bits().cast_signed();
    let mut options = File::options();
    options.append(true).custom_flags(without_waiting);
    let (opened, is_made) = match options.open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => (options.create(true).open(path), true),
        opened => (opened, false),
    };
    let mut file = opened.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::NXIO) => io::Error::new(error.kind(), "nobody reads this pipe"),
        _ => error,
    })?;
    if file.metadata()?.file_type().is_fifo() {
        let flags = rustix::fs::fcntl_getfl(&file)?;
        rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    }
    if !head.is_empty() && file.metadata()?.len() == 0 {
        file.write_all(head).inspect_err(|_| drop(file.set_len(0)))?;
    }
    Ok((file, is_made))
}

/// `1 line`, `2 lines`.
pub fn count_of(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

impl Sink {
    pub fn new(what: &'static str, output: Output) -> Sink {
        Sink { what, output, failing: None, lost: 0, torn: false }
    }

    /// Lines that could not be written so far.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    pub fn is_open(&self) -> bool {
        self.output.file.is_some()
    }

    /// The next write opens it again.
    pub fn close(&mut self) {
        self.output.file = None;
    }

    /// It is never opened again.
    pub fn discard(&mut self) {
        (self.output.file, self.output.path) = (None, None);
    }

    /// False: there are too many open files.
    pub fn has_descriptor(&mut self) -> bool {
        let opened = self.output.open_again();
        !opened.is_err_and(|error| matches!(Errno::from_io_error(&error), Some(Errno::MFILE | Errno::NFILE)))
    }

    /// Opens the file anew by its name. False: that failed, and the old one is kept, or there is none to open.
    pub fn reopen(&mut self, complaints: &mut Complaints) -> bool {
        let Some(path) = &self.output.path else { return false };
        match append_to(path, &self.output.head) {
            Ok((file, _)) => {
                self.output.file = Some(file);
                self.torn = false;
                true
            }
            Err(error) => {
                let (what, name) = (self.what, self.output.name());
                complaints.tell(&format!("{what}: cannot reopen {name}: {error}; writing to the old file"));
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
        self.lost += lost;
        self.torn |= !complete && written > 0 && bytes[written - 1] != b'\n';
        if self.torn && !complete && self.output.cut(&bytes[..written]) {
            self.torn = false;
        }
        let (what, name) = (self.what, || self.output.name());
        match (self.failing, result) {
            (None, Err(error)) => {
                complaints.tell(&format!(
                    "{what}: cannot write {}: {error}; serving goes on without it, free space or reopen it elsewhere",
                    name()
                ));
                self.failing = Some(lost);
            }
            (Some(before), _) if !complete => self.failing = Some(before + lost),
            (Some(before), _) => {
                complaints.tell(&format!("{what}: writing {} again, {} lost", name(), count_of(before, "line")));
                self.failing = None;
            }
            (None, Ok(())) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::temporary::Folder;

    /// What a disk leaves that fills in the middle of a row.
    #[test]
    fn half_a_row_of_a_table_is_taken_back() {
        let folder = Folder::new();
        let path = folder.path("table");
        let output = Output::with_head(&path, b"a,b\n".to_vec()).unwrap();
        for (written, left) in [("1,2\n3,", "a,b\n1,2\n"), ("5,6\n", "a,b\n1,2\n5,6\n"), ("7", "a,b\n1,2\n5,6\n")] {
            (&mut output.file.as_ref().unwrap()).write_all(written.as_bytes()).unwrap();
            assert!(output.cut(written.as_bytes()));
            assert_eq!(std::fs::read_to_string(&path).unwrap(), left);
        }
    }

    #[test]
    fn half_a_line_of_a_log_stays() {
        let folder = Folder::new();
        let path = folder.put("log", "a line\nhalf a l");
        let output = Output::open(Some(&path)).unwrap();
        assert!(!output.cut(b"half a l"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a line\nhalf a l");
    }

    #[test]
    fn only_an_empty_file_gets_a_head() {
        let folder = Folder::new();
        let path = folder.path("table");
        for _ in 0..2 {
            Output::with_head(&path, b"a,b\n".to_vec()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a,b\n");
    }
}
