//! Responses measured for the objectives of their classes, where a file has classes.

use std::collections::BTreeMap;

use http::Status as HttpStatus;
use sched::line::Status as LineStatus;
use units::Nanos;

use super::Worker;
use super::ending::{ERROR_STATUS_MIN, Ending};
use super::exchange::{Place, Task};
use crate::classes::Assigned;
use crate::clock;
use crate::objectives::{Book, Ended, Found, Status, UnderWay};
use crate::transmit::Line;

/// A response under way.
#[derive(Debug, Clone, Copy)]
pub struct Measured {
    /// The head of its request was whole.
    since: Nanos,
    body_bytes: u64,
    head_bytes: u32,
    status: u16,
}

impl Measured {
    fn new(since: Nanos) -> Measured {
        Measured { since, body_bytes: 0, head_bytes: 0, status: 0 }
    }

    /// What was made of it. A head is far below 4 GiB.
    pub fn encoded(&mut self, status: HttpStatus, head_bytes: usize, body_bytes: u64) {
        (self.status, self.head_bytes, self.body_bytes) = (status.0, head_bytes as u32, body_bytes);
    }
}

/// What a worker keeps for the objectives.
#[derive(Debug)]
pub struct Measures {
    book: Book,
}

impl Measures {
    pub fn new(assigned: &Assigned) -> Measures {
        Measures { book: Book::new(assigned) }
    }
}

impl Worker {
    pub(super) fn begin_measuring(&mut self, place: Place) {
        if self.measures.is_some() {
            self.exchange(place).measured = Some(Box::new(Measured::new(self.now)));
        }
    }

    /// A response has ended.
    pub(super) fn count(&mut self, place: Place, ending: &Ending) {
        let Some(measures) = &mut self.measures else { return };
        let exchange = self.conns[place.at].exchange(place.stream);
        let Some(measured) = exchange.measured.take() else { return };
        let (ended_at, cut) = ending.measured();
        let ended = Ended {
            took: ended_at.unwrap_or_else(clock::now) - measured.since,
            body_bytes: measured.body_bytes,
            sent_bytes: cut.unwrap_or(measured.body_bytes + u64::from(measured.head_bytes)),
            is_whole: cut.is_none(),
            is_right: measured.status < ERROR_STATUS_MIN,
        };
        measures.book.count(self.now, exchange.class, &ended);
    }

    /// Other classes are in force.
    pub(super) fn measure_by(&mut self, assigned: &Assigned) {
        if let Some(measures) = &mut self.measures {
            measures.book.replace(assigned);
        }
    }

    /// When [`Worker::tell_missed_objectives`] has something to look at.
    pub(super) fn tell_at(&self) -> Option<Nanos> {
        self.measures.as_ref().and_then(|measures| measures.book.due())
    }

    pub(super) fn tell_missed_objectives(&mut self) {
        let Some(measures) = &mut self.measures else { return };
        measures.book.lines(self.now).iter().for_each(|line| self.parts.log.error(line));
    }

    /// For who keeps it over a restart.
    pub(super) fn leave_found_rate(&self) {
        if let Some(Line::Found(LineStatus { rate: Some(rate), age, .. })) =
            self.parts.transmitter.link().line(self.now)
        {
            self.parts.desk.leave(Found { rate, at: self.now - age });
        }
    }

    /// Answers the thread that asks for it.
    pub(super) fn tell_status(&mut self) {
        let Some(answer) = self.parts.desk.asked() else { return };
        let under_way = self.under_way();
        let (now, none) = (self.now, Status { classes: vec![], line: None });
        let status = self.measures.as_mut().map_or(none, |measures| measures.book.status(now, &under_way));
        let status = Status { line: self.parts.transmitter.link().line(now), ..status };
        // One that waits no longer need not know.
        let _ = answer.try_send(status);
    }

    /// By class: those that wait for a disk run too.
    fn under_way(&self) -> BTreeMap<u16, UnderWay> {
        let mut classes: BTreeMap<u16, UnderWay> = BTreeMap::new();
        for (_, conn) in &self.conns {
            for exchange in conn.exchanges.iter() {
                let Task::Sending(job) = exchange.task else { continue };
                if let Some(job) = self.parts.transmitter.drain().job(job) {
                    classes.entry(exchange.class).or_default().add(job.is_asleep(), self.now - job.arrived_at);
                }
            }
        }
        classes
    }
}
