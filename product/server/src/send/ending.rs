//! The end of connections: of multiplexed ones whose clients have taken everything, and of all connections past their
//! deadlines.

use http::{Reject, Shown};
use units::Nanos;

use super::Transmitter;
use crate::clock::ClientTime;
use crate::connection::http1::Late;
use crate::connection::{Connection, Connections};
use crate::limits::Limits;
use crate::net::Socket;

/// The step that the caller must take next to end a connection.
pub enum Ending {
    /// The connection ends later: at its deadline, or when its client has taken everything.
    Stays,
    /// Input that still arrives from the client is read and discarded.
    Drains,
    Refused {
        reject: Reject,
        shown: Shown<'static>,
    },
    /// The connection is closed. `is_late` is true if the client has exceeded a time limit.
    Closes {
        is_late: bool,
    },
    /// The connection is aborted with the responses under way.
    IsAbandoned,
}

/// The state that determines how a connection ends.
pub struct EndContext<'w> {
    pub now: Nanos,
    pub client_now: ClientTime,
    pub limits: &'w Limits,
    /// The class of bytes that belong to no request.
    pub class: u16,
}

impl Transmitter {
    /// Stops accepting requests. The connection ends when the last response has departed.
    pub fn leave(&mut self, connections: &mut Connections<impl Socket>, at: usize, with: &EndContext) -> Ending {
        let Some(streams) = connections[at].protocol.streams_mut() else { return Ending::Closes { is_late: false } };
        streams.is_leaving = true;
        let is_idle = streams.is_idle();
        connections.go_away(at);
        if is_idle { self.end_streams(connections, at, with) } else { Ending::Stays }
    }

    /// Stops sending, and ends the connection once the client has taken the bytes that were sent.
    pub fn end_streams(&mut self, connections: &mut Connections<impl Socket>, at: usize, with: &EndContext) -> Ending {
        let connection = &connections[at];
        let Some(streams) = connection.protocol.streams() else { return Ending::Stays };
        if streams.is_idle()
            && !connection.retransmits()
            && let Some(ends_at) = self.finish_streams(connections, with.now, at, with.limits)
        {
            let streams = connections[at].protocol.streams_mut().expect("it has them");
            (streams.is_leaving, streams.deadline) = (true, ends_at);
            return Ending::Stays;
        }
        self.end_broken(connections, at, with)
    }

    /// Ends a multiplexed connection immediately. Bytes from the client are read and discarded until the client has
    /// received the end, because a reset could make it lose the reason.
    pub fn end_broken(&mut self, connections: &mut Connections<impl Socket>, at: usize, with: &EndContext) -> Ending {
        let connection = &mut connections[at];
        if !connection.protocol.streams().is_some_and(|streams| streams.is_idle()) {
            return Ending::IsAbandoned;
        }
        if connection.retransmits() {
            return end_http3(connection, with);
        }
        self.end_output(connections, with.now, at, with.class);
        let connection = &mut connections[at];
        connection.finish();
        connection.http1().drain(with.client_now, with.limits);
        connection.input.is_readable = true;
        Ending::Drains
    }

    /// Handles a connection that is past its deadline.
    pub fn end_late(&mut self, connections: &mut Connections<impl Socket>, at: usize, with: &EndContext) -> Ending {
        let connection = &mut connections[at];
        if connection.takes_frames() {
            return self.leave(connections, at, with);
        }
        if self.waits_for_its_turn(with.client_now, connection) {
            return Ending::Stays;
        }
        if takes_the_rest(connection, with.client_now, with.limits) {
            return Ending::Stays;
        }
        match connection.http1().on_deadline() {
            Some(Late::Refused { reject, shown }) => Ending::Refused { reject, shown },
            Some(Late::Close) => Ending::Closes { is_late: true },
            None => Ending::Stays,
        }
    }
}

/// Ends an HTTP/3 connection once its client has acknowledged the last frames, which may have to be retransmitted.
fn end_http3(connection: &mut Connection<impl Socket>, with: &EndContext) -> Ending {
    let rate = with.limits.patience.rate_bytes_per_s_min;
    let is_over = connection.channel.is_handshaking || connection.engine().is_acknowledged();
    let acked_bytes = if is_over { 0 } else { connection.socket.status().acked_bytes };
    let Some(streams) = connection.protocol.streams_mut() else { return Ending::Stays };
    if is_over || !streams.waits_for(with.client_now, acked_bytes, rate) {
        return Ending::Closes { is_late: with.client_now >= streams.deadline };
    }
    streams.is_leaving = true;
    streams.deadline = streams.ends_at.unwrap_or(streams.deadline);
    Ending::Stays
}

/// Returns whether everything on a connection was sent and its client continues to take the part that it has not
/// acknowledged.
fn takes_the_rest(connection: &mut Connection<impl Socket>, now: ClientTime, limits: &Limits) -> bool {
    if !connection.is_lingering() {
        return false;
    }
    let status = connection.socket.status();
    let rate = limits.patience.rate_bytes_per_s_min;
    status.is_unacknowledged && connection.http1().linger_on(now, status.acked_bytes, rate)
}
