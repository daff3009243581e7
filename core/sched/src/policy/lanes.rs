use units::Nanos;

use crate::{Job, Path, Policy};

/// Classes at most. The papers have two or three; one per band of Linux's `prio` discipline is plenty.
pub const CLASSES_MAX: usize = 16;

/// One inner policy per class of jobs, each with an order of its own.
pub(super) struct Lanes(Vec<Box<dyn Policy>>);

impl Lanes {
    /// At least one, at most [`CLASSES_MAX`].
    pub fn new(inner: Vec<Box<dyn Policy>>) -> Lanes {
        assert!((1..=CLASSES_MAX).contains(&inner.len()), "{} classes", inner.len());
        Lanes(inner)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// A number past the last class counts as the last.
    pub fn class_of(&self, job: &Job) -> usize {
        usize::from(job.class).min(self.0.len() - 1)
    }

    pub fn of(&mut self, job: &Job) -> &mut dyn Policy {
        let class = self.class_of(job);
        &mut *self.0[class]
    }

    /// Every class knows every carrier: its jobs may be of any.
    pub fn on_open(&mut self, turn: u32) {
        self.0.iter_mut().for_each(|policy| policy.on_open(turn));
    }

    pub fn on_client(&mut self, client: u32, weight: u8) {
        self.0.iter_mut().for_each(|policy| policy.on_client(client, weight));
    }

    pub fn on_idle(&mut self, idle: Nanos) {
        self.0.iter_mut().for_each(|policy| policy.on_idle(idle));
    }

    pub fn ahead_bytes(&self, client: u32) -> Option<u64> {
        self.0.iter().filter_map(|policy| policy.ahead_bytes(client)).max()
    }

    pub fn within(&self, slot: u32, job: &Job, path: &Path) -> u64 {
        self.0[self.class_of(job)].within(slot, job, path)
    }

    pub fn size_rank(&self, slot: u32, job: &Job, path: &Path) -> Option<u64> {
        self.0[self.class_of(job)].size_rank(slot, job, path)
    }

    /// The best job of a class.
    pub fn first(&self, class: usize) -> Option<u32> {
        self.0[class].first()
    }

    pub fn can_starve(&self) -> bool {
        self.0[0].can_starve()
    }

    pub fn needs_path(&self) -> bool {
        self.0[0].needs_path()
    }
}
