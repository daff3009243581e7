//! The disk. The seed determines when the work ends that other threads would do for a worker.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard};

use sched::JobId;
use units::Nanos;

use super::plan::Plan;
use super::random::Random;
use crate::codec::Level;
use crate::coded::{Coder, Job};
use crate::disk::{Buffer, Pool, Taken};
use crate::files::{Content, Entry};
use crate::storage::{Look, ReadDone, Storage, Write, Written};
use crate::wake::Wake;

/// The memory for coded forms: too little for the forms of all pages.
const CODED_BYTES_MAX: u64 = 32 << 20;
/// The maximum length of a page that is coded at the best level.
const BETTER_BYTES_MAX: u64 = 40_000;

/// Lookups that wait for the disk, reads, and writes of spooled responses.
pub struct DiskQueue {
    pub pool: Arc<Pool>,
    pub coder: Arc<Coder>,
    reads: Arc<Mutex<Reads>>,
    wake: Arc<Wake>,
    under_way: BTreeMap<u64, Task>,
    numbered: u64,
    /// The number of reads that failed.
    pub failures: u64,
}

enum Task {
    Lookup(Taken),
    Code(Job),
    Read(ReadDone),
    Write(JobId, Box<Written>),
}

#[derive(Default)]
struct Reads {
    asked: Vec<(JobId, Arc<Entry>, Range<u64>)>,
    done: Vec<ReadDone>,
    to_write: Vec<(JobId, Write)>,
    written: Vec<(JobId, Written)>,
}

/// The storage that a transmitter uses.
pub struct SimulatedStorage {
    reads: Arc<Mutex<Reads>>,
    random: Random,
    cold_permille: u64,
    scratch: Vec<u8>,
}

impl DiskQueue {
    pub fn new(wake: Arc<Wake>, buffered_bytes_max: u64) -> DiskQueue {
        let pool = Pool::unthreaded(buffered_bytes_max);
        let coder = Arc::new(Coder::new(CODED_BYTES_MAX));
        let (reads, under_way) = (Arc::default(), BTreeMap::new());
        DiskQueue { pool, coder, reads, wake, under_way, numbered: 0, failures: 0 }
    }

    pub fn storage(&self, plan: &Plan, random: &mut Random) -> SimulatedStorage {
        let (reads, random) = (Arc::clone(&self.reads), Random::new(random.word()));
        SimulatedStorage { reads, random, cold_permille: plan.cold_permille, scratch: Vec::new() }
    }

    /// Begins a task; returns its number and its duration.
    pub fn begin(&mut self, random: &mut Random, plan: &Plan) -> Option<(u64, Nanos)> {
        let mut asked = lock(&self.reads);
        let read = asked.asked.pop();
        let write = if read.is_none() { asked.to_write.pop() } else { None };
        drop(asked);
        let task = match read {
            Some((job, entry, range)) => {
                let is_broken = plan.has_disk_errors && random.once_in(40);
                self.failures += u64::from(is_broken);
                let result = if is_broken { Err(io::ErrorKind::Other.into()) } else { self.read(&entry, range) };
                Task::Read(ReadDone { job, result })
            }
            None => match write {
                Some((job, write)) => Task::Write(job, Box::new(DiskQueue::write(write, random, plan))),
                None => match self.pool.begin() {
                    Some(taken) => Task::Lookup(taken),
                    None => Task::Code(self.job()?),
                },
            },
        };
        self.numbered += 1;
        self.under_way.insert(self.numbered, task);
        Some((self.numbered, Nanos(random.below(plan.disk_takes_max.0))))
    }

    /// The next form that is to be made.
    fn job(&self) -> Option<Job> {
        let better = || std::iter::from_fn(|| self.coder.begin(Level::Best));
        // The best level of a long page would take longer than all else.
        self.coder.begin(Level::Fast).or_else(|| better().find(|job| job.entry.len <= BETTER_BYTES_MAX))
    }

    fn read(&self, entry: &Entry, range: Range<u64>) -> io::Result<Buffer> {
        let Content::Open(file) = &entry.content else { unreachable!("a held body is not read") };
        let mut buffer = self.pool.buffer(range.end - range.start);
        buffer.fill(file, range.start).map(|()| buffer)
    }

    /// Performs a write. A write that fails may have written some bytes.
    fn write(write: Write, random: &mut Random, plan: &Plan) -> Written {
        let is_broken = plan.has_disk_errors && random.once_in(10);
        let written = write.run(&std::env::temp_dir(), None);
        if is_broken { Written { result: Err(io::ErrorKind::StorageFull.into()), ..written } } else { written }
    }

    pub fn end(&mut self, number: u64) {
        match self.under_way.remove(&number) {
            Some(Task::Lookup(taken)) => self.pool.end(taken),
            Some(Task::Code(job)) => self.coder.run(job),
            Some(Task::Read(done)) => {
                lock(&self.reads).done.push(done);
                self.wake.set();
            }
            Some(Task::Write(job, written)) => {
                lock(&self.reads).written.push((job, *written));
                self.wake.set();
            }
            None => {}
        }
    }
}

fn lock(reads: &Mutex<Reads>) -> MutexGuard<'_, Reads> {
    reads.lock().expect("nothing panics while it holds the reads")
}

impl Storage for SimulatedStorage {
    fn look(&mut self, entry: &Entry, offset: u64, count: u64) -> io::Result<Look<'_>> {
        let Content::Open(file) = &entry.content else { unreachable!("a held body is not read") };
        if self.random.below(1_000) < self.cold_permille {
            return Ok(Look::Absent);
        }
        if count > crate::storage::COPIED_BYTES_MAX as u64 {
            return Ok(Look::Resident(self.random.between(1, count)));
        }
        self.scratch.resize(count as usize, 0);
        let read = file.read_at(&mut self.scratch, offset)?;
        Ok(Look::Copied(&self.scratch[..read]))
    }

    fn read_aside(&mut self, job: JobId, _: u32, entry: &Arc<Entry>, range: Range<u64>) -> io::Result<()> {
        lock(&self.reads).asked.push((job, Arc::clone(entry), range));
        Ok(())
    }

    fn take_done(&mut self, into: &mut Vec<ReadDone>) {
        into.append(&mut lock(&self.reads).done);
    }

    fn write_aside(&mut self, job: JobId, _: u32, write: Write) -> io::Result<()> {
        lock(&self.reads).to_write.push((job, write));
        Ok(())
    }

    fn take_written(&mut self, into: &mut Vec<(JobId, Written)>) {
        into.append(&mut lock(&self.reads).written);
    }
}
