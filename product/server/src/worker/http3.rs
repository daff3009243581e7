//! HTTP/3: datagrams in, each to its connection. A connection of QUIC is one like any other from there on: its streams are those of
//! `streams.rs`, its responses jobs on one connection of the scheduler.
//!
//! What one connection gets of a turn is bounded where its events are taken; datagrams only deposit them.

use std::io;
use std::sync::Arc;

use quic::{Arrival, Attempt, Datagrams, Key, Settings, Steering};
use rustix::event::epoll::EventFlags;
use units::Nanos;

use super::Worker;
use super::exchange::Exchanges;
use super::secure::HANDSHAKE_TIMEOUT;
use super::sender::CLOSING_PERIOD;
use super::timers::TURN_FOR;
use super::udp_endpoints::{Sockets, UdpEndpoint, framing};
use crate::net::Net;
use crate::transmit::{Flow, Transport};
use crate::udp::{Came, DatagramSocket};

/// System calls that read from one socket in a turn, each up to eight pieces.
const RECEIVES_PER_TURN_MAX: usize = 16;
/// So much of a turn is for them; the rest is for those who are here already, however many more come.
const DATAGRAMS_FOR: Nanos = Nanos(TURN_FOR.0 / 2);

impl<N: Net> Worker<N> {
    /// Nothing is asked of the sockets where nobody has a certificate.
    pub(super) fn open_udp_endpoints(&mut self) -> io::Result<()> {
        let Some(acceptor) = self.service.replies.handler().acceptor() else { return Ok(()) };
        let count = self.service.admission.workers();
        let settings = Settings {
            request: self.setup.limits.request,
            streams_max: mux::STREAMS_MAX,
            // Places are counted with those of TCP.
            connections_max: usize::MAX,
            idle_timeout: self.setup.limits.idle_timeout,
            is_ipv6: false,
            steering: Steering::new(self.setup.number, count).unwrap_or(Steering::ALONE),
        };
        self.udp.open(&self.net, self.acceptor.listeners(), acceptor, &settings)
    }

    pub(super) fn on_datagrams(&mut self, flags: EventFlags) {
        if flags.contains(EventFlags::OUT) {
            self.sender.transmitter.on_datagram_room(self.timers.now());
        }
        let Some(mut sockets) = self.udp.take() else { return };
        let Sockets { all, pieces, answers } = &mut *sockets;
        for endpoint in all.iter() {
            for _ in 0..RECEIVES_PER_TURN_MAX {
                let may_have_more = endpoint.udp.receive(pieces, |came| self.take_datagram(endpoint, &came, answers));
                // Behind enough newcomers the others wait in the socket for the next turn.
                let is_over =
                    self.timers.turn_time(self.net.now()) >= DATAGRAMS_FOR || !self.budget.has_quic_handshake_left();
                if !may_have_more || is_over {
                    break;
                }
            }
            if let Some((framing, left)) = endpoint.answer(answers) {
                let charge_bytes = left.bytes + u64::from(left.datagrams) * framing.header_bytes;
                self.sender.transmitter.link.correct(self.timers.now(), charge_bytes);
            }
        }
        self.udp.put_back(sockets);
    }

    fn take_datagram(&mut self, endpoint: &UdpEndpoint<N>, came: &Came<'_>, answers: &mut Datagrams) {
        match endpoint.quic.receive(self.timers.now(), came.from, came.to, came.ecn, came.bytes, answers) {
            Arrival::New(attempt) => self.welcome_http3(endpoint, attempt, answers),
            Arrival::For(key, incoming) => {
                if let Some(at) = self.conns.slot(key.0).filter(|at| self.conns[*at].is_multiplexed()) {
                    self.sender.transmitter.receive_datagram(self.timers.now(), at, incoming);
                    self.conns.wake(at);
                }
            }
            Arrival::Answered | Arrival::Ignored => {}
        }
    }

    fn welcome_http3(&mut self, endpoint: &UdpEndpoint<N>, attempt: Attempt, answers: &mut Datagrams) {
        if self.timers.is_stopping() && endpoint.is_passed {
            // It tries again, at the next process that has the socket.
            return endpoint.quic.ignore(attempt);
        }
        let peer = attempt.from();
        if !self.timers.is_stopping() && !attempt.is_proved() && self.service.admission.is_scarce(peer.ip()) {
            return endpoint.quic.retry(attempt, answers);
        }
        if !self.budget.has_quic_handshake_left() {
            // It was read with others, and tries again within a second.
            return endpoint.quic.ignore(attempt);
        }
        let has_place = if !self.timers.is_stopping() { self.take_place_beside() } else { Some(false) };
        let (now, scheduler) = (self.timers.now(), self.sender.transmitter.link.scheduler_mut());
        let client = match has_place {
            Some(true) => self.service.let_in(now, peer.ip(), scheduler),
            Some(false) => None,
            // It tries again within a second.
            None => return endpoint.quic.ignore(attempt),
        };
        let Some(client) = client else { return endpoint.quic.refuse(attempt, answers) };
        self.budget.on_quic_handshake();
        // Its datagrams come under the name of its connection.
        let name = self.conns.vacant();
        let Some(session) = endpoint.quic.accept(now, attempt, Key(name.1), answers) else {
            return self.service.admission.leave(now, client);
        };
        let (peer, socket) = (session.peer(), Transport::Quic(Box::new(Flow::new(Arc::clone(&endpoint.udp)))));
        let at = self.open(name, socket, client, peer, framing(peer), None);
        self.sender.transmitter.begin_framed(self.timers.now(), at, session.into());
        self.conns[at].exchanges = Exchanges::several(self.timers.now() + HANDSHAKE_TIMEOUT);
        self.conns.wake(at);
    }

    /// Nothing more is said, but what was said may have been lost: it stays until its client has acknowledged that.
    pub(super) fn end_http3(&mut self, at: usize) {
        let now = self.timers.now();
        let Some(streams) = self.conns[at].exchanges.streams_mut() else { return };
        let is_over = streams.ends_at.is_some_and(|ends_at| now >= ends_at);
        let is_late = now >= streams.deadline;
        if is_over
            || self.conns[at].channel.is_handshaking
            || self.sender.transmitter.connections.engine(at).is_acknowledged()
        {
            if is_late {
                self.service.note_late_handshake(now, &self.conns[at]);
            }
            return self.close(at);
        }
        if let Some(streams) = self.conns[at].exchanges.streams_mut() {
            let ends_at = *streams.ends_at.get_or_insert(now + CLOSING_PERIOD);
            (streams.is_leaving, streams.deadline) = (true, ends_at);
        }
    }

    /// Those to which time has happened have a turn; room is waited for where there was none.
    pub(super) fn look_after_datagrams(&mut self) {
        let transmitter = &self.sender.transmitter;
        self.udp.wait_for_room(&self.net, |number| transmitter.connections.is_full_at(number));
        let woken: Vec<u64> = self.sender.transmitter.connections.woken().collect();
        for owner in woken {
            if let Some(at) = self.conns.slot(owner) {
                self.conns.wake(at);
            }
        }
    }
}
