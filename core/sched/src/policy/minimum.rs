//! Guaranteed minimum shares: a class that got less than its share while it had jobs ready is served; otherwise the best
//! job of all by the inner policy.
//!
//! What a share in Almeida et al. 1998 (section 3.1: places kept for a customer) or of a hierarchical token bucket
//! guarantees (Devera's HTB: a rate, and borrowing what others leave), in bytes. Good where a class must not starve but
//! need not be held back either; bad in the mean by what the guarantee costs: a class is served with jobs larger than others
//! that wait. Without shares it is the inner policy. A size that is not known is the inner policy's business.
//!
//! While a class has jobs ready it is owed its share of every byte sent. What it gets by rank counts against that, down
//! to nothing owed; what it gets because it was owed counts in full, so that it then gets its share and not a grant
//! more. A class with nothing ready is owed nothing.

use super::lanes::Lanes;
use crate::{Job, Path, Policy};
use units::Nanos;

/// Shares are in millionths.
pub(super) const WHOLE: u32 = 1_000_000;

pub struct Minimum {
    name: String,
    /// All jobs.
    overall: Box<dyn Policy>,
    /// The same jobs by class.
    lanes: Lanes,
    shares: Vec<u32>,
    /// By class: millionths of a byte.
    owed: Vec<i64>,
}

impl Minimum {
    /// Shares in millionths, together at most a whole; one inner policy per share and one for all jobs, all alike. `name` is
    /// the spec it is known by.
    pub fn new(name: String, shares: Vec<u32>, inner: Vec<Box<dyn Policy>>, overall: Box<dyn Policy>) -> Minimum {
        let sum: u64 = shares.iter().map(|share| u64::from(*share)).sum();
        assert!(shares.len() == inner.len() && sum <= u64::from(WHOLE), "shares {shares:?}");
        Minimum { name, overall, lanes: Lanes::new(inner), owed: vec![0; shares.len()], shares }
    }

    /// The class that is owed most.
    fn due(&self) -> Option<usize> {
        let due = (0..self.owed.len()).filter(|&class| self.owed[class] > 0 && self.lanes.first(class).is_some());
        due.min_by_key(|&class| -self.owed[class])
    }
}

impl Policy for Minimum {
    fn name(&self) -> &str {
        &self.name
    }

    fn first(&self) -> Option<u32> {
        self.due().map_or_else(|| self.overall.first(), |class| self.lanes.first(class))
    }

    fn on_open(&mut self, turn: u32) {
        self.overall.on_open(turn);
        self.lanes.on_open(turn);
    }

    fn on_client(&mut self, client: u32, weight: u8) {
        self.overall.on_client(client, weight);
        self.lanes.on_client(client, weight);
    }

    fn on_idle(&mut self, idle: Nanos) {
        self.overall.on_idle(idle);
        self.lanes.on_idle(idle);
    }

    fn ahead_bytes(&self, client: u32) -> Option<u64> {
        self.overall.ahead_bytes(client)
    }

    fn size_rank(&self, slot: u32, job: &Job, path: &Path) -> Option<u64> {
        self.overall.size_rank(slot, job, path)
    }

    fn within(&self, slot: u32, job: &Job, path: &Path) -> u64 {
        self.overall.within(slot, job, path)
    }

    fn enqueue(&mut self, slot: u32, job: &Job, path: &Path) {
        self.overall.enqueue(slot, job, path);
        self.lanes.of(job).enqueue(slot, job, path);
    }

    fn dequeue(&mut self, slot: u32, job: &Job) {
        self.overall.dequeue(slot, job);
        self.lanes.of(job).dequeue(slot, job);
        let class = self.lanes.class_of(job);
        if self.lanes.first(class).is_none() {
            self.owed[class] = self.owed[class].min(0);
        }
    }

    fn on_arrival(&mut self, slot: u32, job: &Job, path: &Path) {
        self.overall.on_arrival(slot, job, path);
        self.lanes.of(job).on_arrival(slot, job, path);
    }

    fn on_size(&mut self, slot: u32, before: &Job, job: &Job) {
        self.overall.on_size(slot, before, job);
        self.lanes.of(job).on_size(slot, before, job);
    }

    fn on_sent(&mut self, slot: u32, job: &Job, bytes: u64) {
        let (served, was_due) = (self.lanes.class_of(job), self.due());
        let sent = i64::try_from(bytes).unwrap_or(i64::MAX);
        for class in 0..self.shares.len() {
            if self.lanes.first(class).is_some() {
                self.owed[class] = self.owed[class].saturating_add(sent.saturating_mul(self.shares[class].into()));
            }
        }
        let owed = &mut self.owed[served];
        let left = owed.saturating_sub(sent.saturating_mul(WHOLE.into()));
        *owed = if was_due == Some(served) { left } else { (*owed).min(left.max(0)) };
        self.overall.on_sent(slot, job, bytes);
        self.lanes.of(job).on_sent(slot, job, bytes);
    }

    fn on_departure(&mut self, slot: u32, job: &Job) {
        self.overall.on_departure(slot, job);
        self.lanes.of(job).on_departure(slot, job);
    }

    fn can_starve(&self) -> bool {
        // Where everything is guaranteed to somebody, nothing may be left for the others.
        self.shares.iter().sum::<u32>() == WHOLE || self.overall.can_starve()
    }

    fn classes(&self) -> usize {
        self.lanes.len()
    }

    fn needs_path(&self) -> bool {
        self.overall.needs_path()
    }
}
