//! Slots by priority: the number of jobs of each priority that run at a time, and the choice of the job that resumes
//! when one ends.
//!
//! Almeida, Dabu, Manikutty & Cao, "Providing differentiated levels of service in web content hosting", 1998, section
//! 3.1: each priority level has a number of slots (`max_proc`). On arrival the Sleep policy lets a job run or postpones
//! it; when a job ends, the Wakeup policy lets at most one postponed job run in its place, by priority, then by age.
//! There are three kinds ([`Sharing`]).
//!
//! The paper does not distinguish clients; we do. A client keeps at most half of a level's slots, rounded up, while
//! others wait: beyond that half, its youngest running job is put to sleep for a job of a client that has fewer. A
//! client without competitors may have all the slots. The sleeping job that resumes is the oldest of the client with
//! the fewest running jobs in the level.
//!
//! Good if some jobs must not be slowed by the number of others, whatever their sizes. The mean response time suffers,
//! and unless slots are shared, a level whose slots are all taken waits even while the link is idle. The order of bytes
//! among the running jobs is the policy's ([`crate::Policy`]).

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;

/// The jobs that may use a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// Only jobs of its own level, so a slot may stay empty (non-work-conserving).
    Own,
    /// Jobs of any level if they find no other free slot (work-conserving). A job of higher priority may find its own
    /// slots taken, and then waits.
    Any,
    /// Jobs of any level if they find no other free slot, but a job of higher priority takes its slot back. The job
    /// that is put to sleep is the youngest of the lowest level that uses more slots than it owns and whose priority is
    /// not higher (work-conserving, preemptive).
    AnyUntilWanted,
}

/// The maximum number of levels.
pub const LEVELS_MAX: usize = 10_000;
/// The maximum total number of slots of all levels, equal to the maximum number of jobs in a scheduler.
pub const SLOTS_MAX: u64 = crate::JOBS_MAX as u64;

/// The decision about a job. Running jobs are sent in the policy's order; sleeping jobs are not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    Run(u64),
    Sleep(u64),
}

/// A level: its priority (the lowest goes first) and its number of slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LevelSpec {
    pub priority: u32,
    pub slots: u32,
}

/// The sort key of a level: its priority, a job number, and the level's index.
type SlotKey = (u32, u64, u32);

#[derive(Debug, Default)]
struct Level {
    priority: u32,
    slots: u32,
    /// Running jobs by arrival, the oldest first.
    running: BTreeSet<u64>,
    asleep: BTreeSet<u64>,
    clients: Clients,
    /// The level's key in `waiting` and `entitled`, and its key in `borrowing`.
    waits: Option<SlotKey>,
    is_entitled: bool,
    borrows: Option<SlotKey>,
}

impl Level {
    fn has_free(&self) -> bool {
        self.running.len() < self.slots as usize
    }

    fn has_more_than_its_own(&self) -> bool {
        self.running.len() > self.slots as usize
    }

    fn run(&mut self, number: u64, client: u32) {
        self.asleep.remove(&number);
        self.running.insert(number);
        self.clients.change(client, |own| {
            own.asleep.remove(&number);
            own.running.insert(number);
        });
    }

    fn sleep(&mut self, number: u64, client: u32) {
        self.running.remove(&number);
        self.asleep.insert(number);
        self.clients.change(client, |own| {
            own.running.remove(&number);
            own.asleep.insert(number);
        });
    }

    /// Removes a job; returns true if it was running.
    fn remove(&mut self, number: u64, client: u32) -> bool {
        let has_run = self.running.remove(&number);
        self.asleep.remove(&number);
        self.clients.change(client, |own| {
            own.running.remove(&number);
            own.asleep.remove(&number);
        });
        has_run
    }

    /// Returns the youngest running job of the client with the most running jobs, if that client has more than half of
    /// the slots and another client waits for one.
    fn victim(&self, client: u32) -> Option<u64> {
        let kept = self.slots.div_ceil(2) as usize;
        let (running, greatest) = *self.clients.holders.last()?;
        let is_over = running > kept && running > self.clients.running(client) + 1;
        self.clients.all.get(&greatest).filter(|_| is_over)?.running.last().copied()
    }
}

/// The clients of a level that have jobs.
#[derive(Debug, Default)]
struct Clients {
    all: HashMap<u32, OfClient>,
    /// The clients with running jobs, by the number of these.
    holders: BTreeSet<(usize, u32)>,
    /// The clients with sleeping jobs, by the number of their running jobs and then by their oldest sleeping job.
    sleepers: BTreeSet<(usize, u64, u32)>,
}

#[derive(Debug, Default)]
struct OfClient {
    running: BTreeSet<u64>,
    asleep: BTreeSet<u64>,
}

impl Clients {
    fn running(&self, client: u32) -> usize {
        self.all.get(&client).map_or(0, |own| own.running.len())
    }

    /// Returns the sleeping job that resumes next.
    fn next(&self) -> Option<u64> {
        self.sleepers.first().map(|(_, oldest, _)| *oldest)
    }

    fn change(&mut self, client: u32, by: impl FnOnce(&mut OfClient)) {
        let places = |own: &OfClient| {
            let (running, oldest) = (own.running.len(), own.asleep.first());
            ((running > 0).then_some((running, client)), oldest.map(|oldest| (running, *oldest, client)))
        };
        let own = self.all.entry(client).or_default();
        let (held, slept) = places(own);
        by(own);
        let (holds, sleeps) = places(own);
        if holds.is_none() && sleeps.is_none() {
            self.all.remove(&client);
        }
        change(&mut self.holders, held, holds);
        change(&mut self.sleepers, slept, sleeps);
    }
}

/// The jobs of all levels. A job's number is its position in the order of arrival.
#[derive(Debug)]
pub struct Slots {
    sharing: Sharing,
    levels: Vec<Level>,
    /// The level and the client of each job.
    jobs: BTreeMap<u64, (u32, u32)>,
    running: u64,
    slots: u64,
    /// The levels with a sleeping job, ordered by their oldest one.
    waiting: BTreeSet<SlotKey>,
    /// The levels in `waiting` with a free slot of their own.
    entitled: BTreeSet<SlotKey>,
    /// The levels that use more slots than they own, ordered by their youngest running job.
    borrowing: BTreeSet<SlotKey>,
}

impl Slots {
    /// Makes slots from a number of slots per level, highest priority first. A level without slots can only borrow
    /// those of others.
    pub fn new(slots: &[u32], sharing: Sharing) -> Slots {
        let levels: Vec<LevelSpec> = (0..).zip(slots).map(|(priority, &slots)| LevelSpec { priority, slots }).collect();
        Slots::of_levels(&levels, sharing)
    }

    /// Makes slots for levels that may share a priority; among levels of one priority, only age decides.
    pub fn of_levels(levels: &[LevelSpec], sharing: Sharing) -> Slots {
        let mut slots = Slots {
            sharing,
            levels: Vec::new(),
            jobs: BTreeMap::new(),
            running: 0,
            slots: 0,
            waiting: BTreeSet::new(),
            entitled: BTreeSet::new(),
            borrowing: BTreeSet::new(),
        };
        let turns = slots.replace(levels);
        assert!(turns.is_empty(), "nobody was asleep");
        slots
    }

    /// Replaces the levels, keeping their indices, and appends the new ones. Returns the jobs that resume. Jobs that
    /// run beyond a reduced number of slots continue to their end.
    pub fn replace(&mut self, levels: &[LevelSpec]) -> Vec<Turn> {
        assert!((self.levels.len().max(1)..=LEVELS_MAX).contains(&levels.len()), "{} levels", levels.len());
        let sum = levels.iter().map(|level| u64::from(level.slots)).sum();
        assert!((1..=SLOTS_MAX).contains(&sum), "{sum} slots");
        self.slots = sum;
        self.levels.resize_with(levels.len(), Level::default);
        for (at, spec) in (0..).zip(levels) {
            (self.levels[at as usize].priority, self.levels[at as usize].slots) = (spec.priority, spec.slots);
            self.note(at);
        }
        let mut turns = Vec::new();
        while let Some(next) = self.next() {
            self.run(next);
            turns.push(Turn::Run(next));
        }
        turns
    }

    /// The numbers of running and of sleeping jobs of one level.
    pub fn counts(&self, level: u32) -> (usize, usize) {
        self.levels.get(level as usize).map_or((0, 0), |level| (level.running.len(), level.asleep.len()))
    }

    pub fn is_running(&self, number: u64) -> bool {
        self.jobs.get(&number).is_some_and(|(level, _)| self.levels[*level as usize].running.contains(&number))
    }

    /// Dissolves this level, whose jobs no longer need slots. Returns the jobs that were asleep. No job of another
    /// level resumes before the next departure.
    pub fn dissolve(&mut self, level: u32) -> Vec<u64> {
        let at = &mut self.levels[level as usize];
        let (running, asleep) = (std::mem::take(&mut at.running), std::mem::take(&mut at.asleep));
        at.clients = Clients::default();
        self.running -= running.len() as u64;
        running.iter().chain(&asleep).for_each(|number| {
            self.jobs.remove(number);
        });
        self.note(level);
        asleep.into_iter().collect()
    }

    /// Adds a job of this level; all jobs added in this way belong to one client. See [`Slots::arrive_of`].
    pub fn arrive(&mut self, number: u64, level: u32) -> Vec<Turn> {
        self.arrive_of(number, level, 0)
    }

    /// Adds a job of this level and client; a level that is too high counts as the last. The number must be greater
    /// than all earlier numbers. Returns the turns to apply, with the new job's turn last.
    pub fn arrive_of(&mut self, number: u64, level: u32, client: u32) -> Vec<Turn> {
        let level = level.min(self.levels.len() as u32 - 1);
        let before = self.jobs.insert(number, (level, client));
        assert!(before.is_none(), "job {number} has come before");
        let mut turns = Vec::new();
        if !self.may_run(level)
            && let Some(victim) = self.victim(level).or_else(|| self.victim_of_client(level, client))
        {
            self.sleep(victim);
            turns.push(Turn::Sleep(victim));
        }
        if self.may_run(level) {
            self.run(number);
            turns.push(Turn::Run(number));
        } else {
            self.levels[level as usize].sleep(number, client);
            self.note(level);
            turns.push(Turn::Sleep(number));
        }
        turns
    }

    /// Removes a job, running or asleep, that has ended or whose client has left. Returns the job that resumes in its
    /// place. Does nothing if the job is unknown.
    pub fn depart(&mut self, number: u64) -> Option<Turn> {
        let (level, client) = self.jobs.remove(&number)?;
        let has_run = self.levels[level as usize].remove(number, client);
        self.note(level);
        if !has_run {
            return None;
        }
        self.running -= 1;
        let next = self.next()?;
        self.run(next);
        Some(Turn::Run(next))
    }

    /// The Sleep policy: returns whether a job of this level may run now.
    fn may_run(&self, level: u32) -> bool {
        match self.sharing {
            Sharing::Own => self.levels[level as usize].has_free(),
            Sharing::Any | Sharing::AnyUntilWanted => self.running < self.slots,
        }
    }

    /// Returns the job that must return its slot to this level, which owns the slot.
    fn victim(&self, level: u32) -> Option<u64> {
        if self.sharing != Sharing::AnyUntilWanted || !self.levels[level as usize].has_free() {
            return None;
        }
        let own = self.levels[level as usize].priority;
        self.borrowing.last().filter(|(priority, ..)| *priority >= own).map(|(_, youngest, _)| *youngest)
    }

    /// Returns the job of another client that gives way to a job of this client. Returns `None` if more jobs run than
    /// there are slots, as after a reload.
    fn victim_of_client(&self, level: u32, client: u32) -> Option<u64> {
        let at = &self.levels[level as usize];
        let makes_room = match self.sharing {
            Sharing::Own => at.running.len() <= at.slots as usize,
            Sharing::Any | Sharing::AnyUntilWanted => self.running <= self.slots,
        };
        if makes_room { at.victim(client) } else { None }
    }

    /// The Wakeup policy: returns the next job of the highest level that has a free slot of its own. If no level has
    /// one, returns the next job of the highest level. All shared slots may be taken even if a level has fewer than it
    /// owns.
    fn next(&self) -> Option<u64> {
        let is_free = self.sharing == Sharing::Own || self.running < self.slots;
        let any = || self.waiting.first().filter(|_| self.sharing != Sharing::Own);
        let (.., level) = self.entitled.first().or_else(any).filter(|_| is_free)?;
        self.levels[*level as usize].clients.next()
    }

    fn run(&mut self, number: u64) {
        let (level, client) = self.jobs[&number];
        self.levels[level as usize].run(number, client);
        self.running += 1;
        self.note(level);
    }

    fn sleep(&mut self, number: u64) {
        let (level, client) = self.jobs[&number];
        self.levels[level as usize].sleep(number, client);
        self.running -= 1;
        self.note(level);
    }

    /// Updates the sets that contain the level.
    fn note(&mut self, level: u32) {
        let at = &mut self.levels[level as usize];
        let place = |number: &u64| (at.priority, *number, level);
        let waits = at.asleep.first().map(place);
        let borrows = at.running.last().map(place).filter(|_| at.has_more_than_its_own());
        let is_entitled = waits.is_some() && at.has_free();
        let had_been = std::mem::replace(&mut at.is_entitled, is_entitled);
        change(&mut self.entitled, at.waits.filter(|_| had_been), waits.filter(|_| is_entitled));
        change(&mut self.waiting, std::mem::replace(&mut at.waits, waits), waits);
        change(&mut self.borrowing, std::mem::replace(&mut at.borrows, borrows), borrows);
    }
}

fn change<K: Ord>(set: &mut BTreeSet<K>, before: Option<K>, now: Option<K>) {
    if before != now {
        before.iter().for_each(|place| {
            set.remove(place);
        });
        set.extend(now);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const A: u32 = 0;
    const B: u32 = 1;

    /// The example of section 3.1: six slots of A and three of B, three jobs of A and four of B. Returns the turn of
    /// B's last job.
    fn example(sharing: Sharing) -> (Slots, Turn) {
        let mut slots = Slots::new(&[6, 3], sharing);
        for number in 0..3 {
            assert_eq!(slots.arrive(number, A), [Turn::Run(number)]);
        }
        for number in 3..6 {
            assert_eq!(slots.arrive(number, B), [Turn::Run(number)]);
        }
        let last = slots.arrive(6, B);
        assert_eq!(last.len(), 1);
        (slots, last[0])
    }

    /// "Three requests of each type occupy their corresponding slots and one request of type B blocks."
    #[test]
    fn non_work_conserving_one_of_b_blocks() {
        let (mut slots, last) = example(Sharing::Own);
        assert_eq!((last, slots.counts(A), slots.counts(B)), (Turn::Sleep(6), (3, 0), (3, 1)));
        // Only the end of a job of B wakes it.
        assert_eq!(slots.depart(0), None);
        assert_eq!(slots.depart(4), Some(Turn::Run(6)));
    }

    /// "All the requests would execute … Subsequently, suppose three requests of type A arrive: two of them will
    /// execute. The third one executes if the policy is preemptive, otherwise it blocks."
    #[test]
    fn work_conserving_all_run_and_the_third_of_a_blocks() {
        let (mut slots, last) = example(Sharing::Any);
        assert_eq!(last, Turn::Run(6));
        assert_eq!([7, 8, 9].map(|number| slots.arrive(number, A)), [[Turn::Run(7)], [Turn::Run(8)], [Turn::Sleep(9)]]);
        // The job runs in place of the first to end.
        assert_eq!(slots.depart(3), Some(Turn::Run(9)));
    }

    #[test]
    fn preemptive_the_youngest_of_b_sleeps() {
        let (mut slots, _) = example(Sharing::AnyUntilWanted);
        assert_eq!([slots.arrive(7, A), slots.arrive(8, A)], [[Turn::Run(7)], [Turn::Run(8)]]);
        assert_eq!(slots.arrive(9, A), [Turn::Sleep(6), Turn::Run(9)]);
        // B has its own three slots, which no other level takes.
        assert_eq!(slots.arrive(10, A), [Turn::Sleep(10)]);
        assert_eq!((slots.counts(A), slots.counts(B)), ((6, 1), (3, 1)));
        // A's own slot goes first to A, and B's to B.
        assert_eq!(slots.depart(5), Some(Turn::Run(6)));
        assert_eq!(slots.depart(9), Some(Turn::Run(10)));
    }

    /// A client may have all slots until another comes, and then keeps half of them.
    #[test]
    fn a_client_makes_room_for_another() {
        let mut slots = Slots::new(&[4], Sharing::Own);
        for number in 0..4 {
            assert_eq!(slots.arrive_of(number, A, 1), [Turn::Run(number)]);
        }
        assert_eq!(slots.arrive_of(4, A, 1), [Turn::Sleep(4)], "for one of its own it makes no room");
        assert_eq!(slots.arrive_of(5, A, 2), [Turn::Sleep(3), Turn::Run(5)]);
        assert_eq!(slots.arrive_of(6, A, 3), [Turn::Sleep(2), Turn::Run(6)]);
        // The first client has its half, which nobody takes.
        assert_eq!(slots.arrive_of(7, A, 4), [Turn::Sleep(7)]);
        assert_eq!(slots.arrive_of(8, A, 3), [Turn::Sleep(8)]);
        // The client with the fewest goes first, then the oldest job; a job that leaves asleep loses its turn.
        assert_eq!(slots.depart(0), Some(Turn::Run(7)));
        assert_eq!(slots.depart(2), None);
        assert_eq!([slots.depart(5), slots.depart(6)], [3, 8].map(|number| Some(Turn::Run(number))));
        assert_eq!([slots.depart(1), slots.depart(7)], [Some(Turn::Run(4)), None]);
        assert_eq!(slots.counts(A), (3, 0));
    }

    /// A level with a single slot has no half of it: a running response is not interrupted for another.
    #[test]
    fn the_only_slot_stays_with_its_job() {
        let mut slots = Slots::new(&[1], Sharing::Own);
        assert_eq!(slots.arrive_of(0, A, 1), [Turn::Run(0)]);
        assert_eq!(slots.arrive_of(1, A, 1), [Turn::Sleep(1)]);
        assert_eq!(slots.arrive_of(2, A, 2), [Turn::Sleep(2)]);
        assert_eq!(slots.depart(0), Some(Turn::Run(1)), "both have none, and it is older");
    }

    #[test]
    fn of_one_priority_age_decides() {
        let level = LevelSpec { priority: 5, slots: 1 };
        let mut slots = Slots::of_levels(&[level, level], Sharing::Any);
        for number in 0..4 {
            slots.arrive(number, u32::from(number % 2 == 0));
        }
        // Both jobs of the second level run, and the first level's after them.
        assert_eq!((slots.counts(0), slots.counts(1)), ((1, 1), (1, 1)));
        assert_eq!(slots.depart(1), Some(Turn::Run(3)), "its own slot");
        assert_eq!(slots.arrive(4, 1), [Turn::Sleep(4)]);
        assert_eq!([slots.depart(3), slots.depart(0)], [2, 4].map(|number| Some(Turn::Run(number))));
        // With equal priority a level takes back its own slots, and no more.
        let mut slots = Slots::of_levels(&[level, level], Sharing::AnyUntilWanted);
        (0..2).for_each(|number| assert_eq!(slots.arrive(number, 0), [Turn::Run(number)]));
        assert_eq!(slots.arrive(2, 1), [Turn::Sleep(1), Turn::Run(2)]);
        assert_eq!(slots.arrive(3, 1), [Turn::Sleep(3)]);
    }

    #[test]
    fn more_slots_wake_and_fewer_stop_nobody() {
        let level = |slots| LevelSpec { priority: 0, slots };
        let mut slots = Slots::of_levels(&[level(1)], Sharing::Own);
        (0..4).for_each(|number| drop(slots.arrive(number, 0)));
        assert_eq!(slots.replace(&[level(3), level(1)]), [Turn::Run(1), Turn::Run(2)]);
        assert_eq!(slots.replace(&[level(1), level(1)]), []);
        assert_eq!(slots.counts(0), (3, 1));
        assert_eq!([slots.depart(0), slots.depart(1), slots.depart(2)], [None, None, Some(Turn::Run(3))]);
    }

    #[test]
    fn one_that_leaves_asleep_wakes_nobody() {
        let (mut slots, _) = example(Sharing::Own);
        assert_eq!((slots.depart(6), slots.depart(6), slots.counts(B)), (None, None, (3, 0)));
    }

    #[test]
    fn a_level_without_slots_runs_in_others_or_never() {
        for (sharing, expected) in [(Sharing::Own, Turn::Sleep(0)), (Sharing::Any, Turn::Run(0))] {
            let mut slots = Slots::new(&[1, 0], sharing);
            assert_eq!(slots.arrive(0, B), [expected]);
        }
        let mut slots = Slots::new(&[1, 0], Sharing::AnyUntilWanted);
        slots.arrive(0, B);
        assert_eq!(slots.arrive(1, A), [Turn::Sleep(0), Turn::Run(1)]);
        assert_eq!(slots.depart(1), Some(Turn::Run(0)), "nobody sleeps for ever");
    }

    #[derive(Debug, Clone)]
    enum Step {
        Arrive(u32),
        Depart(usize),
    }

    fn sharings() -> impl Strategy<Value = Sharing> {
        prop::sample::select(vec![Sharing::Own, Sharing::Any, Sharing::AnyUntilWanted])
    }

    fn check_levels(kept: &Slots, slots: &[u32], sharing: Sharing, running: usize) {
        let total = slots.iter().sum::<u32>() as usize;
        assert!(running <= total);
        for (level, own) in (0..).zip(slots) {
            let (of_level, asleep) = kept.counts(level);
            let is_full = if sharing == Sharing::Own { of_level >= *own as usize } else { running >= total };
            assert!(asleep == 0 || is_full, "level {level} waits beside a free slot");
            assert!(sharing != Sharing::Own || of_level <= *own as usize);
        }
    }

    /// The job was put to sleep. If it ran, its level had more slots than its own.
    fn check_sleep(present: &[(u64, u32)], running: &mut BTreeSet<u64>, slots: &[u32], sharing: Sharing, number: u64) {
        if running.remove(&number) {
            let level = present.iter().find(|job| job.0 == number).unwrap().1;
            let left = present.iter().filter(|job| job.1 == level && running.contains(&job.0));
            assert!(sharing == Sharing::AnyUntilWanted && left.count() >= slots[level as usize] as usize);
        }
    }

    proptest! {
        /// After any arrivals and departures, a client has more than its half only while no client with fewer waits, no
        /// slot stays empty, and every sleeping job runs in the end.
        #[test]
        fn clients_have_their_halves(
            slots in 1u32..7,
            steps in prop::collection::vec(prop_oneof![3 => (0u32..4).prop_map(Step::Arrive), 2 => any::<usize>().prop_map(Step::Depart)], 1..200),
        ) {
            let mut kept = Slots::new(&[slots], Sharing::Own);
            let mut present: Vec<(u64, u32)> = Vec::new();
            for (number, step) in (0..).zip(steps) {
                match step {
                    Step::Arrive(client) => {
                        present.push((number, client));
                        kept.arrive_of(number, 0, client);
                    }
                    Step::Depart(_) if present.is_empty() => continue,
                    Step::Depart(nth) => drop(kept.depart(present.remove(nth % present.len()).0)),
                }
                let (running, asleep) = kept.counts(0);
                prop_assert!(running <= slots as usize && (asleep == 0 || running == slots as usize));
                let of = |client: u32, runs: bool| present.iter().filter(|job| job.1 == client && kept.is_running(job.0) == runs).count();
                for (greedy, other) in (0..4).flat_map(|greedy| (0..4).map(move |other| (greedy, other))) {
                    let (most, few) = (of(greedy, true), of(other, true));
                    prop_assert!(of(other, false) == 0 || most <= slots.div_ceil(2) as usize || most <= few + 1);
                }
            }
            while let Some(at) = present.iter().position(|job| kept.is_running(job.0)) {
                kept.depart(present.remove(at).0);
            }
            prop_assert!(present.is_empty() && kept.counts(0) == (0, 0));
        }

        /// After any arrivals and departures: no more jobs run than there are slots, no slot that a job may use stays
        /// empty, no job is preempted within the slots of its own level, and the returned turns are complete.
        #[test]
        fn slots_are_kept(
            slots in prop::collection::vec(0u32..4, 1..5),
            sharing in sharings(),
            steps in prop::collection::vec(prop_oneof![3 => (0u32..6).prop_map(Step::Arrive), 2 => any::<usize>().prop_map(Step::Depart)], 1..200),
        ) {
            prop_assume!(slots.iter().sum::<u32>() > 0);
            let mut kept = Slots::new(&slots, sharing);
            let (mut present, mut running): (Vec<(u64, u32)>, BTreeSet<u64>) = Default::default();
            for (number, step) in (0..).zip(steps) {
                let turns = match step {
                    Step::Arrive(level) => {
                        let level = level.min(slots.len() as u32 - 1);
                        present.push((number, level));
                        let turns = kept.arrive(number, level);
                        prop_assert!(matches!(turns.last(), Some(Turn::Run(last) | Turn::Sleep(last)) if *last == number));
                        turns
                    }
                    Step::Depart(_) if present.is_empty() => continue,
                    Step::Depart(nth) => {
                        let (number, _) = present.remove(nth % present.len());
                        running.remove(&number);
                        kept.depart(number).into_iter().collect()
                    }
                };
                for turn in turns {
                    match turn {
                        Turn::Run(number) => prop_assert!(running.insert(number)),
                        Turn::Sleep(other) => check_sleep(&present, &mut running, &slots, sharing, other),
                    }
                }
                prop_assert!(present.iter().all(|(number, _)| kept.is_running(*number) == running.contains(number)));
                check_levels(&kept, &slots, sharing, running.len());
            }
        }
    }
}
