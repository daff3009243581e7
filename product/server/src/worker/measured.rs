//! Responses measured for the objectives of their classes, where a file has classes.

use std::collections::BTreeMap;

use sched::line::Status as LineStatus;
use units::Nanos;

use super::Worker;
use super::ending::{ERROR_STATUS_MIN, Ending};
use super::exchange::Task;
use super::line::Line;
use crate::classes::Assigned;
use crate::clock;
use crate::objectives::{Book, Ended, Found, Status, UnderWay};
use crate::transmit::Line as Uplink;

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
    /// A response to a request has ended.
    pub(super) fn count(&mut self, class: u16, line: &Line, ending: &Ending) {
        let Some(measures) = self.measures.as_mut().filter(|_| line.is_measured) else { return };
        let (ended_at, cut) = ending.measured();
        let ended = Ended {
            took: ended_at.unwrap_or_else(clock::now) - line.arrived_at,
            body_bytes: line.body_bytes,
            sent_bytes: cut.unwrap_or(line.body_bytes + line.head_bytes),
            is_whole: cut.is_none(),
            is_right: line.status < ERROR_STATUS_MIN,
        };
        measures.book.count(self.now, class, &ended);
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
        if let Some(Uplink::Found(LineStatus { rate: Some(rate), age, .. })) =
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
                if let Some(job) = self.parts.transmitter.drain().jobs().get(job) {
                    classes.entry(exchange.class).or_default().add(job.is_asleep(), self.now - job.arrived_at);
                }
            }
        }
        classes
    }
}
