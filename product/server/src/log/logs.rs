//! All access logs by name, and the threads that write them.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::lane::{Lane, Queue, Shared, Work, Writer};
use super::sink::{Complaints, Device, Output};
use super::teller::{Errors, Message, Teller};
use super::{AccessLog, ERRORS_MAX, Log, LogConfig, MESSAGES_MAX, STOP_WAIT_MAX};
use crate::threads::Threads;

/// Threads that write, each for the logs of a device; those of further devices share the last one.
pub const LANES_MAX: usize = 8;

/// Dropping it ends the threads after they have written what was sent, and waits for at most [`STOP_WAIT_MAX`]. Drop the workers' handles
/// first.
#[derive(Debug)]
pub struct Logs {
    errors: Errors,
    errors_ended: Receiver<()>,
    lanes: Mutex<Vec<Lane>>,
    known: Mutex<HashMap<Arc<LogConfig>, Weak<Log>>>,
    /// Those whose files were made since [`Logs::keep_made`].
    made: Mutex<Vec<Made>>,
}

impl Logs {
    /// Starts the thread of error lines.
    pub fn start(threads: &Threads) -> io::Result<Logs> {
        let (logs, teller) = Logs::with(Complaints(Box::new(io::stderr())), ERRORS_MAX);
        let running = logs.1;
        let main = move || {
            let _running = running;
            teller.run();
            Ok(())
        };
        threads.spawn("weir-log", main).map_err(io::Error::other)?;
        Ok(logs.0)
    }

    /// With a thread that is still to be started, and what it drops at its end.
    pub(super) fn with(complaints: Complaints, messages_max: usize) -> ((Logs, SyncSender<()>), Teller) {
        let (messages, received) = sync_channel(messages_max);
        let (running, errors_ended) = sync_channel(0);
        let errors = Errors::new(messages);
        let teller = Teller::new(&errors, received, complaints);
        let logs =
            Logs { errors, errors_ended, lanes: Mutex::default(), known: Mutex::default(), made: Mutex::default() };
        ((logs, running), teller)
    }

    /// One worker's end.
    pub fn handle(&self) -> AccessLog {
        AccessLog::new(self.errors.clone())
    }

    /// The log of this name and format, opened unless it is in use.
    pub fn open(&self, config: &LogConfig, threads: &Threads) -> io::Result<Arc<Log>> {
        self.open_by(config, &mut |number, writer| {
            let (running, ended) = sync_channel(0);
            let main = move || {
                let _running: SyncSender<()> = running;
                writer.run();
                Ok(())
            };
            threads.spawn(&format!("weir-log-{number}"), main).map_err(io::Error::other)?;
            Ok(ended)
        })
    }

    /// The same, its thread started by `start`.
    pub(super) fn open_by(&self, config: &LogConfig, start: &mut Start<'_>) -> io::Result<Arc<Log>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(log) = known.get(config).and_then(Weak::upgrade) {
            return Ok(log);
        }
        let output = Output::open(config.path.as_deref())?;
        let (device, is_closable) = output.device()?;
        let mut lanes = self.lanes();
        let at = self.lane_for(&mut lanes, device, start)?;
        let lane = &lanes[at];
        let config = Arc::new(config.clone());
        let is_made = output.is_made;
        let log = Arc::new(Log::new(Arc::clone(&config), output, is_closable, at, lane.queue.clone()));
        lane.shared.adopt(&log);
        if is_made {
            self.made().push((Arc::clone(&log.config), Arc::downgrade(&log)));
        }
        known.insert(config, Arc::downgrade(&log));
        Ok(log)
    }

    fn lane_for(&self, lanes: &mut Vec<Lane>, device: Device, start: &mut Start<'_>) -> io::Result<usize> {
        if let Some(at) = lanes.iter().position(|lane| lane.device == device) {
            return Ok(at);
        }
        if lanes.len() == LANES_MAX {
            return Ok(LANES_MAX - 1);
        }
        let (work, received) = sync_channel(MESSAGES_MAX);
        let shared = Arc::new(Shared::default());
        let writer = Writer::new(received, Arc::clone(&shared), Complaints(Box::new(self.errors.clone())));
        let ended = start(lanes.len(), writer)?;
        lanes.push(Lane { device, queue: Queue::new(work), shared, ended });
        Ok(lanes.len() - 1)
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
        self.lanes().iter().for_each(Lane::reopen);
    }

    /// Closes the files that no site names any more, once the last response has been logged.
    pub fn forget_unused(&self) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).retain(|_, log| log.strong_count() > 0);
        self.lanes().iter().for_each(Lane::wake);
    }

    /// Writes `weir: text` to standard error, see [`AccessLog::error`].
    pub fn error(&self, text: &str) {
        self.errors.tell(text);
    }

    pub(super) fn lanes(&self) -> MutexGuard<'_, Vec<Lane>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A log whose file was made for it.
type Made = (Arc<LogConfig>, Weak<Log>);

fn is_empty(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() == 0)
}

/// Runs a writer, and gives a channel that is disconnected at its end.
pub(super) type Start<'s> = dyn FnMut(usize, Writer) -> io::Result<Receiver<()>> + 's;

impl Drop for Logs {
    fn drop(&mut self) {
        let until = Instant::now() + STOP_WAIT_MAX;
        // All are told before one is waited for.
        let told: Vec<bool> = self.lanes().iter().map(|lane| tell(&lane.queue.work, || Work::Stop, until)).collect();
        let has_ended = |lane: &Lane, told: bool| told && has_ended(&lane.ended, until);
        let all = self.lanes().iter().zip(told).all(|(lane, told)| has_ended(lane, told));
        if !all {
            self.errors
                .tell(&format!("access log: not all written after {STOP_WAIT_MAX:?}; stopping without the rest"));
        }
        // What the lanes said last.
        let until = Instant::now() + STOP_WAIT_MAX;
        let _ = tell(&self.errors.messages, || Message::Stop, until) && self::has_ended(&self.errors_ended, until);
    }
}

/// The channel may be full for as long as the disk is slow. False: it was until then.
fn tell<T>(channel: &SyncSender<T>, message: impl Fn() -> T, until: Instant) -> bool {
    while let Err(TrySendError::Full(_)) = channel.try_send(message()) {
        if Instant::now() >= until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

fn has_ended(ended: &Receiver<()>, until: Instant) -> bool {
    ended.recv_timeout(until.saturating_duration_since(Instant::now())) != Err(RecvTimeoutError::Timeout)
}
