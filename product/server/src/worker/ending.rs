//! How a connection ends: of several streams when its client has taken everything, and any that is late.

use http::{Reject, Shown};
use units::Nanos;

use super::conn::Conn;
use super::owner::slot_of;
use super::replies::Replies;
use super::sender::Sender;
use crate::config::Limits;
use crate::http1::{Http1, Late};
use crate::net::{Net, Transport};
use crate::transmit::{Engine, Sink, Socket, Stream};

/// What is left to do with a connection that is to end.
pub(super) enum Ending {
    /// It ends later, by its deadline or when its client has taken everything.
    Stays,
    /// What its client still sends is read and thrown away.
    Drains,
    Refused {
        reject: Reject,
        shown: Shown<'static>,
    },
    /// `is_late`: its client has had its time.
    Closes {
        is_late: bool,
    },
    /// With the responses under way.
    IsAbandoned,
}

/// What an end depends on.
pub(super) struct EndContext<'w> {
    pub now: Nanos,
    pub limits: &'w Limits,
    pub replies: &'w Replies,
}

impl<N: Net> Sender<N> {
    /// Takes no new requests; the connection ends when the last response has departed.
    pub fn leave_streams(&mut self, conn: &mut Conn, with: &EndContext) -> Ending {
        let Some(streams) = conn.exchanges.streams_mut() else { return Ending::Stays };
        streams.is_leaving = true;
        let is_idle = streams.is_idle();
        self.transmitter.connections.with_engine(slot_of(conn.owner), Engine::go_away);
        if is_idle { self.end_streams(conn, with) } else { Ending::Stays }
    }

    /// Nothing more is said, once the client has taken what was.
    pub fn end_streams(&mut self, conn: &mut Conn, with: &EndContext) -> Ending {
        let Some(streams) = conn.exchanges.streams() else { return Ending::Stays };
        if streams.is_idle()
            && !conn.channel.is_quic()
            && let Some(ends_at) = self.say_last(with.now, conn, with.limits)
        {
            let streams = conn.exchanges.streams_mut().expect("it has them");
            (streams.is_leaving, streams.deadline) = (true, ends_at);
            return Ending::Stays;
        }
        self.end_broken(conn, with)
    }

    /// The same at once. What the client sends is read and thrown away until it has seen the end: a reset could cost it our reason.
    pub fn end_broken(&mut self, conn: &mut Conn, with: &EndContext) -> Ending {
        if !conn.exchanges.streams().is_some_and(|streams| streams.is_idle()) {
            return Ending::IsAbandoned;
        }
        if conn.channel.is_quic() {
            return self.end_http3(conn, with);
        }
        self.end(with.now, conn, with.replies);
        self.transmitter.connections[slot_of(conn.owner)].socket.tcp().inspect(|socket| socket.finish());
        conn.http1.answering.refuse_aside();
        conn.http1.on_sent(with.now, with.limits);
        conn.input.is_readable = true;
        Ending::Drains
    }

    /// Nothing more is said, but what was said may have been lost: it stays until its client has acknowledged that.
    fn end_http3(&mut self, conn: &mut Conn, with: &EndContext) -> Ending {
        let Some(streams) = conn.exchanges.streams_mut() else { return Ending::Stays };
        let connections = &mut self.transmitter.connections;
        let (at, rate) = (slot_of(conn.owner), with.limits.patience.rate_bytes_per_s_min);
        let is_over = conn.channel.is_handshaking || connections[at].engine().is_acknowledged();
        if is_over || !streams.waits_for(with.now, connections[at].socket.status().acked_bytes, rate) {
            return Ending::Closes { is_late: with.now >= streams.deadline };
        }
        streams.is_leaving = true;
        streams.deadline = streams.ends_at.unwrap_or(streams.deadline);
        Ending::Stays
    }

    /// It is past its deadline.
    pub fn end_late(&mut self, conn: &mut Conn, with: &EndContext) -> Ending {
        if conn.is_multiplexed() {
            return self.leave_streams(conn, with);
        }
        if self.waits_for_its_turn(with.now, conn) {
            return Ending::Stays;
        }
        let socket = &self.transmitter.connections[slot_of(conn.owner)].socket;
        if takes_the_rest(&mut conn.http1, socket, with.now, with.limits) {
            return Ending::Stays;
        }
        match conn.http1.on_deadline() {
            Some(Late::Refused { reject, shown }) => Ending::Refused { reject, shown },
            Some(Late::Close) => Ending::Closes { is_late: true },
            None => Ending::Stays,
        }
    }
}

/// It was sent all, and its client has not acknowledged all but goes on taking.
fn takes_the_rest<N: Net>(http1: &mut Http1, socket: &Transport<N>, now: Nanos, limits: &Limits) -> bool {
    let Some(socket) = socket.tcp().filter(|_| http1.is_lingering()) else { return false };
    let status = socket.status();
    status.is_unacknowledged && http1.linger_on(now, status.acked_bytes, limits.patience.rate_bytes_per_s_min)
}
