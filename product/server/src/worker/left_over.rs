//! What a worker keeps when all clients have left: nothing.

use units::Nanos;

use super::Worker;
use super::held::Holding;
use super::responder::Responder;
use crate::config::Limits;
use crate::net::Net;
use crate::transmit::Notice;

impl<N: Net> Worker<N> {
    pub fn is_empty(&self) -> bool {
        self.responder.conns.is_empty()
    }

    /// In words; empty where it is nothing.
    pub fn left_over(&self, now: Nanos) -> String {
        let clients: u32 =
            self.responder.service.admission.clients().busiest(now).iter().map(|client| client.connections).sum();
        let counts = [
            ("connections", self.responder.conns.len()),
            ("connections in the accounts of clients", clients as usize),
            ("open streams", self.responder.conns.held().streams()),
            ("bytes of memory", self.responder.conns.held().bytes() as usize),
            ("jobs", self.responder.sender.transmitter.link.scheduler().jobs().len()),
            ("answers", self.responder.service.replies.found()),
            ("transfers", self.responder.proxy.upstreams().transfers()),
            ("requests to upstreams", self.responder.proxy.upstreams().requests()),
            ("connections to upstreams that are in use", self.responder.proxy.upstreams().connections_in_use()),
        ];
        let left: Vec<String> =
            counts.iter().filter(|(_, count)| *count > 0).map(|(what, count)| format!("{count} {what}")).collect();
        left.join(", ")
    }

    /// What each connection holds, counted anew.
    pub fn counted(&mut self) -> Vec<(usize, Holding)> {
        let Responder { conns, sender, proxy, .. } = &mut self.responder;
        conns.iter().map(|(at, conn)| (at, conn.holds(sender.unsent_bytes(conn, proxy)))).collect()
    }

    pub fn describe_held(&mut self) -> String {
        let counted = self.counted();
        let transmitter = &self.responder.sender.transmitter;
        let each = counted.into_iter().map(|(at, counted)| {
            let is_slow = transmitter.connections[at].is_slow(0, transmitter.link.scheduler());
            let conn = &self.responder.conns[at];
            format!("{counted:?} was {}, idle {}, slow {is_slow}", conn.holding.bytes(), conn.is_idle())
        });
        each.collect::<Vec<_>>().join("; ")
    }

    pub fn idle_upstream_connections(&self) -> usize {
        self.responder.proxy.upstreams().idle_connections()
    }

    pub fn describe_line(&self, now: Nanos) -> String {
        let link = &self.responder.sender.transmitter.link;
        format!(
            "{:?}, pace {:?}, most jobs {}",
            link.line(now),
            self.responder.sender.transmitter.link.scheduler().pacer().pace().rate,
            self.responder.sender.transmitter.link.scheduler().jobs().most()
        )
    }

    /// In force.
    pub fn limits(&self) -> &Limits {
        &self.responder.setup.limits
    }

    pub fn longest_wait(&self) -> Option<Notice> {
        self.responder.sender.transmitter.link.longest_wait()
    }
}
