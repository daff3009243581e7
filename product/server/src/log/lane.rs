//! A thread that writes the logs of one device, with few of them open.
//!
//! A write waits for its disk, or for the reader of its pipe. Logs that wait for different things have lanes of their own, so that none
//! waits for another's. Ten thousand sites have as many logs: the files written last stay open, the others are opened again by name.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::sink::{Complaints, Device};
use super::{Batch, Log, QUEUED_BYTES_MAX};

/// Open files of a lane, pipes and terminals aside, which stay open. Opening and closing one again takes about 10 us.
pub const OPEN_MAX: usize = 128;

#[derive(Debug)]
pub(super) enum Work {
    Lines(Vec<Batch>),
    /// Look at what is shared, and close what nobody writes to any more.
    Wake,
    /// Write what has been sent and end.
    Stop,
}

/// The way to a thread, bounded in messages and in bytes.
#[derive(Debug, Clone)]
pub(super) struct Queue {
    pub work: SyncSender<Work>,
    /// Of lines that are not written yet.
    bytes: Arc<AtomicUsize>,
}

impl Queue {
    pub fn new(work: SyncSender<Work>) -> Queue {
        Queue { work, bytes: Arc::default() }
    }

    /// Gives back what there is no room for.
    pub fn send(&self, batches: Vec<Batch>) -> Result<(), Vec<Batch>> {
        let bytes = batches.iter().map(Batch::size).sum();
        if self.bytes.fetch_add(bytes, Relaxed) + bytes > QUEUED_BYTES_MAX {
            self.bytes.fetch_sub(bytes, Relaxed);
            return Err(batches);
        }
        match self.work.try_send(Work::Lines(batches)) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(work) | TrySendError::Disconnected(work)) => {
                self.bytes.fetch_sub(bytes, Relaxed);
                let Work::Lines(batches) = work else { unreachable!("lines come back as they went") };
                Err(batches)
            }
        }
    }

    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }
}

/// The end of those who send.
#[derive(Debug)]
pub(super) struct Lane {
    pub device: Device,
    pub queue: Queue,
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
        self.wake();
    }

    pub fn wake(&self) {
        // If the channel is full, the thread has work to notice it with.
        let _ = self.queue.work.try_send(Work::Wake);
    }
}

/// The state of the thread.
pub(super) struct Writer {
    received: Receiver<Work>,
    shared: Arc<Shared>,
    complaints: Complaints,
    /// Batches written so far.
    batches: u64,
}

impl Writer {
    pub fn new(received: Receiver<Work>, shared: Arc<Shared>, complaints: Complaints) -> Writer {
        Writer { received, shared, complaints, batches: 0 }
    }

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
            Work::Lines(batches) => batches.into_iter().for_each(|batch| self.write(batch)),
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
        log.queue.bytes.fetch_sub(batch.size(), Relaxed);
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
