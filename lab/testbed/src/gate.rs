//! Where runs that go on at once wait for each other: their loads begin together and nothing is torn down before the last
//! has ended, so that each has the same company all the time and no start disturbs a measurement.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::program::POLL_EVERY;
use crate::{Interrupt, LabError};

/// How many runs have yet to begin, and to end, their load.
#[derive(Debug)]
pub(crate) struct Gate {
    to_begin: AtomicUsize,
    to_end: AtomicUsize,
}

/// A run's place at the gate. Dropped, by a run that failed, it is waited for no longer.
#[derive(Debug)]
pub(crate) struct Ticket<'a> {
    gate: &'a Gate,
    has_begun: bool,
    has_ended: bool,
}

impl Gate {
    /// For so many runs, each of which takes one ticket.
    pub(crate) fn new(runs: usize) -> Gate {
        Gate { to_begin: AtomicUsize::new(runs), to_end: AtomicUsize::new(runs) }
    }

    pub(crate) fn ticket(&self) -> Ticket<'_> {
        Ticket { gate: self, has_begun: false, has_ended: false }
    }
}

impl Ticket<'_> {
    /// Waits until every run is ready to begin its load.
    pub(crate) fn begin(&mut self, interrupt: &Interrupt) -> Result<(), LabError> {
        leave(&self.gate.to_begin, &mut self.has_begun);
        wait(&self.gate.to_begin, interrupt)
    }

    /// Waits until the load of every run has ended.
    pub(crate) fn end(&mut self, interrupt: &Interrupt) -> Result<(), LabError> {
        leave(&self.gate.to_end, &mut self.has_ended);
        wait(&self.gate.to_end, interrupt)
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        leave(&self.gate.to_begin, &mut self.has_begun);
        leave(&self.gate.to_end, &mut self.has_ended);
    }
}

fn leave(missing: &AtomicUsize, has_left: &mut bool) {
    if !std::mem::replace(has_left, true) {
        missing.fetch_sub(1, Ordering::Relaxed);
    }
}

fn wait(missing: &AtomicUsize, interrupt: &Interrupt) -> Result<(), LabError> {
    while missing.load(Ordering::Relaxed) > 0 {
        interrupt.check()?;
        std::thread::sleep(POLL_EVERY);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn nobody_begins_before_all_are_ready_nor_waits_for_one_that_failed() {
        let (gate, events, interrupt) = (Gate::new(3), Mutex::new(vec![]), Interrupt::default());
        std::thread::scope(|scope| {
            for name in ["a", "b"] {
                let (mut ticket, events, interrupt) = (gate.ticket(), &events, &interrupt);
                scope.spawn(move || {
                    events.lock().unwrap().push(format!("{name} ready"));
                    ticket.begin(interrupt).unwrap();
                    events.lock().unwrap().push(format!("{name} begins"));
                    ticket.end(interrupt).unwrap();
                });
            }
            let (failing, events) = (gate.ticket(), &events);
            scope.spawn(move || {
                while events.lock().unwrap().len() < 2 {
                    std::thread::sleep(POLL_EVERY);
                }
                events.lock().unwrap().push("c fails".into());
                drop(failing);
            });
        });
        let events = events.into_inner().unwrap();
        assert!(events[..2].iter().all(|event| event.ends_with("ready")), "{events:?}");
        assert_eq!((events[2].as_str(), events.len()), ("c fails", 5));
    }
}
