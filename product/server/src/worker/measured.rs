//! Status of the responses that are measured for the objectives of their classes.

use std::collections::BTreeMap;

use sched::line::Status as LineStatus;
use units::Nanos;

use super::service::Service;
use crate::connection::Connections;
use crate::connection::Task;
use crate::net::Socket;
use crate::objectives::{Found, UnderWay};
use crate::send::{Line as Uplink, Link};

impl Service {
    /// Hands the rate found for the line to the thread that keeps it across restarts.
    pub fn leave_found_rate(&self, now: Nanos, link: &Link) {
        if let Some(Uplink::Found(LineStatus { rate: Some(rate), age, .. })) = link.line(now) {
            self.journal.leave_rate(Found { rate, at: now - age });
        }
    }

    /// Answers a thread that requests the status, if one does.
    pub fn answer_status(&mut self, now: Nanos, connections: &Connections<impl Socket>, link: &mut Link) {
        self.journal.answer_status(now, link, |link| under_way(now, connections, link));
    }
}

/// Counts the responses under way by class, including those that wait for a disk.
fn under_way(now: Nanos, connections: &Connections<impl Socket>, link: &Link) -> BTreeMap<u16, UnderWay> {
    let mut classes: BTreeMap<u16, UnderWay> = BTreeMap::new();
    for exchange in connections.iter().flat_map(|(_, conn)| conn.protocol.exchanges()) {
        let Task::Sending(job) = exchange.task else { continue };
        if let Some(job) = link.scheduler().jobs().get(job) {
            classes.entry(exchange.class).or_default().add(job.is_asleep(), now - job.arrived_at);
        }
    }
    classes
}
