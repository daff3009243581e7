//! The access log, and error lines, written without ever making the event loop wait.
//!
//! A disk can take seconds for one write and a pipe can take forever. So a worker only formats its lines into a buffer
//! of its own; one thread writes for all. Between them stands a bounded channel: when the thread cannot keep up, lines
//! are lost and counted, and the count is told on standard error. Serving goes on whatever becomes of the log.
//!
//! Waking that thread costs about as much as answering a small request, so a worker sends its lines together: when
//! they are [`FLUSH_BYTES`] long, or [`FLUSH_AFTER`] since it last sent some. A lone request is logged at once.

mod format;
#[cfg(test)]
pub(crate) mod said;
pub(crate) mod sink;
mod thread;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use units::Nanos;

use crate::threads::Threads;

pub use format::{Entry, Format};
use format::{Formatter, one_line};
use sink::Output;
use thread::Logger;

/// Lines are sent when they are this long together.
pub const FLUSH_BYTES: usize = 32 * 1024;
/// Under load a worker sends its lines this often: 50 times a second, for a wake-up of about 5 µs each.
pub const FLUSH_AFTER: Nanos = Nanos::from_millis(20);
/// Messages on the way to the thread: 8 MiB of lines, at 200 bytes a line what 100,000 requests/s write in 0.4 s.
pub const MESSAGES_MAX: usize = 256;
/// How long a stopping server waits for its log to be written.
pub const STOP_WAIT_MAX: Duration = Duration::from_secs(2);

/// Where access lines go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Nowhere; error lines are written all the same.
    Off,
    Stdout,
    /// Appended to this file, made if missing.
    File(PathBuf),
}

/// One worker's end of the log. A clone has its own buffer; dropping it sends what is left.
#[derive(Debug)]
pub struct AccessLog {
    messages: SyncSender<Message>,
    shared: Arc<Shared>,
    /// None if access lines go nowhere.
    formatter: Option<Formatter>,
    buffer: Vec<u8>,
    /// In the buffer.
    lines: u64,
    sent_at: Option<Nanos>,
}

/// What workers and the thread both touch; all of it is told at the thread's next message.
#[derive(Debug, Default)]
struct Shared {
    /// Access lines dropped because the channel was full, not told yet.
    lines_lost: AtomicU64,
    /// Error lines likewise.
    errors_lost: AtomicU64,
    reopen: AtomicBool,
}

#[derive(Debug)]
enum Message {
    Lines(Vec<u8>),
    Error(String),
    /// Look at what is shared.
    Wake,
    /// Write what has been sent and end.
    Stop,
}

/// Ends the logging thread when dropped, after it has written what was sent; waits for at most [`STOP_WAIT_MAX`].
/// Drop the workers' handles first.
#[derive(Debug)]
pub struct Guard {
    messages: SyncSender<Message>,
    /// Disconnected when the thread has ended.
    ended: Receiver<()>,
}

impl AccessLog {
    /// Opens the file and starts the thread.
    pub fn open(target: Target, format: Format, threads: &Threads) -> io::Result<(AccessLog, Guard)> {
        let output = Output::open(&target)?;
        let formatter = (target != Target::Off).then(|| Formatter::new(format));
        let (log, logger) = AccessLog::with(output, formatter, MESSAGES_MAX, Box::new(io::stderr()));
        let (running, ended) = sync_channel(0);
        let messages = log.messages.clone();
        let main = move || {
            let _running: SyncSender<()> = running;
            logger.run();
            Ok(())
        };
        threads.spawn("weir-log", main).map_err(io::Error::other)?;
        Ok((log, Guard { messages, ended }))
    }

    fn with(
        output: Output,
        formatter: Option<Formatter>,
        messages_max: usize,
        complaints: Box<dyn io::Write + Send>,
    ) -> (AccessLog, Logger) {
        let (messages, received) = sync_channel(messages_max);
        let shared = Arc::new(Shared::default());
        let logger = Logger::new(received, shared.clone(), output, complaints);
        (AccessLog { messages, shared, formatter, buffer: Vec::new(), lines: 0, sent_at: None }, logger)
    }

    /// Adds a line. It is sent by [`AccessLog::flush`], or now if the buffer is full.
    pub fn write(&mut self, entry: &Entry<'_>) {
        let Some(formatter) = &mut self.formatter else { return };
        formatter.line(&mut self.buffer, entry);
        self.lines += 1;
        if self.buffer.len() >= FLUSH_BYTES {
            self.send();
        }
    }

    /// To be called once per turn of the loop. Returns when to call it again at the latest, if lines are left for then.
    pub fn flush(&mut self, now: Nanos) -> Option<Nanos> {
        if self.buffer.is_empty() {
            return None;
        }
        let due_at = self.sent_at.map(|at| at + FLUSH_AFTER);
        if due_at.is_some_and(|at| now < at) {
            return due_at;
        }
        self.sent_at = Some(now);
        self.send();
        None
    }

    /// Writes `weir: text` to standard error, in one line whatever the text contains. Dropped and counted when the
    /// thread cannot keep up.
    pub fn error(&self, text: &str) {
        if self.messages.try_send(Message::Error(one_line(text))).is_err() {
            self.shared.errors_lost.fetch_add(1, Relaxed);
        }
    }

    /// Opens the log file anew by its name, as after a rotation. If that fails the old one is kept.
    pub fn reopen(&self) {
        self.shared.reopen.store(true, Relaxed);
        // If the channel is full, the thread has a message to find the flag at.
        let _ = self.messages.try_send(Message::Wake);
    }

    fn send(&mut self) {
        let capacity = self.buffer.len().next_power_of_two();
        let buffer = std::mem::replace(&mut self.buffer, Vec::with_capacity(capacity));
        let lines = std::mem::take(&mut self.lines);
        if self.messages.try_send(Message::Lines(buffer)).is_err() {
            self.shared.lines_lost.fetch_add(lines, Relaxed);
        }
    }
}

impl Clone for AccessLog {
    fn clone(&self) -> AccessLog {
        AccessLog {
            messages: self.messages.clone(),
            shared: self.shared.clone(),
            formatter: self.formatter.clone(),
            buffer: Vec::new(),
            lines: 0,
            sent_at: None,
        }
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        if !self.buffer.is_empty() {
            self.send();
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let until = Instant::now() + STOP_WAIT_MAX;
        // The channel may be full for as long as the disk is slow.
        while let Err(TrySendError::Full(_)) = self.messages.try_send(Message::Stop) {
            if Instant::now() >= until {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        if self.ended.recv_timeout(until.saturating_duration_since(Instant::now())) == Err(RecvTimeoutError::Timeout) {
            eprintln!("weir: access log: not all written after {STOP_WAIT_MAX:?}; stopping without the rest");
        }
    }
}

#[cfg(test)]
mod tests;
