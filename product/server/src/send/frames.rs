//! Sends frames of HTTP/2 and HTTP/3: those of granted responses, and the connections' own output.

use http2::Broken;
use units::Nanos;

use super::Transmitter;
use crate::connection::{Connections, HandedDown};
use crate::net::Socket;

impl Transmitter {
    /// Passes received HTTP/2 bytes to the connection's [`Engine`], which reports the events. Answers are sent in this
    /// turn.
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
        connections.queue_output(at);
        taken
    }

    /// Sends the connections' own output that no response has carried.
    pub fn hand_down_outputs(
        &mut self,
        connections: &mut Connections<impl Socket>,
        clock: &impl Fn() -> Nanos,
        until: Nanos,
    ) {
        // Output that is added during this loop leaves in the next turn.
        for _ in 0..connections.outputs() {
            let now = clock();
            if now >= until {
                return;
            }
            if let Some(at) = connections.next_output() {
                self.hand_down(connections, now, at, u64::MAX);
            }
        }
    }

    /// Sends the last frames of a connection. If some of them remain, returns the number of bytes that the client must
    /// take first.
    pub fn hand_down_last(&mut self, connections: &mut Connections<impl Socket>, now: Nanos, at: usize) -> Option<u64> {
        connections.begin_frames(at).control();
        if self.hand_down(connections, now, at, u64::MAX) {
            return None;
        }
        Some(connections[at].unread_bytes())
    }

    /// Hands down the frames that were made. Over HTTP/3, first makes datagrams for `room_bytes`. Frames that the
    /// socket does not take block the connection. Returns true if none are left, and always over HTTP/1.1.
    pub(super) fn hand_down(
        &mut self,
        connections: &mut Connections<impl Socket>,
        now: Nanos,
        at: usize,
        room_bytes: u64,
    ) -> bool {
        let handed = connections.hand_down(now, at, room_bytes, &mut self.departures);
        let Some(HandedDown { is_all, has_jobs, control_bytes }) = handed else { return true };
        let connection = &mut connections[at];
        if !is_all {
            connection.protocol.wait(&mut self.link.scheduler);
        }
        // No grant covers bytes handed down outside responses.
        if control_bytes > 0 {
            let wire_bytes = connection.delivery.on_sent(control_bytes + connection.record_overhead());
            self.link.correct_on(now, connection, wire_bytes);
        }
        connection.delivery.was_full |= !is_all;
        self.link.settle_if_it_may(now, connection, has_jobs);
        self.link.note_written(connections, now, at);
        is_all
    }
}
