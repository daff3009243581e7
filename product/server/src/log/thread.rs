//! The thread that writes what the workers have sent, and says on standard error what went wrong with it.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use super::{Message, Shared, Target};

/// Lines lost to a full channel are told at most this often: the thread has enough to do already.
const LOST_TOLD_EVERY: Duration = Duration::from_secs(1);

/// Where lines are written.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) file: Option<File>,
    /// None for standard output, which cannot be opened anew.
    pub(super) path: Option<PathBuf>,
}

/// The state of the thread.
pub(super) struct Logger {
    pub(super) received: Receiver<Message>,
    shared: Arc<Shared>,
    pub(super) output: Output,
    complaints: Box<dyn Write + Send>,
    /// Lines lost since writing began to fail; None while it works.
    failing: Option<u64>,
    /// The last write stopped inside a line.
    torn: bool,
    told_at: Option<Instant>,
}

impl Output {
    pub(super) fn open(target: &Target) -> io::Result<Output> {
        Ok(match target {
            Target::Off => Output { file: None, path: None },
            Target::Stdout => Output { file: Some(File::from(io::stdout().as_fd().try_clone_to_owned()?)), path: None },
            Target::File(path) => Output { file: Some(append_to(path)?), path: Some(path.clone()) },
        })
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
}

fn append_to(path: &Path) -> io::Result<File> {
    File::options().append(true).create(true).open(path)
}

impl Logger {
    pub(super) fn new(
        received: Receiver<Message>,
        shared: Arc<Shared>,
        output: Output,
        complaints: Box<dyn Write + Send>,
    ) -> Logger {
        Logger { received, shared, output, complaints, failing: None, torn: false, told_at: None }
    }

    /// Until told to stop, or until all handles are gone.
    pub(super) fn run(mut self) {
        while let Ok(message) = self.received.recv() {
            if self.handle(message) {
                while let Ok(message) = self.received.try_recv() {
                    self.handle(message);
                }
                break;
            }
        }
        self.told_at = None;
        self.tell_lost();
    }

    /// Returns whether to stop.
    pub(super) fn handle(&mut self, message: Message) -> bool {
        if self.shared.reopen.swap(false, Relaxed) {
            self.reopen();
        }
        match message {
            Message::Lines(bytes) => self.write(&bytes),
            Message::Error(text) => self.complain(&text),
            Message::Wake => {}
            Message::Stop => return true,
        }
        self.tell_lost();
        false
    }

    fn reopen(&mut self) {
        let Some(path) = self.output.path.clone() else { return };
        match append_to(&path) {
            Ok(file) => {
                self.output.file = Some(file);
                self.torn = false;
            }
            Err(error) => {
                let name = self.output.name();
                self.complain(&format!("access log: cannot reopen {name}: {error}; writing to the old file"));
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        if self.torn && self.output.write(b"\n").1.is_ok() {
            self.torn = false;
        }
        let (written, result) = if self.torn { (0, Ok(())) } else { self.output.write(bytes) };
        let complete = written == bytes.len();
        let lost = bytes[written..].iter().filter(|&&byte| byte == b'\n').count() as u64;
        self.torn |= !complete && written > 0 && bytes[written - 1] != b'\n';
        match (self.failing, result) {
            (None, Err(error)) => {
                let name = self.output.name();
                self.complain(&format!(
                    "access log: cannot write {name}: {error}; serving goes on without it, free space or reopen it elsewhere"
                ));
                self.failing = Some(lost);
            }
            (Some(before), _) if !complete => self.failing = Some(before + lost),
            (Some(before), _) => {
                let name = self.output.name();
                self.complain(&format!("access log: writing {name} again, {before} lines lost"));
                self.failing = None;
            }
            (None, Ok(())) => {}
        }
    }

    fn tell_lost(&mut self) {
        if self.told_at.is_some_and(|at| at.elapsed() < LOST_TOLD_EVERY) {
            return;
        }
        let (lines, errors) = (&self.shared.lines_lost, &self.shared.errors_lost);
        let (lines, errors) = (lines.swap(0, Relaxed), errors.swap(0, Relaxed));
        if lines > 0 {
            self.complain(&format!("access log: {lines} lines lost"));
        }
        if errors > 0 {
            self.complain(&format!("error log: {errors} lines lost"));
        }
        if lines + errors > 0 {
            self.told_at = Some(Instant::now());
        }
    }

    /// If standard error fails too, there is nobody left to tell.
    fn complain(&mut self, text: &str) {
        let _ = self.complaints.write_all(format!("weir: {text}\n").as_bytes());
    }
}
