//! The write path's interface to the protocols of a connection. Requests and replies are not handled here.

use http::{HttpDate, Response};
use http2::Broken;
use units::Nanos;
use units::memory::Counted;

use super::handshake_flight::{self, FLIGHT_BYTES_MAX};
use super::{Dispatch, Order, Transmitter};
use crate::clock::ClientTime;
use crate::connection::{CLOSING_PERIOD, Connection, Connections, Outgoing, Task};
use crate::exchange_id::ExchangeId;
use crate::limits::Limits;
use crate::metrics::size_class;
use crate::net::Socket;

/// The maximum time for which a TLS flight waits for other responses, in addition to the client's own time. Many
/// clients have given up by then.
const TURN_WAIT_MAX: Nanos = Nanos::from_secs(50);

/// The settings with which an HTTP/2 connection begins.
pub struct Http2Begin {
    pub settings: http2::Settings,
    /// The time that the client has for its first request.
    pub head_timeout: Nanos,
    /// The class of the bytes that belong to no request.
    pub class: u16,
}

impl Transmitter {
    /// Returns true if a response can skip the scheduler as long as no other response becomes ready, because the
    /// scheduler would give it the first grant anyway.
    pub fn is_direct(&self) -> bool {
        let (link, is_drained) = (&self.link, || self.link.scheduler().link_timeout().is_none());
        self.is_direct && (!link.is_paced() || link.is_searching()) && is_drained()
    }

    /// Returns true if a grant is due while connections are being read: a paced link does not wait for the end of a
    /// turn.
    pub fn is_due(&self, connections: &Connections<impl Socket>, clock: impl Fn() -> Nanos) -> bool {
        let is_due = || self.link_timeout(connections).is_some_and(|at| at <= clock());
        self.order == Order::Pace && !self.link.is_searching() && is_due()
    }

    /// Turns a response into a job.
    pub fn respond(
        &mut self,
        connections: &mut Connections<impl Socket>,
        now: Nanos,
        id: ExchangeId,
        outgoing: Outgoing,
    ) {
        let (connection, stream) = (&mut connections[id], id.stream);
        let (client, class) = (Some(connection.client_of(stream)), connection.exchange(stream).class);
        let precedence = connection.precedence(stream);
        let dispatch = Dispatch { exchange: id, outgoing, class, client, precedence };
        let job = self.dispatch(connections, now, dispatch);
        let job = job.expect("a client has no more requests than its connection may have jobs");
        let client_now = connections.client_time(now);
        let connection = &mut connections[id];
        connection.hold(stream, job, client_now);
        // A response of an upstream may still turn out to have any size.
        if let Some(line) = connection.exchange(stream).line.as_mut().filter(|line| line.passed_on.is_none()) {
            let (scheduler, size) = (self.link.scheduler_mut(), size_class(line.bytes()));
            line.is_compared = scheduler.compare(job, line.arrived_at, size);
        }
    }

    /// Sends an interim response immediately, because it is of no use after the response (RFC 8297). The link is
    /// charged for its bytes, but the scheduler does not order it. Returns the number of bytes written; 0 on a stream,
    /// where the response becomes frames.
    pub fn send_interim(
        &mut self,
        connections: &mut Connections<impl Socket>,
        now: Nanos,
        date: &HttpDate,
        id: ExchangeId,
        response: Response<()>,
    ) -> u64 {
        let Some(bytes) = connections.interim(id, response, date) else { return 0 };
        if let Some(before) = self.put_off.get_mut(&id) {
            before.edit().extend(bytes);
            return 0;
        }
        let sent = self.send_aside(connections, now, id.slot(), &bytes);
        if sent < bytes.len() {
            let rest = Counted::of(connections[id].held.account(), bytes[sent..].to_vec());
            self.put_off.insert(id, rest);
        }
        sent as u64
    }

    /// Writes the TLS layer's answer to the client, unless a response carries it. Returns the number of bytes that were
    /// written or will be as a job.
    pub fn send_tls(&mut self, connections: &mut Connections<impl Socket>, now: Nanos, at: usize, class: u16) -> usize {
        // On a connection with frames the answer leaves at the end of the turn.
        if connections.queue_frames(at) {
            return 0;
        }
        let connection = &mut connections[at];
        if connection.is_sending() || connection.channel.is_in_flight {
            return 0;
        }
        let is_handshaking = connection.channel.is_handshaking;
        let Some(session) = connection.session.as_deref_mut().filter(|session| session.has_unsent()) else {
            return 0;
        };
        if !is_handshaking || !handshake_flight::is_job(self.order, session) {
            return self.send_sealed(connections, now, at);
        }
        let flight = session.take_unsent(FLIGHT_BYTES_MAX);
        let bytes = flight.len();
        connection.channel.is_in_flight = true;
        let dispatch = Dispatch::single(connection.exchange_id(0), Outgoing::of_records(flight), class);
        let job = self.dispatch(connections, now, dispatch);
        debug_assert!(job.is_some(), "nothing else is being sent on it");
        bytes
    }

    /// Follows the handshake of a TLS client. When the handshake ends, the connection switches to the negotiated
    /// protocol.
    pub fn note_handshake(
        &mut self,
        connections: &mut Connections<impl Socket>,
        now: Nanos,
        at: usize,
        begin: &Http2Begin,
    ) {
        let client_now = connections.client_time(now);
        let connection = &mut connections[at];
        let is_handshaking = connection.channel.is_handshaking;
        let Some(session) = connection.session.as_deref_mut().filter(|_| is_handshaking) else { return };
        if !session.is_handshaking() {
            let speaks_http2 = session.speaks_http2();
            connection.channel.is_handshaking = false;
            connection.http1().wait_until(client_now + begin.head_timeout);
            if speaks_http2 {
                // The ticket leaves with the first frames.
                self.begin_http2(connections, now, at, begin);
            }
        }
    }

    /// Returns true if a connection past its deadline is excused, because its flight waits for other responses and not
    /// for its client.
    pub fn waits_for_its_turn(&self, now: ClientTime, connection: &Connection<impl Socket>) -> bool {
        let is_slow = || connection.is_slow(0, self.link.scheduler());
        connection.channel.is_in_flight && !is_slow() && now < connection.deadline() + TURN_WAIT_MAX
    }

    /// Begins HTTP/2 on a connection.
    pub fn begin_http2(
        &mut self,
        connections: &mut Connections<impl Socket>,
        now: Nanos,
        at: usize,
        begin: &Http2Begin,
    ) {
        let (session, deadline) =
            (http2::Session::new(&begin.settings), connections.client_time(now) + begin.head_timeout);
        self.begin_framed(connections, now, at, session.into(), deadline);
    }

    /// Takes the bytes received on an HTTP/2 connection. Over HTTP/3, whose datagrams were taken before, records the
    /// end of the handshake and returns the connection's error.
    pub fn take_in(
        &mut self,
        connections: &mut Connections<impl Socket>,
        now: Nanos,
        at: usize,
        bytes: &[u8],
        limits: &Limits,
    ) -> Result<(), Broken> {
        let client_now = connections.client_time(now);
        let connection = &mut connections[at];
        if !connection.retransmits() {
            return self.receive(connections, now, at, bytes);
        }
        // The handshake may have ended. The connection keeps the address of the handshake: any datagram may come from
        // another address, and quinn does not report which addresses are validated.
        if !connection.engine().is_handshaking()
            && std::mem::replace(&mut connection.channel.is_handshaking, false)
            && let Some(streams) = connection.protocol.streams_mut()
        {
            streams.deadline = client_now + limits.head_timeout;
        }
        connection.engine().broken().map_or(Ok(()), Err)
    }

    /// Writes the last frames of a multiplexed connection. Returns the time by which the client must have taken them,
    /// if it has not yet. It allows as long as a client of the minimum rate needs for the waiting bytes.
    pub fn finish_streams(
        &mut self,
        connections: &mut Connections<impl Socket>,
        now: Nanos,
        at: usize,
        limits: &Limits,
    ) -> Option<ClientTime> {
        let client_now = connections.client_time(now);
        let ends_at = connections[at].protocol.streams()?.ends_at;
        let unread_bytes = self.hand_down_last(connections, now, at)?;
        if ends_at.is_some_and(|ends_at| client_now >= ends_at) {
            return None;
        }
        let needs = Nanos::from_secs(unread_bytes.div_ceil(limits.patience.rate_bytes_per_s_min.max(1)));
        let streams = connections[at].protocol.streams_mut()?;
        Some(*streams.ends_at.get_or_insert(client_now + CLOSING_PERIOD + needs.min(limits.idle_timeout)))
    }

    /// Applies a change of the client's priority for a response (RFC 9218).
    pub fn prefer(&mut self, connection: &mut Connection<impl Socket>, stream: u32) {
        if connection.is_trusted() {
            return;
        }
        if let Some(Task::Sending(job)) = connection.protocol.exchange(stream).map(|exchange| &exchange.task) {
            let job = *job;
            let precedence = connection.precedence(stream);
            self.link.scheduler_mut().on_precedence(job, precedence);
        }
    }

    /// Ends the frames of a connection. Ends its TLS too if the client has received everything: without a TLS end, a
    /// client cannot tell the end of the data from an attacker's truncation (RFC 8446 section 6.1).
    pub fn end_output(&mut self, connections: &mut Connections<impl Socket>, now: Nanos, at: usize, class: u16) {
        let connection = &mut connections[at];
        self.put_off.remove(&connection.exchange_id(0));
        if let Some(streams) = connection.protocol.streams() {
            debug_assert!(streams.is_idle(), "its responses have departed");
            self.end_framed(connections, now, at);
        }
        let Some(session) = connections[at].session.as_deref_mut() else { return };
        if !session.is_handshaking() && !session.has_unsent() && !session.has_ended() {
            session.end();
            self.send_tls(connections, now, at, class);
        }
    }
}
