//! Connections past their deadline.

use units::Nanos;

use super::responder::Responder;
use crate::config::Limits;
use crate::http1::{Http1, Late};
use crate::net::Net;
use crate::transmit::{Socket, Stream, Transport};

impl<N: Net> Responder<N> {
    /// The look of a sweep at one connection, if there is one.
    pub(super) fn look_at(&mut self, at: usize) {
        if self.conns.get(at).is_some_and(|conn| self.timers.now() >= conn.deadline()) {
            self.on_late(at);
        }
        if !self.conns.contains(at) {
            return;
        }
        self.sender.transmitter.end_stalled(self.timers.now(), at);
        self.service.book_spent(self.timers.now(), &self.conns[at], &mut self.sender.transmitter.sendings);
        self.take_departures();
        self.weigh(at);
    }

    pub(super) fn on_late(&mut self, at: usize) {
        if self.conns[at].is_multiplexed() {
            return self.leave_streams(at);
        }
        if self.sender.waits_for_its_turn(self.timers.now(), &self.conns[at]) {
            return;
        }
        let (now, limits) = (self.timers.now(), &self.setup.limits);
        let socket = self.sender.transmitter.connections.socket(at);
        if takes_the_rest(&mut self.conns[at].http1, socket, now, limits) {
            return;
        }
        match self.conns[at].http1.on_deadline() {
            Some(Late::Refused { reject, shown }) => {
                self.refuse(at.into(), reject, &shown, false);
                self.flush(at);
            }
            Some(Late::Close) => {
                self.service.note_late_handshake(self.timers.now(), &self.conns[at]);
                self.close(at);
            }
            None => {}
        }
    }
}

/// It was sent all, and its client has not acknowledged all but goes on taking.
fn takes_the_rest<N: Net>(http1: &mut Http1, socket: &Transport<N>, now: Nanos, limits: &Limits) -> bool {
    let Some(socket) = socket.tcp().filter(|_| http1.is_lingering()) else { return false };
    let status = socket.status();
    status.is_unacknowledged && http1.linger_on(now, status.acked_bytes, limits.patience.rate_bytes_per_s_min)
}
