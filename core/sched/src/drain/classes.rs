//! Limits of classes in the drain: their greatest rates, which need a clock, and their responses at a time.

use std::collections::HashMap;

use units::Nanos;

use super::{Drain, Key, NO_CARRIER};
use crate::carrier::Why;
use crate::classes::{Ceilings, ClassSpec, ClassTable};
use crate::{Job, JobId, LevelSpec, Sharing, Slots, Turn};

/// Jobs of classes at their greatest rate that the guard passes over in one look.
const PARKED_PER_LOOK_MAX: usize = 64;

/// The limits of all classes.
#[derive(Debug)]
pub(super) struct Limits {
    ceilings: Ceilings,
    /// A level for each class; those without a limit have none of their jobs there. `None` while no class has a limit.
    slots: Option<Slots>,
    sharing: Sharing,
    is_limited: Vec<bool>,
    /// The slots of the drain by the numbers of limited classes' jobs.
    jobs: HashMap<u64, u32>,
    /// Jobs that go on at the next look, in place of one that has ended.
    woken: Vec<u64>,
    /// Jobs of classes at their greatest rate that the guard would have helped.
    parked: HashMap<u16, Vec<JobId>>,
}

impl Limits {
    fn new(sharing: Sharing) -> Limits {
        Limits {
            ceilings: Ceilings::default(),
            slots: None,
            sharing,
            is_limited: Vec::new(),
            jobs: HashMap::new(),
            woken: Vec::new(),
            parked: HashMap::new(),
        }
    }

    /// A number past the last class counts as the last.
    fn class_of(&self, job: &Job) -> u16 {
        job.class.min((self.is_limited.len() - 1) as u16)
    }

    /// Gives the jobs that go on.
    fn replace(&mut self, specs: &[ClassSpec]) -> Vec<u64> {
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
}

impl Drain {
    /// The same drain with the limits of these classes, which its policy has in the same places.
    pub fn with_classes(mut self, table: &ClassTable) -> Drain {
        assert!(self.is_empty(), "classes are set before the first job arrives");
        let mut limits = Limits::new(table.slot_sharing);
        limits.replace(&table.classes);
        self.limits = Some(Box::new(limits));
        self
    }

    /// The classes are these from now on, each in its place of before; new ones follow. What has come goes on: nobody who runs is put to
    /// sleep. A no-op without classes.
    pub fn replace_classes(&mut self, now: Nanos, specs: &[ClassSpec]) {
        let Some(limits) = &mut self.limits else { return };
        let go_on = limits.replace(specs);
        self.policy.replace(specs);
        go_on.into_iter().for_each(|number| self.wake(now, number));
    }

    /// A job of a class has come. Says whether it may run; it sleeps otherwise, and another may do so for it.
    pub(super) fn claim_slot(&mut self, id: JobId) -> bool {
        let (Some(limits), Some(job)) = (&mut self.limits, &mut self.jobs[id.slot as usize]) else { return true };
        let class = limits.class_of(job);
        let Some(slots) = limits.slots.as_mut().filter(|_| limits.is_limited[usize::from(class)]) else { return true };
        limits.jobs.insert(id.number, id.slot);
        let mut may_run = false;
        for turn in slots.arrive(id.number, class.into()) {
            match turn {
                Turn::Run(number) => may_run |= number == id.number,
                Turn::Sleep(number) => {
                    let slot = self.limits.as_ref().and_then(|limits| limits.jobs.get(&number).copied());
                    self.on_wait(JobId { slot: slot.expect("who sleeps has come"), number }, Why::Slot);
                }
            }
        }
        may_run
    }

    /// A job has left; the one that goes on in its place does so at the next look.
    pub(super) fn free_slot(&mut self, number: u64) {
        let Some(limits) = &mut self.limits else { return };
        if limits.jobs.remove(&number).is_some()
            && let Some(Turn::Run(next)) = limits.slots.as_mut().and_then(|slots| slots.depart(number))
        {
            limits.woken.push(next);
        }
    }

    /// Bytes of a class were handed down.
    pub(super) fn charge_class(&mut self, now: Nanos, slot: u32, wire_bytes: u64) {
        let (Some(limits), Some(job)) = (&mut self.limits, &self.jobs[slot as usize]) else { return };
        let class = limits.class_of(job);
        if limits.ceilings.on_sent(now, class, wire_bytes) {
            self.policy.hold(class, true);
        }
    }

    /// Lets go those who have waited for their class: for a slot, or at its greatest rate.
    pub(super) fn let_go(&mut self, now: Nanos) {
        let Some(limits) = &mut self.limits else { return };
        let woken = std::mem::take(&mut limits.woken);
        woken.into_iter().for_each(|number| self.wake(now, number));
        while let Some(class) = self.limits.as_mut().and_then(|limits| limits.ceilings.poll(now)) {
            let was_idle = self.policy.first().is_none();
            self.policy.hold(class, false);
            if was_idle && self.policy.first().is_some() {
                self.tell_idle(now);
                self.ledger.resume(now);
            }
            self.unpark(class);
        }
        self.park();
    }

    /// When those who wait for their class are to be looked at.
    pub(super) fn next_let_go(&self) -> Option<Nanos> {
        let limits = self.limits.as_ref()?;
        if limits.woken.is_empty() { limits.ceilings.next() } else { Some(self.sent_at) }
    }

    fn wake(&mut self, now: Nanos, number: u64) {
        let slot = self.limits.as_ref().and_then(|limits| limits.jobs.get(&number).copied());
        if let Some(slot) = slot {
            self.on_wait_over(now, JobId { slot, number }, Why::Slot);
        }
    }

    /// The guard helps nobody beyond a class's greatest rate, and those who stand behind such a job are helped meanwhile.
    fn park(&mut self) {
        for _ in 0..PARKED_PER_LOOK_MAX {
            let (Some(limits), Some(slot)) = (&mut self.limits, self.waiting.first()) else { return };
            let job = self.jobs[slot as usize].as_ref().expect("a ready job is in the system");
            let class = limits.class_of(job);
            if !limits.ceilings.is_held(class) {
                return;
            }
            limits.parked.entry(class).or_default().push(JobId { slot, number: job.number });
            self.waiting.remove(slot);
        }
    }

    fn unpark(&mut self, class: u16) {
        let parked = self.limits.as_mut().and_then(|limits| limits.parked.remove(&class));
        for id in parked.into_iter().flatten() {
            let Some(job) = self.job(id).filter(|job| job.is_ready()) else { continue };
            let since = match job.carrier {
                NO_CARRIER => Some(job.waits_since),
                at => {
                    let carrier = self.carriers[at as usize].as_ref().expect("its carrier is open");
                    (carrier.offered == Some(id.slot)).then_some(carrier.waits_since)
                }
            };
            if let Some(since) = since {
                self.waiting.set(id.slot, Key { rank: since.0, number: id.number });
            }
        }
    }
}
