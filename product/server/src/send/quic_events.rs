//! Datagrams of HTTP/3, received or waiting for room, and the timers of QUIC.

use quic::Incoming;
use units::Nanos;

use super::{TURN_FOR, Transmitter};
use crate::connection::Connections;
use crate::net::Socket;

impl Transmitter {
    /// Passes a datagram to its connection's engine, which then has events to handle. The answers are sent in this
    /// turn.
    pub fn receive_datagram(
        &mut self,
        connections: &mut Connections<impl Socket>,
        now: Nanos,
        at: usize,
        incoming: Incoming,
    ) {
        connections.receive_datagram(now, at, incoming);
        self.follow(connections, now, at);
    }

    /// Sends on the connections whose datagrams waited for room in a socket, now that it has room.
    pub fn on_datagram_room(&mut self, connections: &mut Connections<impl Socket>, now: Nanos) {
        for at in connections.take_full() {
            self.on_writable(connections, now, at);
        }
    }

    /// Fires the QUIC timers that are due. Those that do not fit into the time of this turn fire in the next.
    pub(super) fn fire_timers(
        &mut self,
        connections: &mut Connections<impl Socket>,
        began_at: Nanos,
        clock: &impl Fn() -> Nanos,
    ) {
        while connections.datagrams.timer().is_some_and(|at| at <= began_at) {
            let now = clock();
            if now - began_at >= TURN_FOR {
                return;
            }
            let Some(at) = connections.on_timeout(began_at, now) else { return };
            self.follow(connections, now, at);
        }
    }

    /// Updates a connection after an event: bytes that QUIC held back may now be sendable, and the connection may have
    /// frames of its own.
    fn follow(&mut self, connections: &mut Connections<impl Socket>, now: Nanos, at: usize) {
        let may_go = connections.follow(now, at, |job| self.sendings.stream(job), &mut self.link.scheduler);
        if may_go && connections[at].protocol.wants_room(&self.link.scheduler) {
            self.on_writable(connections, now, at);
        } else {
            connections.queue_output(at);
        }
        connections.arm(at);
    }
}
