//! Small responses first: rank = (size > 1,000 bytes, start tag); responses within each half take turns as under
//! `fair`.
//!
//! The policy uses two bands above the kernel's default, which already achieve most of the gain (Harchol-Balter,
//! Bansal, Schroeder & Agrawal, "Implementation of SRPT scheduling in web servers", 2000, section 7; their cut is the
//! median size of their trace, and the connections of one band feed it fairly). A job stays in its half, because its
//! initial size decides. Good if a response can be marked only once and no large response may be slowed. Worse than
//! SRPT, since the larger half is not ordered at all. A job of unknown size is small until it has sent 1,000 bytes.

use crate::policy::fair::{TurnQueue, Turns};
use crate::scheduler::run_queue::Key;
use crate::{Job, Policy, Size};

pub struct QuickFix {
    name: String,
    /// The maximum size of a small job, in bytes.
    cut: u64,
    /// The turns of the small jobs and of the large ones.
    turns: [Turns; 2],
    queue: TurnQueue,
}

/// The bit set in the rank of a large job. Tags are sums of bytes sent and never reach it.
const LARGE: u64 = 1 << 63;

impl QuickFix {
    pub const CUT_BYTES: u64 = 1000;

    /// Makes the policy; `name` is its spec.
    pub fn new(name: String, cut_bytes: u64) -> QuickFix {
        QuickFix { name, cut: cut_bytes, turns: Default::default(), queue: TurnQueue::default() }
    }

    fn is_large(&self, job: &Job) -> bool {
        match job.size {
            Size::Known(bytes) => bytes.max(job.attained) > self.cut,
            Size::AtLeast(_) => job.attained_anew() > self.cut,
        }
    }
}

impl Policy for QuickFix {
    fn name(&self) -> &str {
        &self.name
    }

    fn first(&self) -> Option<u32> {
        self.queue.first()
    }

    fn on_open(&mut self, turn: u32) {
        self.turns.iter_mut().for_each(|turns| turns.join(turn));
    }

    fn within(&self, _slot: u32, job: &Job) -> u64 {
        job.attained_anew() | if self.is_large(job) { LARGE } else { 0 }
    }

    fn enqueue(&mut self, slot: u32, job: &Job) {
        let (is_large, turn) = (self.is_large(job), job.turn(slot));
        let turns = &mut self.turns[usize::from(is_large)];
        if !self.queue.contains(turn) {
            turns.rejoin(turn);
        }
        let rank = turns.tag(turn) | if is_large { LARGE } else { 0 };
        self.queue.set(turn, slot, Key { rank, number: job.number });
    }

    fn dequeue(&mut self, slot: u32, job: &Job) {
        self.queue.remove(job.turn(slot), slot);
    }

    fn on_arrival(&mut self, slot: u32, job: &Job) {
        if job.turn(slot) == slot {
            self.on_open(slot);
        }
    }

    fn on_sent(&mut self, slot: u32, job: &Job, bytes: u64) {
        let is_large = self.is_large(job);
        self.turns[usize::from(is_large)].on_sent(job.turn(slot), bytes);
    }

    fn bands(&self) -> usize {
        2
    }

    fn band(&self, _slot: u32, job: &Job) -> u8 {
        u8::from(self.is_large(job))
    }
}
