//! A thread that writes the logs of one device, with few of them open.
//!
//! A write waits for its disk, or for the reader of its pipe. Logs that wait for different things have lanes of their own, so that none
//! waits for another's. Ten thousand sites have as many logs: the files written last stay open, the others are opened again by name.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::sink::{Complaints, Device};
use super::{Batch, Log};

/// Open files of a lane, pipes and terminals aside, which stay open. Opening and closing one again takes about 10 us.
pub const OPEN_MAX: usize = 128;

/// Bytes on the way to a thread: what 100,000 requests/s write in three seconds, at 200 bytes a line. Beyond, lines are lost.
pub const QUEUED_BYTES_MAX: usize = 64 << 20;
/// A batch is counted with so much besides its lines.
const BATCH_BYTES: usize = 128;

/// The way to a thread. Nobody waits at it.
#[derive(Debug, Clone)]
pub(super) struct ToLane {
    work: mpsc::Sender<Work>,
    queued_bytes: Arc<AtomicUsize>,
}

impl ToLane {
    /// And the thread that is still to be started at its other end.
    pub fn with_writer(shared: Arc<Shared>, complaints: Complaints) -> (ToLane, Writer) {
        let (work, received) = mpsc::channel();
        let queued_bytes = Arc::<AtomicUsize>::default();
        let writer = Writer { received, queued_bytes: Arc::clone(&queued_bytes), shared, complaints, batches: 0 };
        (ToLane { work, queued_bytes }, writer)
    }

    /// Gives them back where too much is on the way, or nobody is there.
    pub fn send(&self, batches: Vec<Batch>) -> Result<(), Vec<Batch>> {
        let bytes = bytes_of(&batches);
        if self.queued_bytes.fetch_add(bytes, Relaxed) + bytes > QUEUED_BYTES_MAX {
            self.queued_bytes.fetch_sub(bytes, Relaxed);
            return Err(batches);
        }
        self.work.send(Work::Lines(batches)).map_err(|back| match back.0 {
            Work::Lines(batches) => batches,
            Work::Wake | Work::Stop => unreachable!("lines come back as they went"),
        })
    }

    pub fn wake(&self) {
        // Nobody is there at the end alone.
        let _ = self.work.send(Work::Wake);
    }

    pub fn stop(&self) {
        let _ = self.work.send(Work::Stop);
    }
}

fn bytes_of(batches: &[Batch]) -> usize {
    batches.iter().map(|batch| batch.bytes.len() + BATCH_BYTES).sum()
}

#[derive(Debug)]
pub(super) enum Work {
    Lines(Vec<Batch>),
    /// Look at what is shared, and close what nobody writes to any more.
    Wake,
    /// Write what has been sent and end.
    Stop,
}

/// The end of those who send.
#[derive(Debug)]
pub(super) struct Lane {
    pub device: Device,
    pub work: ToLane,
    pub shared: Arc<Shared>,
    /// Disconnected when the thread has ended.
    pub ended: Receiver<()>,
}

#[derive(Debug, Default)]
pub(super) struct Shared {
    reopen: AtomicBool,
    open: Mutex<Vec<Arc<Log>>>,
}

impl Shared {
    pub fn open(&self) -> MutexGuard<'_, Vec<Arc<Log>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A log that has just been opened stays so, if there is room.
    pub fn adopt(&self, log: &Arc<Log>) {
        let mut open = self.open();
        if open.len() < OPEN_MAX || !log.is_closable {
            open.push(Arc::clone(log));
        } else {
            log.sink().close();
        }
    }
}

impl Lane {
    /// Each log that is open is opened anew by its name.
    pub fn reopen(&self) {
        self.shared.reopen.store(true, Relaxed);
        self.work.wake();
    }
}

/// The state of the thread.
pub(super) struct Writer {
    received: Receiver<Work>,
    queued_bytes: Arc<AtomicUsize>,
    shared: Arc<Shared>,
    complaints: Complaints,
    /// Batches written so far.
    batches: u64,
}

impl Writer {
    /// Until told to stop, or until all ends are gone.
    pub fn run(mut self) {
        while let Ok(work) = self.received.recv() {
            if self.handle(work) {
                self.drain();
                return;
            }
        }
    }

    /// What was sent so far.
    pub fn drain(&mut self) {
        while let Ok(work) = self.received.try_recv() {
            self.handle(work);
        }
    }

    /// Returns whether to stop.
    fn handle(&mut self, work: Work) -> bool {
        if self.shared.reopen.swap(false, Relaxed) {
            let open = self.shared.open().clone();
            for log in open {
                log.sink().reopen(&mut self.complaints);
            }
        }
        match work {
            Work::Lines(batches) => {
                let bytes = bytes_of(&batches);
                batches.into_iter().for_each(|batch| self.write(batch));
                self.queued_bytes.fetch_sub(bytes, Relaxed);
            }
            Work::Wake => self.close_unused(),
            Work::Stop => return true,
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
}
