//! A few threads that may block on a disk.
//!
//! Threads are started as needed, up to [`THREADS_MAX`]. A disk that never answers blocks every thread that accesses
//! it, so a device gets at most [`THREADS_PER_DEVICE_MAX`], and the others remain for other disks. Reads leave one of a
//! device's threads for lookups. Lookups have priority, because they are short and their responses have not sent a byte
//! yet.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};

use units::memory::{Account, Charge};

use crate::client_turns::Turns;

/// The maximum number of threads. They sleep most of the time.
pub const THREADS_MAX: usize = 16;
/// The maximum number of threads for one device. More would not make a disk faster.
pub const THREADS_PER_DEVICE_MAX: usize = 4;
/// The maximum number of a device's threads that the lookups of one client may use. On a disk that serves one request
/// at a time, another client's lookup then waits for at most this many.
pub const LOOKUPS_PER_CLIENT_MAX: usize = 2;
/// The maximum number of a device's threads for reads.
pub const READS_PER_DEVICE_MAX: usize = THREADS_PER_DEVICE_MAX - 1;
/// The maximum number of tasks that wait for a thread. Only clients that send requests and disconnect can exceed it;
/// their requests then fail.
pub const TASKS_WAITING_MAX: usize = 1 << 16;
/// The maximum number of one client's lookups that wait for a device. Each is for a different path, so only a hanging
/// disk, or a client that requests everything, can exceed it. Such a request gets 503; other clients are not affected.
pub const LOOKUPS_WAITING_MAX: usize = 1024;
/// The maximum length of a read, which is about as much as the kernel reads ahead.
pub const READ_BYTES_MAX: u64 = 128 << 10;
/// The maximum number of bytes that were read and have not been sent, unless memory requires a lower maximum. Above it,
/// each read is one page long.
pub const BUFFERED_BYTES_MAX: u64 = 32 << 20;
const READ_BYTES_LEAST: u64 = 4 << 10;

type Task = Box<dyn FnOnce() + Send>;

/// The kind of access that a task makes to a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// Opens and examines a file, and loads it if it is small.
    Lookup,
    /// Reads from an open file.
    Read,
}

/// Performs reads for all threads that send.
pub struct Pool {
    state: Mutex<State>,
    wake: Condvar,
    buffered_bytes: Arc<AtomicU64>,
    /// The number of buffered bytes above which a read is one page long.
    buffered_bytes_max: AtomicU64,
    /// A reference to this pool, for the threads that it starts.
    this: Weak<Pool>,
}

#[derive(Default)]
struct State {
    /// An entry for each device that was ever accessed. There are at most as many as mounts below the folder.
    devices: Vec<Device>,
    /// The device at which the next search for a task starts, so that devices are served in turn.
    hand: usize,
    waiting: usize,
    threads: usize,
    idle: usize,
    is_stopping: bool,
}

struct Device {
    number: u64,
    lookups: Turns<Task>,
    reads: Turns<Task>,
    /// The number of threads that have a task for this device.
    busy: usize,
    /// The number of threads that are reading from this device.
    reading: usize,
    /// The clients whose lookups occupy the other threads. Each occurs at most [`LOOKUPS_PER_CLIENT_MAX`] times.
    finding: Vec<u32>,
}

/// A task that a thread has taken.
pub struct Taken {
    /// The index of the task's device.
    device: usize,
    /// The client of a lookup; `None` for a read.
    finds_for: Option<u32>,
    task: Task,
}

impl Pool {
    #[cfg(test)]
    pub fn new() -> Arc<Pool> {
        Pool::bounded(BUFFERED_BYTES_MAX)
    }

    /// Creates a pool with this bound instead of [`BUFFERED_BYTES_MAX`].
    pub fn bounded(buffered_bytes_max: u64) -> Arc<Pool> {
        Arc::new_cyclic(|this| Pool {
            state: Mutex::default(),
            wake: Condvar::new(),
            buffered_bytes: Arc::default(),
            buffered_bytes_max: AtomicU64::new(buffered_bytes_max),
            this: this.clone(),
        })
    }

    /// Sets the bound for later reads.
    pub fn set_bound(&self, buffered_bytes_max: u64) {
        self.buffered_bytes_max.store(buffered_bytes_max, Relaxed);
    }

    /// Runs a task that may block on a device and belongs to no client.
    pub fn run(&self, device: u64, lane: Lane, task: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.run_for(0, device, lane, task)
    }

    /// Runs a task for a client. Clients are served in turn.
    pub fn run_for(
        &self,
        client: u32,
        device: u64,
        lane: Lane,
        task: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let mut state = self.state();
        if state.waiting >= TASKS_WAITING_MAX {
            return Err(io::Error::other(format!("{TASKS_WAITING_MAX} reads wait for the disk already")));
        }
        let at = state.device(device);
        if lane == Lane::Lookup && state.devices[at].lookups.len_of(client) >= LOOKUPS_WAITING_MAX {
            return Err(io::Error::other(format!(
                "{LOOKUPS_WAITING_MAX} files of one client wait to be found already"
            )));
        }
        // An idle thread that was woken for an earlier task still counts as idle until it runs.
        if state.idle <= state.waiting && state.threads < THREADS_MAX {
            self.start_thread(&mut state)?;
        }
        match lane {
            Lane::Lookup => state.devices[at].lookups.push(client, Box::new(task)),
            Lane::Read => state.devices[at].reads.push(client, Box::new(task)),
        }
        state.waiting += 1;
        self.wake.notify_one();
        Ok(())
    }

    /// Returns a buffer for a read of at most `wanted_bytes`, within the limit.
    pub fn buffer(&self, wanted_bytes: u64) -> Buffer {
        let is_full = self.buffered_bytes.load(Relaxed) >= self.buffered_bytes_max.load(Relaxed);
        let bytes = wanted_bytes.min(if is_full { READ_BYTES_LEAST } else { READ_BYTES_MAX });
        self.buffered_bytes.fetch_add(bytes, Relaxed);
        Buffer {
            bytes: Vec::new(),
            at: 0,
            reserved: bytes,
            buffered_bytes: Some(self.buffered_bytes.clone()),
            charge: None,
        }
    }

    /// Ends idle threads now, and other threads after their tasks. Does not wait for a thread that hangs.
    pub fn stop(&self) {
        self.state().is_stopping = true;
        self.wake.notify_all();
    }

    /// Creates a pool without threads, for tests that take its tasks one by one.
    #[cfg(test)]
    pub fn unthreaded(buffered_bytes_max: u64) -> Arc<Pool> {
        let pool = Pool::bounded(buffered_bytes_max);
        pool.state().threads = THREADS_MAX;
        pool
    }

    /// Takes the task that a thread would take next.
    #[cfg(test)]
    pub fn begin(&self) -> Option<Taken> {
        self.state().take()
    }

    /// Runs a task that was taken.
    #[cfg(test)]
    pub fn end(&self, taken: Taken) {
        let Taken { device, finds_for, task } = taken;
        task();
        self.state().devices[device].on_end(finds_for);
    }

    /// Returns the number of threads without a task.
    #[cfg(test)]
    pub fn idle(&self) -> usize {
        self.state().idle
    }

    fn start_thread(&self, state: &mut State) -> io::Result<()> {
        let pool = self.this.clone();
        let thread = std::thread::Builder::new().name(format!("weir-read-{}", state.threads));
        match thread.spawn(move || pool.upgrade().map_or((), |pool| pool.work())) {
            Ok(_) => state.threads += 1,
            // The other threads will run the task.
            Err(_) if state.threads > 0 => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn work(&self) {
        let mut state = self.state();
        loop {
            if state.is_stopping {
                return;
            }
            let Some(Taken { device, finds_for, task }) = state.take() else {
                state.idle += 1;
                state = self.wake.wait(state).expect("no thread panics while it holds the pool");
                state.idle -= 1;
                continue;
            };
            drop(state);
            // A panic is reported when it happens. The process then ends, because the response would wait forever for
            // the thread.
            std::panic::catch_unwind(AssertUnwindSafe(task)).unwrap_or_else(|_| std::process::abort());
            state = self.state();
            state.devices[device].on_end(finds_for);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds the pool")
    }
}

impl State {
    /// Returns the index of this device, adding it on its first access.
    fn device(&mut self, number: u64) -> usize {
        self.devices.iter().position(|device| device.number == number).unwrap_or_else(|| {
            self.devices.push(Device {
                number,
                lookups: Turns::default(),
                reads: Turns::default(),
                busy: 0,
                reading: 0,
                finding: Vec::new(),
            });
            self.devices.len() - 1
        })
    }

    /// Takes the next task of a device that may use another thread.
    fn take(&mut self) -> Option<Taken> {
        for _ in 0..self.devices.len() {
            self.hand = (self.hand + 1) % self.devices.len();
            if let Some((finds_for, task)) = self.devices[self.hand].take() {
                self.waiting -= 1;
                return Some(Taken { device: self.hand, finds_for, task });
            }
        }
        None
    }
}

impl Device {
    fn take(&mut self) -> Option<(Option<u32>, Task)> {
        if self.busy == THREADS_PER_DEVICE_MAX {
            return None;
        }
        let finding = &self.finding;
        let has_enough = |client| finding.iter().filter(|one| **one == client).count() == LOOKUPS_PER_CLIENT_MAX;
        let taken = match self.lookups.pop_unless(has_enough) {
            Some((client, task)) => {
                self.finding.push(client);
                (Some(client), task)
            }
            None if self.reading < READS_PER_DEVICE_MAX => {
                let task = self.reads.pop()?;
                self.reading += 1;
                (None, task)
            }
            None => return None,
        };
        self.busy += 1;
        Some(taken)
    }

    fn on_end(&mut self, finds_for: Option<u32>) {
        self.busy -= 1;
        match finds_for {
            Some(client) => {
                let at = self.finding.iter().position(|one| *one == client).expect("it was taken");
                self.finding.swap_remove(at);
            }
            None => self.reading -= 1,
        }
    }
}

/// Bytes in memory, and how many of them have been sent.
#[derive(Debug)]
pub struct Buffer {
    bytes: Vec<u8>,
    at: usize,
    /// The bytes reserved within the pool's bound.
    reserved: u64,
    buffered_bytes: Option<Arc<AtomicU64>>,
    /// The charge to the receiving connection's memory account.
    charge: Option<Charge>,
}

impl Buffer {
    /// Charges its memory to this account for as long as the buffer lives.
    pub fn count_in(&mut self, account: &Account) {
        self.charge = Some(Charge::new(account, self.bytes.capacity()));
    }

    /// The allocated memory in bytes.
    #[cfg(test)]
    pub fn alive_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    pub fn left(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    pub fn advance(&mut self, bytes: usize) {
        assert!(bytes <= self.left().len(), "more is gone than there was");
        self.at += bytes;
    }

    /// Reads once, at most the reserved length. The buffer is empty at the end of the file.
    pub fn fill(&mut self, file: &File, offset: u64) -> io::Result<()> {
        let mut bytes = vec![0; self.reserved as usize];
        let read = loop {
            match file.read_at(&mut bytes, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        bytes.truncate(read);
        self.bytes = bytes;
        Ok(())
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Buffer {
        Buffer { bytes, at: 0, reserved: 0, buffered_bytes: None, charge: None }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(buffered_bytes) = &self.buffered_bytes {
            buffered_bytes.fetch_sub(self.reserved, Relaxed);
        }
    }
}
