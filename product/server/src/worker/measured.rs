//! Responses measured for the objectives of their classes, where a file has classes.

use std::collections::BTreeMap;

use sched::line::Status as LineStatus;
use units::Nanos;

use super::Worker;
use super::connections::Connections;
use super::exchange::Task;
use crate::net::Net;
use crate::objectives::{Found, UnderWay};
use crate::transmit::{Line as Uplink, Transmitter, Transport};

impl<N: Net> Worker<N> {
    /// For who keeps it over a restart.
    pub(super) fn leave_found_rate(&self) {
        if let Some(Uplink::Found(LineStatus { rate: Some(rate), age, .. })) =
            self.transmitter.link.line(self.timers.now())
        {
            self.service.journal.leave_rate(Found { rate, at: self.timers.now() - age });
        }
    }

    /// Answers the thread that asks for it.
    pub(super) fn answer_status(&mut self) {
        let (now, line) = (self.timers.now(), self.transmitter.link.line(self.timers.now()));
        let (conns, transmitter) = (&self.conns, &self.transmitter);
        self.service.journal.answer_status(now, line, || under_way(now, conns, transmitter));
    }
}

/// By class: those that wait for a disk run too.
fn under_way<N: Net>(
    now: Nanos,
    conns: &Connections,
    transmitter: &Transmitter<Transport<N>>,
) -> BTreeMap<u16, UnderWay> {
    let mut classes: BTreeMap<u16, UnderWay> = BTreeMap::new();
    for exchange in conns.iter().flat_map(|(_, conn)| conn.exchanges.iter()) {
        let Task::Sending(job) = exchange.task else { continue };
        if let Some(job) = transmitter.link.scheduler().jobs().get(job) {
            classes.entry(exchange.class).or_default().add(job.is_asleep(), now - job.arrived_at);
        }
    }
    classes
}
