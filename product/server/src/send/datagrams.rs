//! Datagrams of HTTP/3: those that come, those that wait for room, and the time that QUIC is told.

use std::mem::take;

use quic::Incoming;
use units::Nanos;

use super::{TURN_FOR, Transmitter};
use crate::connection::{Connections, quic_of};
use crate::net::{DatagramSink, Socket};

impl Transmitter {
    /// Takes a datagram; what it says is asked of its `Engine`. Answers leave in this turn.
    pub fn receive_datagram(
        &mut self,
        connections: &mut Connections<impl Socket>,
        now: Nanos,
        at: usize,
        incoming: Incoming,
    ) {
        let quic = quic_of(connections[at].framed());
        if let Err(broken) = quic.session.receive(now, incoming) {
            quic.broken = Some(broken);
        }
        self.on_stirred(connections, now, at);
    }

    /// Their sockets take datagrams again.
    pub fn on_datagram_room(&mut self, connections: &mut Connections<impl Socket>, now: Nanos) {
        for at in take(&mut connections.datagrams.full).into_values() {
            quic_of(connections[at].framed()).full = None;
            self.on_writable(connections, now, at);
        }
    }

    /// Tells the time to those that wait for it; those for whom this turn has none left have it in the next.
    pub fn tell_time(
        &mut self,
        connections: &mut Connections<impl Socket>,
        began_at: Nanos,
        clock: &impl Fn() -> Nanos,
    ) {
        while let Some(at) = connections.datagrams.due(began_at) {
            let now = clock();
            if now - began_at >= TURN_FOR {
                return;
            }
            let (connection, shared) = connections.with_datagrams(at);
            shared.woken.push(connection.owner);
            let quic = quic_of(connection.framed());
            #[cfg(test)]
            if crate::simulation::planted::strikes(crate::simulation::planted::Fault::ForgottenTimer) {
                shared.timers.remove(&(quic.timer_at.take().expect("it is due"), at));
                continue;
            }
            if let Err(broken) = quic.session.on_timeout(now) {
                quic.broken = Some(broken);
            }
            self.on_stirred(connections, now, at);
        }
    }

    /// Something has happened to it: windows may be open, what was held may go, and it may have something to say.
    fn on_stirred(&mut self, connections: &mut Connections<impl Socket>, now: Nanos, at: usize) {
        let connection = &mut connections[at];
        let several = connection.load.framed_mut().expect("it speaks HTTP/3");
        let quic = quic_of(several);
        let seen = quic.seen(now);
        if let Some(socket) = connection.socket.quic() {
            socket.see(seen);
        }
        let may_go = quic.is_done();
        several.open_windows(now, |job| self.sendings.stream(job), &mut self.link.scheduler);
        if may_go && connections[at].load.is_blocked(&self.link.scheduler) {
            self.on_writable(connections, now, at);
        } else {
            connections.say(at);
        }
        let (connection, shared) = connections.with_datagrams(at);
        shared.arm(at, quic_of(connection.framed()));
    }
}
