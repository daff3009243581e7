//! All access logs by name, and the thread that writes them.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

#[cfg(test)]
use super::capture::Said;
use super::log_file::{Complaints, Output};
use super::writer::{Queue, Writer};
use super::{AccessLog, Log, LogConfig, STOP_WAIT_MAX};
use crate::threads::Threads;

/// All access logs. Dropping this value ends the thread after it has written everything sent, waiting at most
/// [`STOP_WAIT_MAX`]. The workers' handles must be dropped first.
#[derive(Debug)]
pub struct Logs {
    queue: Queue,
    /// A channel that is disconnected once the thread has ended.
    ended: Receiver<()>,
    known: Mutex<HashMap<Arc<LogConfig>, Weak<Log>>>,
    /// The logs whose files were created since [`Logs::keep_made`].
    made: Mutex<Vec<Made>>,
}

impl Logs {
    /// Starts the thread. `is_sandboxed` is true if access is confined to folders that were determined at the start.
    pub fn start(threads: &Threads, is_sandboxed: bool) -> io::Result<Logs> {
        let (logs, writer, running) = Logs::with(Complaints { to: Box::new(io::stderr()), is_sandboxed });
        let main = move || {
            let _running = running;
            writer.run();
            Ok(())
        };
        threads.spawn("weir-log", main).map_err(io::Error::other)?;
        Ok(logs)
    }

    /// Creates the logs, their writer (whose thread has not been started), and the sender that the thread must drop
    /// when it ends.
    pub(super) fn with(complaints: Complaints) -> (Logs, Writer, SyncSender<()>) {
        let (running, ended) = sync_channel(0);
        let (queue, writer) = Queue::with_writer(complaints);
        (Logs { queue, ended, known: Mutex::default(), made: Mutex::default() }, writer, running)
    }

    /// Lowers the bound on bytes queued for the thread, below [`super::QUEUED_BYTES_MAX`].
    pub fn bound(&self, bytes_max: usize) {
        self.queue.bound(bytes_max);
    }

    /// Returns the handle with which a worker writes to all logs.
    pub fn handle(&self) -> AccessLog {
        AccessLog::new(self.queue.clone())
    }

    /// Returns the log of this name and format, opening it if it is not open already.
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

    /// Confirms the files created so far, so that they are kept.
    pub fn keep_made(&self) {
        self.made().clear();
    }

    /// Removes unconfirmed files that are still empty, because their sites were not used after all.
    pub fn remove_made(&self) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for (config, log) in self.made().drain(..) {
            // The next site that uses this log opens a new file instead of the removed one, and a rotation does not
            // recreate it.
            known.remove(&config);
            if let Some(log) = log.upgrade() {
                log.sink().discard();
            }
            if let Some(path) = config.path.as_ref().filter(|path| is_empty(path)) {
                // A file that stays is harmless.
                let _ = std::fs::remove_file(path);
            }
        }
    }

    fn made(&self) -> MutexGuard<'_, Vec<Made>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reopens the files by their names, for example after a rotation. If that fails, the old file is kept.
    pub fn reopen(&self) {
        self.queue.reopen();
    }

    /// Returns a function that reopens the files from another thread, even while the server ends.
    pub fn reopener(&self) -> impl Fn() + Send + use<> {
        let queue = self.queue.clone();
        move || queue.reopen()
    }

    /// Closes files that no site uses any more, once their last response has been logged.
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

/// The writer of logs in tests. It runs without a thread.
#[cfg(test)]
pub struct Unthreaded {
    writer: Writer,
    said: Said,
}

#[cfg(test)]
impl Unthreaded {
    /// Creates the writer and its logs.
    pub fn new() -> (Logs, Unthreaded) {
        let said = Said::default();
        let (logs, writer, _) = Logs::with(Complaints { to: Box::new(said.clone()), is_sandboxed: false });
        (logs, Unthreaded { writer, said })
    }

    /// Writes everything sent so far.
    pub fn drain(&mut self) {
        self.writer.drain();
    }

    /// The lines written to standard error.
    pub fn said(&self) -> Vec<String> {
        self.said.lines()
    }
}

/// A log with the configuration for which its file was created.
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

/// Writes to standard error, unless that would block.
fn complain_at_once(text: &str) {
    const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut stderr = io::stderr();
    if poll(&mut [PollFd::new(&stderr, PollFlags::OUT)], Some(&AT_ONCE)).is_ok_and(|ready| ready > 0) {
        let _ = stderr.write_all(crate::stderr::line(text).as_bytes());
    }
}
