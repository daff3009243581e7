//! Test helpers that find resources that a worker still holds after all clients have left. There must be none.

use units::{Nanos, Rate};

use super::Worker;
use super::responder::Responder;
use crate::connection::{Connections, Task};
use crate::limits::Limits;
use crate::net::{Net, Transport};
use crate::proxy::Proxy;
use crate::send::{Line, Notice, Transmitter};

impl<N: Net> Worker<N> {
    pub fn is_empty(&self) -> bool {
        self.responder.connections.is_empty()
    }

    /// Describes the leftover resources; empty if there are none.
    pub fn left_over(&self, now: Nanos) -> String {
        let with = &self.responder;
        // A stopping worker does not wait for the disk.
        let is_writing = with.transmitter.reads.is_writing();
        let left_bytes = if is_writing { 0 } else { with.connections.account().bytes() };
        let clients: u32 = with.service.admission.clients().busiest(now).iter().map(|client| client.connections).sum();
        let counts = [
            ("connections", self.responder.connections.len()),
            ("connections in the accounts of clients", clients as usize),
            ("open streams", self.responder.connections.streams()),
            ("bytes of memory", left_bytes as usize),
            ("jobs", with.transmitter.link.scheduler().jobs().len()),
            ("answers", with.service.handler.found()),
            ("transfers", self.responder.proxy.upstreams().transfers()),
            ("requests to upstreams", self.responder.proxy.upstreams().requests()),
            ("connections to upstreams that are in use", self.responder.proxy.upstreams().connections_in_use()),
        ];
        let left: Vec<String> =
            counts.iter().filter(|(_, count)| *count > 0).map(|(what, count)| format!("{count} {what}")).collect();
        left.join(", ")
    }

    /// The bytes that connections hold according to the account.
    pub fn held_bytes(&self) -> u64 {
        self.responder.connections.account().bytes()
    }

    /// Compares the memory account with the memory in use, which is counted in a different way. The error describes the
    /// difference.
    pub fn check_memory(&mut self) -> Result<(), String> {
        let is_written = !self.responder.transmitter.reads.is_idle();
        let Responder { connections, transmitter, proxy, .. } = &mut self.responder;
        let mut sum = 0;
        for at in connections.numbers() {
            let alive = transmitter.all_alive_bytes(connections, at, proxy) as u64;
            let connection = &connections[at];
            let counted = connection.held.bytes();
            // Bytes being written to a disk stay in memory until the write has ended, in whatever state their response
            // is.
            if alive > counted || alive < counted && !is_written {
                let is_slow = connection.is_slow(0, transmitter.link.scheduler());
                let (version, idle) = (connection.version(1), connection.is_idle());
                return Err(format!(
                    "{alive} bytes of a connection are alive and {counted} counted: {version:?}, idle {idle}, slow {is_slow}"
                ));
            }
            sum += counted;
        }
        let whole = connections.account().bytes();
        match whole == sum || is_written && whole > sum {
            true => Ok(()),
            false => Err(format!("the account has {whole} bytes, connections {sum}")),
        }
    }

    pub fn idle_upstream_connections(&self) -> usize {
        self.responder.proxy.upstreams().idle_connections()
    }

    pub fn describe_line(&self, now: Nanos) -> String {
        let link = &self.responder.transmitter.link;
        format!(
            "{:?}, pace {:?}, most jobs {}",
            link.line(now),
            link.scheduler().pacer().pace().rate,
            link.scheduler().jobs().most()
        )
    }

    /// The rate of the line, if the search has found it.
    pub fn found_rate(&self, now: Nanos) -> Option<Rate> {
        match self.responder.transmitter.link.line(now) {
            Some(Line::Found(status)) if status.bounds.most.is_none() => status.rate,
            _ => None,
        }
    }

    /// The limits in force.
    pub fn limits(&self) -> &Limits {
        &self.responder.limits
    }

    pub fn longest_wait(&self) -> Option<Notice> {
        self.responder.transmitter.link.longest_wait()
    }
}

impl Transmitter {
    /// The bytes of memory in use for all connections.
    fn all_alive_bytes<N: Net>(
        &mut self,
        connections: &mut Connections<Transport<N>>,
        at: usize,
        proxy: &Proxy<N>,
    ) -> usize {
        let conn = &connections[at];
        let put_off_bytes = self.put_off.get(&conn.exchange_id(0)).map_or(0, |bytes| bytes.capacity());
        let of_exchanges = conn.protocol.exchanges().map(|exchange| {
            let request_bytes = match &exchange.task {
                Task::Deciding(deciding) => deciding.memory_bytes(),
                Task::LookingUp(pending) => pending.request.memory_bytes(),
                Task::PassedOn(request) => request.memory_bytes(),
                Task::Receiving(receiving) => receiving.request.memory_bytes(),
                Task::None | Task::Sending(_) => 0,
            };
            let line_bytes = exchange.line.as_ref().map_or(0, |line| line.memory_bytes());
            request_bytes + line_bytes + proxy.upstreams().alive_bytes(exchange.id)
        });
        let bytes = conn.own_bytes() + put_off_bytes + of_exchanges.sum::<usize>();
        bytes + self.alive_bytes(connections, at)
    }
}
