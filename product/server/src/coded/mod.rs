//! Coded forms of files, each made once and kept in memory.
//!
//! Coding a page takes milliseconds, and a large script seconds. So event loops only request forms ([`Coder::find`]),
//! and two threads make them. One makes the forms that clients request at a fast level. The other, with the lowest
//! priority, makes the same forms at the best level to replace the first ones. A request may wait for the fast level;
//! two requests for the same form share one job.
//!
//! A form belongs to one state of a file, so a file that has changed has no form yet. Requests cannot make anything
//! here grow without bound. Jobs beyond [`JOBS_WAITING_MAX`] are refused. Forms that exceed the memory are dropped, the
//! least recently used first, and no further forms are made while responses in progress still hold too many dropped
//! ones. Forms with a dictionary can be as many as pairs of page and dictionary, so they have a separate part of the
//! memory.

mod dictionaries;
mod forms;
mod job;
mod shelf;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};

use http::{Coding, Codings};
use units::Nanos;
use units::memory::Account;

use crate::client_turns::Turns;
use crate::codec::{Level, encoder_bytes, encoder_bytes_with};
use crate::disk::Done;
use crate::exchange_id::ExchangeId;
use crate::files::{Entry, State};
pub use dictionaries::{Dictionaries, DictionaryId, Had, Held, SiteKey};
use forms::{Forms, Made};
pub use job::Job;
pub use shelf::Shelf;

/// The maximum number of forms that wait to be made, per level. More files are requested at the same time only after a
/// cold start, or by an attacker; those files are sent uncoded.
pub const JOBS_WAITING_MAX: usize = 64;
/// The maximum number of known forms. Each takes about half a KiB in addition to its bytes.
pub const FORMS_MAX: usize = 4096;
/// The maximum memory of all forms, whatever the memory budget.
pub const FORMS_BYTES_MAX: u64 = 64 << 20;
/// The divisor of the memory for coding that gives the part for forms. The next constants are those for forms with a
/// dictionary, for dictionaries, and for both threads' encoders together.
const FORMS_PART: u64 = 4;
const FORMS_WITH_DICTIONARY_PART: u64 = 8;
const DICTIONARIES_PART: u64 = 8;
const ENCODERS_PART: u64 = 2;
/// The shelves in the state folder: their folders and maximum bytes, for forms, forms with a dictionary, and
/// dictionaries.
pub const SHELVES: [(&str, u64); 3] =
    [("forms", 64 << 20), ("forms-with-dictionaries", 32 << 20), ("dictionaries", 64 << 20)];
/// The nice value of the fast thread, for which clients wait. The next constant is that of the other thread, which gets
/// only idle processor time.
pub const FAST_NICE: i32 = 5;
pub const BEST_NICE: i32 = 19;

/// A form of a state of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FormId {
    pub file: State,
    pub coding: Coding,
    pub dictionary: Option<DictionaryId>,
}

/// An exchange that waits for a form, with the queue of its event loop.
#[derive(Clone)]
pub struct Waiter {
    pub exchange: ExchangeId,
    pub done: Arc<Done<ExchangeId>>,
}

/// The answer to an event loop's request for a form.
#[derive(Debug)]
pub enum Known {
    Ready(Arc<Entry>),
    /// The form is being made and is expected to be ready after this time; `Nanos(u64::MAX)` if that is unknown.
    Pending(Nanos),
    /// The form was not queued, because the queue of jobs is full.
    Busy,
    /// No form will be made, because it would not be smaller or there is no room.
    None,
}

/// The forms of all event loops, and the jobs that make them.
pub struct Coder {
    pub dictionaries: Dictionaries,
    state: Mutex<Shared>,
    changed: Condvar,
    /// The shelves for the best forms, if there are any: without a dictionary, and with one.
    shelves: [OnceLock<Arc<Shelf>>; 2],
    /// The maximum memory of all encoders. A single encoder may take all of it: on a small host the best level runs
    /// while the fast level waits, or the reverse.
    encoder_bytes_max: AtomicU64,
    is_stopping: AtomicBool,
}

struct Shared {
    forms: Forms,
    forms_with_dictionary: Forms,
    /// The forms that clients have requested. Clients are served in turn.
    fast: Turns<FormId>,
    best: Turns<FormId>,
    /// The total bytes of the files in `fast`, plus the file that is being coded.
    waiting_bytes: u64,
    /// The memory of the encoder that is running, per level.
    encoding_bytes: [u64; 2],
    /// The fast level waits for memory.
    fast_waits: bool,
    /// For each coding, the bytes per second of a file that the fast level codes.
    speeds: [u64; Coding::ALL.len()],
}

/// The speeds assumed before any job has ended, in bytes per second. They are those of a small machine.
const SPEEDS: [u64; Coding::ALL.len()] = [20_000_000, 80_000_000, 30_000_000];
/// The minimum length of a file whose job updates the speed.
const MEASURED_BYTES_MIN: u64 = 16 << 10;

impl Coder {
    /// Creates a coder that may hold `bytes_max` bytes in total.
    pub fn new(bytes_max: u64) -> Coder {
        let (fast, best, speeds) = (Turns::default(), Turns::default(), SPEEDS);
        let [forms, forms_with_dictionary] = [(); 2].map(|()| Forms::new(Account::of_at_most(0)));
        let coder = Coder {
            dictionaries: Dictionaries::new(0),
            state: Mutex::new(Shared {
                forms,
                forms_with_dictionary,
                fast,
                best,
                waiting_bytes: 0,
                encoding_bytes: [0; 2],
                fast_waits: false,
                speeds,
            }),
            changed: Condvar::new(),
            shelves: Default::default(),
            encoder_bytes_max: AtomicU64::new(0),
            is_stopping: AtomicBool::new(false),
        };
        coder.set_bytes_max(bytes_max);
        coder
    }

    /// Sets the maximum memory. Forms beyond it are dropped as others are made.
    pub fn set_bytes_max(&self, bytes_max: u64) {
        let part = |part: u64| (bytes_max / part).min(FORMS_BYTES_MAX);
        let state = self.state();
        state.forms.account().set_bytes_max(part(FORMS_PART));
        state.forms_with_dictionary.account().set_bytes_max(part(FORMS_WITH_DICTIONARY_PART));
        drop(state);
        self.dictionaries.set_bytes_max(part(DICTIONARIES_PART));
        self.encoder_bytes_max.store(bytes_max / ENCODERS_PART, Relaxed);
    }

    /// Sets the shelves of [`SHELVES`] that exist, on which the best forms and the dictionaries are also kept.
    pub fn keep_on(&self, [forms, forms_with_dictionary, dictionaries]: [Option<Arc<Shelf>>; 3]) {
        let own = self.shelves.iter().zip([forms, forms_with_dictionary]);
        own.for_each(|(own, shelf)| shelf.into_iter().for_each(|shelf| drop(own.set(shelf))));
        dictionaries.into_iter().for_each(|shelf| self.dictionaries.keep_on(shelf));
    }

    /// Returns the codings in which this file can be coded.
    pub fn offers(&self, entry: &Entry) -> Codings {
        let possible = entry.forms.codings.iter();
        possible.filter(|coding| self.fits(encoder_bytes(*coding, Level::Fast, entry.len as usize), entry)).collect()
    }

    /// Returns a form if it is ready, without requesting it.
    pub fn ready(&self, entry: &Entry, coding: Coding) -> Option<Arc<Entry>> {
        let found = self.state().forms.ready(FormId::of(entry, coding));
        found.filter(|form| form.mime == entry.mime)
    }

    /// Returns a form if it is ready, or queues it for this client.
    pub fn find(&self, entry: &Arc<Entry>, coding: Coding, client: u32) -> Known {
        let needed = |level| encoder_bytes(coding, level, entry.len as usize);
        self.find_or_make(FormId::of(entry, coding), entry, client, needed)
    }

    /// Returns a form with a dictionary of this length if it is ready, or queues it for this client.
    pub fn find_with(&self, entry: &Arc<Entry>, id: FormId, dictionary_bytes: u64, client: u32) -> Known {
        let needed = |level| encoder_bytes_with(id.coding, level, entry.len as usize, dictionary_bytes as usize);
        self.find_or_make(id, entry, client, needed)
    }

    /// Returns a form, or queues it. `needed` returns the memory that an encoder needs at a level.
    fn find_or_make(&self, id: FormId, entry: &Arc<Entry>, client: u32, needed: impl Fn(Level) -> usize) -> Known {
        let fits = |level| self.fits(needed(level), entry);
        let mut state = self.state();
        let state = &mut *state;
        let best_bytes = state.encoding_bytes[Level::Best as usize];
        // The time at which the best level ends is unknown, because it has the lowest priority.
        let waits_for_memory = best_bytes > 0 && !self.fits(needed(Level::Fast) + best_bytes as usize, entry);
        let pending = |state: &Shared| match waits_for_memory {
            true => Known::Pending(Nanos(u64::MAX)),
            false => Known::Pending(state.expected(id.coding)),
        };
        match state.forms_of(id).find(id) {
            // Two names of one file may have different types; the form has the type of the first.
            Some(Made::Ready { form, .. }) if form.mime != entry.mime => Known::None,
            Some(Made::Ready { form, wants_best }) => {
                if wants_best && fits(Level::Best) && state.best.len() < JOBS_WAITING_MAX {
                    state.forms_of(id).begin_best(id, entry);
                    state.best.push(client, id);
                    self.changed.notify_all();
                }
                Known::Ready(form)
            }
            Some(Made::Not) => Known::None,
            Some(Made::Pending) => pending(state),
            None => {
                if !state.forms_of(id).may_have_room(entry.len / 4) || !fits(Level::Fast) {
                    return Known::None;
                }
                if state.fast.len() >= JOBS_WAITING_MAX {
                    return Known::Busy;
                }
                state.forms_of(id).begin(id, entry);
                state.fast.push(client, id);
                state.waiting_bytes += entry.len;
                self.changed.notify_all();
                pending(state)
            }
        }
    }

    /// Puts the exchange in its queue as soon as a form that is being made is ready or has failed. Returns false if the
    /// outcome is known already.
    pub fn wait(&self, id: FormId, waiter: Waiter) -> bool {
        self.state().forms_of(id).wait(id, waiter)
    }

    /// Removes an exchange that no longer waits.
    pub fn leave(&self, id: FormId, waiter: &Waiter) {
        self.state().forms_of(id).leave(id, waiter);
    }

    /// Makes forms at one level, until the coder stops.
    pub fn work(&self, level: Level) {
        while let Some(job) = self.wait_for_job(level) {
            if !self.wait_for_memory(&job) {
                return;
            }
            self.carry_out(job);
            self.state().encoding_bytes[level as usize] = 0;
            self.changed.notify_all();
        }
    }

    /// Waits until there is enough memory for the job's encoder, and reserves it. Returns false if the coder stops.
    fn wait_for_memory(&self, job: &Job) -> bool {
        let (FormId { coding, dictionary, .. }, len) = (job.id, job.entry.len as usize);
        let needed = match dictionary.map(|id| self.dictionaries.find(&id).map_or(0, |had| had.bytes)) {
            Some(dictionary_bytes) => encoder_bytes_with(coding, job.level, len, dictionary_bytes as usize),
            None => encoder_bytes(coding, job.level, len),
        };
        let bytes = job.entry.len.saturating_add(needed as u64);
        let mut state = self.state();
        let is_too_much = |taken: u64| taken > 0 && taken.saturating_add(bytes) > self.encoder_bytes_max.load(Relaxed);
        // Clients do not wait while one form after another is made at the best level.
        let is_last = |state: &Shared| job.level == Level::Best && state.fast_waits;
        while is_too_much(state.encoding_bytes.iter().sum()) || is_last(&state) {
            if self.is_stopping.load(Relaxed) {
                return false;
            }
            state.fast_waits |= job.level == Level::Fast;
            state = self.changed.wait(state).expect("no thread panics while it holds the forms");
        }
        state.fast_waits &= job.level == Level::Best;
        state.encoding_bytes[job.level as usize] = bytes;
        true
    }

    /// Makes a form, or takes it from its shelf if it is there.
    fn carry_out(&self, job: Job) {
        let began = crate::clock::now();
        if let Some(bytes) = self.kept(&job) {
            return self.end(job, Level::Best, Ok(bytes), None);
        }
        let made = job.run(&self.dictionaries);
        let took = crate::clock::now() - began;
        self.keep(&job, &made);
        let level = job.level;
        self.end(job, level, made, Some(took));
    }

    /// Ends the threads, each after its current job.
    pub fn stop(&self) {
        let _state = self.state();
        self.is_stopping.store(true, Relaxed);
        self.changed.notify_all();
        self.dictionaries.stop();
    }

    /// Returns true if the file, and an encoder with this memory, fit into the memory for encoders.
    fn fits(&self, encoder_bytes: usize, entry: &Entry) -> bool {
        entry.len.saturating_add(encoder_bytes as u64) <= self.encoder_bytes_max.load(Relaxed)
    }

    /// Returns the best-level form that an earlier process has stored.
    fn kept(&self, job: &Job) -> Option<Vec<u8>> {
        self.shelf_of(job)?.get(&job.kept_name())
    }

    /// Stores a form for the next process. A form that is quick to make is not worth a write.
    fn keep(&self, job: &Job, made: &std::io::Result<Vec<u8>>) {
        let (Some(shelf), Ok(bytes)) = (self.shelf_of(job), made) else { return };
        if job.level == Level::Best && (bytes.len() as u64) < job.entry.len {
            shelf.put(&job.kept_name(), &[bytes]);
        }
    }

    fn shelf_of(&self, job: &Job) -> Option<&Arc<Shelf>> {
        self.shelves[usize::from(job.id.dictionary.is_some())].get()
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

    /// Takes the result of a job at this level, and ends the waits for its form.
    fn end(&self, job: Job, level: Level, made: std::io::Result<Vec<u8>>, took: Option<Nanos>) {
        let mut state = self.state();
        if job.level == Level::Fast {
            state.waiting_bytes -= job.entry.len;
            if let Some(took) = took.filter(|took| took.0 > 0 && job.entry.len >= MEASURED_BYTES_MIN && made.is_ok()) {
                let speed = &mut state.speeds[job.id.coding as usize];
                let measured = (u128::from(job.entry.len) * 1_000_000_000 / u128::from(took.0)) as u64;
                *speed = (*speed / 4 * 3 + measured / 4).max(1);
            }
        }
        let waiters = state.forms_of(job.id).end(&job, level, made);
        drop(state);
        waiters.into_iter().for_each(|waiter| waiter.done.post(waiter.exchange));
    }

    /// Takes the next job of a level, for tests that run jobs themselves.
    #[cfg(test)]
    pub fn begin(&self, level: Level) -> Option<Job> {
        self.state().next_job(level)
    }

    /// Runs a job that was taken, without updating the recorded speeds.
    #[cfg(test)]
    pub fn run(&self, job: Job) {
        let made = job.run(&self.dictionaries);
        let level = job.level;
        self.end(job, level, made, None);
    }

    /// Returns the bytes of all live forms and the number of known forms.
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
        FormId { file: entry.identity(), coding, dictionary: None }
    }

    pub fn with(self, dictionary: DictionaryId) -> FormId {
        FormId { dictionary: Some(dictionary), ..self }
    }
}

impl Shared {
    /// Returns the set of forms to which this form belongs.
    fn forms_of(&mut self, id: FormId) -> &mut Forms {
        if id.dictionary.is_some() { &mut self.forms_with_dictionary } else { &mut self.forms }
    }

    /// Returns the expected time until all jobs of the fast level have ended, according to the recorded speed of this
    /// coding.
    fn expected(&self, coding: Coding) -> Nanos {
        let nanos = u128::from(self.waiting_bytes) * 1_000_000_000 / u128::from(self.speeds[coding as usize]);
        Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn next_job(&mut self, level: Level) -> Option<Job> {
        loop {
            let queue = if level == Level::Fast { &mut self.fast } else { &mut self.best };
            let id = queue.pop()?;
            if let Some(job) = self.forms_of(id).job(id, level) {
                return Some(job);
            }
        }
    }
}
