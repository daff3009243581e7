//! Access logs and error lines, written without ever blocking the event loop.
//!
//! A disk can take seconds for one write, and a pipe can block forever. So a worker only formats its lines into its own
//! buffers, and one thread writes for all workers ([`writer`]). The queue between them is bounded in bytes: if the
//! thread cannot keep up, lines are lost and counted, and the count is reported on standard error. Serving continues
//! whatever happens to a log.
//!
//! Waking that thread costs about as much as answering a small request, so a worker sends its lines in groups: when
//! they reach [`FLUSH_BYTES`], or [`FLUSH_AFTER`] after it last sent some. A lone request is logged immediately.

#[cfg(test)]
mod capture;
mod format;
mod log_file;
#[cfg(test)]
pub mod log_lines;
mod logs;
mod writer;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use units::Nanos;

use format::Formatter;
pub use format::{Entry, Format, Outcome, PassedOn, Requested, SizeFrom, Sizes, Times};
use log_file::{Output, Sink};
pub use logs::Logs;
#[cfg(test)]
pub use logs::Unthreaded;
use writer::Queue;

/// The total length at which queued lines are sent.
pub const FLUSH_BYTES: usize = 32 * 1024;
/// The interval at which a worker sends its lines under load: 50 times a second, at about 5 µs per wake-up.
pub const FLUSH_AFTER: Nanos = Nanos::from_millis(20);
/// The minimum change of the difference between the two clocks from which one of them is assumed to have been set.
const STEP_MIN: Duration = Duration::from_millis(1);
/// The time for which a stopping server waits for its logs to be written.
pub const STOP_WAIT_MAX: Duration = Duration::from_secs(2);

/// A log as the operator configured it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LogConfig {
    /// The file to append to, created if missing; `None` for standard output.
    pub path: Option<PathBuf>,
    pub format: Format,
}

/// A log that sites use, or responses that began under one of them. A file written in two formats has two logs.
#[derive(Debug)]
pub struct Log {
    config: Arc<LogConfig>,
    /// The output. After the start, only the writing thread locks it.
    sink: Mutex<Sink>,
    /// True if the file can be closed between two writes.
    is_closable: bool,
    queue: Queue,
    /// The time of the last write, counted in batches over all logs.
    used: AtomicU64,
    /// The number of lines that were dropped because the queue was full, and not reported yet.
    lost: AtomicU64,
}

/// Lines of one log.
#[derive(Debug)]
struct Batch {
    log: Arc<Log>,
    bytes: Vec<u8>,
    lines: u64,
}

/// A worker's handle to all logs. A clone has its own buffers. Dropping the handle sends the remaining lines.
#[derive(Debug)]
pub struct AccessLog {
    queue: Queue,
    formatters: [Formatter; 2],
    /// The batches, by the address of their log. A batch keeps its log alive.
    batches: HashMap<usize, Batch>,
    /// The total bytes of the batches.
    buffered: usize,
    sent_at: Option<Nanos>,
    /// The time since 1970 at which the worker's clock was 0.
    origin: Duration,
}

impl Log {
    fn new(config: Arc<LogConfig>, output: Output, is_closable: bool, queue: Queue) -> Log {
        let sink = Mutex::new(Sink::new(output));
        let (used, lost) = (AtomicU64::new(0), AtomicU64::new(0));
        Log { config, sink, is_closable, queue, used, lost }
    }

    fn sink(&self) -> MutexGuard<'_, Sink> {
        self.sink.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Releases logs. The thread that writes them closes the files that have no other users.
    pub fn release(logs: impl IntoIterator<Item = Arc<Log>>) {
        let queue = logs.into_iter().fold(None, |queue, log| queue.or_else(|| Some(log.queue.clone())));
        queue.inspect(Queue::wake);
    }

    /// Returns the name for messages. It does not access the sink, which may be locked for as long as a disk takes.
    fn name(&self) -> String {
        self.config.path.as_ref().map_or("on standard output".into(), |path| path.display().to_string())
    }
}

impl AccessLog {
    fn new(queue: Queue) -> AccessLog {
        let formatters = [Format::Combined, Format::Json].map(Formatter::new);
        AccessLog { queue, formatters, batches: HashMap::new(), buffered: 0, sent_at: None, origin: Duration::ZERO }
    }

    /// Converts a time on the worker's clock to the time since 1970. The current time is `now` on the worker's clock,
    /// and `unix` since 1970. If a clock is set, later results follow it. The delay between reading the two clocks is
    /// ignored, so that times keep their order.
    pub fn unix_time(&mut self, at: Nanos, now: Nanos, unix: Duration) -> Duration {
        let origin = unix.saturating_sub(now.into());
        if origin.abs_diff(self.origin) > STEP_MIN {
            self.origin = origin;
        }
        self.origin + Duration::from(at)
    }

    /// Adds a line. It is sent by [`AccessLog::flush`], or immediately if the buffers are full.
    pub fn write(&mut self, log: &Arc<Log>, entry: &Entry<'_>) {
        let new = || Batch { log: Arc::clone(log), bytes: Vec::new(), lines: 0 };
        let batch = self.batches.entry(Arc::as_ptr(log).addr()).or_insert_with(new);
        let before = batch.bytes.len();
        self.formatters[log.config.format as usize].line(&mut batch.bytes, entry);
        batch.lines += 1;
        self.buffered += batch.bytes.len() - before;
        if self.buffered >= FLUSH_BYTES {
            self.send();
        }
    }

    /// Sends the lines if they are due. Must be called once per turn of the event loop. If lines are left, returns the
    /// latest time for the next call.
    pub fn flush(&mut self, now: Nanos) -> Option<Nanos> {
        if self.buffered == 0 {
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

    /// Writes `weir: text` to standard error, as one line whatever the text contains. If the thread cannot keep up, the
    /// line is dropped and counted.
    pub fn error(&self, text: &str) {
        self.queue.tell(text);
    }

    fn send(&mut self) {
        self.buffered = 0;
        self.queue.send(self.batches.drain().map(|(_, batch)| batch).collect());
    }
}

impl Clone for AccessLog {
    fn clone(&self) -> AccessLog {
        AccessLog::new(self.queue.clone())
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        if self.buffered > 0 {
            self.send();
        }
    }
}

#[cfg(test)]
mod tests;
