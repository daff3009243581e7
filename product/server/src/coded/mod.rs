//! Coded forms of files, each made once and kept in memory.
//!
//! Coding a page takes milliseconds and a large script seconds, so that the event loops only ask ([`Coder::find`]) and
//! two threads make: one what clients ask for, at a fast level, and one at the lowest priority the best level of the
//! same, which replaces it. A request may wait for the first; two requests for a form make one job.
//!
//! A form belongs to one state of a file: a changed file has no form. Nothing here can be made to grow by requests: jobs
//! beyond [`JOBS_WAITING_MAX`] are refused, forms beyond the memory give way to others, the least recently used first,
//! and while responses under way still hold forms that gave way, no others are made.

mod forms;
mod job;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use http::{Coding, Codings};
use units::Nanos;
use units::memory::Account;

use crate::codec::{Level, encoder_bytes};
use crate::exchange_id::ExchangeId;
use crate::files::{Entry, State};
use crate::storage::Done;
use crate::turns::Turns;
use forms::{Forms, Made};
pub use job::Job;

/// The maximum number of forms that wait to be made, at each level. More files than these are asked for at once only on
/// a cold start, or by somebody who wants the server busy; they are sent as they are.
pub const JOBS_WAITING_MAX: usize = 64;
/// The maximum number of forms that are known; each takes about half a KiB in addition to its bytes.
pub const FORMS_MAX: usize = 4096;
/// The maximum memory of all forms, whatever the budget is.
pub const FORMS_BYTES_MAX: u64 = 64 << 20;
/// The parts of the memory for coding that forms have, and the encoder of each thread.
const FORMS_PART: u64 = 2;
const ENCODER_PART: u64 = 4;
/// The nice values of the threads: clients wait for the one; the other has what nobody else wants.
pub const FAST_NICE: i32 = 5;
pub const BEST_NICE: i32 = 19;

/// A form of a state of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FormId {
    pub file: State,
    pub coding: Coding,
}

/// The exchange that waits for a form, and the queue of its event loop.
#[derive(Clone)]
pub struct Waiter {
    pub exchange: ExchangeId,
    pub done: Arc<Done<ExchangeId>>,
}

/// The answer to an event loop that asks for a form.
#[derive(Debug)]
pub enum Known {
    Ready(Arc<Entry>),
    /// The form is being made, and is expected to be ready after this time.
    Pending(Nanos),
    /// No form is made: it would not be smaller, or there is no room.
    None,
}

/// The forms of all event loops, and the jobs that make them.
pub struct Coder {
    state: Mutex<Shared>,
    changed: Condvar,
    /// The maximum memory of the encoder of one thread.
    encoder_bytes_max: AtomicU64,
    is_stopping: AtomicBool,
}

struct Shared {
    forms: Forms,
    /// The forms that clients ask for; each client has its turn.
    fast: Turns<FormId>,
    best: Turns<FormId>,
    /// The bytes of the files in `fast`, and of the one that is being coded.
    waiting_bytes: u64,
    /// The bytes of a file that the fast level of each coding takes per second.
    speeds: [u64; Coding::ALL.len()],
}

/// The speeds before any job has ended: those of a small machine.
const SPEEDS: [u64; Coding::ALL.len()] = [20_000_000, 80_000_000, 30_000_000];
/// The minimum file whose job says anything about the speed.
const MEASURED_BYTES_MIN: u64 = 16 << 10;

impl Coder {
    /// Creates a coder that may hold `bytes_max` in all.
    pub fn new(bytes_max: u64) -> Coder {
        let (fast, best, speeds) = (Turns::default(), Turns::default(), SPEEDS);
        let forms = Forms::new(Account::of_at_most(0));
        let coder = Coder {
            state: Mutex::new(Shared { forms, fast, best, waiting_bytes: 0, speeds }),
            changed: Condvar::new(),
            encoder_bytes_max: AtomicU64::new(0),
            is_stopping: AtomicBool::new(false),
        };
        coder.set_bytes_max(bytes_max);
        coder
    }

    /// Sets the memory. Forms above it give way as others are made.
    pub fn set_bytes_max(&self, bytes_max: u64) {
        self.state().forms.account().set_bytes_max((bytes_max / FORMS_PART).min(FORMS_BYTES_MAX));
        self.encoder_bytes_max.store(bytes_max / ENCODER_PART, Relaxed);
    }

    /// The codings that this file can be made into.
    pub fn offers(&self, entry: &Entry) -> Codings {
        let possible = entry.forms.codings.iter();
        possible.filter(|coding| self.may_make(*coding, Level::Fast, entry.len)).collect()
    }

    /// Returns a form if it is there, without asking for it.
    pub fn ready(&self, entry: &Entry, coding: Coding) -> Option<Arc<Entry>> {
        let found = self.state().forms.ready(FormId::of(entry, coding));
        found.filter(|form| form.mime == entry.mime)
    }

    /// Returns a form, or has it made for this client.
    pub fn find(&self, entry: &Arc<Entry>, coding: Coding, client: u32) -> Known {
        let id = FormId::of(entry, coding);
        let mut state = self.state();
        let state = &mut *state;
        match state.forms.find(id) {
            // Two names of one file may have other types; the first has the form.
            Some(Made::Ready(form)) if form.mime != entry.mime => Known::None,
            Some(Made::Ready(form)) => {
                let may_be_better = state.forms.wants_best(id) && self.may_make(coding, Level::Best, entry.len);
                if may_be_better && state.best.len() < JOBS_WAITING_MAX {
                    state.forms.begin_best(id, entry);
                    state.best.push(client, id);
                    self.changed.notify_all();
                }
                Known::Ready(form)
            }
            Some(Made::Not) => Known::None,
            Some(Made::Pending) => Known::Pending(state.expected(coding)),
            None => {
                let has_room = state.fast.len() < JOBS_WAITING_MAX && state.forms.may_have_room(entry.len / 4);
                if !has_room || !self.may_make(coding, Level::Fast, entry.len) {
                    return Known::None;
                }
                state.forms.begin(id, entry);
                state.fast.push(client, id);
                state.waiting_bytes += entry.len;
                self.changed.notify_all();
                Known::Pending(state.expected(coding))
            }
        }
    }

    /// Posts the exchange to its queue when a form that is being made is ready, or will not be. Returns false if that is
    /// known already.
    pub fn wait(&self, id: FormId, waiter: Waiter) -> bool {
        self.state().forms.wait(id, waiter)
    }

    /// Removes an exchange that does not wait any more.
    pub fn leave(&self, id: FormId, waiter: &Waiter) {
        self.state().forms.leave(id, waiter);
    }

    /// Makes forms of one level, until the coder stops.
    pub fn work(&self, level: Level) {
        while let Some(job) = self.wait_for_job(level) {
            let began = crate::clock::now();
            let made = job.run();
            let took = crate::clock::now() - began;
            self.end(job, made, Some(took));
        }
    }

    /// Ends the threads, each after its job.
    pub fn stop(&self) {
        let _state = self.state();
        self.is_stopping.store(true, Relaxed);
        self.changed.notify_all();
    }

    /// Returns true if the file and an encoder for it fit the memory of a thread.
    fn may_make(&self, coding: Coding, level: Level, bytes: u64) -> bool {
        let needed = bytes.saturating_add(encoder_bytes(coding, level, bytes as usize) as u64);
        needed <= self.encoder_bytes_max.load(Relaxed)
    }

    fn wait_for_job(&self, level: Level) -> Option<Job> {
        let mut state = self.state();
        loop {
            if self.is_stopping.load(Relaxed) {
                return None;
            }
            if let Some(job) = state.next_job(level) {
                return Some(job);
            }
            state = self.changed.wait(state).expect("no thread panics while it holds the forms");
        }
    }

    /// Takes the result of a job, and ends the waits for it.
    fn end(&self, job: Job, made: std::io::Result<Vec<u8>>, took: Option<Nanos>) {
        let mut state = self.state();
        if job.level == Level::Fast {
            state.waiting_bytes -= job.entry.len;
            if let Some(took) = took.filter(|took| took.0 > 0 && job.entry.len >= MEASURED_BYTES_MIN && made.is_ok()) {
                let speed = &mut state.speeds[job.id.coding as usize];
                let measured = (u128::from(job.entry.len) * 1_000_000_000 / u128::from(took.0)) as u64;
                *speed = (*speed / 4 * 3 + measured / 4).max(1);
            }
        }
        let waiters = state.forms.end(&job, made);
        drop(state);
        waiters.into_iter().for_each(|waiter| waiter.done.post(waiter.exchange));
    }

    /// Takes the next job of a level, for a test that runs jobs itself.
    #[cfg(test)]
    pub fn begin(&self, level: Level) -> Option<Job> {
        self.state().next_job(level)
    }

    /// Runs a job that was taken; the speeds stay as they are.
    #[cfg(test)]
    pub fn run(&self, job: Job) {
        let made = job.run();
        self.end(job, made, None);
    }

    /// The bytes of all forms that are alive, and the number of forms of which something is known.
    #[cfg(test)]
    pub fn usage(&self) -> (u64, usize) {
        let state = self.state();
        (state.forms.account().bytes(), state.forms.len())
    }

    fn state(&self) -> MutexGuard<'_, Shared> {
        self.state.lock().expect("no thread panics while it holds the forms")
    }
}

impl FormId {
    pub fn of(entry: &Entry, coding: Coding) -> FormId {
        FormId { file: entry.identity(), coding }
    }
}

impl Shared {
    /// The time in which all jobs of the fast level end, as far as speeds are known.
    fn expected(&self, coding: Coding) -> Nanos {
        let nanos = u128::from(self.waiting_bytes) * 1_000_000_000 / u128::from(self.speeds[coding as usize]);
        Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn next_job(&mut self, level: Level) -> Option<Job> {
        let queue = if level == Level::Fast { &mut self.fast } else { &mut self.best };
        while let Some(id) = queue.pop() {
            if let Some(job) = self.forms.job(id, level) {
                return Some(job);
            }
        }
        None
    }
}
