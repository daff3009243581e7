//! HTTP/3 connections in the table of all connections: incoming and outgoing datagrams, and QUIC's timers.

use std::mem::take;

use quic::Incoming;
use sched::{JobId, Scheduler};
use units::Nanos;

use super::quic::Quic;
use super::{Connections, Framed};
use crate::net::{DatagramSink, Socket};

impl<S: Socket> Connections<S> {
    /// Sends the pending datagrams of an HTTP/3 connection, and then new datagrams for `room_bytes`. Returns whether
    /// all of them were sent.
    pub fn hand_down_datagrams(&mut self, now: Nanos, at: usize, room_bytes: u64) -> bool {
        let (connection, shared) = self.with_datagrams(at);
        let Some(socket) = connection.socket.quic() else { return true };
        let quic = quic(connection.protocol.framed_mut().expect("it speaks HTTP/3"));
        shared.hand_down(now, at, quic, socket, room_bytes)
    }

    /// Removes an HTTP/3 connection from the timers and from the list of full sockets.
    pub fn forget_datagrams(&mut self, at: usize) {
        let (connection, shared) = self.with_datagrams(at);
        if let Some(quic) = connection.framed().engine.http3() {
            shared.forget(at, quic);
        }
    }

    /// Passes a received datagram to its connection. Must be followed by [`Connections::follow`].
    pub fn receive_datagram(&mut self, now: Nanos, at: usize, incoming: Incoming) {
        let quic = quic(self[at].framed());
        if let Err(broken) = quic.session.receive(now, incoming) {
            quic.broken = Some(broken);
        }
    }

    /// Passes the time to the connection whose QUIC timer was due first, and returns its slot; `None` if no timer was
    /// due. Must be followed by [`Connections::follow`].
    pub fn on_timeout(&mut self, due: Nanos, now: Nanos) -> Option<usize> {
        let at = self.datagrams.due(due)?;
        let (connection, shared) = self.with_datagrams(at);
        shared.woken.push(connection.token);
        let quic = quic(connection.framed());
        #[cfg(test)]
        if crate::simulation::planted::strikes(crate::simulation::planted::Fault::ForgottenTimer) {
            shared.timers.remove(&(quic.timer_at.take().expect("it is due"), at));
            return self.on_timeout(due, now);
        }
        if let Err(broken) = quic.session.on_timeout(now) {
            quic.broken = Some(broken);
        }
        Some(at)
    }

    /// Removes and returns the connections whose datagrams waited for room in a socket that has room again.
    pub fn take_full(&mut self) -> Vec<usize> {
        let full: Vec<usize> = take(&mut self.datagrams.full).into_values().collect();
        full.iter().for_each(|at| quic(self[*at].framed()).full = None);
        full
    }

    /// Updates the state that depends on an HTTP/3 connection after an event: records its path, and resumes responses
    /// whose windows may be open. Returns true if QUIC holds nothing back, so that more may be sent.
    pub fn follow(
        &mut self,
        now: Nanos,
        at: usize,
        stream_of: impl Fn(JobId) -> Option<u32>,
        scheduler: &mut Scheduler,
    ) -> bool {
        let connection = &mut self[at];
        let framed = connection.protocol.framed_mut().expect("it speaks HTTP/3");
        let quic = quic(framed);
        let seen = quic.seen(now);
        if let Some(socket) = connection.socket.quic() {
            socket.see(seen);
        }
        let may_go = quic.is_done();
        framed.open_windows(now, stream_of, scheduler);
        may_go
    }

    /// Updates the timer of an HTTP/3 connection.
    pub fn arm(&mut self, at: usize) {
        let (connection, shared) = self.with_datagrams(at);
        shared.arm(at, quic(connection.framed()));
    }
}

fn quic(framed: &mut Framed) -> &mut Quic {
    framed.engine.http3().expect("it speaks HTTP/3")
}
