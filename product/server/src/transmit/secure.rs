//! Connections under TLS: what is sent between responses.

use std::io::{self, IoSlice, Write};

use units::Nanos;

use super::{Sink, Socket, Transmitter};

impl<S: Socket> Transmitter<S> {
    /// Hands down what answers the client's TLS, between responses; gives how many bytes left.
    pub fn send_sealed(&mut self, now: Nanos, at: usize) -> usize {
        let connection = &mut self.connections[at];
        let (Some(session), Some(socket)) = (&mut connection.session, connection.socket.tcp()) else { return 0 };
        let down = session.hand_down(&mut Down { socket, more: false });
        // What fails but for want of room fails again where the connection is read.
        self.on_control(now, at, down.bytes as u64);
        down.bytes
    }

    /// So much was sent on a connection between its responses: flights of a handshake, alerts. Nobody decides about those few bytes, and
    /// the link is charged for them.
    fn on_control(&mut self, now: Nanos, at: usize, payload_bytes: u64) {
        let charge_bytes = self.connections[at].on_sent(payload_bytes);
        self.link.correct(now, charge_bytes);
    }
}

/// A socket that takes what is sealed.
pub struct Down<'a, S> {
    pub socket: &'a S,
    /// More follows at once.
    pub more: bool,
}

impl<S: Sink> Write for Down<'_, S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.send(bytes, self.more)
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match pieces {
            [bytes] => self.socket.send(bytes, self.more),
            pieces => self.socket.send_slices(pieces, self.more),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
