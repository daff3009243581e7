//! A file of lines whose disk may fail: trouble is told once, what is lost meanwhile is counted, and a line that was cut
//! short is ended before the next begins.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use super::Target;

/// Where lines are written.
#[derive(Debug)]
pub struct Output {
    pub file: Option<File>,
    /// None for standard output, which cannot be opened anew.
    pub path: Option<PathBuf>,
    /// What an empty file begins with.
    head: Vec<u8>,
}

/// Lines on standard error. If that fails too, there is nobody left to tell.
pub struct Complaints(pub Box<dyn Write + Send>);

impl Complaints {
    pub fn tell(&mut self, text: &str) {
        let _ = self.0.write_all(format!("weir: {text}\n").as_bytes());
    }
}

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
    pub fn open(target: &Target) -> io::Result<Output> {
        let head = Vec::new();
        Ok(match target {
            Target::Off => Output { file: None, path: None, head },
            Target::Stdout => {
                Output { file: Some(File::from(io::stdout().as_fd().try_clone_to_owned()?)), path: None, head }
            }
            Target::File(path) => Output { file: Some(append_to(path, &head)?), path: Some(path.clone()), head },
        })
    }

    /// A file of which an empty one begins with `head`.
    pub fn with_head(path: &Path, head: Vec<u8>) -> io::Result<Output> {
        Ok(Output { file: Some(append_to(path, &head)?), path: Some(path.into()), head })
    }

    fn name(&self) -> String {
        self.path.as_ref().map_or("standard output".into(), |path| path.display().to_string())
    }

    /// How much was written, and what stopped it if that was not all.
    fn write(&mut self, bytes: &[u8]) -> (usize, io::Result<()>) {
        let Some(file) = &mut self.file else { return (bytes.len(), Ok(())) };
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

    /// Takes the part of a line at the end of what was written back, where lines are rows of a table: half a row would make the
    /// table unreadable. False: that cannot be, or need not.
    fn cut(&self, written: &[u8]) -> bool {
        let Some(file) = self.file.as_ref().filter(|_| !self.head.is_empty()) else { return false };
        let part = written.iter().rev().take_while(|&&byte| byte != b'\n').count() as u64;
        let end = file.metadata().ok().and_then(|metadata| metadata.len().checked_sub(part));
        end.is_some_and(|end| file.set_len(end).is_ok())
    }
}

/// A file that has no room for its head is left as empty as it was.
fn append_to(path: &Path, head: &[u8]) -> io::Result<File> {
    let mut file = File::options().append(true).create(true).open(path)?;
    if !head.is_empty() && file.metadata()?.len() == 0 {
        file.write_all(head).inspect_err(|_| drop(file.set_len(0)))?;
    }
    Ok(file)
}

impl Sink {
    pub fn new(what: &'static str, output: Output) -> Sink {
        Sink { what, output, failing: None, lost: 0, torn: false }
    }

    /// Lines that could not be written so far.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Opens the file anew by its name. False: that failed, and the old one is kept, or there is none to open.
    pub fn reopen(&mut self, complaints: &mut Complaints) -> bool {
        let Some(path) = &self.output.path else { return false };
        match append_to(path, &self.output.head) {
            Ok(file) => {
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
                complaints.tell(&format!("{what}: writing {} again, {before} lines lost", name()));
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
        let output = Output::open(&Target::File(path.clone())).unwrap();
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
