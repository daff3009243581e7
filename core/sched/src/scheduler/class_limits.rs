//! Limits of classes: their maximum rates, which need a clock, and their maximum number of concurrent responses.

use std::collections::HashMap;

use units::Nanos;

use crate::classes::{Ceilings, ClassSpec, ClassTable};
use crate::scheduler::Scheduler;
use crate::scheduler::job::NO_CONNECTION;
use crate::scheduler::jobs::Jobs;
use crate::scheduler::order::Order;
use crate::{Job, JobId, LevelSpec, Sharing, Slots, Turn};

/// The maximum number of jobs that the guard skips in one call because their classes are at their maximum rates.
const PARKED_PER_LOOK_MAX: usize = 64;

/// The limits of all classes.
#[derive(Debug)]
pub struct Limits {
    ceilings: Ceilings,
    /// The slots, with a level for each class. Classes without a limit have no jobs in it. `None` if no class has a
    /// limit.
    slots: Option<Slots>,
    sharing: Sharing,
    is_limited: Vec<bool>,
    /// The scheduler slots of the jobs in limited classes, by job number.
    jobs: HashMap<u64, u32>,
    /// The jobs that resume at the next call, in place of jobs that have ended.
    woken: Vec<u64>,
    /// The jobs, by class, that the guard chose while their class was at its maximum rate.
    parked: HashMap<u16, Vec<JobId>>,
}

impl Limits {
    /// Makes the limits for the classes of a table. The policy must use the same indices.
    pub fn new(table: &ClassTable) -> Limits {
        let mut limits = Limits {
            ceilings: Ceilings::default(),
            slots: None,
            sharing: table.slot_sharing,
            is_limited: Vec::new(),
            jobs: HashMap::new(),
            woken: Vec::new(),
            parked: HashMap::new(),
        };
        limits.replace(&table.classes);
        limits
    }

    /// Returns the class of a job; a class number that is too high counts as the last class.
    fn class_of(&self, job: &Job) -> u16 {
        job.class.min((self.is_limited.len() - 1) as u16)
    }

    /// Replaces the classes; returns the jobs that resume.
    pub fn replace(&mut self, specs: &[ClassSpec]) -> Vec<JobId> {
        let go_on = self.replace_slots(specs);
        go_on.into_iter().filter_map(|number| id_of(&self.jobs, number)).collect()
    }

    /// Replaces the classes; returns the numbers of the jobs that resume.
    fn replace_slots(&mut self, specs: &[ClassSpec]) -> Vec<u64> {
        for (class, spec) in (0..).zip(specs) {
            self.ceilings.set(class, spec.greatest);
        }
        let mut go_on = Vec::new();
        if let Some(slots) = &mut self.slots {
            let freed = (0..).zip(&self.is_limited).zip(specs);
            let freed = freed.filter(|((_, was), spec)| **was && spec.concurrent_max.is_none());
            freed.for_each(|((level, _), _)| go_on.extend(slots.dissolve(level)));
        }
        self.is_limited = specs.iter().map(|spec| spec.concurrent_max.is_some()).collect();
        if !self.is_limited.contains(&true) {
            self.slots = None;
            return go_on;
        }
        let level =
            |spec: &ClassSpec| LevelSpec { priority: spec.priority.into(), slots: spec.concurrent_max.unwrap_or(0) };
        let levels: Vec<LevelSpec> = specs.iter().map(level).collect();
        match &mut self.slots {
            Some(slots) => go_on.extend(slots.replace(&levels).iter().map(|turn| match turn {
                Turn::Run(number) | Turn::Sleep(number) => *number,
            })),
            None => self.slots = Some(Slots::of_levels(&levels, self.sharing)),
        }
        go_on
    }

    /// Claims a slot for a new job of a class. Returns whether the job may run, and the jobs that sleep from now on:
    /// the job itself, or another that makes way for it.
    pub fn claim(&mut self, id: JobId, job: &Job) -> (bool, Vec<JobId>) {
        let class = self.class_of(job);
        let Some(slots) = self.slots.as_mut().filter(|_| self.is_limited[usize::from(class)]) else {
            return (true, Vec::new());
        };
        self.jobs.insert(id.number, id.slot);
        let (mut may_run, mut sleepers) = (false, Vec::new());
        for turn in slots.arrive_of(id.number, class.into(), job.client) {
            match turn {
                Turn::Run(number) => may_run |= number == id.number,
                Turn::Sleep(number) => sleepers.extend(id_of(&self.jobs, number)),
            }
        }
        (may_run, sleepers)
    }

    /// Releases the slot of a job that has left. The job that takes it resumes at the next call.
    pub fn release(&mut self, number: u64) {
        if self.jobs.remove(&number).is_some()
            && let Some(Turn::Run(next)) = self.slots.as_mut().and_then(|slots| slots.depart(number))
        {
            self.woken.push(next);
        }
    }

    /// Takes the jobs that are to resume.
    pub fn take_woken(&mut self) -> Vec<JobId> {
        std::mem::take(&mut self.woken).into_iter().filter_map(|number| id_of(&self.jobs, number)).collect()
    }

    /// Charges handed-down bytes to the class of the job.
    pub fn charge(&mut self, now: Nanos, job: &Job, wire_bytes: u64, order: &mut Order) {
        let class = self.class_of(job);
        if self.ceilings.on_sent(now, class, wire_bytes) {
            order.policy_mut().hold(class, true);
        }
    }

    /// Returns a class that has just fallen below its maximum rate, if any.
    pub fn poll_ceiling(&mut self, now: Nanos) -> Option<u16> {
        self.ceilings.poll(now)
    }

    /// Returns the time at which the jobs that wait for their class must be checked; `past`, which means immediately,
    /// if jobs are to resume.
    pub fn poll_timeout(&self, past: Nanos) -> Option<Nanos> {
        if self.woken.is_empty() { self.ceilings.next() } else { Some(past) }
    }

    /// Returns the classes at their maximum rate.
    pub fn held(&self) -> impl Iterator<Item = u16> {
        (0..self.is_limited.len() as u16).filter(|class| self.ceilings.is_held(*class))
    }

    /// Keeps the guard from helping jobs of a class at its maximum rate, so that it helps the jobs after them.
    pub fn park(&mut self, jobs: &Jobs, order: &mut Order) {
        for _ in 0..PARKED_PER_LOOK_MAX {
            let Some(slot) = order.waits_longest() else { return };
            let job = jobs.at(slot);
            let class = self.class_of(job);
            if !self.ceilings.is_held(class) {
                return;
            }
            self.parked.entry(class).or_default().push(JobId { slot, number: job.number });
            order.pass_over(slot);
        }
    }

    /// Lets the guard help the jobs of this class again.
    pub fn unpark(&mut self, class: u16, jobs: &Jobs, order: &mut Order) {
        for id in self.parked.remove(&class).into_iter().flatten() {
            let Some(job) = jobs.get(id).filter(|job| job.is_ready()) else { continue };
            if job.connection == NO_CONNECTION || jobs.connection_at(job.connection).is_offered(id.slot) {
                order.wait(id.slot, jobs.waits_since(id.slot), id.number);
            }
        }
    }
}

impl Scheduler {
    /// Returns whether the job's class is at its maximum rate. The rate applies only on the link.
    pub fn is_at_class_rate(&self, job: &Job) -> bool {
        !job.bypasses_link() && self.limits.as_ref().is_some_and(|limits| limits.ceilings.is_held(limits.class_of(job)))
    }
}

/// Returns the job of a limited class with this number.
fn id_of(slots: &HashMap<u64, u32>, number: u64) -> Option<JobId> {
    slots.get(&number).map(|slot| JobId { slot: *slot, number })
}
