//! The write path as the protocols of a connection use it. Requests and replies are none of its business.

use std::collections::HashMap;

use http::{BodyLength, Request, Response, Status};
use mux::Broken;
use sched::Precedence;
use units::Nanos;
use units::memory::Counted;

use super::flight::{self, FLIGHT_BYTES_MAX};
use super::gathered::Gathered;
use super::timers::Timers;
use super::{Order, Replies, Setup};
use crate::connection::{CLOSING_PERIOD, Connection, Connections, Outgoing, Task};
use crate::limits::Limits;
use crate::metrics::size_class;
use crate::net::Socket;
use crate::send::{Dispatch, Transmitter};

/// The time for which a TLS flight waits for its turn, beyond the client's own time. Many clients have given up by then.
const TURN_WAIT_MAX: Nanos = Nanos::from_secs(50);

pub(super) struct Sender {
    pub transmitter: Transmitter,
    pub(super) order: Order,
    pub(super) is_direct: bool,
    pub gathered: Gathered,
    /// Bytes of interim responses that the socket of an HTTP/1.1 connection has not taken, by owner. They leave with the next response.
    pub(super) put_off: HashMap<u64, Counted>,
}

impl Sender {
    pub fn new(transmitter: Transmitter, setup: &Setup) -> Sender {
        Sender {
            transmitter,
            order: setup.order,
            is_direct: setup.is_direct,
            gathered: Gathered::default(),
            put_off: HashMap::new(),
        }
    }

    /// Returns whether a response that is ready while no other may become so can skip the scheduler: the scheduler would give it the first
    /// grant.
    pub fn is_direct(&self) -> bool {
        let (link, is_drained) =
            (&self.transmitter.link, || self.transmitter.link.scheduler().poll_timeout().is_none());
        self.is_direct && (!link.is_paced() || link.is_searching()) && is_drained()
    }

    /// Returns whether a grant is due between two connections: a paced link does not wait for the end of a turn.
    pub fn is_due(&self, connections: &Connections<impl Socket>, clock: impl Fn() -> Nanos) -> bool {
        let is_due = || self.transmitter.poll_timeout(connections).is_some_and(|at| at <= clock());
        self.order == Order::Pace && !self.transmitter.link.is_searching() && is_due()
    }

    /// Turns a response into a job.
    pub fn dispatch(
        &mut self,
        now: Nanos,
        connections: &mut Connections<impl Socket>,
        at: usize,
        stream: u32,
        outgoing: Outgoing,
    ) {
        let connection = &mut connections[at];
        let (client, class) = (Some(connection.client_of(stream)), connection.exchange(stream).class);
        // A connection that carries requests of many clients has no order among them (RFC 9218 section 13.1).
        let precedence = match connection.is_multiplexed() && !connection.is_trusted() {
            true => connection.engine().precedence(stream),
            false => Precedence::default(),
        };
        let dispatch = Dispatch { outgoing, class, client, stream, precedence };
        let job = self.transmitter.dispatch(connections, now, at, dispatch);
        let job = job.expect("a client has no more requests than its connection may have jobs");
        let connection = &mut connections[at];
        connection.hold(stream, job, now);
        // A response of an upstream may still have any size.
        if let Some(line) = connection.exchange(stream).line.as_mut().filter(|line| line.passed_on.is_none()) {
            let (scheduler, size) = (self.transmitter.link.scheduler_mut(), size_class(line.bytes()));
            line.is_compared = scheduler.compare(job, line.arrived_at, size);
        }
    }

    /// Sends an interim response at once, as it may be of use only before the response (RFC 8297): the link is charged for it, and it waits for no
    /// turn. Returns the number of bytes that left; 0 on a stream, where they become frames.
    pub fn send_interim(
        &mut self,
        timers: &Timers,
        connections: &mut Connections<impl Socket>,
        at: usize,
        stream: u32,
        response: Response<()>,
    ) -> u64 {
        let connection = &mut connections[at];
        if connection.is_multiplexed() {
            let (head, ()) = response.into_head(timers.date());
            connections.with_engine(at, |engine| engine.interim(stream, &head));
            return 0;
        }
        let Some(bytes) = connection.http1().answering.interim(&response, timers.date()) else { return 0 };
        if let Some(before) = self.put_off.get_mut(&connection.owner) {
            before.edit().extend(bytes);
            return 0;
        }
        let sent = self.transmitter.send_aside(connections, timers.now(), at, &bytes);
        if sent < bytes.len() {
            let connection = &connections[at];
            let rest = Counted::of(connection.held.account(), bytes[sent..].to_vec());
            self.put_off.insert(connection.owner, rest);
        }
        sent as u64
    }

    /// Hands down the answer to the client's TLS, unless a response takes it along. Returns the number of bytes that left, or will as a job.
    pub fn send_sealed(
        &mut self,
        now: Nanos,
        connections: &mut Connections<impl Socket>,
        at: usize,
        replies: &Replies,
    ) -> usize {
        let connection = &mut connections[at];
        if connection.is_multiplexed() {
            // It leaves at the end of the turn.
            connections.say(at);
            return 0;
        }
        if connection.is_sending() || connection.channel.is_in_flight {
            return 0;
        }
        let is_handshaking = connection.channel.is_handshaking;
        let Some(session) = connection.session.as_deref_mut().filter(|session| session.has_unsent()) else {
            return 0;
        };
        if !is_handshaking || !flight::is_job(self.order, session) {
            return self.transmitter.send_sealed(connections, now, at);
        }
        let flight = session.take_unsent(FLIGHT_BYTES_MAX);
        let bytes = flight.len();
        connection.channel.is_in_flight = true;
        // The class of a request is not known yet.
        let dispatch = Dispatch::single(Outgoing::of_records(flight), replies.default_class());
        let job = self.transmitter.dispatch(connections, now, at, dispatch);
        debug_assert!(job.is_some(), "nothing else is being sent on it");
        bytes
    }

    /// Follows the handshake of a client that speaks TLS; behind the last of it the client speaks the protocol that was negotiated.
    pub fn note_handshake(
        &mut self,
        now: Nanos,
        connections: &mut Connections<impl Socket>,
        at: usize,
        replies: &Replies,
        limits: &Limits,
    ) {
        let connection = &mut connections[at];
        let is_handshaking = connection.channel.is_handshaking;
        let Some(session) = connection.session.as_deref_mut().filter(|_| is_handshaking) else { return };
        if !session.is_handshaking() {
            let speaks_http2 = session.speaks_http2();
            connection.channel.is_handshaking = false;
            connection.http1().wait_until(now + limits.head_timeout);
            if speaks_http2 {
                // The ticket leaves first: what follows is frames.
                self.send_sealed(now, connections, at, replies);
                self.begin_http2(now, connections, at, limits, replies);
            }
        }
    }

    /// Returns whether a connection past its deadline is not late, because its flight waits for other responses and not for its client.
    pub fn waits_for_its_turn(&self, now: Nanos, connection: &Connection<impl Socket>) -> bool {
        let is_slow = || connection.is_slow(0, self.transmitter.link.scheduler());
        connection.channel.is_in_flight && !is_slow() && now < connection.deadline() + TURN_WAIT_MAX
    }

    /// Begins HTTP/2 on a connection.
    pub fn begin_http2(
        &mut self,
        now: Nanos,
        connections: &mut Connections<impl Socket>,
        at: usize,
        limits: &Limits,
        replies: &Replies,
    ) {
        let has_tunnels = replies.handler().has_proxies();
        let settings = mux::Settings { request: limits.request, streams_max: mux::STREAMS_MAX, has_tunnels };
        let session = mux::Session::new(&settings);
        self.transmitter.begin_framed(connections, now, at, session.into(), now + limits.head_timeout);
    }

    /// Takes the bytes that have come on a connection of several streams; its datagrams have been taken already.
    pub fn take_in(
        &mut self,
        now: Nanos,
        connections: &mut Connections<impl Socket>,
        at: usize,
        bytes: &[u8],
        limits: &Limits,
    ) -> Result<(), Broken> {
        let connection = &mut connections[at];
        if !connection.channel.is_quic() {
            return self.transmitter.receive(connections, now, at, bytes);
        }
        // The handshake may be over. The connection keeps the address of the handshake: any datagram may come from another one, and quinn does
        // not report which addresses are validated.
        if !connection.engine().is_handshaking()
            && std::mem::replace(&mut connection.channel.is_handshaking, false)
            && let Some(streams) = connection.protocol.streams_mut()
        {
            streams.deadline = now + limits.head_timeout;
        }
        connection.engine().broken().map_or(Ok(()), Err)
    }

    /// Hands down the last frames of a connection of several streams. Returns until when they have time to leave, if its client has not taken them
    /// yet: as long as a client of the minimum rate needs for the bytes that wait.
    pub fn say_last(
        &mut self,
        now: Nanos,
        connections: &mut Connections<impl Socket>,
        at: usize,
        limits: &Limits,
    ) -> Option<Nanos> {
        let ends_at = connections[at].protocol.streams()?.ends_at;
        let unread_bytes = self.transmitter.say_last(connections, now, at)?;
        if ends_at.is_some_and(|ends_at| now >= ends_at) {
            return None;
        }
        let needs = Nanos::from_secs(unread_bytes.div_ceil(limits.patience.rate_bytes_per_s_min.max(1)));
        let streams = connections[at].protocol.streams_mut()?;
        Some(*streams.ends_at.get_or_insert(now + CLOSING_PERIOD + needs.min(limits.idle_timeout)))
    }

    /// Follows a change of the client's priority for a response (RFC 9218).
    pub fn prefer(&mut self, connection: &mut Connection<impl Socket>, stream: u32) {
        if connection.is_trusted() {
            return;
        }
        if let Some(Task::Sending(job)) = connection.protocol.exchange(stream).map(|exchange| &exchange.task) {
            let job = *job;
            let precedence = connection.engine().precedence(stream);
            self.transmitter.link.scheduler_mut().on_precedence(job, precedence);
        }
    }

    /// Ends the frames of a connection, and its TLS if the client has had all that it was to have: an end without that could be an attacker's
    /// (RFC 8446 section 6.1).
    pub fn end(&mut self, now: Nanos, connections: &mut Connections<impl Socket>, at: usize, replies: &Replies) {
        let connection = &mut connections[at];
        self.put_off.remove(&connection.owner);
        if let Some(streams) = connection.protocol.streams() {
            debug_assert!(streams.is_idle(), "its responses have departed");
            self.transmitter.end_framed(connections, now, at);
        }
        let Some(session) = connections[at].session.as_deref_mut() else { return };
        if !session.is_handshaking() && !session.has_unsent() && !session.has_ended() {
            session.end();
            self.send_sealed(now, connections, at, replies);
        }
    }
}

/// Has the client of a request on a stream send the body, which it may hold back until it is allowed to (RFC 9110 section 10.1.1).
pub(super) fn want_body(
    timers: &Timers,
    connections: &mut Connections<impl Socket>,
    at: usize,
    stream: u32,
    request: &Request,
) {
    if !connections[at].is_multiplexed() || request.body == BodyLength::None {
        return;
    }
    connections.with_engine(at, |engine| {
        engine.want_body(stream);
        if request.values("expect").any(|value| value.eq_ignore_ascii_case(b"100-continue")) {
            let (head, ()) = Response::new(Status::CONTINUE, ()).into_head(timers.date());
            engine.interim(stream, &head);
        }
    });
}
