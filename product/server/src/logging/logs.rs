//! All access logs by name, and the thread that writes them.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

#[cfg(test)]
use super::said::Said;
use super::sink::{Complaints, Output};
use super::writer::{Queue, Writer};
use super::{AccessLog, Log, LogConfig, STOP_WAIT_MAX};
use crate::threads::Threads;

/// Dropping it ends the thread after it has written what was sent, and waits for at most [`STOP_WAIT_MAX`]. Drop the workers' handles
/// first.
#[derive(Debug)]
pub struct Logs {
    queue: Queue,
    /// Disconnected when the thread has ended.
    ended: Receiver<()>,
    known: Mutex<HashMap<Arc<LogConfig>, Weak<Log>>>,
    /// Those whose files were made since [`Logs::keep_made`].
    made: Mutex<Vec<Made>>,
}

impl Logs {
    pub fn start(threads: &Threads) -> io::Result<Logs> {
        let (logs, writer, running) = Logs::with(Complaints(Box::new(io::stderr())));
        let main = move || {
            let _running = running;
            writer.run();
            Ok(())
        };
        threads.spawn("weir-log", main).map_err(io::Error::other)?;
        Ok(logs)
    }

    /// With a thread that is still to be started, and what it drops at its end.
    pub(super) fn with(complaints: Complaints) -> (Logs, Writer, SyncSender<()>) {
        let (running, ended) = sync_channel(0);
        let (queue, writer) = Queue::with_writer(complaints);
        (Logs { queue, ended, known: Mutex::default(), made: Mutex::default() }, writer, running)
    }

    /// Less than [`super::QUEUED_BYTES_MAX`] may be on the way to the thread.
    pub fn bound(&self, bytes_max: usize) {
        self.queue.bound(bytes_max);
    }

    /// One worker's end.
    pub fn handle(&self) -> AccessLog {
        AccessLog::new(self.queue.clone())
    }

    /// The log of this name and format, opened unless it is in use.
    pub fn open(&self, config: &LogConfig) -> io::Result<Arc<Log>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(log) = known.get(config).and_then(Weak::upgrade) {
            return Ok(log);
        }
        let output = Output::open(config.path.as_deref())?;
        let is_closable = output.is_closable()?;
        let config = Arc::new(config.clone());
        let is_made = output.is_made;
        let log = Arc::new(Log::new(Arc::clone(&config), output, is_closable, self.queue.clone()));
        self.queue.adopt(&log);
        if is_made {
            self.made().push((Arc::clone(&log.config), Arc::downgrade(&log)));
        }
        known.insert(config, Arc::downgrade(&log));
        Ok(log)
    }

    /// The files made so far are wanted.
    pub fn keep_made(&self) {
        self.made().clear();
    }

    /// Removes the files made since, which nothing was written to: of sites that do not come into force.
    pub fn remove_made(&self) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for (config, log) in self.made().drain(..) {
            // The next to ask for it opens a file of that name, and not the one that is removed; a rotation does not make it again.
            known.remove(&config);
            if let Some(log) = log.upgrade() {
                log.sink().discard();
            }
            if let Some(path) = config.path.as_ref().filter(|path| is_empty(path)) {
                // A file that stays is of no harm.
                let _ = std::fs::remove_file(path);
            }
        }
    }

    fn made(&self) -> MutexGuard<'_, Vec<Made>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the files anew by their names, as after a rotation. Where that fails the old one is kept.
    pub fn reopen(&self) {
        self.queue.reopen();
    }

    /// Closes the files that no site names any more, once the last response has been logged.
    pub fn forget_unused(&self) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).retain(|_, log| log.strong_count() > 0);
        self.queue.wake();
    }

    /// Writes `weir: text` to standard error, see [`AccessLog::error`].
    pub fn error(&self, text: &str) {
        self.queue.tell(text);
    }

    #[cfg(test)]
    pub(super) fn open_files(&self) -> usize {
        self.queue.open_files()
    }
}

/// The other end of logs that no thread writes.
#[cfg(test)]
pub struct Unthreaded {
    writer: Writer,
    said: Said,
}

#[cfg(test)]
impl Unthreaded {
    /// And the logs.
    pub fn new() -> (Logs, Unthreaded) {
        let said = Said::default();
        let (logs, writer, _) = Logs::with(Complaints(Box::new(said.clone())));
        (logs, Unthreaded { writer, said })
    }

    /// Writes what was sent so far.
    pub fn drain(&mut self) {
        self.writer.drain();
    }

    /// What was said on standard error.
    pub fn said(&self) -> Vec<String> {
        self.said.lines()
    }
}

/// A log whose file was made for it.
type Made = (Arc<LogConfig>, Weak<Log>);

fn is_empty(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() == 0)
}

impl Drop for Logs {
    fn drop(&mut self) {
        self.queue.stop();
        if self.ended.recv_timeout(STOP_WAIT_MAX) == Err(RecvTimeoutError::Timeout) {
            complain_at_once(&format!("logs: not all written after {STOP_WAIT_MAX:?}; stopping without the rest"));
        }
    }
}

/// Unless standard error would have to be waited for.
fn complain_at_once(text: &str) {
    const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut stderr = io::stderr();
    if poll(&mut [PollFd::new(&stderr, PollFlags::OUT)], Some(&AT_ONCE)).is_ok_and(|ready| ready > 0) {
        let _ = stderr.write_all(crate::stderr::line(text).as_bytes());
    }
}
