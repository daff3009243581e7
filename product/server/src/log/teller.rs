//! The thread that writes to standard error: error lines, and how many lines were lost, which whoever lost them cannot say.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::format::one_line;
use super::sink::{Complaints, count_of};
use super::{Batch, Log};

/// Lost lines are told at most this often.
const LOST_TOLD_EVERY: Duration = Duration::from_secs(1);
/// So many logs are named at a time, the others counted.
const LOGS_NAMED_MAX: usize = 10;

/// The end that all others hold.
#[derive(Debug, Clone)]
pub(super) struct Errors {
    pub messages: SyncSender<Message>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) enum Message {
    /// To be written behind `weir: `.
    Error(String),
    /// To be written as it is.
    Complaint(Vec<u8>),
    /// Look at what is shared.
    Wake,
    /// Write what has been sent and end.
    Stop,
}

/// Lost and not told yet.
#[derive(Debug, Default)]
struct Shared {
    /// Error lines dropped because the channel was full.
    errors: AtomicU64,
    /// Logs with lost lines, each once.
    logs: Mutex<Vec<Arc<Log>>>,
}

impl Errors {
    pub fn new(messages: SyncSender<Message>) -> Errors {
        Errors { messages, shared: Arc::default() }
    }

    /// In one line, whatever the text contains.
    pub fn tell(&self, text: &str) {
        self.send(Message::Error(one_line(text)));
    }

    /// Batches that their lane had no room for.
    pub fn lose(&self, batches: Vec<Batch>) {
        for batch in batches {
            if batch.log.lost.fetch_add(batch.lines, Relaxed) == 0 {
                self.shared.logs.lock().unwrap_or_else(PoisonError::into_inner).push(batch.log);
            }
        }
        // If the channel is full, the thread has a message to look at this with.
        let _ = self.messages.try_send(Message::Wake);
    }

    fn send(&self, message: Message) {
        if self.messages.try_send(message).is_err() {
            self.shared.errors.fetch_add(1, Relaxed);
        }
    }
}

/// Of a thread that may not wait for standard error.
impl Write for Errors {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send(Message::Complaint(bytes.to_vec()));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The state of the thread.
pub(super) struct Teller {
    received: Receiver<Message>,
    shared: Arc<Shared>,
    complaints: Complaints,
    told_at: Option<Instant>,
}

impl Teller {
    pub fn new(errors: &Errors, received: Receiver<Message>, complaints: Complaints) -> Teller {
        Teller { received, shared: Arc::clone(&errors.shared), complaints, told_at: None }
    }

    /// Until told to stop, or until all ends are gone.
    pub fn run(mut self) {
        loop {
            let message = if self.has_lost() {
                self.received.recv_timeout(LOST_TOLD_EVERY)
            } else {
                self.received.recv().map_err(|_| RecvTimeoutError::Disconnected)
            };
            match message {
                Ok(message) => {
                    if self.handle(message) {
                        break;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.tell_lost();
        }
        while let Ok(message) = self.received.try_recv() {
            self.handle(message);
        }
        self.told_at = None;
        self.tell_lost();
    }

    /// Returns whether to stop.
    fn handle(&mut self, message: Message) -> bool {
        match message {
            Message::Error(text) => self.complaints.tell(&text),
            Message::Complaint(bytes) => self.complaints.write(&bytes),
            Message::Wake => {}
            Message::Stop => return true,
        }
        false
    }

    fn has_lost(&self) -> bool {
        self.shared.errors.load(Relaxed) > 0 || !self.logs().is_empty()
    }

    fn logs(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Log>>> {
        self.shared.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell_lost(&mut self) {
        if !self.has_lost() || self.told_at.is_some_and(|at| at.elapsed() < LOST_TOLD_EVERY) {
            return;
        }
        self.told_at = Some(Instant::now());
        let logs = std::mem::take(&mut *self.logs());
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
        let errors = self.shared.errors.swap(0, Relaxed);
        if errors > 0 {
            self.complaints.tell(&format!("error log: {} lost", count_of(errors, "line")));
        }
    }
}
