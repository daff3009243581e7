//! The loop between Apache's lines and its processes.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, OFlags, mknodat};
use rustix::process::setpriority_process;
use sched::Sharing;

use super::decide::{Decider, Priority};
use super::forensic::{Event, Reader};
use super::guard::Guard;
use super::hands::{Hands, Means};
use crate::LabError;

/// The interval of looks at the end of processes, and at the time they have slept.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// No process sleeps longer. Where a class is starved for so long, or a line was lost, its slots are not kept.
const ASLEEP_MAX: Duration = Duration::from_secs(60);
/// So that we come before the processes we are to stop.
const NICE: i32 = -20;

/// Requests whose path begins with `prefix`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessClass {
    pub name: String,
    pub prefix: String,
    pub slots: u32,
    pub priority: Priority,
}

/// The classes and their means, the highest priority first; requests that match none are of the last.
#[derive(Debug, Clone)]
pub struct Plan {
    pub classes: Vec<ProcessClass>,
    pub sharing: Sharing,
    pub asleep: Priority,
}

/// The account of what was done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    pub requests: u64,
    /// Served before their process could be put to sleep.
    pub escaped: u64,
    /// Priorities that were given.
    pub changes: u64,
    pub garbled: u64,
    /// Woken though no slot was free for them.
    pub overslept: u64,
}

/// The processes of an Apache, held: dropped, they are as they were before.
#[derive(Debug)]
pub struct Hold {
    // Dropped first: before anything is stopped there is a guard, and behind the last.
    hands: Hands,
    _guard: Guard,
}

/// A pipe for `ForensicLog`, and what is learned from it.
#[derive(Debug)]
pub struct Watch {
    pipe: File,
    path: PathBuf,
}

impl Plan {
    fn class_of(&self, target: &str) -> usize {
        let found = self.classes.iter().position(|class| target.starts_with(&class.prefix));
        found.unwrap_or(self.classes.len() - 1)
    }

    fn decider(&self) -> Decider {
        let classes: Vec<_> = self.classes.iter().map(|class| (class.slots, class.priority)).collect();
        Decider::new(&classes, self.sharing, self.asleep)
    }
}

impl Hold {
    /// `guard` is the command of the guard, less the group of the processes.
    pub fn new(master: u32, means: Means, mut guard: Command) -> Result<Hold, LabError> {
        let hands = Hands::new(master, means)?;
        if let Some(group) = hands.group() {
            guard.arg("--group").arg(group);
        }
        Ok(Hold { hands, _guard: Guard::start(guard)? })
    }
}

impl Watch {
    /// Makes the pipe, or takes the one that is there. It has to be there before Apache starts, which waits for a reader.
    pub fn open(path: &Path) -> Result<Watch, LabError> {
        let made = mknodat(CWD, path, FileType::Fifo, 0o600.into(), 0);
        made.or_else(|error| if error == rustix::io::Errno::EXIST { Ok(()) } else { Err(error) })
            .map_err(|e| LabError::path(path, e.into()))?;
        // Writable too, so that it does not end between two writers.
        let without_waiting = OFlags::NONBLOCK.bits().cast_signed();
        let pipe = File::options().read(true).write(true).custom_flags(without_waiting).open(path);
        Ok(Watch { pipe: pipe.map_err(|e| LabError::path(path, e))?, path: path.into() })
    }

    /// Schedules the processes as long as `goes_on` says; then they are as before.
    pub fn run(&mut self, hold: &mut Hold, plan: &Plan, goes_on: impl Fn() -> bool) -> Result<Tally, LabError> {
        let (hands, decider) = (&mut hold.hands, plan.decider());
        let mut watching = Watching { hands, decider, plan, tally: Tally::default() };
        let outcome = self.keep_watching(&mut watching, goes_on);
        watching.decider.end_all();
        watching.apply();
        let garbled = outcome?;
        Ok(Tally { garbled, escaped: watching.decider.escaped(), ..watching.tally })
    }

    fn keep_watching(&mut self, watching: &mut Watching<'_>, goes_on: impl Fn() -> bool) -> Result<u64, LabError> {
        // Not vital: without it more requests escape.
        let _ = setpriority_process(None, NICE);
        let mut reader = Reader::default();
        let mut look_at = Instant::now() + LOOK_EVERY;
        while goes_on() {
            let events = self.wait(&mut reader)?;
            events.into_iter().for_each(|event| watching.take(event));
            if Instant::now() >= look_at {
                watching.look();
                look_at = Instant::now() + LOOK_EVERY;
            }
            watching.apply();
        }
        Ok(reader.garbled)
    }

    /// Reads and does nothing, as long as `goes_on` says: unread, the pipe would fill up and Apache wait for it.
    pub fn look_on(&mut self, goes_on: impl Fn() -> bool) -> Result<Tally, LabError> {
        let (mut reader, mut tally) = (Reader::default(), Tally::default());
        while goes_on() {
            let events = self.wait(&mut reader)?;
            tally.requests += events.iter().filter(|event| matches!(event, Event::Begin { .. })).count() as u64;
        }
        Ok(Tally { garbled: reader.garbled, ..tally })
    }

    /// The events that came within a while.
    fn wait(&mut self, reader: &mut Reader) -> Result<Vec<Event>, LabError> {
        let timeout = Timespec { tv_sec: 0, tv_nsec: LOOK_EVERY.subsec_nanos().into() };
        let mut events = Vec::new();
        match poll(&mut [PollFd::new(&self.pipe, PollFlags::IN)], Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(events),
            Ok(_) => {}
            Err(error) => return Err(LabError::path(&self.path, error.into())),
        }
        let mut bytes = [0; 16 << 10];
        match self.pipe.read(&mut bytes) {
            Ok(count) => reader.read(&bytes[..count], &mut events),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(LabError::path(&self.path, error)),
        }
        Ok(events)
    }
}

/// A run of the loop.
struct Watching<'p> {
    hands: &'p mut Hands,
    decider: Decider,
    plan: &'p Plan,
    tally: Tally,
}

impl Watching<'_> {
    fn take(&mut self, event: Event) {
        match event {
            Event::Begin { process, target } => {
                self.tally.requests += 1;
                self.decider.begin(process, self.plan.class_of(&target));
            }
            Event::End { process } => self.decider.end(process),
        }
    }

    fn look(&mut self) {
        self.hands.take_ended().into_iter().for_each(|process| self.decider.gone(process));
        let Some(then) = Instant::now().checked_sub(ASLEEP_MAX) else { return };
        for process in self.hands.stopped_before(then) {
            self.tally.overslept += 1;
            self.decider.gone(process);
            self.hands.set(process, None);
        }
    }

    fn apply(&mut self) {
        loop {
            let changes = self.decider.changes();
            if changes.is_empty() {
                return;
            }
            self.tally.changes += changes.len() as u64;
            for (process, priority) in changes {
                if !self.hands.set(process, priority) {
                    // No process of this Apache, or no longer one: its slot is another's.
                    self.decider.gone(process);
                }
            }
        }
    }
}
