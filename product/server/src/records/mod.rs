//! One row for every response, as the load generator writes one for every request: what `weirlab report` reads, from the
//! server's side.
//!
//! As with the access log a disk can take seconds for one write, and no event loop may wait for it. A worker only gathers
//! rows; one thread makes them text and writes. Between them stands a bounded channel: rows that find it full are lost and
//! counted. The thread is not that of the log, whose lines may go to a pipe that nobody reads.
//!
//! What the columns mean on the server's side stands with [`record::JobRecord`].

mod error;
mod manifest;
#[cfg(test)]
mod tests;
mod thread;

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use record::{FileError, JobRecord};
use units::Nanos;

use crate::log::sink::Complaints;
use crate::threads::Threads;
pub use error::RecordsError;
pub use manifest::About;
use thread::Writer;

/// Rows are sent when they are so many: 30 KiB.
const ROWS_PER_MESSAGE: usize = 256;
/// A row waits at most this long for others. Nobody reads along, so a row has time, and a message may hold many.
const FLUSH_AFTER: Nanos = Nanos::from_secs(1);
/// Messages on the way to the thread: 65,536 rows, 8 MiB. At 10,000 requests/s a disk may stand still for six seconds.
const MESSAGES_MAX: usize = 256;
/// How long a stopping server waits for the last rows and the manifest.
const STOP_WAIT_MAX: Duration = Duration::from_secs(10);

/// Which records are wanted.
#[derive(Debug, Clone)]
pub struct RecordsConfig {
    /// Text with commas; `manifest.json` comes to stand beside it.
    pub path: PathBuf,
    /// For the manifest: what was typed.
    pub command: Vec<String>,
    /// For the manifest: which program this is, its version and its commit.
    pub version: String,
    pub commit: String,
}

/// What a worker knows of a response that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Instants on our clock, until [`Recorder::write`].
    pub record: JobRecord,
    /// It was the first on its connection.
    pub opens: bool,
}

/// One worker's end. A clone has its own rows; dropping it sends what is left.
#[derive(Debug)]
pub struct Recorder {
    messages: SyncSender<Message>,
    shared: Arc<Shared>,
    /// When the run began.
    origin: Nanos,
    rows: Vec<Row>,
    /// When the oldest of them has waited long enough.
    due_at: Option<Nanos>,
}

#[derive(Debug, Default)]
struct Shared {
    /// For want of room in the channel.
    rows_lost: AtomicU64,
    reopen: AtomicBool,
    /// The names of the classes by number, once they are others than at the start.
    classes: Mutex<Option<Vec<String>>>,
}

impl Shared {
    fn classes(&self) -> std::sync::MutexGuard<'_, Option<Vec<String>>> {
        self.classes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub enum Message {
    Rows(Vec<Row>),
    /// Look at what is shared.
    Wake,
    /// Write the manifest and end.
    Stop,
}

/// Ends the recording.
#[derive(Debug)]
pub struct Finisher {
    messages: SyncSender<Message>,
    /// What became of the manifest.
    ended: Receiver<Result<(), FileError>>,
    path: PathBuf,
}

impl Recorder {
    /// Begins the file and starts the thread.
    pub fn start(
        path: PathBuf,
        about: About,
        now: Nanos,
        threads: &Threads,
    ) -> Result<(Recorder, Finisher), RecordsError> {
        let output = thread::begin(&path)?;
        let complaints = Complaints(Box::new(io::stderr()));
        let (recorder, writer) = Recorder::with(Writer::parts(output, complaints, about, now), MESSAGES_MAX);
        let (tell, ended) = sync_channel(1);
        let messages = recorder.messages.clone();
        let main = move || {
            // Where nobody waits any more, nobody wants to know.
            let _ = tell.send(writer.run());
            Ok(())
        };
        threads.spawn("weir-records", main).map_err(RecordsError::Thread)?;
        Ok((recorder, Finisher { messages, ended, path }))
    }

    fn with(parts: thread::Parts, messages_max: usize) -> (Recorder, Writer) {
        let (messages, received) = sync_channel(messages_max);
        let (shared, origin) = (Arc::new(Shared::default()), parts.began_at());
        let writer = Writer::new(parts, received, Arc::clone(&shared));
        (Recorder { messages, shared, origin, rows: Vec::new(), due_at: None }, writer)
    }

    /// Takes a row, whose instants are those of our clock.
    pub fn write(&mut self, now: Nanos, mut row: Row) {
        let record = &mut row.record;
        let since = |at: u64| (Nanos(at) - self.origin).0;
        record.arrival_ns = since(record.arrival_ns);
        record.first_byte_ns = record.first_byte_ns.map(since);
        record.end_ns = since(record.end_ns);
        self.rows.push(row);
        self.due_at.get_or_insert(now + FLUSH_AFTER);
        if self.rows.len() >= ROWS_PER_MESSAGE {
            self.send();
        }
    }

    /// Responses of which it will never be known how they ended.
    pub fn lose(&self, rows: u64) {
        self.shared.rows_lost.fetch_add(rows, Relaxed);
    }

    /// To be called once per turn of the loop. Returns when to call it again at the latest, if rows are left for then.
    pub fn flush(&mut self, now: Nanos) -> Option<Nanos> {
        if self.due_at.is_some_and(|at| now >= at) {
            self.send();
        }
        self.due_at
    }

    /// The names of the classes by number from now on. Those that had names keep them.
    pub fn name_classes(&self, names: Vec<String>) {
        *self.shared.classes() = Some(names);
    }

    /// Opens the file anew by its name, as after a rotation. If that fails the old one is kept.
    pub fn reopen(&self) {
        self.shared.reopen.store(true, Relaxed);
        // If the channel is full, the thread has a message to find the flag at.
        let _ = self.messages.try_send(Message::Wake);
    }

    fn send(&mut self) {
        self.due_at = None;
        let rows = std::mem::take(&mut self.rows);
        let count = rows.len() as u64;
        if count > 0 && self.messages.try_send(Message::Rows(rows)).is_err() {
            self.lose(count);
        }
    }
}

#[cfg(test)]
impl Recorder {
    /// Whose rows a test takes by [`Recorder::taken`].
    pub fn for_test() -> (Recorder, Receiver<Message>) {
        let (messages, received) = sync_channel(MESSAGES_MAX);
        let shared = Arc::default();
        (Recorder { messages, shared, origin: Nanos::ZERO, rows: Vec::new(), due_at: None }, received)
    }

    /// The rows written so far.
    pub fn taken(&mut self, received: &Receiver<Message>) -> Vec<Row> {
        self.send();
        let rows = |message| if let Message::Rows(rows) = message { rows } else { vec![] };
        received.try_iter().flat_map(rows).collect()
    }
}

impl Clone for Recorder {
    fn clone(&self) -> Recorder {
        let (messages, shared) = (self.messages.clone(), Arc::clone(&self.shared));
        Recorder { messages, shared, origin: self.origin, rows: Vec::new(), due_at: None }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.send();
    }
}

impl Finisher {
    /// Has what was sent written and the manifest beside it; the workers' handles are gone by now.
    pub fn finish(self) -> Result<(), RecordsError> {
        self.finish_within(STOP_WAIT_MAX)
    }

    fn finish_within(self, wait: Duration) -> Result<(), RecordsError> {
        let until = Instant::now() + wait;
        let late = || RecordsError::Late(self.path.clone(), wait);
        // The channel may be full for as long as the disk is slow.
        while let Err(TrySendError::Full(_)) = self.messages.try_send(Message::Stop) {
            if Instant::now() >= until {
                return Err(late());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        match self.ended.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(written) => written.map_err(RecordsError::Manifest),
            Err(RecvTimeoutError::Timeout) => Err(late()),
            // It has panicked, which those who watch threads tell.
            Err(RecvTimeoutError::Disconnected) => Ok(()),
        }
    }
}
