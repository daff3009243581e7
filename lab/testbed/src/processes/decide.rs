//! Decides which processes may run: Sleep and Wakeup over the processes of a server, each with one request at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use sched::{Sharing, Slots, Turn};

/// The priority of a process, as in 004: −1 never runs, 0 runs only if no other would, and from 1 on shares are
/// proportional to the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    Stopped,
    Idle,
    Level(u8),
}

/// The levels of Linux 2.1.
const LEVEL_MAX: u8 = 40;

impl FromStr for Priority {
    type Err = String;

    fn from_str(text: &str) -> Result<Priority, String> {
        match text.parse::<i16>() {
            Ok(-1) => Ok(Priority::Stopped),
            Ok(0) => Ok(Priority::Idle),
            Ok(level @ 1..=40) => Ok(Priority::Level(level as u8)),
            _ => Err(format!("expected -1 (stopped), 0 (idle) or 1 to {LEVEL_MAX}")),
        }
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Priority::Stopped => f.write_str("-1"),
            Priority::Idle => f.write_str("0"),
            Priority::Level(level) => write!(f, "{level}"),
        }
    }
}

/// A process that serves a request.
#[derive(Debug, Clone, Copy)]
struct Serving {
    number: u64,
    class: u32,
}

/// The decisions for each process.
#[derive(Debug)]
pub struct Decider {
    slots: Slots,
    /// The priorities of the running processes, by class.
    running: Vec<Priority>,
    asleep: Priority,
    serving: BTreeMap<u32, Serving>,
    processes: BTreeMap<u64, u32>,
    next: u64,
    /// The priorities that have been set. A process that is not listed has its initial priority.
    told: BTreeMap<u32, Priority>,
    /// Processes with changes since the last [`Decider::changes`].
    changed: BTreeSet<u32>,
    escaped: u64,
}

impl Decider {
    /// Creates a decider with the slots and the priority of each class, the highest first, and the priority of sleeping
    /// processes.
    pub fn new(classes: &[(u32, Priority)], sharing: Sharing, asleep: Priority) -> Decider {
        let slots: Vec<u32> = classes.iter().map(|(slots, _)| *slots).collect();
        Decider {
            slots: Slots::new(&slots, sharing),
            running: classes.iter().map(|(_, priority)| *priority).collect(),
            asleep,
            serving: BTreeMap::new(),
            processes: BTreeMap::new(),
            next: 0,
            told: BTreeMap::new(),
            changed: BTreeSet::new(),
            escaped: 0,
        }
    }

    /// Handles a request of this class that a process begins: Sleep. If the process had another request, that has ended
    /// without a message.
    pub fn begin(&mut self, process: u32, class: usize) {
        self.depart(process);
        let class = class.min(self.running.len() - 1) as u32;
        let number = self.next;
        self.next += 1;
        self.serving.insert(process, Serving { number, class });
        self.processes.insert(number, process);
        for turn in self.slots.arrive(number, class) {
            self.note(turn);
        }
    }

    /// Handles the end of a request: Wakeup. If its process was to be stopped, the request was served before that.
    pub fn end(&mut self, process: u32) {
        self.escaped += u64::from(self.asleep == Priority::Stopped && self.is_asleep(process));
        self.depart(process);
    }

    /// Ends all scheduling and resets every priority that was set.
    pub fn end_all(&mut self) {
        for process in self.serving.keys().copied().collect::<Vec<_>>() {
            self.depart(process);
        }
    }

    /// Forgets a process that has ended; nothing is done to it.
    pub fn gone(&mut self, process: u32) {
        self.depart(process);
        self.told.remove(&process);
        self.changed.remove(&process);
    }

    /// Returns the changes to be made, sleeping processes first: each process with its priority, or `None` for its
    /// initial one.
    pub fn changes(&mut self) -> Vec<(u32, Option<Priority>)> {
        let changed = std::mem::take(&mut self.changed);
        let mut changes: Vec<_> = changed.into_iter().map(|process| (process, self.wanted(process))).collect();
        changes.retain(|(process, wanted)| self.told.get(process) != wanted.as_ref());
        for (process, wanted) in &changes {
            match wanted {
                Some(priority) => self.told.insert(*process, *priority),
                None => self.told.remove(process),
            };
        }
        changes.sort_by_key(|(process, wanted)| (wanted.unwrap_or(Priority::Level(LEVEL_MAX)), *process));
        changes
    }

    fn is_asleep(&self, process: u32) -> bool {
        self.serving.get(&process).is_some_and(|serving| !self.slots.is_running(serving.number))
    }

    /// The number of requests that were served although their process was to sleep.
    pub fn escaped(&self) -> u64 {
        self.escaped
    }

    fn wanted(&self, process: u32) -> Option<Priority> {
        let serving = self.serving.get(&process)?;
        let runs = self.slots.is_running(serving.number);
        Some(if runs { self.running[serving.class as usize] } else { self.asleep })
    }

    fn depart(&mut self, process: u32) {
        let Some(serving) = self.serving.remove(&process) else { return };
        self.processes.remove(&serving.number);
        self.changed.insert(process);
        if let Some(turn) = self.slots.depart(serving.number) {
            self.note(turn);
        }
    }

    fn note(&mut self, turn: Turn) {
        let (Turn::Run(number) | Turn::Sleep(number)) = turn;
        self.changed.extend(self.processes.get(&number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: usize = 0;
    const B: usize = 1;
    const FIVE: Priority = Priority::Level(5);
    const ONE: Priority = Priority::Level(1);

    fn decider(slots: [u32; 2], sharing: Sharing) -> Decider {
        Decider::new(&[(slots[0], FIVE), (slots[1], ONE)], sharing, Priority::Stopped)
    }

    #[test]
    fn priorities_as_in_the_paper() {
        for (text, priority) in
            [("-1", Priority::Stopped), ("0", Priority::Idle), ("1", ONE), ("40", Priority::Level(40))]
        {
            assert_eq!((text.parse(), priority.to_string().as_str()), (Ok(priority), text));
        }
        assert!(["-2", "41", "", "x", "300"].iter().all(|wrong| wrong.parse::<Priority>().is_err()));
    }

    /// Configuration 1 of Table 3: five of A and one of B.
    #[test]
    fn the_second_of_b_is_stopped_until_the_first_has_ended() {
        let mut decider = decider([5, 1], Sharing::Own);
        decider.begin(100, B);
        decider.begin(101, B);
        decider.begin(102, A);
        assert_eq!(decider.changes(), [(101, Some(Priority::Stopped)), (100, Some(ONE)), (102, Some(FIVE))]);
        decider.end(102);
        assert_eq!(decider.changes(), [(102, None)]);
        decider.end(100);
        assert_eq!(decider.changes(), [(101, Some(ONE)), (100, None)]);
        assert_eq!((decider.changes(), decider.escaped()), (vec![], 0));
    }

    #[test]
    fn the_youngest_of_b_gives_its_slot_back() {
        let mut decider = decider([1, 1], Sharing::AnyUntilWanted);
        for process in [100, 101] {
            decider.begin(process, B);
        }
        assert_eq!(decider.changes(), [(100, Some(ONE)), (101, Some(ONE))]);
        decider.begin(200, A);
        assert_eq!(decider.changes(), [(101, Some(Priority::Stopped)), (200, Some(FIVE))]);
    }

    /// A request that began and ended since the last changes was never reported.
    #[test]
    fn a_request_that_is_over_before_it_can_be_stopped_has_escaped() {
        let mut decider = decider([1, 1], Sharing::Own);
        for process in [100, 101] {
            decider.begin(process, B);
        }
        decider.end(101);
        assert_eq!((decider.changes(), decider.escaped()), (vec![(100, Some(ONE))], 1));
    }

    #[test]
    fn a_process_that_is_gone_leaves_its_slot_and_is_left_alone() {
        let mut decider = decider([1, 1], Sharing::Own);
        for process in [100, 101] {
            decider.begin(process, B);
        }
        decider.changes();
        decider.gone(100);
        assert_eq!(decider.changes(), [(101, Some(ONE))]);
        // The process number was reused, with a request whose predecessor's end was never reported.
        decider.begin(101, A);
        assert_eq!(decider.changes(), [(101, Some(FIVE))]);
    }

    mod laws {
        use proptest::prelude::*;

        use super::*;

        fn sharings() -> impl Strategy<Value = Sharing> {
            prop::sample::select(vec![Sharing::Own, Sharing::Any, Sharing::AnyUntilWanted])
        }

        proptest! {
            /// For any sequence of events: the reported priorities are those in force, no more processes run than there
            /// are slots, no process sleeps while a slot is free for it, and after the last request every process has
            /// its initial priority.
            #[test]
            fn nobody_stays_asleep(
                slots in [1u32..4, 1u32..4],
                sharing in sharings(),
                steps in prop::collection::vec((0u32..8, 0usize..2, 0u8..4, any::<bool>()), 1..200),
            ) {
                let mut decider = decider(slots, sharing);
                let mut world: BTreeMap<u32, Priority> = BTreeMap::new();
                let mut serving = BTreeMap::new();
                let apply = |decider: &mut Decider, world: &mut BTreeMap<u32, Priority>| {
                    for (process, wanted) in decider.changes() {
                        match wanted {
                            Some(priority) => world.insert(process, priority),
                            None => world.remove(&process),
                        };
                    }
                };
                for (process, class, step, looks) in steps {
                    match step {
                        0 | 1 => { decider.begin(process, class); serving.insert(process, class); }
                        2 => { decider.end(process); serving.remove(&process); }
                        _ => { decider.gone(process); serving.remove(&process); world.remove(&process); }
                    }
                    if !looks { continue; }
                    apply(&mut decider, &mut world);
                    prop_assert_eq!(world.keys().collect::<Vec<_>>(), serving.keys().collect::<Vec<_>>());
                    let count = |class: usize, stopped: bool| serving.iter()
                        .filter(|(process, of)| **of == class && (world[process] == Priority::Stopped) == stopped).count();
                    let total = (slots[0] + slots[1]) as usize;
                    prop_assert!(count(A, false) + count(B, false) <= total);
                    let own_is_full = |class: usize| count(class, false) >= slots[class] as usize;
                    let is_full = count(A, false) + count(B, false) == total;
                    for class in [A, B] {
                        let may_not = if sharing == Sharing::Own { own_is_full(class) } else { is_full };
                        prop_assert!(count(class, true) == 0 || may_not);
                    }
                }
                decider.end_all();
                apply(&mut decider, &mut world);
                prop_assert!(world.is_empty(), "{world:?}");
            }
        }
    }
}
