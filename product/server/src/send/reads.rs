//! The storage from which bodies are read. A response whose next bytes are not in memory waits until another thread has
//! read them.

use std::collections::VecDeque;
use std::io;

use sched::{JobId, Scheduler, Why};
use units::Nanos;

use super::Transmitter;
use super::sending::Sending;
use crate::body::Failure;
use crate::connection::Connections;
use crate::net::Socket;
use crate::storage::{InMemory, ReadDone, Storage, Write, Written};

/// The storage, the pending reads and writes of other threads, and notifications for producers.
pub struct Reads {
    storage: Box<dyn Storage + Send>,
    under_way: usize,
    /// Scratch for the reads that have ended, so that its allocation is reused.
    done: Vec<ReadDone>,
    /// The responses whose producers have room again.
    refills: VecDeque<JobId>,
    /// The number of writes in progress.
    writing: usize,
    /// The error of a failed write since the last call of `take_write_failure`.
    write_failure: Option<io::Error>,
}

impl Default for Reads {
    fn default() -> Reads {
        Reads::from(InMemory)
    }
}

impl Reads {
    pub fn from(storage: impl Storage + Send + 'static) -> Reads {
        Reads {
            storage: Box::new(storage),
            under_way: 0,
            done: Vec::new(),
            refills: VecDeque::new(),
            writing: 0,
            write_failure: None,
        }
    }

    pub fn is_idle(&self) -> bool {
        self.under_way == 0 && self.writing == 0
    }

    /// Returns true if a write to a file is in progress. The bytes stay in memory until it ends, even if their response
    /// has departed.
    #[cfg(test)]
    pub fn is_writing(&self) -> bool {
        self.writing > 0
    }

    pub fn storage(&mut self) -> &mut dyn Storage {
        &mut *self.storage
    }

    /// Returns the next response whose stopped producer may push again.
    pub fn next_refill(&mut self) -> Option<JobId> {
        self.refills.pop_front()
    }

    /// Records that the producer of `job` has room again.
    pub(super) fn on_room(&mut self, job: Option<JobId>) {
        self.refills.extend(job);
    }

    /// Returns the error of a write that has failed since the last call.
    pub fn take_write_failure(&mut self) -> Option<io::Error> {
        self.write_failure.take()
    }

    /// Begins to write part of a response to a file.
    pub(super) fn begin_write(&mut self, job: JobId, client: u32, write: Write) -> io::Result<()> {
        self.storage.write_aside(job, client, write)?;
        self.writing += 1;
        Ok(())
    }

    /// The writes that have ended.
    pub(super) fn ended_writes(&mut self) -> Vec<(JobId, Written)> {
        let mut written = Vec::new();
        if self.writing > 0 {
            self.storage.take_written(&mut written);
            self.writing -= written.len();
        }
        written
    }

    /// Handles the end of a write: the producer may continue, or has to wait for its client.
    pub(super) fn on_write_ended(&mut self, job: JobId, failed: Option<io::Error>) {
        self.write_failure = failed.or(self.write_failure.take());
        self.refills.push_back(job);
    }

    /// Starts a read of the next bytes of a response, which are not in memory, in another thread.
    pub(super) fn begin(&mut self, sending: &Sending, client: u32, scheduler: &mut Scheduler) -> Result<(), Failure> {
        let (entry, range) = sending.outgoing.absent();
        let asked = self.storage.read_aside(sending.id, client, entry, range);
        asked.map_err(|error| Failure::unreadable(entry, error))?;
        self.under_way += 1;
        scheduler.on_wait(sending.id, Why::Disk);
        Ok(())
    }
}

impl Transmitter {
    /// Takes the results of the reads and writes that other threads have ended.
    pub(super) fn take_reads(&mut self, connections: &mut Connections<impl Socket>, now: Nanos) {
        if self.reads.is_idle() {
            return;
        }
        self.reads.take_written(&mut self.sendings);
        let mut done = std::mem::take(&mut self.reads.done);
        self.reads.storage.take_done(&mut done);
        self.reads.under_way -= done.len();
        for read in done.drain(..) {
            let id = read.job;
            match self
                .sendings
                .get_mut(id)
                .map(|sending| sending.on_read(read, connections[sending.connection()].held.account()))
            {
                Some(Ok(())) => self.link.scheduler.on_wait_over(now, id, Why::Disk),
                Some(Err(failure)) => self.abort(connections, now, id, failure),
                None => {}
            }
        }
        self.reads.done = done;
    }
}

#[cfg(test)]
impl Transmitter {
    /// The memory in use for a connection and its responses, in bytes.
    pub fn alive_bytes(&mut self, connections: &mut Connections<impl Socket>, at: usize) -> usize {
        let connection = &mut connections[at];
        let jobs: Vec<JobId> = connection.protocol.jobs(&self.link.scheduler).collect();
        let sealed_bytes = connection.session.as_mut().map_or(0, |session| session.alive_bytes());
        let frames_bytes = connection.protocol.framed_mut().map_or(0, |framed| framed.alive_bytes());
        let of_jobs = jobs.into_iter().filter_map(|job| self.sendings.get_mut(job).map(|one| one.alive_bytes()));
        sealed_bytes + frames_bytes + of_jobs.sum::<usize>()
    }
}
