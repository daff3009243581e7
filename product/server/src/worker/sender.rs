//! What connections send: the write path, as the protocols of a connection use it. Requests and replies are none of its business.

use std::collections::HashMap;

use http::{BodyLength, Request, Response, Status};
use mux::Broken;
use sched::Precedence;
use units::Nanos;
use units::memory::Counted;

use super::conn::Conn;
use super::exchange::{Exchanges, Task};
use super::flight::{self, FLIGHT_BYTES_MAX};
use super::gathered::Gathered;
use super::owner::slot_of;
use super::timers::Timers;
use super::{Order, Replies, Setup};
use crate::config::Limits;
use crate::metrics::size_class;
use crate::net::{Net, Transport};
use crate::transmit::{Dispatch, Outgoing, Transmitter};

/// A flight waits so long for its turn, beyond the client's own time. Many clients have given up by then.
const TURN_WAIT_MAX: Nanos = Nanos::from_secs(50);

/// So long a connection that ends waits for a client of which nothing is heard: an acknowledgement that was lost comes again within.
pub(super) const CLOSING_PERIOD: Nanos = Nanos::from_secs(2);

pub(super) struct Sender<N: Net> {
    pub transmitter: Transmitter<Transport<N>>,
    pub(super) order: Order,
    pub(super) is_direct: bool,
    pub gathered: Gathered,
    /// By the connection over HTTP/1.1, what its socket has not taken of interim responses: it leaves with what is sent next.
    pub(super) put_off: HashMap<u64, Counted>,
}

impl<N: Net> Sender<N> {
    pub fn new(transmitter: Transmitter<Transport<N>>, setup: &Setup) -> Sender<N> {
        Sender {
            transmitter,
            order: setup.order,
            is_direct: setup.is_direct,
            gathered: Gathered::default(),
            put_off: HashMap::new(),
        }
    }

    /// Whether a response that is ready while no other may become so needs not be a job: then the scheduler would give it the first grant, and
    /// need not be asked.
    pub fn is_direct(&self) -> bool {
        let (link, is_drained) =
            (&self.transmitter.link, || self.transmitter.link.scheduler().poll_timeout().is_none());
        self.is_direct && (!link.is_paced() || link.is_searching()) && is_drained()
    }

    /// Between two connections: a paced link is not to wait for the end of a turn.
    pub fn is_due(&self, clock: impl Fn() -> Nanos) -> bool {
        let is_due = || self.transmitter.poll_timeout().is_some_and(|at| at <= clock());
        self.order == Order::Pace && !self.transmitter.link.is_searching() && is_due()
    }

    /// Makes a job of a response.
    pub fn dispatch(&mut self, now: Nanos, conn: &mut Conn, stream: u32, outgoing: Outgoing) {
        let at = slot_of(conn.owner);
        let (client, class) = (Some(conn.client_of(stream)), conn.exchange(stream).class);
        // What many clients wish is no order among them (RFC 9218 section 13.1).
        let precedence = match conn.is_multiplexed() && !conn.is_trusted() {
            true => self.transmitter.connections[at].engine().precedence(stream),
            false => Precedence::default(),
        };
        let job = self.transmitter.dispatch(now, at, Dispatch { outgoing, class, client, stream, precedence });
        let job = job.expect("a client has no more requests than its connection may have jobs");
        conn.hold(stream, job, now);
        // What an upstream sends may have any size still.
        if let Some(line) = conn.exchange(stream).line.as_mut().filter(|line| line.passed_on.is_none()) {
            let (scheduler, size) = (self.transmitter.link.scheduler_mut(), size_class(line.bytes()));
            line.is_compared = scheduler.compare(job, line.arrived_at, size);
        }
    }

    /// Has a client send the body of a request on a stream, which may wait for leave to (RFC 9110 section 10.1.1).
    pub fn want_body(&mut self, timers: &Timers, conn: &Conn, stream: u32, request: &Request) {
        if !conn.is_multiplexed() || request.body == BodyLength::None {
            return;
        }
        self.transmitter.connections.with_engine(slot_of(conn.owner), |engine| {
            engine.want_body(stream);
            if request.values("expect").any(|value| value.eq_ignore_ascii_case(b"100-continue")) {
                let (head, ()) = Response::new(Status::CONTINUE, ()).into_head(timers.date());
                engine.interim(stream, &head);
            }
        });
    }

    /// Sends an interim response at once, as it may be of use only before the response (RFC 8297): it is charged to the link, and waits for no
    /// turn. Gives how many bytes left, but for those of frames.
    pub fn send_interim(&mut self, timers: &Timers, conn: &Conn, stream: u32, response: Response<()>) -> u64 {
        let (at, connections) = (slot_of(conn.owner), &mut self.transmitter.connections);
        if conn.is_multiplexed() {
            let (head, ()) = response.into_head(timers.date());
            connections.with_engine(at, |engine| engine.interim(stream, &head));
            return 0;
        }
        let Some(bytes) = conn.http1.answering.interim(&response, timers.date()) else { return 0 };
        if let Some(before) = self.put_off.get_mut(&conn.owner) {
            before.edit().extend(bytes);
            return 0;
        }
        let sent = connections[at].send_aside(timers.now(), &bytes, &mut self.transmitter.link);
        if sent < bytes.len() {
            let rest = Counted::of(conn.held.account(), bytes[sent..].to_vec());
            self.put_off.insert(conn.owner, rest);
        }
        sent as u64
    }

    /// Hands down what answers the client's TLS, unless a response does so; gives how many bytes left, or will as a job.
    pub fn send_sealed(&mut self, now: Nanos, conn: &mut Conn, replies: &Replies) -> usize {
        let (at, connections) = (slot_of(conn.owner), &mut self.transmitter.connections);
        if conn.is_multiplexed() {
            // It says so at the end of the turn.
            connections.say(at);
            return 0;
        }
        if conn.is_sending() || conn.channel.is_in_flight {
            return 0;
        }
        let Some(session) = connections[at].session.as_deref_mut().filter(|session| session.has_unsent()) else {
            return 0;
        };
        if !conn.channel.is_handshaking || !flight::is_job(self.order, session) {
            return connections[at].send_sealed(now, &mut self.transmitter.link);
        }
        let flight = session.take_unsent(FLIGHT_BYTES_MAX);
        let bytes = flight.len();
        // Nobody has asked for anything yet.
        let dispatch = Dispatch::single(Outgoing::of_records(flight), replies.default_class());
        let job = self.transmitter.dispatch(now, at, dispatch);
        debug_assert!(job.is_some(), "nothing else is being sent on it");
        conn.channel.is_in_flight = true;
        bytes
    }

    /// More of a handshake has come; behind the last of it the client speaks the protocol that was agreed on.
    pub fn note_handshake(&mut self, now: Nanos, conn: &mut Conn, replies: &Replies, limits: &Limits) {
        let session = self.transmitter.connections[slot_of(conn.owner)].session.as_deref_mut();
        let Some(session) = session.filter(|_| conn.channel.is_handshaking) else { return };
        if !session.is_handshaking() {
            conn.channel.is_handshaking = false;
            conn.http1.wait_until(now + limits.head_timeout);
            if session.speaks_http2() {
                // The ticket leaves first: what follows is the transmitter's.
                self.send_sealed(now, conn, replies);
                self.begin_http2(now, conn, limits, replies);
            }
        }
    }

    /// The client does not speak TLS after all, and is owed an answer without.
    pub fn end_tls(&mut self, conn: &mut Conn) {
        conn.channel.end_tls();
        self.transmitter.connections[slot_of(conn.owner)].session = None;
        conn.http1.give_up();
    }

    /// Past its deadline, a connection is not late while its flight waits for others and not for its client.
    pub fn waits_for_its_turn(&self, now: Nanos, conn: &Conn) -> bool {
        let is_slow =
            || self.transmitter.connections[slot_of(conn.owner)].is_slow(0, self.transmitter.link.scheduler());
        conn.channel.is_in_flight && !is_slow() && now < conn.deadline() + TURN_WAIT_MAX
    }

    /// From now on the client speaks HTTP/2.
    pub fn begin_http2(&mut self, now: Nanos, conn: &mut Conn, limits: &Limits, replies: &Replies) {
        let has_tunnels = replies.handler().has_proxies();
        let settings = mux::Settings { request: limits.request, streams_max: mux::STREAMS_MAX, has_tunnels };
        self.transmitter.begin_framed(now, slot_of(conn.owner), mux::Session::new(&settings).into());
        conn.exchanges = Exchanges::several(now + limits.head_timeout);
    }

    /// What has come on a connection of several streams; datagrams have been taken in already.
    pub fn take_in(&mut self, now: Nanos, conn: &mut Conn, bytes: &[u8], limits: &Limits) -> Result<(), Broken> {
        let at = slot_of(conn.owner);
        if !conn.channel.is_quic() {
            return self.transmitter.receive(now, at, bytes);
        }
        // Its handshake may be over. It stays at the address of that: any datagram may say another, and quinn does not tell which are proved.
        let engine = self.transmitter.connections[at].engine();
        if !engine.is_handshaking()
            && std::mem::replace(&mut conn.channel.is_handshaking, false)
            && let Some(streams) = conn.exchanges.streams_mut()
        {
            streams.deadline = now + limits.head_timeout;
        }
        engine.broken().map_or(Ok(()), Err)
    }

    /// The last frames of a connection of several streams leave. Until when they have time to, where its client has not taken them yet: as long as
    /// one of the least rate needs for what waits.
    pub fn say_last(&mut self, now: Nanos, conn: &mut Conn, limits: &Limits) -> Option<Nanos> {
        let at = slot_of(conn.owner);
        let streams = conn.exchanges.streams_mut()?;
        let unread_bytes = self.transmitter.say_last(now, at)?;
        if streams.ends_at.is_some_and(|ends_at| now >= ends_at) {
            return None;
        }
        let needs = Nanos::from_secs(unread_bytes.div_ceil(limits.patience.rate_bytes_per_s_min.max(1)));
        Some(*streams.ends_at.get_or_insert(now + CLOSING_PERIOD + needs.min(limits.idle_timeout)))
    }

    /// Nothing more comes or goes on a connection of several streams, or it was to end, and its client has everything now.
    pub fn is_over(&mut self, conn: &Conn) -> bool {
        let (at, connections) = (slot_of(conn.owner), &mut self.transmitter.connections);
        let is_ending = conn.exchanges.streams().is_some_and(|streams| streams.ends_at.is_some());
        connections[at].has_ended() || is_ending && connections[at].engine().is_acknowledged()
    }

    /// The client said that it sends no more, and nothing of it is being answered.
    pub fn has_ended(&mut self, conn: &Conn) -> bool {
        let session = self.transmitter.connections[slot_of(conn.owner)].session.as_deref_mut();
        session.is_some_and(|session| session.has_peer_ended())
    }

    /// The client wishes a response sooner or later than it did.
    pub fn prefer(&mut self, conn: &mut Conn, stream: u32) {
        if conn.is_trusted() {
            return;
        }
        if let Some(Task::Sending(job)) = conn.exchanges.on(stream).map(|exchange| &exchange.task) {
            let precedence = self.transmitter.connections[slot_of(conn.owner)].engine().precedence(stream);
            self.transmitter.link.scheduler_mut().on_precedence(*job, precedence);
        }
    }

    /// The connection carries frames no more. Says that nothing follows, to a client that has had all it was to have: an end without that could be an
    /// attacker's (RFC 8446 section 6.1).
    pub fn end(&mut self, now: Nanos, conn: &mut Conn, replies: &Replies) {
        let at = slot_of(conn.owner);
        self.put_off.remove(&conn.owner);
        if let Some(streams) = conn.exchanges.streams() {
            debug_assert!(streams.is_idle(), "its responses have departed");
            conn.exchanges = Exchanges::single(conn.owner);
            self.transmitter.end_framed(now, at);
        }
        let Some(session) = self.transmitter.connections[at].session.as_deref_mut() else { return };
        if !session.is_handshaking() && !session.has_unsent() && !session.has_ended() {
            session.end();
            self.send_sealed(now, conn, replies);
        }
    }
}
