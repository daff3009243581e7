//! The forms that were requested, and the bounds on their number and bytes.

use std::io;
use std::sync::Arc;

use hashbrown::HashMap;
use units::memory::{Account, Charge};

use super::{FORMS_MAX, FormId, Job, Waiter};
use crate::codec::Level;
use crate::files::Entry;

/// The number of requests that must find a form with a dictionary ready before a better one is made. The first request
/// waited for the form, and many such forms are never requested by another client.
const USES_MIN: u32 = 2;
/// The number of requests, for any forms, after which a form that did not fit is tried again.
const RETRY_AFTER: u64 = 1_000;

pub(super) struct Forms {
    forms: HashMap<FormId, Form>,
    /// The account of all live forms, including forms that only responses still hold.
    account: Account,
    /// The bytes of the ready forms, without forms that only responses still hold.
    ready_bytes: u64,
    /// A counter of requests, which serves as the clock for finding the least recently used form.
    turn: u64,
}

struct Form {
    stage: Stage,
    used_at: u64,
    /// The number of requests that found the form ready.
    uses: u32,
}

enum Stage {
    /// The form waits to be made at the fast level, or is being made.
    Pending { entry: Arc<Entry>, waiters: Vec<Waiter> },
    /// The form is ready. `better` is the file for a better form, as long as that waits to be made.
    Ready { form: Arc<Entry>, level: Level, better: Option<Arc<Entry>> },
    /// The form is not smaller than the file, or the file cannot be read.
    Not,
    /// There was no room for the form.
    NoRoom,
}

/// The state of a form that was requested before.
pub(super) enum Made {
    /// The form is ready. `wants_best` is true if it was made at the fast level and no job for a better one exists yet.
    Ready {
        form: Arc<Entry>,
        wants_best: bool,
    },
    Pending,
    Not,
}

impl Forms {
    pub fn new(account: Account) -> Forms {
        Forms { forms: HashMap::new(), account, ready_bytes: 0, turn: 0 }
    }

    pub fn account(&self) -> &Account {
        &self.account
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.forms.len()
    }

    /// Returns the state of a form; `None` if the form was never requested, or may be tried again.
    pub fn find(&mut self, id: FormId) -> Option<Made> {
        self.turn += 1;
        let form = self.forms.get_mut(&id)?;
        let is_over = matches!(form.stage, Stage::NoRoom) && self.turn - form.used_at > RETRY_AFTER;
        if is_over {
            self.forget(id);
            return None;
        }
        Some(match &form.stage {
            Stage::Ready { form: ready, level, better } => {
                form.used_at = self.turn;
                form.uses = form.uses.saturating_add(1);
                let is_wanted = id.dictionary.is_none() || form.uses >= USES_MIN;
                let wants_best = is_wanted && *level == Level::Fast && better.is_none();
                Made::Ready { form: Arc::clone(ready), wants_best }
            }
            Stage::Pending { .. } => Made::Pending,
            Stage::Not => {
                form.used_at = self.turn;
                Made::Not
            }
            Stage::NoRoom => Made::Not,
        })
    }

    /// Returns a form if it is ready.
    pub fn ready(&mut self, id: FormId) -> Option<Arc<Entry>> {
        match self.find(id)? {
            Made::Ready { form, .. } => Some(form),
            Made::Pending | Made::Not => None,
        }
    }

    /// Records that a form waits for the fast level.
    pub fn begin(&mut self, id: FormId, entry: &Arc<Entry>) {
        if self.forms.len() >= FORMS_MAX {
            self.forget_oldest();
        }
        let stage = Stage::Pending { entry: Arc::clone(entry), waiters: Vec::new() };
        self.forms.insert(id, Form { stage, used_at: self.turn, uses: 0 });
    }

    /// Records that a better form is queued for a ready form.
    pub fn begin_best(&mut self, id: FormId, entry: &Arc<Entry>) {
        if let Some(Stage::Ready { better, .. }) = self.forms.get_mut(&id).map(|form| &mut form.stage) {
            *better = Some(Arc::clone(entry));
        }
    }

    /// Returns the job for a form that waits for this level; `None` if the form has been dropped in the meantime.
    pub fn job(&self, id: FormId, level: Level) -> Option<Job> {
        let entry = match &self.forms.get(&id)?.stage {
            Stage::Pending { entry, .. } if level == Level::Fast => entry,
            Stage::Ready { better: Some(entry), .. } if level == Level::Best => entry,
            _ => return None,
        };
        Some(Job { id, level, entry: Arc::clone(entry) })
    }

    pub fn wait(&mut self, id: FormId, waiter: Waiter) -> bool {
        let Some(Stage::Pending { waiters, .. }) = self.forms.get_mut(&id).map(|form| &mut form.stage) else {
            return false;
        };
        waiters.push(waiter);
        true
    }

    pub fn leave(&mut self, id: FormId, waiter: &Waiter) {
        if let Some(Stage::Pending { waiters, .. }) = self.forms.get_mut(&id).map(|form| &mut form.stage) {
            waiters.retain(|other| other.exchange != waiter.exchange || !Arc::ptr_eq(&other.done, &waiter.done));
        }
    }

    /// Takes the result of a job at this level. Returns the exchanges that wait for the form.
    pub fn end(&mut self, job: &Job, level: Level, made: io::Result<Vec<u8>>) -> Vec<Waiter> {
        let before = self.replace(job.id, Stage::Not);
        // The form was forgotten while a better one was made, and nobody has requested it since.
        let Some(before) = before else { return Vec::new() };
        let (stage, waiters) = match before {
            // The form was forgotten while a better one was made, and was then requested again.
            Stage::Pending { .. } if job.level == Level::Best => (before, Vec::new()),
            Stage::Pending { waiters, .. } => {
                (self.made(job, level, made, job.entry.len).unwrap_or_else(|stage| stage), waiters)
            }
            Stage::Ready { form, .. } => {
                let better = self.made(job, level, made, form.len);
                // A form that does not get better stays, and no better one is tried again.
                (better.unwrap_or(Stage::Ready { form, level: Level::Best, better: None }), Vec::new())
            }
            other => (other, Vec::new()),
        };
        self.replace(job.id, stage);
        waiters
    }

    /// Returns the stage of a form with these bytes. It is ready if they are fewer than `bytes_max` and there is room
    /// for them.
    fn made(&mut self, job: &Job, level: Level, made: io::Result<Vec<u8>>, bytes_max: u64) -> Result<Stage, Stage> {
        let bytes = made.map_err(|_| Stage::Not)?;
        if bytes.len() as u64 >= bytes_max {
            return Err(Stage::Not);
        }
        if !self.make_room(bytes.len() as u64) {
            return Err(Stage::NoRoom);
        }
        let charge = Charge::new(&self.account, bytes.len());
        let form = job.entry.coded(&job.way(level), bytes, charge);
        Ok(Stage::Ready { form: Arc::new(form), level, better: None })
    }

    /// Returns true if there could be room for these bytes by dropping all ready forms: responses must not hold too
    /// many bytes of dropped forms.
    pub fn may_have_room(&self, bytes: u64) -> bool {
        let held_bytes = self.account.bytes().saturating_sub(self.ready_bytes);
        held_bytes.saturating_add(bytes) <= self.account.bytes_max()
    }

    /// Drops forms, the least recently used first, until there is room for these bytes. Returns false if that does not
    /// free enough.
    fn make_room(&mut self, bytes: u64) -> bool {
        let has_room = |account: &Account| account.bytes().saturating_add(bytes) <= account.bytes_max();
        if has_room(&self.account) {
            return true;
        }
        // Event loops wait for this lock, so all forms are sorted once.
        let ready = self.forms.iter().filter(|(_, form)| matches!(form.stage, Stage::Ready { .. }));
        let mut ready: Vec<(u64, FormId)> = ready.map(|(id, form)| (form.used_at, *id)).collect();
        ready.sort_unstable_by_key(|(used_at, _)| *used_at);
        for (_, id) in ready {
            self.forget(id);
            if has_room(&self.account) {
                return true;
            }
        }
        false
    }

    fn replace(&mut self, id: FormId, stage: Stage) -> Option<Stage> {
        let form = self.forms.get_mut(&id)?;
        self.ready_bytes += stage.ready_bytes();
        let before = std::mem::replace(&mut form.stage, stage);
        self.ready_bytes -= before.ready_bytes();
        Some(before)
    }

    fn forget(&mut self, id: FormId) {
        if let Some(form) = self.forms.remove(&id) {
            self.ready_bytes -= form.stage.ready_bytes();
        }
    }

    /// Drops the least recently used form that is not being made.
    fn forget_oldest(&mut self) {
        let others = self.forms.iter().filter(|(_, form)| !matches!(form.stage, Stage::Pending { .. }));
        let oldest = others.min_by_key(|(_, form)| form.used_at).map(|(id, _)| *id);
        oldest.into_iter().for_each(|id| self.forget(id));
    }
}

impl Stage {
    fn ready_bytes(&self) -> u64 {
        if let Stage::Ready { form, .. } = self { form.len } else { 0 }
    }
}
