//! Measures Tables 2 to 7 of 004 on this machine. Each configuration alternates with none, so that other work on the
//! machine affects all alike.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_setaffinity};
use sched::Sharing;

use super::apache::Apache;
pub use super::apache::Page;
use super::clients::{Answers, Window, ask};
use super::decide::Priority;
use super::hands::Means;
use super::watch::{Hold, Plan, ProcessClass, Tally, Watch};
use crate::{Interrupt, LabError, Program};

const WARM_UP: Duration = Duration::from_secs(1);

/// Table 3: the slots of A, and the priority and the slots of B. A has priority 5.
const CONFIGURATIONS: [(u32, Priority, u32); 6] = [
    (5, Priority::Level(1), 1),
    (10, Priority::Level(1), 1),
    (15, Priority::Level(1), 1),
    (15, Priority::Idle, 1),
    (15, Priority::Level(1), 2),
    (15, Priority::Level(1), 5),
];

/// A row of a table.
#[derive(Debug, Clone)]
pub struct Condition {
    pub name: String,
    /// `None` leaves the processes unchanged.
    pub plan: Option<Plan>,
    /// Only clients of A: its lower bound.
    pub is_alone: bool,
}

pub struct Measurement {
    /// The folder for the files of Apache; it must not exist or be empty.
    pub folder: PathBuf,
    pub page: Page,
    /// The number of clients of each class.
    pub clients: usize,
    pub window: Duration,
    /// The processor reserved for Apache, and the processor of everything else.
    pub processors: [usize; 2],
    pub means: Means,
    /// Returns the command of the guard for a master process.
    pub guard: Box<dyn Fn(u32) -> Command + Sync>,
}

/// A run of a condition.
#[derive(Debug, Clone)]
pub struct Measured {
    pub a: Answers,
    pub b: Answers,
    pub window: Duration,
    /// The share of one processor that Apache used.
    pub used: f64,
    pub tally: Tally,
}

/// The conditions: none, A alone, and the six configurations of Table 3 under the policies of Tables 4, 6 and 7.
pub fn conditions() -> Vec<Condition> {
    let mut all = vec![Condition { name: "A alone".into(), plan: None, is_alone: true }];
    for (name, sharing, asleep) in [
        ("own, 0", Sharing::Own, Priority::Idle),
        ("own, -1", Sharing::Own, Priority::Stopped),
        ("preempt, 0", Sharing::AnyUntilWanted, Priority::Idle),
        ("preempt, -1", Sharing::AnyUntilWanted, Priority::Stopped),
    ] {
        for (number, (of_a, priority_of_b, of_b)) in (1..).zip(CONFIGURATIONS) {
            let class = |name: &str, slots, priority| ProcessClass {
                name: name.into(),
                prefix: format!("/{}/", name.to_ascii_lowercase()),
                slots,
                priority,
            };
            let classes = vec![class("A", of_a, Priority::Level(5)), class("B", of_b, priority_of_b)];
            let plan = Plan { classes, sharing, asleep };
            all.push(Condition { name: format!("config {number}, {name}"), plan: Some(plan), is_alone: false });
        }
    }
    all
}

impl Measurement {
    /// Runs each condition `rounds` times, each after a run of none, and reports each pair to `tell`.
    pub fn run(
        &self,
        conditions: &[Condition],
        rounds: usize,
        interrupt: &Interrupt,
        mut tell: impl FnMut(&Condition, &Measured, &Measured),
    ) -> Result<(), LabError> {
        std::fs::create_dir_all(&self.folder).map_err(|e| LabError::path(&self.folder, e))?;
        let pipe = self.folder.join("forensic");
        let mut watch = Watch::open(&pipe)?;
        let mut apache = Apache::start(&self.folder, &pipe, self.page, self.processors[0])?;
        // For all runs, including those of none: with groups Apache has its processor to itself, whatever else runs on
        // the machine.
        let mut hold = Hold::new(apache.master, self.means, (self.guard)(apache.master))?;
        let none = Condition { name: "none".into(), plan: None, is_alone: false };
        for _ in 0..rounds {
            for condition in conditions {
                interrupt.check()?;
                let before = self.once(&mut watch, &mut hold, &mut apache, &none)?;
                let measured = self.once(&mut watch, &mut hold, &mut apache, condition)?;
                tell(condition, &before, &measured);
            }
        }
        Ok(())
    }

    fn once(
        &self,
        watch: &mut Watch,
        hold: &mut Hold,
        apache: &mut Apache,
        condition: &Condition,
    ) -> Result<Measured, LabError> {
        let from = Instant::now() + WARM_UP;
        let window = Window { from, to: from + self.window };
        let (is_over, is_settled) = (AtomicBool::new(false), AtomicBool::new(false));
        let (address, elsewhere) = (apache.address, self.processors[1]);
        let clients = [("/a/page", self.clients), ("/b/page", self.clients)];
        let paths = if condition.is_alone { &clients[..1] } else { &clients[..] };
        let program = &apache.program;
        let (tally, answers, used) = std::thread::scope(|scope| {
            let watching = scope.spawn(|| -> Result<Tally, LabError> {
                stay_on(elsewhere);
                let tally = match &condition.plan {
                    Some(plan) => watch.run(hold, plan, || !is_over.load(Ordering::Relaxed)),
                    None => watch.look_on(|| !is_over.load(Ordering::Relaxed)),
                };
                // However that ended, the clients must still be served.
                watch.look_on(|| !is_settled.load(Ordering::Relaxed))?;
                tally
            });
            let used = scope.spawn(|| used(program, window));
            let answers = ask(address, paths, window, Some(elsewhere), &is_over);
            is_settled.store(true, Ordering::Relaxed);
            (watching.join(), answers, used.join())
        });
        let panicked = |_| LabError::io("a thread of the measurement", std::io::Error::other("it panicked"));
        let (tally, used) = (tally.map_err(panicked)??, used.map_err(panicked)??);
        apache.program.check_running()?;
        let mut answers = answers.into_iter();
        let mut next = || answers.next().unwrap_or_default();
        Ok(Measured { a: next(), b: next(), window: self.window, used, tally })
    }
}

/// Returns the share of one processor. On a busy machine a reading is late; the time between the two readings counts.
fn used(program: &Program, window: Window) -> Result<f64, LabError> {
    let look = |at: Instant| -> Result<(f64, Instant), LabError> {
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
        Ok((program.cpu()?.as_secs_f64(), Instant::now()))
    };
    let (before, from) = look(window.from)?;
    let (after, to) = look(window.to)?;
    Ok((after - before) / (to - from).as_secs_f64())
}

fn stay_on(processor: usize) {
    let mut only = CpuSet::new();
    only.set(processor);
    // Not essential: with a single processor, everything runs on it.
    let _ = sched_setaffinity(None, &only);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_tables_is_there_once() {
        let all = conditions();
        let names: std::collections::BTreeSet<_> = all.iter().map(|condition| &condition.name).collect();
        assert_eq!((all.len(), names.len()), (25, 25));
        let plan = all.iter().find(|condition| condition.name == "config 4, own, -1").unwrap().plan.clone().unwrap();
        assert_eq!((plan.classes[1].priority, plan.asleep), (Priority::Idle, Priority::Stopped));
    }
}
