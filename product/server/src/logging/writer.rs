//! The thread that writes all logs, and error lines to standard error.
//!
//! The thread may block on a disk or on the reader of a pipe; no other thread waits for it. Its queue is bounded in
//! bytes: beyond the bound, lines are lost, counted and reported. Ten thousand sites may have as many logs, so only the
//! most recently written files stay open, and the others are reopened by name.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::format::one_line;
use super::log_file::{Complaints, count_of};
use super::{Batch, Log};

/// The maximum number of open files, apart from pipes and terminals, which stay open. Closing and reopening a file
/// takes about 10 µs.
pub const OPEN_MAX: usize = 128;

/// The maximum bytes queued for the thread: the lines of 100,000 requests/s for three seconds, at 200 bytes per line.
/// Beyond it, lines are lost.
pub const QUEUED_BYTES_MAX: usize = 64 << 20;
/// The bytes counted for a batch or an error line in addition to its text.
const MESSAGE_BYTES: usize = 128;

/// The minimum interval between two reports of lost lines.
const LOST_TOLD_EVERY: Duration = Duration::from_secs(1);
/// The maximum number of logs named in a report. Any others are only counted.
const LOGS_NAMED_MAX: usize = 10;

/// The queue to the thread.
#[derive(Debug, Clone)]
pub(super) struct Queue {
    messages: mpsc::Sender<Message>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
enum Message {
    Lines(Vec<Batch>),
    /// Writes a line to standard error, in the form of [`crate::stderr`].
    Error(String),
    /// Reopens each open log by its name.
    Reopen,
    /// Closes logs that have no users left.
    Wake,
    /// Writes everything that has been sent, then ends the thread.
    Stop,
}

#[derive(Debug, Default)]
struct Shared {
    queued_bytes: AtomicUsize,
    queued_bytes_max: AtomicUsize,
    open: Mutex<Vec<Arc<Log>>>,
    /// Logs with lost lines that were not reported yet, each once.
    logs_lost: Mutex<Vec<Arc<Log>>>,
    /// The number of lost error lines that were not reported yet.
    errors_lost: AtomicU64,
}

impl Shared {
    fn open(&self) -> MutexGuard<'_, Vec<Arc<Log>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn logs_lost(&self) -> MutexGuard<'_, Vec<Arc<Log>>> {
        self.logs_lost.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// Creates the queue, and its writer, whose thread has not been started.
    pub fn with_writer(complaints: Complaints) -> (Queue, Writer) {
        let (messages, received) = mpsc::channel();
        let queued_bytes_max = AtomicUsize::new(QUEUED_BYTES_MAX);
        let shared = Arc::new(Shared { queued_bytes_max, ..Shared::default() });
        let writer = Writer { received, shared: Arc::clone(&shared), complaints, batches: 0, told_at: None };
        (Queue { messages, shared }, writer)
    }

    /// Lowers the bound on queued bytes, below [`QUEUED_BYTES_MAX`].
    pub fn bound(&self, bytes_max: usize) {
        self.shared.queued_bytes_max.store(bytes_max.min(QUEUED_BYTES_MAX), Relaxed);
    }

    /// Sends batches, which are either all written or all lost.
    pub fn send(&self, batches: Vec<Batch>) {
        if self.reserve(bytes_of(&batches)) {
            // Sending fails only at the end of the process, when the writer is gone.
            let _ = self.messages.send(Message::Lines(batches));
            return;
        }
        for batch in batches {
            if batch.log.lost.fetch_add(batch.lines, Relaxed) == 0 {
                self.shared.logs_lost().push(batch.log);
            }
        }
    }

    /// Sends text for standard error, as one line whatever it contains.
    pub fn tell(&self, text: &str) {
        let line = one_line(text);
        if self.reserve(line.len() + MESSAGE_BYTES) {
            let _ = self.messages.send(Message::Error(line));
        } else {
            self.shared.errors_lost.fetch_add(1, Relaxed);
        }
    }

    /// Reserves room in the queue. Lines lost for lack of room are reported after the queued ones.
    fn reserve(&self, bytes: usize) -> bool {
        let bytes_max = self.shared.queued_bytes_max.load(Relaxed);
        let has_room = self.shared.queued_bytes.fetch_add(bytes, Relaxed) + bytes <= bytes_max;
        if !has_room {
            self.shared.queued_bytes.fetch_sub(bytes, Relaxed);
        }
        has_room
    }

    /// Keeps a newly opened log open if few enough files are open; otherwise closes it.
    pub fn adopt(&self, log: &Arc<Log>) {
        let mut open = self.shared.open();
        if open.len() < OPEN_MAX || !log.is_closable {
            open.push(Arc::clone(log));
        } else {
            log.sink().close();
        }
    }

    pub fn reopen(&self) {
        let _ = self.messages.send(Message::Reopen);
    }

    pub fn wake(&self) {
        let _ = self.messages.send(Message::Wake);
    }

    pub fn stop(&self) {
        let _ = self.messages.send(Message::Stop);
    }

    #[cfg(test)]
    pub fn open_files(&self) -> usize {
        self.shared.open().len()
    }
}

fn bytes_of(batches: &[Batch]) -> usize {
    batches.iter().map(|batch| batch.bytes.len() + MESSAGE_BYTES).sum()
}

/// The state of the thread.
pub(super) struct Writer {
    received: Receiver<Message>,
    shared: Arc<Shared>,
    complaints: Complaints,
    /// The number of batches written so far.
    batches: u64,
    told_at: Option<Instant>,
}

impl Writer {
    /// Runs until it receives [`Message::Stop`] or all senders are dropped.
    pub fn run(mut self) {
        loop {
            let message = if self.has_lost() {
                self.received.recv_timeout(LOST_TOLD_EVERY)
            } else {
                self.received.recv().map_err(|_| RecvTimeoutError::Disconnected)
            };
            let is_over = match message {
                Ok(message) => self.handle(message),
                Err(error) => error == RecvTimeoutError::Disconnected,
            };
            if is_over {
                break;
            }
            self.tell_lost();
        }
        self.drain();
        self.told_at = None;
        self.tell_lost();
    }

    /// Handles everything sent so far.
    pub fn drain(&mut self) {
        while let Ok(message) = self.received.try_recv() {
            self.handle(message);
        }
    }

    /// Handles a message. Returns true to stop.
    fn handle(&mut self, message: Message) -> bool {
        match message {
            Message::Lines(batches) => {
                let bytes = bytes_of(&batches);
                batches.into_iter().for_each(|batch| self.write(batch));
                self.shared.queued_bytes.fetch_sub(bytes, Relaxed);
            }
            Message::Error(line) => {
                self.complaints.tell(&line);
                self.shared.queued_bytes.fetch_sub(line.len() + MESSAGE_BYTES, Relaxed);
            }
            Message::Reopen => {
                let open = self.shared.open().clone();
                for log in open {
                    log.sink().reopen(&mut self.complaints);
                }
            }
            Message::Wake => self.close_unused(),
            Message::Stop => return true,
        }
        false
    }

    fn write(&mut self, batch: Batch) {
        self.batches += 1;
        let log = &batch.log;
        log.used.store(self.batches, Relaxed);
        let was_open = log.sink().is_open();
        if !was_open && !log.sink().has_descriptor() {
            self.close_oldest();
        }
        log.sink().write(&batch.bytes, &mut self.complaints);
        if !was_open && log.sink().is_open() {
            self.shared.open().push(Arc::clone(log));
            if self.shared.open().iter().filter(|log| log.is_closable).count() > OPEN_MAX {
                self.close_oldest();
            }
        }
        // The log has no user other than the batch and the list.
        if Arc::strong_count(log) <= 2 {
            drop(batch);
            self.close_unused();
        }
    }

    fn close_oldest(&self) {
        let mut open = self.shared.open();
        let closable = open.iter().enumerate().filter(|(_, log)| log.is_closable);
        if let Some((at, _)) = closable.min_by_key(|(_, log)| log.used.load(Relaxed)) {
            let log = open.swap_remove(at);
            drop(open);
            log.sink().close();
        }
    }

    /// Drops logs without users; their last lines have been written.
    fn close_unused(&self) {
        let unused: Vec<_> = self.shared.open().extract_if(.., |log| Arc::strong_count(log) == 1).collect();
        drop(unused);
    }

    fn has_lost(&self) -> bool {
        self.shared.errors_lost.load(Relaxed) > 0 || !self.shared.logs_lost().is_empty()
    }

    fn tell_lost(&mut self) {
        if !self.has_lost() || self.told_at.is_some_and(|at| at.elapsed() < LOST_TOLD_EVERY) {
            return;
        }
        self.told_at = Some(Instant::now());
        let logs = std::mem::take(&mut *self.shared.logs_lost());
        let (named, others) = logs.split_at(logs.len().min(LOGS_NAMED_MAX));
        for log in named {
            let lines = count_of(log.lost.swap(0, Relaxed), "line");
            self.complaints.tell(&format!("access log {}: {lines} lost", log.name()));
        }
        let lines = others.iter().map(|log| log.lost.swap(0, Relaxed)).sum();
        if lines > 0 {
            let (logs, lines) = (count_of(others.len() as u64, "other access log"), count_of(lines, "line"));
            self.complaints.tell(&format!("{logs}: {lines} lost"));
        }
        let errors = self.shared.errors_lost.swap(0, Relaxed);
        if errors > 0 {
            self.complaints.tell(&format!("error log: {} lost", count_of(errors, "line")));
        }
    }
}
