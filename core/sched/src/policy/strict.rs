//! Strict classes: while a job of class i is ready, none of a class after i is served; within a class the inner policy.
//!
//! Preemptive priority (Cobham, "Priority assignment in waiting line problems", 1954); the papers' work-conserving
//! kernel-level service for two customers (Almeida, Dabu, Manikutty & Cao, "Providing differentiated levels of service in
//! web content hosting", 1998, section 3). Good where one class may cost another everything; bad for the last class, which
//! gets what is left, and that may be nothing but the guard's share. A size that is not known is the inner policy's
//! business.

use super::lanes::Lanes;
use crate::{Job, Path, Policy};
use units::Nanos;

pub struct Strict {
    name: String,
    lanes: Lanes,
}

impl Strict {
    /// One inner policy per class, all alike; `name` is the spec it is known by.
    pub fn new(name: String, inner: Vec<Box<dyn Policy>>) -> Strict {
        Strict { name, lanes: Lanes::new(inner) }
    }
}

impl Policy for Strict {
    fn name(&self) -> &str {
        &self.name
    }

    fn first(&self) -> Option<u32> {
        (0..self.lanes.len()).find_map(|class| self.lanes.first(class))
    }

    fn on_open(&mut self, turn: u32) {
        self.lanes.on_open(turn);
    }

    /// The class in the highest byte.
    fn on_client(&mut self, client: u32, weight: u8) {
        self.lanes.on_client(client, weight);
    }

    fn on_idle(&mut self, idle: Nanos) {
        self.lanes.on_idle(idle);
    }

    fn ahead_bytes(&self, client: u32) -> Option<u64> {
        self.lanes.ahead_bytes(client)
    }

    fn size_rank(&self, slot: u32, job: &Job, path: &Path) -> Option<u64> {
        self.lanes.size_rank(slot, job, path)
    }

    fn within(&self, slot: u32, job: &Job, path: &Path) -> u64 {
        const BELOW: u64 = (1 << 56) - 1;
        (self.lanes.class_of(job) as u64) << 56 | self.lanes.within(slot, job, path).min(BELOW)
    }

    fn enqueue(&mut self, slot: u32, job: &Job, path: &Path) {
        self.lanes.of(job).enqueue(slot, job, path);
    }

    fn dequeue(&mut self, slot: u32, job: &Job) {
        self.lanes.of(job).dequeue(slot, job);
    }

    fn on_arrival(&mut self, slot: u32, job: &Job, path: &Path) {
        self.lanes.of(job).on_arrival(slot, job, path);
    }

    fn on_size(&mut self, slot: u32, before: &Job, job: &Job) {
        self.lanes.of(job).on_size(slot, before, job);
    }

    fn on_sent(&mut self, slot: u32, job: &Job, bytes: u64) {
        self.lanes.of(job).on_sent(slot, job, bytes);
    }

    fn on_departure(&mut self, slot: u32, job: &Job) {
        self.lanes.of(job).on_departure(slot, job);
    }

    fn classes(&self) -> usize {
        self.lanes.len()
    }

    fn needs_path(&self) -> bool {
        self.lanes.needs_path()
    }
}
