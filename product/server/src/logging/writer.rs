//! The thread that writes all logs, and error lines to standard error.
//!
//! It may wait for a disk, or for the reader of a pipe; nobody waits for it. What is on the way to it is bounded in bytes: beyond, lines are
//! lost, counted and told. Ten thousand sites have as many logs: the files written last stay open, the others are opened again by name.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::format::one_line;
use super::sink::{Complaints, count_of};
use super::{Batch, Log};

/// Open files, pipes and terminals aside, which stay open. Opening and closing one again takes about 10 us.
pub const OPEN_MAX: usize = 128;

/// Bytes on the way to the thread: what 100,000 requests/s write in three seconds, at 200 bytes a line. Beyond, lines are lost.
pub const QUEUED_BYTES_MAX: usize = 64 << 20;
/// A batch or an error line is counted with so much besides its text.
const MESSAGE_BYTES: usize = 128;

/// Lost lines are told at most this often.
const LOST_TOLD_EVERY: Duration = Duration::from_secs(1);
/// So many logs are named at a time, the others counted.
const LOGS_NAMED_MAX: usize = 10;

/// The way to the thread.
#[derive(Debug, Clone)]
pub(super) struct Queue {
    messages: mpsc::Sender<Message>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
enum Message {
    Lines(Vec<Batch>),
    /// To be written to standard error, as [`crate::stderr`] has it.
    Error(String),
    /// Each log that is open is opened anew by its name.
    Reopen,
    /// Close what nobody writes to any more.
    Wake,
    /// Write what has been sent and end.
    Stop,
}

#[derive(Debug, Default)]
struct Shared {
    queued_bytes: AtomicUsize,
    queued_bytes_max: AtomicUsize,
    open: Mutex<Vec<Arc<Log>>>,
    /// Logs with lines that were lost and not told yet, each once.
    logs_lost: Mutex<Vec<Arc<Log>>>,
    /// Error lines that were lost and not told yet.
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
    /// And the thread that is still to be started at its other end.
    pub fn with_writer(complaints: Complaints) -> (Queue, Writer) {
        let (messages, received) = mpsc::channel();
        let queued_bytes_max = AtomicUsize::new(QUEUED_BYTES_MAX);
        let shared = Arc::new(Shared { queued_bytes_max, ..Shared::default() });
        let writer = Writer { received, shared: Arc::clone(&shared), complaints, batches: 0, told_at: None };
        (Queue { messages, shared }, writer)
    }

    /// Less than [`QUEUED_BYTES_MAX`] may be on the way.
    pub fn bound(&self, bytes_max: usize) {
        self.shared.queued_bytes_max.store(bytes_max.min(QUEUED_BYTES_MAX), Relaxed);
    }

    /// Written or lost together.
    pub fn send(&self, batches: Vec<Batch>) {
        if self.reserve(bytes_of(&batches)) {
            // Nobody is there at the end alone.
            let _ = self.messages.send(Message::Lines(batches));
            return;
        }
        for batch in batches {
            if batch.log.lost.fetch_add(batch.lines, Relaxed) == 0 {
                self.shared.logs_lost().push(batch.log);
            }
        }
    }

    /// In one line, whatever the text contains.
    pub fn tell(&self, text: &str) {
        let line = one_line(text);
        if self.reserve(line.len() + MESSAGE_BYTES) {
            let _ = self.messages.send(Message::Error(line));
        } else {
            self.shared.errors_lost.fetch_add(1, Relaxed);
        }
    }

    /// What is lost for want of room is told behind what takes it.
    fn reserve(&self, bytes: usize) -> bool {
        let bytes_max = self.shared.queued_bytes_max.load(Relaxed);
        let has_room = self.shared.queued_bytes.fetch_add(bytes, Relaxed) + bytes <= bytes_max;
        if !has_room {
            self.shared.queued_bytes.fetch_sub(bytes, Relaxed);
        }
        has_room
    }

    /// A log that has just been opened stays so, if there is room.
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
    /// Batches written so far.
    batches: u64,
    told_at: Option<Instant>,
}

impl Writer {
    /// Until told to stop, or until all ends are gone.
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

    /// What was sent so far.
    pub fn drain(&mut self) {
        while let Ok(message) = self.received.try_recv() {
            self.handle(message);
        }
    }

    /// Returns whether to stop.
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
        // The batch and the list have it, and nobody else.
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

    /// Their last lines are written.
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
