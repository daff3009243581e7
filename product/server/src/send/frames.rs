//! Frames of HTTP/2 and HTTP/3 on their way down: what was granted, and what connections have to say for themselves.

use std::mem::take;

use mux::Broken;
use units::Nanos;

use super::{Departure, Transmitter};
use crate::connection::{Connection, Connections};
use crate::net::Socket;

impl Transmitter {
    /// Takes what has come over HTTP/2; what it says is asked of its [`Engine`]. Answers leave in this turn.
    pub fn receive(
        &mut self,
        connections: &mut Connections<impl Socket>,
        now: Nanos,
        at: usize,
        bytes: &[u8],
    ) -> Result<(), Broken> {
        let framed = connections.begin_frames(at);
        let taken = framed.receive(now, bytes);
        framed.open_windows(now, |job| self.sendings.stream(job), &mut self.link.scheduler);
        connections.say(at);
        taken
    }

    /// Hands down what connections have to say for themselves and no response took along.
    pub fn say_unsaid(&mut self, connections: &mut Connections<impl Socket>, clock: &impl Fn() -> Nanos, until: Nanos) {
        // What is added meanwhile is said in the next turn.
        for _ in 0..connections.unsaid() {
            let now = clock();
            if now >= until {
                return;
            }
            if let Some(at) = connections.next_unsaid() {
                self.hand_down(connections, now, at, u64::MAX);
            }
        }
    }

    /// Hands down the last frames of a connection. Where they do not all leave: the bytes that its client has to take before they do.
    pub fn say_last(&mut self, connections: &mut Connections<impl Socket>, now: Nanos, at: usize) -> Option<u64> {
        connections.begin_frames(at).control();
        if self.hand_down(connections, now, at, u64::MAX) {
            return None;
        }
        Some(unread_bytes(&mut connections[at]))
    }

    /// Hands down what was made; of datagrams so much is made first. What the socket does not take blocks the connection. Says whether nothing
    /// is left.
    pub fn hand_down(
        &mut self,
        connections: &mut Connections<impl Socket>,
        now: Nanos,
        at: usize,
        room_bytes: u64,
    ) -> bool {
        let connection = &mut connections[at];
        let is_all = match connection.framed().engine.is_http3() {
            true => connections.hand_down_datagrams(now, at, room_bytes),
            false if connection.has_unsent() => connection.hand_down().is_ok(),
            false => {
                connections.end_frames(at);
                return true;
            }
        };
        let framed = connections[at].framed();
        let (has_left, has_jobs) = (is_all && framed.engine.has_left(), framed.jobs > 0);
        if has_left {
            let departed = framed.departing.drain(..);
            self.departures.extend(departed.map(|departure| Departure { ended_at: now, ..departure }));
            connections.end_frames(at);
        } else if is_all {
            // The room was used up by what was lost; nobody else would ask for the rest.
            connections.say(at);
        }
        let connection = &mut connections[at];
        if !is_all {
            connection.load.wait(&mut self.link.scheduler);
        }
        // Nobody decides about what was handed down beside responses.
        let control_bytes = take(&mut connection.framed().control_bytes);
        if control_bytes > 0 {
            self.link.correct(now, connection.delivery.on_sent(control_bytes + connection.record_overhead()));
        }
        connection.delivery.was_full |= !is_all;
        self.link.settle_if_it_may(now, connection, has_jobs);
        self.link.note_written(now, at, connections);
        is_all
    }
}

/// What its client has not taken of what was made for it, as far as the kernel tells.
fn unread_bytes<S: Socket>(connection: &mut Connection<S>) -> u64 {
    let in_socket_bytes = connection.socket.status().unsent_bytes;
    let sealed_bytes = connection.session.as_mut().map_or(0, |session| session.unsent_bytes());
    in_socket_bytes + (sealed_bytes + connection.framed().out.len()) as u64
}
