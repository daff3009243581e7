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

/// The interval at which the ends of processes and their sleeping times are checked.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// The maximum time for which a process sleeps. If a class is starved for this long, or a line was lost, its slots are
/// exceeded.
const ASLEEP_MAX: Duration = Duration::from_secs(60);
/// The priority of this program, so that it runs before the processes that it must stop.
const NICE: i32 = -20;

/// Requests whose path begins with `prefix`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessClass {
    pub name: String,
    pub prefix: String,
    pub slots: u32,
    pub priority: Priority,
}

/// The classes, the highest priority first, and the means; requests that match no class belong to the last.
#[derive(Debug, Clone)]
pub struct Plan {
    pub classes: Vec<ProcessClass>,
    pub sharing: Sharing,
    pub asleep: Priority,
}

/// The counts of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    pub requests: u64,
    /// Requests that were served before their process could be put to sleep.
    pub escaped: u64,
    /// The number of priorities set.
    pub changes: u64,
    pub garbled: u64,
    /// Processes that were woken although no slot was free for them.
    pub overslept: u64,
}

/// The processes of an Apache under control. When it is dropped, they return to their earlier state.
#[derive(Debug)]
pub struct Hold {
    // Dropped first: a guard exists before the first process is stopped and after the last.
    hands: Hands,
    _guard: Guard,
}

/// A pipe for `ForensicLog`, and the events read from it.
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
    /// Creates the hold. `guard` is the command of the guard without the group of the processes.
    pub fn new(master: u32, means: Means, mut guard: Command) -> Result<Hold, LabError> {
        let hands = Hands::new(master, means)?;
        if let Some(group) = hands.group() {
            guard.arg("--group").arg(group);
        }
        Ok(Hold { hands, _guard: Guard::start(guard)? })
    }
}

impl Watch {
    /// Creates the pipe, or uses the existing one. It must exist before Apache starts, which waits for a reader.
    pub fn open(path: &Path) -> Result<Watch, LabError> {
        let made = mknodat(CWD, path, FileType::Fifo, 0o600.into(), 0);
        made.or_else(|error| if error == rustix::io::Errno::EXIST { Ok(()) } else { Err(error) })
            .map_err(|e| LabError::path(path, e.into()))?;
        // Opened for writing too, so that it does not end between two writers.
        let without_waiting = OFlags::NONBLOCK.bits().cast_signed();
        let pipe = File::options().read(true).write(true).custom_flags(without_waiting).open(path);
        Ok(Watch { pipe: pipe.map_err(|e| LabError::path(path, e))?, path: path.into() })
    }

    /// Schedules the processes as long as `goes_on` returns true, then restores their earlier state.
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
        // Not essential: without it more requests escape.
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

    /// Returns the events of a short period.
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

/// One execution of the loop.
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
                    // The process is not, or no longer, one of this Apache: its slot becomes free.
                    self.decider.gone(process);
                }
            }
        }
    }
}
