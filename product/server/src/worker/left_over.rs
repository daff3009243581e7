//! What a worker keeps when all clients have left: nothing.

use units::Nanos;

use super::Worker;
use super::held::Holding;
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
            ("transfers", self.proxy.upstreams().transfers()),
            ("requests to upstreams", self.proxy.upstreams().requests()),
            ("connections to upstreams that are in use", self.proxy.upstreams().connections_in_use()),
        ];
        let left: Vec<String> =
            counts.iter().filter(|(_, count)| *count > 0).map(|(what, count)| format!("{count} {what}")).collect();
        left.join(", ")
    }

    /// What each connection holds, counted anew.
    pub fn counted(&mut self) -> Vec<(usize, Holding)> {
        let Worker { conns, sender, proxy, .. } = self;
        conns.iter().map(|(at, conn)| (at, conn.holds(sender.unsent_bytes(conn, proxy)))).collect()
    }

    pub fn describe_held(&mut self) -> String {
        let counted = self.counted();
        let transmitter = &self.sender.transmitter;
        let each = counted.into_iter().map(|(at, counted)| {
            let is_slow = transmitter.connections.is_slow(at, 0, transmitter.link.scheduler());
            let conn = &self.conns[at];
            format!("{counted:?} was {}, idle {}, slow {is_slow}", conn.holding.bytes(), conn.is_idle())
        });
        each.collect::<Vec<_>>().join("; ")
    }

    pub fn idle_upstream_connections(&self) -> usize {
        self.proxy.upstreams().idle_connections()
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
