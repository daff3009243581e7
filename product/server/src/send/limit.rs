//! The rate limit per client. Responses of a client that has reached its limit wait; those of other clients continue.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use sched::{JobId, Scheduler, Why};
use units::Nanos;

use crate::clients::ClientRate;

/// The limit, and the jobs that wait because of it, each once.
#[derive(Default)]
pub struct Limit {
    rate: Option<Arc<dyn ClientRate>>,
    /// The waiting jobs, by the time at which they may continue and then by their numbers.
    waiting: BinaryHeap<Reverse<(Nanos, u64, usize)>>,
    /// The waiting jobs, by slot.
    jobs: Vec<Option<JobId>>,
}

impl Limit {
    pub fn new(rate: Option<Arc<dyn ClientRate>>) -> Limit {
        Limit { rate, ..Limit::default() }
    }

    /// Sets another limit, or none. The times of waiting jobs do not change.
    pub fn set_rate(&mut self, rate: Option<Arc<dyn ClientRate>>) {
        self.rate = rate;
    }

    /// Returns whether a client may be sent more now.
    pub fn allows(&self, client: u32, now: Nanos) -> bool {
        self.rate.as_ref().is_none_or(|rate| rate.spend(client, 0, now).is_none())
    }

    /// Records bytes sent to a client.
    pub fn spend(&self, client: u32, bytes: u64, now: Nanos) {
        if let Some(rate) = &self.rate {
            let _ = rate.spend(client, bytes, now);
        }
    }

    /// Returns whether a job that is about to be sent must wait because of the limit. If so, blocks it until it may
    /// continue.
    pub fn holds(&mut self, scheduler: &mut Scheduler, id: JobId, client: u32, now: Nanos) -> bool {
        let Some(until) = self.rate.as_ref().and_then(|rate| rate.spend(client, 0, now)) else { return false };
        scheduler.on_wait(id, Why::Limit);
        if self.jobs.len() <= id.slot() {
            self.jobs.resize(id.slot() + 1, None);
        }
        self.jobs[id.slot()] = Some(id);
        self.waiting.push(Reverse((until, id.number, id.slot())));
        true
    }

    /// Resumes the jobs whose time has come.
    pub fn release(&mut self, scheduler: &mut Scheduler, now: Nanos) {
        while let Some(Reverse((_, number, slot))) = self.waiting.peek().copied().filter(|Reverse((at, ..))| *at <= now)
        {
            self.waiting.pop();
            if let Some(id) = self.jobs[slot].take_if(|id| id.number == number) {
                scheduler.on_wait_over(now, id, Why::Limit);
            }
        }
    }

    /// The time at which the next job may continue.
    pub fn timeout(&self) -> Option<Nanos> {
        self.waiting.peek().map(|Reverse((at, ..))| *at)
    }
}
