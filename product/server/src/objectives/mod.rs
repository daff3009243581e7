//! The counts of each class of a class file, and whether the class meets its objective.
//!
//! The time of a response runs from the end of its request's head to the moment at which the kernel took its last byte.
//! With pacing, that is one grant before the byte leaves; with shaping off, the bytes in socket buffers are still
//! unsent then. This module reads no clock: times are arguments.

mod meter;
mod responses;
mod status_channel;

use std::collections::BTreeMap;

use units::Nanos;

use crate::classes::Assigned;
pub use meter::{Counts, Ended};
use meter::{Meter, allowed_permille, minute_from};
pub use responses::{ClientStatus, RESPONSES_MAX, ResponseStatus, ResponsesStatus, SortKey, sort_key};
pub use status_channel::{ClassStatus, Found, ObjectiveStatus, Question, Status, StatusChannel};

/// The counts of the classes of a class file, by their numbers.
#[derive(Debug, Default)]
pub struct Book {
    classes: Vec<Had>,
    /// The meters of the classes with an objective.
    meters: BTreeMap<u16, Meter>,
    /// The time at which the classes that missed their objectives must be logged.
    tell_at: Option<Nanos>,
}

#[derive(Debug, Default)]
struct Had {
    name: String,
    is_in_force: bool,
    responses: u64,
    bytes: u64,
}

impl Book {
    pub fn new(assigned: &Assigned) -> Book {
        let mut book = Book::default();
        book.replace(assigned);
        book
    }

    /// Sets the classes. Each class keeps its counts under its number, unless its objective has changed; then they
    /// start at zero.
    pub fn replace(&mut self, assigned: &Assigned) {
        let specs = assigned.specs();
        self.classes.resize_with(specs.len(), Had::default);
        for (class, spec) in self.classes.iter_mut().zip(specs) {
            (class.name, class.is_in_force) = (spec.name.clone(), false);
        }
        let mut before = std::mem::take(&mut self.meters);
        for (number, objective) in assigned.in_force() {
            self.classes[usize::from(number)].is_in_force = true;
            if let Some(objective) = objective {
                let kept = before.remove(&number).filter(|meter| meter.objective() == objective);
                self.meters.insert(number, kept.unwrap_or_else(|| Meter::new(objective.clone())));
            }
        }
    }

    /// Counts bytes of a response of this class that is in progress, sent since the last call for it.
    pub fn on_sent(&mut self, class: u16, bytes: u64) {
        if let Some(had) = self.classes.get_mut(usize::from(class)) {
            had.bytes += bytes;
        }
    }

    /// Counts a response of this class that has ended.
    pub fn count(&mut self, now: Nanos, class: u16, ended: &Ended) {
        let Some(had) = self.classes.get_mut(usize::from(class)) else { return };
        had.responses += 1;
        had.bytes += ended.sent_bytes;
        if self.meters.get_mut(&class).is_some_and(|meter| meter.count(now, ended)) {
            self.tell_at.get_or_insert(minute_from(now));
        }
    }

    /// Returns the time at which [`Book::lines`] has something to check.
    pub fn due(&self) -> Option<Nanos> {
        self.tell_at
    }

    /// Returns a line for each class that missed its objective in the last minute, if a minute has just ended.
    pub fn lines(&mut self, now: Nanos) -> Vec<String> {
        let Some(at) = self.tell_at.take_if(|at| now >= *at) else { return Vec::new() };
        let mut lines = Vec::new();
        for (number, meter) in &mut self.meters {
            let minute = meter.minute(at);
            if !minute.meets(meter.objective()) {
                lines.push(line(&self.classes[usize::from(*number)].name, meter, minute));
            }
        }
        lines
    }

    /// Returns the status of all classes so far, in the order of their numbers. `under_way` has the responses in
    /// progress by class number.
    pub fn status(&mut self, now: Nanos, under_way: &BTreeMap<u16, UnderWay>) -> Vec<ClassStatus> {
        let mut classes = Vec::new();
        for (number, had) in (0..).zip(&self.classes) {
            let at_work = under_way.get(&number).copied().unwrap_or_default();
            let objective = self.meters.get_mut(&number).map(|meter| ObjectiveStatus {
                lately: meter.lately(now),
                total: meter.total(),
                objective: meter.objective().clone(),
            });
            let (name, is_in_force) = (had.name.clone(), had.is_in_force);
            let (responses, bytes) = (had.responses, had.bytes);
            classes.push(ClassStatus { name, is_in_force, responses, bytes, under_way: at_work, objective });
        }
        classes
    }
}

/// The unfinished responses of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UnderWay {
    pub running: u64,
    /// The number waiting for a slot.
    pub asleep: u64,
    /// The age of the oldest response that waits for a slot.
    pub asleep_for_max: Option<Nanos>,
}

impl UnderWay {
    /// Adds a response of this age.
    pub fn add(&mut self, is_asleep: bool, age: Nanos) {
        if is_asleep {
            self.asleep += 1;
            self.asleep_for_max = self.asleep_for_max.max(Some(age));
        } else {
            self.running += 1;
        }
    }
}

fn line(name: &str, meter: &Meter, minute: Counts) -> String {
    let objective = meter.objective();
    let share = minute.missed_share().unwrap_or(0.0) * 100.0;
    let size = objective.size().map_or(String::new(), |size| format!(" of up to {size}"));
    let allowed = f64::from(allowed_permille(objective)) / 10.0;
    let burn = minute.burn(objective).unwrap_or(0.0);
    format!(
        "class {name}: {share:.1} % of {} responses{size} over {} in the last minute, {allowed} % allowed (burn {burn:.1})",
        minute.responses,
        objective.time(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classes::ClassesConfig;

    fn config(text: &str) -> ClassesConfig {
        let read = config::read(format!("[[site]]\nroot='a'\n{text}").as_bytes()).unwrap();
        let (assignment, objectives) = (read.assignment(), read.objectives());
        ClassesConfig { table: read.class_table().unwrap(), assignment, objectives }
    }

    fn class(name: &str, objective: &str) -> String {
        let objective = if objective.is_empty() { String::new() } else { format!("objective='{objective}'\n") };
        format!("[[class]]\nname='{name}'\n{objective}[[class.rule]]\npath='/{name}/*'\n")
    }

    const PAID: &str = "p99 of responses <= 64KiB under 200ms";

    fn ended(took_ms: u64) -> Ended {
        let took = Nanos::from_millis(took_ms);
        Ended { took, body_bytes: 1000, sent_bytes: 1200, is_whole: true, is_right: true }
    }

    #[test]
    fn a_missed_objective_is_told_once_a_minute_and_a_kept_one_never() {
        let mut book = Book::new(&Assigned::new(&config(&(class("paid", PAID) + &class("free", "")))));
        assert_eq!((book.due(), book.meters.len()), (None, 1));
        let at = Nanos::from_secs(100);
        (0..812).for_each(|nth| book.count(at, 0, &ended(if nth < 25 { 201 } else { 5 })));
        (0..50).for_each(|_| book.count(at, 1, &ended(10_000)));
        let due = book.due().unwrap();
        assert_eq!((due, book.lines(due - Nanos(1))), (Nanos::from_secs(160), vec![]));
        let said =
            "class paid: 3.1 % of 812 responses of up to 64KiB over 200ms in the last minute, 1 % allowed (burn 3.1)";
        assert_eq!(book.lines(due), [said]);
        assert_eq!((book.lines(due), book.due()), (vec![], None));
        (0..100).for_each(|nth| book.count(due, 0, &ended(if nth < 1 { 201 } else { 5 })));
        assert_eq!(book.lines(book.due().unwrap()), [""; 0], "one in a hundred is allowed");
    }

    #[test]
    fn a_reload_keeps_what_was_counted_for_the_same_objective() {
        let first = Assigned::new(&config(&class("paid", PAID)));
        let mut book = Book::new(&first);
        book.count(Nanos::ZERO, 0, &ended(300));
        let total = |book: &Book| book.meters.get(&0).map(|meter| meter.total().missed);
        let same = first.succeeded_by(&config(&(class("new", "") + &class("paid", PAID)))).unwrap();
        book.replace(&same);
        assert_eq!((total(&book), book.classes.len()), (Some(1), 3));
        let other = same.succeeded_by(&config(&class("paid", "p90 of responses under 1s"))).unwrap();
        book.replace(&other);
        assert_eq!(total(&book), Some(0), "counted anew");
        book.replace(&other.succeeded_by(&config(&class("new", ""))).unwrap());
        assert_eq!((total(&book), book.lines(Nanos::MAX)), (None, vec![]));
    }

    #[test]
    fn the_status_has_all_by_number_and_tells_what_is_in_force_or_under_way() {
        let first = Assigned::new(&config(&(class("paid", PAID) + &class("free", ""))));
        let mut book = Book::new(&first);
        book.count(Nanos::ZERO, 0, &ended(300));
        book.count(Nanos::ZERO, 1, &Ended { is_right: false, ..ended(1) });
        book.replace(&first.succeeded_by(&config(&class("paid", PAID))).unwrap());
        let names = |book: &mut Book, under_way: &BTreeMap<u16, UnderWay>| {
            let status = book.status(Nanos::ZERO, under_way);
            assert_eq!(status.iter().map(|class| class.name.as_str()).collect::<Vec<_>>(), ["paid", "free", "others"]);
            status
                .iter()
                .filter(|class| class.is_told())
                .map(|class| (class.name.clone(), class.responses, class.bytes))
                .collect::<Vec<_>>()
        };
        let (paid, free, others) = (("paid".into(), 1, 1200), ("free".into(), 1, 1200), ("others".into(), 0, 0));
        assert_eq!(names(&mut book, &BTreeMap::new()), [paid, others.clone()]);
        let mut at_work = UnderWay::default();
        [(true, 5), (true, 9), (false, 100)].iter().for_each(|(asleep, age)| at_work.add(*asleep, Nanos(*age)));
        assert_eq!(at_work, UnderWay { running: 1, asleep: 2, asleep_for_max: Some(Nanos(9)) });
        assert_eq!(names(&mut book, &BTreeMap::from([(1, at_work)]))[1], free);
        let objective = book.status(Nanos::ZERO, &BTreeMap::new()).remove(0).objective.unwrap();
        assert_eq!((objective.lately, objective.total), (Counts { responses: 1, missed: 1 }, objective.lately));
    }
}
