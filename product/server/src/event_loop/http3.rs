//! HTTP/3: passes datagrams to their connections. After that, a QUIC connection is treated like any other: `streams.rs`
//! handles its streams, and its responses are jobs on one connection of the scheduler.
//!
//! A connection's share of a turn is limited where its events are taken; receiving datagrams only stores them.

use std::io;
use std::sync::Arc;

use quic::{Arrival, Attempt, Datagrams, Key, Settings, Steering};
use rustix::event::epoll::EventFlags;
use units::Nanos;

use super::listener::Listener;
use super::listeners::Listeners;
use super::responder::Responder;
use super::timers::TURN_FOR;
use super::udp_endpoints::{Sockets, UdpEndpoint, UdpEndpoints, framing};
use crate::connection::{ChannelKind, HANDSHAKE_TIMEOUT};
use crate::net::{Net, Transport};
use crate::udp::{Came, DatagramSocket};

/// The maximum number of system calls per turn that read from one socket. Each reads up to eight pieces, and a piece
/// may contain several datagrams.
const RECEIVES_PER_TURN_MAX: usize = 16;
/// The part of a turn for reading datagrams. The rest of the turn is for existing connections, even if more datagrams
/// have arrived.
const DATAGRAMS_FOR: Nanos = Nanos(TURN_FOR.0 / 2);

impl<N: Net> UdpEndpoints<N> {
    /// Opens the UDP sockets. Opens none if no site has a certificate.
    pub fn open_all(&mut self, listeners: &[Listener<N>], with: &Responder<N>) -> io::Result<()> {
        let Some(acceptor) = with.service.handler.acceptor() else { return Ok(()) };
        let count = with.service.admission.workers();
        let settings = Settings {
            request: with.limits.request,
            streams_max: http2::STREAMS_MAX,
            has_tunnels: with.service.handler.has_proxies(),
            // Admission counts places together with those of TCP.
            connections_max: usize::MAX,
            idle_timeout: with.limits.idle_timeout,
            is_ipv6: false,
            steering: Steering::new(with.setup.number, count).unwrap_or(Steering::ALONE),
            seed: with.net.seed(),
        };
        self.open(&with.net, listeners, acceptor, &settings)
    }

    /// Receives the datagrams that have arrived, within their part of the turn's time.
    pub fn on_datagrams(&mut self, flags: EventFlags, acceptor: &mut Listeners<N>, with: &mut Responder<N>) {
        if flags.contains(EventFlags::OUT) {
            with.transmitter.on_datagram_room(&mut with.connections, with.timers.now());
        }
        let Some(mut sockets) = self.take() else { return };
        let Sockets { all, pieces, answers } = &mut *sockets;
        for endpoint in all.iter() {
            for _ in 0..RECEIVES_PER_TURN_MAX {
                let may_have_more = endpoint.udp.receive(pieces, |came| endpoint.take(&came, answers, acceptor, with));
                // After enough newcomers, the other datagrams wait in the socket for the next turn.
                let is_over =
                    with.timers.turn_time(with.net.now()) >= DATAGRAMS_FOR || !with.budget.has_quic_handshake_left();
                if !may_have_more || is_over {
                    break;
                }
            }
            if let Some((framing, left)) = endpoint.answer(answers) {
                let charge_bytes = left.bytes + u64::from(left.datagrams) * framing.header_bytes;
                with.transmitter.link.correct(with.timers.now(), charge_bytes);
            }
        }
        self.put_back(sockets);
    }

    /// Updates, at the end of a turn, for which sockets the event loop waits for room.
    pub fn look_after(&mut self, with: &Responder<N>) {
        self.wait_for_room(&with.net, |number| with.connections.is_full_at(number));
    }
}

impl<N: Net> UdpEndpoint<N> {
    fn take(&self, came: &Came<'_>, answers: &mut Datagrams, acceptor: &mut Listeners<N>, with: &mut Responder<N>) {
        match self.quic.receive(with.timers.now(), came.from, came.to, came.ecn, came.bytes, answers) {
            Arrival::New(attempt) => self.welcome(attempt, answers, acceptor, with),
            Arrival::For(key, incoming) => {
                if let Some(at) = with.connections.slot(key.0).filter(|at| with.connections[*at].takes_frames()) {
                    with.transmitter.link.note_received(&with.connections[at], came.bytes.len());
                    with.transmitter.receive_datagram(&mut with.connections, with.timers.now(), at, incoming);
                    with.connections.wake(at);
                }
            }
            Arrival::Answered | Arrival::Ignored => {}
        }
    }

    fn welcome(&self, attempt: Attempt, answers: &mut Datagrams, acceptor: &mut Listeners<N>, with: &mut Responder<N>) {
        if with.timers.is_stopping() && self.is_passed {
            // The client retries, and then reaches the next process that has the socket.
            return self.quic.ignore(attempt);
        }
        let peer = attempt.from();
        if !with.timers.is_stopping() && !attempt.is_proved() && with.service.admission.is_scarce(peer.ip()) {
            return self.quic.retry(attempt, answers);
        }
        if !with.budget.has_quic_handshake_left() {
            // The datagram was read together with others, and the client retries within a second.
            return self.quic.ignore(attempt);
        }
        let has_place = if !with.timers.is_stopping() { acceptor.take_place_beside(with) } else { Some(false) };
        let (now, scheduler) = (with.timers.now(), with.transmitter.link.scheduler_mut());
        let client = match has_place {
            Some(true) => with.service.let_in(now, peer.ip(), scheduler),
            Some(false) => None,
            // The client retries within a second.
            None => return self.quic.ignore(attempt),
        };
        let Some(client) = client else { return self.quic.refuse(attempt, answers) };
        with.budget.on_quic_handshake();
        // The connection's datagrams carry its token.
        let token = with.connections.next_token();
        let Some(session) = self.quic.accept(now, attempt, Key(token), answers) else {
            return with.service.admission.leave(now, client);
        };
        let (peer, socket) = (session.peer(), Transport::on_udp(Arc::clone(&self.udp)));
        let at = with.open(token, (socket, ChannelKind::Quic), client, peer, framing(peer), None);
        let (now, connections) = (with.timers.now(), &mut with.connections);
        let deadline = with.timers.client_now() + HANDSHAKE_TIMEOUT;
        with.transmitter.begin_framed(connections, now, at, session.into(), deadline);
        with.connections.wake(at);
    }
}
