//! The clients of a run, their server, and its bounds.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use quic::{Arrival, Datagrams, Endpoint, Key, Session, Settings};
use units::Nanos;

use super::super::h3::{acceptor, address};
use super::HAS_LITTLE_ROOM;
use super::initial::{DATAGRAM_BYTES_MIN, Initial, V1, crypto, hello};
use crate::Reached;

const DATAGRAM_BYTES_MAX: usize = 1452;
const CONNECTIONS_MAX: usize = 3;
/// The number of half-open connections of the endpoint beyond which a client must validate its address.
pub const CROWD_CLIENTS: u8 = 101;
pub const DATAGRAMS_MAX: usize = 2_000;
const TIMEOUTS_MAX: usize = 50;
/// The size of the parts of a ClientHello in packets.
const PART_BYTES: usize = 1000;

pub struct Peer {
    now: Nanos,
    endpoint: Endpoint,
    sessions: BTreeMap<Key, Session>,
    /// The addresses from which something arrived.
    heard: BTreeSet<SocketAddr>,
    came: usize,
    went: usize,
    /// The number of sessions that began.
    begun: usize,
    pub from: SocketAddr,
    pub destination: Vec<u8>,
    pub source: Vec<u8>,
    pub token: Vec<u8>,
    pub version: u32,
    pub number: u32,
    pub last: Vec<u8>,
    pub joins: bool,
    connections_max: usize,
    pub datagrams: usize,
    pub reached: Reached,
}

impl Peer {
    pub fn new(choice: u8) -> Peer {
        let connections_max = if choice & HAS_LITTLE_ROOM == 0 { 10_000 } else { CONNECTIONS_MAX };
        let settings = Settings { connections_max, ..Settings::default() };
        Peer {
            now: Nanos::from_secs(1),
            endpoint: Endpoint::new(acceptor(), &settings).expect("a suite and a timeout"),
            sessions: BTreeMap::new(),
            heard: BTreeSet::new(),
            came: 0,
            went: 0,
            begun: 0,
            from: address("198.18.0.2:5000"),
            destination: b"8 bytes.".to_vec(),
            source: b"mine".to_vec(),
            token: Vec::new(),
            version: V1,
            number: 0,
            last: Vec::new(),
            joins: false,
            connections_max,
            datagrams: 0,
            reached: Reached::default(),
        }
    }

    pub fn initial(&mut self, frames: &[u8], bytes_min: usize) -> Vec<u8> {
        let Peer { version, number, .. } = *self;
        self.number += 1;
        let (destination, source, token) = (&self.destination, &self.source, &self.token);
        Initial { version, destination, source, token, number, frames }.seal(bytes_min)
    }

    pub fn send(&mut self, datagram: Vec<u8>) {
        self.last = match std::mem::take(&mut self.joins) {
            true => [&self.last[..], &datagram].concat(),
            false => datagram,
        };
        self.last.truncate(usize::from(u16::MAX));
        self.deliver();
    }

    fn begin(&mut self, session: Session) {
        self.begun += 1;
        self.reached.mark("a session");
        self.reached.mark_if(session.host().as_deref() == Some("localhost"), "a handshake begun");
        assert!(session.is_handshaking() || session.is_closing(), "a handshake in one datagram");
        assert!(self.sessions.insert(session.key(), session).is_none(), "a key that was used before");
    }

    /// Delivers the last datagram once more.
    pub fn deliver(&mut self) {
        self.datagrams += 1;
        if self.datagrams > DATAGRAMS_MAX {
            return;
        }
        self.heard.insert(self.from);
        self.came += self.last.len();
        let mut out = Datagrams::new();
        match self.endpoint.receive(self.now, self.from, None, None, &self.last, &mut out) {
            Arrival::New(attempt) => match self.endpoint.accept(self.now, attempt, Key(self.begun as u64), &mut out) {
                Some(session) => self.begin(session),
                None => self.reached.mark("an attempt that could not be"),
            },
            Arrival::For(key, incoming) => {
                self.reached.mark("a datagram for a session");
                let session = self.sessions.get_mut(&key).expect("a session that was not dropped");
                let taken = session.receive(self.now, incoming);
                self.reached.mark_if(taken.is_err(), "a session broken");
            }
            Arrival::Answered => {
                self.reached.mark("answered");
                let answer = out.first().expect("an answer").bytes;
                assert!(out.len() == 1 && answer.len() <= self.last.len(), "{} bytes of answer", answer.len());
                self.reached.mark(kind(answer));
            }
            Arrival::Ignored => {
                self.reached.mark("ignored");
                assert!(out.is_empty());
            }
        }
        assert!(self.sessions.len() <= self.connections_max, "{} sessions", self.sessions.len());
        self.carry(&out);
        self.make();
    }

    /// Delivers the last datagram with one byte changed.
    pub fn flip(&mut self, at: usize, bits: u8) {
        let bytes = self.last.len().max(1);
        if let Some(byte) = self.last.get_mut(at % bytes) {
            *byte ^= bits;
        }
        self.deliver();
    }

    /// Makes the datagrams that the sessions want to send.
    pub fn make(&mut self) {
        let mut over = Vec::new();
        let mut outs = Vec::new();
        for (key, session) in &mut self.sessions {
            let mut out = Datagrams::new();
            session.make(self.now, usize::MAX, &mut out);
            assert!(session.event().is_none(), "a request before the handshake");
            outs.push(out);
            if session.has_ended() {
                over.push(*key);
            }
        }
        outs.iter().for_each(|out| self.carry(out));
        for key in over {
            self.reached.mark("a session over");
            self.sessions.remove(&key);
        }
    }

    pub fn carry(&mut self, out: &Datagrams) {
        for datagram in out.iter() {
            assert!(datagram.bytes.len() <= DATAGRAM_BYTES_MAX, "a datagram of {} bytes", datagram.bytes.len());
            assert!(self.heard.contains(&datagram.to), "{} is spoken to and has not spoken", datagram.to);
            self.went += datagram.bytes.len();
            let most = 3 * self.came + self.begun * DATAGRAM_BYTES_MAX;
            assert!(self.went <= most, "{} bytes for {}", self.went, self.came);
        }
    }

    pub fn pass(&mut self, span: Nanos) {
        let end = self.now + span;
        for _ in 0..TIMEOUTS_MAX {
            let next = self.sessions.values_mut().filter_map(Session::timeout).min();
            let Some(at) = next.filter(|at| *at <= end) else { break };
            self.now = at.max(self.now);
            for session in self.sessions.values_mut() {
                if session.timeout().is_some_and(|at| at <= self.now) {
                    let _ = session.on_timeout(self.now);
                }
            }
            self.make();
        }
        self.now = end;
    }

    /// Sends a ClientHello in as many packets as it needs, the last part first if `is_backwards`.
    pub fn hello(&mut self, parameters: &[u8], is_backwards: bool) {
        let hello = hello(parameters);
        let mut parts: Vec<(usize, &[u8])> = hello.chunks(PART_BYTES).enumerate().collect();
        if is_backwards {
            parts.reverse();
        }
        for (nth, part) in parts {
            let packet = self.initial(&crypto(nth * PART_BYTES, part), DATAGRAM_BYTES_MIN);
            self.send(packet);
        }
    }

    /// A first packet from each of so many clients.
    pub fn crowd(&mut self, clients: u8) {
        let (from, destination) = (self.from, self.destination.clone());
        let packet = crypto(0, b"\x01");
        for client in 0..clients {
            self.from.set_port(10_000 + u16::from(client));
            self.destination = [&[client], destination.get(1..).unwrap_or_default()].concat();
            let packet = self.initial(&packet, DATAGRAM_BYTES_MIN);
            self.send(packet);
        }
        (self.from, self.destination) = (from, destination);
    }
}

/// Of an answer to somebody without a session.
fn kind(answer: &[u8]) -> &'static str {
    match answer {
        [first, 0, 0, 0, 0, ..] if first & 0x80 != 0 => "version negotiation",
        [first, ..] if first & 0xf0 == 0xf0 => "retry",
        [first, ..] if first & 0x80 != 0 => "refused for want of room",
        _ => "answered",
    }
}
