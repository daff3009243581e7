//! What a worker keeps when all clients have left: nothing.

use units::Nanos;

use super::Worker;
use crate::net::Net;
use crate::transmit::Notice;

impl<N: Net> Worker<N> {
    pub fn is_empty(&self) -> bool {
        self.conns.is_empty()
    }

    /// In words; empty where it is nothing.
    pub fn left_over(&self, now: Nanos) -> String {
        let clients: u32 = self.service.admission.clients().busiest(now).iter().map(|client| client.connections).sum();
        let counts = [
            ("connections", self.conns.len()),
            ("connections in the accounts of clients", clients as usize),
            ("connections to be read", self.conns.queued()),
            ("open streams", self.conns.held().streams()),
            ("bytes of memory", self.conns.held().bytes() as usize),
            ("jobs", self.sender.transmitter.link.scheduler().jobs().len()),
            ("answers", self.service.replies.found()),
        ];
        let left: Vec<String> =
            counts.iter().filter(|(_, count)| *count > 0).map(|(what, count)| format!("{count} {what}")).collect();
        left.join(", ")
    }

    pub fn describe_line(&self, now: Nanos) -> String {
        let link = &self.sender.transmitter.link;
        format!(
            "{:?}, pace {:?}, most jobs {}",
            link.line(now),
            self.sender.transmitter.link.scheduler().pacer().pace().rate,
            self.sender.transmitter.link.scheduler().jobs().most()
        )
    }

    pub fn longest_wait(&self) -> Option<Notice> {
        self.sender.transmitter.link.longest_wait()
    }
}
