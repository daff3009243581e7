//! The threads of the server, and the thread that watches them. A server with a dead worker looks alive but answers
//! nothing, so the end of one thread ends the process, with a reason that the operator or service manager can read.
//!
//! A thread that returns or panics reports it itself. A thread that hangs, or that the kernel has killed, cannot. So
//! the watcher periodically requests a turn of every thread with an event loop ([`Beat`]) and counts the checks at
//! which the turn has not happened. Counting checks instead of time has a reason: while a process is stopped or its
//! host sleeps, there are no checks either. A thread that waits for storage is reported but does not end the process: a
//! restart would wait for the same disk. The same checks feed the service manager's watchdog, unless a loop is late for
//! another reason than storage.

mod storage;

use std::fs::File;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rustix::thread::Pid;
use thiserror::Error;

use crate::service_manager::Watchdog;

/// The time between two checks of the threads. A longer time delays the detection of a hang; a shorter one wakes an
/// idle server more often.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// The time without a turn after which a thread counts as hung; the longest regular turn takes a few milliseconds.
const HUNG_AFTER: Duration = Duration::from_secs(10);
/// The minimum number of checks within the watchdog's time: the watchdog must be fed twice within it, and one late
/// check must not be fatal.
const LOOKS_PER_WATCHDOG: u32 = 4;
/// The minimum time between checks, whatever the watchdog's time is.
const LOOK_EVERY_LEAST: Duration = Duration::from_millis(10);

/// All threads except the main one. Dropping this value ends the watching.
pub struct Threads {
    shared: Arc<Shared>,
}

/// Identifies a thread for [`Threads::join`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadId(usize);

/// The error of an essential thread that has ended or hangs.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ThreadError(String);

/// The liveness check of a thread. The check wakes the thread, which confirms it at its next turn.
pub struct Beat {
    is_asked: AtomicBool,
    wake: Box<dyn Fn() + Send + Sync>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    watchdog: Option<Watchdog>,
    look_every: Duration,
    /// The function to call, from any thread, at the first failure.
    on_failure: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct State {
    threads: Vec<Watched>,
    /// True if threads may end now.
    is_stopping: bool,
    /// The watching is over.
    is_over: bool,
    failure: Option<ThreadError>,
}

struct Watched {
    name: String,
    id: Option<Pid>,
    /// The open `/proc/.../syscall` file, if the process is hidden: the file could not be opened later.
    call: Option<File>,
    beat: Option<Arc<Beat>>,
    has_ended: bool,
    looks_in_vain: u32,
}

impl Threads {
    /// Starts the watcher. `on_failure` is called once, when a thread fails; [`Threads::failure`] then returns the
    /// reason.
    pub fn start(watchdog: Option<Watchdog>, on_failure: impl Fn() + Send + Sync + 'static) -> io::Result<Threads> {
        let threads = Threads::unwatched(watchdog, on_failure);
        let shared = Arc::clone(&threads.shared);
        std::thread::Builder::new().name("weir-watch".into()).spawn(move || shared.watch())?;
        Ok(threads)
    }

    /// Starts a thread without an event loop: it may block for any time, but must not end.
    pub fn spawn(
        &self,
        name: &str,
        main: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> Result<ThreadId, ThreadError> {
        self.spawn_watched(name, None, main)
    }

    /// Starts a thread that calls [`Beat::turn`] once per turn; `wake` makes it start a turn.
    pub fn spawn_loop(
        &self,
        name: &str,
        wake: impl Fn() + Send + Sync + 'static,
        main: impl FnOnce(&Beat) -> io::Result<()> + Send + 'static,
    ) -> Result<ThreadId, ThreadError> {
        let beat = Arc::new(Beat { is_asked: AtomicBool::new(false), wake: Box::new(wake) });
        self.spawn_watched(name, Some(Arc::clone(&beat)), move || main(&beat))
    }

    /// Allows threads to end from now on; a panic or a hang is still a failure.
    pub fn expect_ends(&self) {
        self.shared.state().is_stopping = true;
    }

    /// Waits for the end of a thread, or for the failure of any.
    pub fn join(&self, thread: ThreadId) -> Result<(), ThreadError> {
        let mut state = self.shared.state();
        loop {
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            if state.threads[thread.0].has_ended {
                return Ok(());
            }
            state = self.shared.changed.wait(state).expect("no thread panics while it holds the state");
        }
    }

    /// Opens the files that show the event loops' system calls. Must be called before the process is hidden, which
    /// hides them even from itself.
    pub fn keep_calls(&self) {
        for thread in self.shared.state().threads.iter_mut().filter(|thread| thread.beat.is_some()) {
            thread.call = thread.id.and_then(|id| storage::open(id).ok());
        }
    }

    /// The first failure.
    pub fn failure(&self) -> Option<ThreadError> {
        self.shared.state().failure.clone()
    }

    fn unwatched(watchdog: Option<Watchdog>, on_failure: impl Fn() + Send + Sync + 'static) -> Threads {
        let (state, changed, on_failure) = (Mutex::default(), Condvar::new(), Box::new(on_failure));
        let wanted_every = watchdog.as_ref().map_or(LOOK_EVERY, |watchdog| watchdog.patience / LOOKS_PER_WATCHDOG);
        let look_every = wanted_every.clamp(LOOK_EVERY_LEAST, LOOK_EVERY);
        Threads { shared: Arc::new(Shared { state, changed, watchdog, look_every, on_failure }) }
    }

    fn spawn_watched(
        &self,
        name: &str,
        beat: Option<Arc<Beat>>,
        main: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> Result<ThreadId, ThreadError> {
        let mut state = self.shared.state();
        let at = state.threads.len();
        let shared = Arc::clone(&self.shared);
        let (tell, told) = sync_channel(1);
        let run = move || {
            let _ = tell.send(rustix::thread::gettid());
            // State that a panic leaves inconsistent is not used again: the process ends.
            let outcome = catch_unwind(AssertUnwindSafe(main));
            shared.on_end(at, outcome.unwrap_or_else(|panic| Err(io::Error::other(panic_text(&*panic)))));
        };
        let started = std::thread::Builder::new().name(name.into()).spawn(run);
        started.map_err(|error| ThreadError(format!("cannot start thread {name}: {error}; raise ulimit -u")))?;
        let id = told.recv().ok();
        state.threads.push(Watched { name: name.into(), id, call: None, beat, has_ended: false, looks_in_vain: 0 });
        Ok(ThreadId(at))
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        (state.is_stopping, state.is_over) = (true, true);
        self.shared.changed.notify_all();
    }
}

impl Beat {
    /// Must be called once per turn.
    pub fn turn(&self) {
        // The watcher asks rarely, so this is mostly the only access to a cache line that no other thread writes.
        if self.is_asked.load(Ordering::Relaxed) {
            self.is_asked.store(false, Ordering::Relaxed);
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds the state")
    }

    fn on_end(&self, at: usize, outcome: io::Result<()>) {
        let mut state = self.state();
        state.threads[at].has_ended = true;
        let name = &state.threads[at].name;
        match outcome {
            Ok(()) if state.is_stopping => {}
            Ok(()) => {
                let error = ThreadError(format!("thread {name} ended unexpectedly"));
                self.fail(&mut state, error);
            }
            Err(error) => {
                let error = ThreadError(format!("thread {name} ended: {error}"));
                self.fail(&mut state, error);
            }
        }
        self.changed.notify_all();
    }

    fn fail(&self, state: &mut State, error: ThreadError) {
        if state.failure.is_none() {
            state.failure = Some(error);
            (self.on_failure)();
        }
        self.changed.notify_all();
    }

    fn watch(&self) {
        let mut fed_at = Instant::now();
        let mut state = self.state();
        while !state.is_over {
            let (now, wait) =
                self.changed.wait_timeout(state, self.look_every).expect("no thread panics while it holds the state");
            state = now;
            if !wait.timed_out() {
                continue;
            }
            let is_well = self.look(&mut state, |thread| storage::is_waited_for(thread.id, thread.call.as_ref()));
            let Some(watchdog) = self.watchdog.as_ref().filter(|_| is_well) else { continue };
            // At half of its time: the look after this one would be too late.
            if fed_at.elapsed() + self.look_every > watchdog.patience / 2 {
                fed_at = Instant::now();
                // The manager may block this call, and no other thread should wait for it.
                drop(state);
                (watchdog.feed)();
                state = self.state();
            }
        }
    }

    /// Checks every thread once. Returns false if an event loop has not made the turn that the previous check requested
    /// and does not wait for storage.
    fn look(&self, state: &mut State, is_waiting_for_storage: impl Fn(&Watched) -> bool) -> bool {
        let (mut hung, mut is_well) = (None, true);
        let looks_max = HUNG_AFTER.as_millis().div_ceil(self.look_every.as_millis());
        for thread in &mut state.threads {
            let Some(beat) = thread.beat.as_ref().filter(|_| !thread.has_ended) else { continue };
            if !beat.is_asked.load(Ordering::Relaxed) {
                thread.looks_in_vain = 0;
                beat.is_asked.store(true, Ordering::Relaxed);
                (beat.wake)();
                continue;
            }
            thread.looks_in_vain = thread.looks_in_vain.saturating_add(1);
            let waits = is_waiting_for_storage(thread);
            is_well &= waits;
            if u128::from(thread.looks_in_vain) < looks_max {
                continue;
            }
            let (name, seconds) = (&thread.name, HUNG_AFTER.as_secs());
            if !waits {
                hung = Some(ThreadError(format!("thread {name} did not respond for {seconds} s: hung or killed")));
            } else if u128::from(thread.looks_in_vain) == looks_max {
                // Bypasses the log, whose thread may be the one that waits.
                let text = format!("thread {name} has waited {seconds} s for storage, and its connections with it");
                let _ = io::stderr().write_all(crate::stderr::line(&text).as_bytes());
            }
        }
        if let Some(error) = hung {
            self.fail(state, error);
        }
        is_well
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    format!("panic: {}", text.unwrap_or("no message"))
}

#[cfg(test)]
mod tests;
