//! Datagrams to an endpoint that knows nobody: raw, sealed Initial packets with any frames, a ClientHello with any transport parameters, and
//! whatever of these is cut, changed, joined or repeated. `choice`, then operations.
//!
//! Clients that have not shown that their addresses are their own are sent three times as much as they sent at most (RFC 9000 section 8.1): all
//! together, since quinn-proto counts for a connection whatever comes with its name, from wherever; and begins a datagram while anything is left.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use quic::{Arrival, Datagrams, Endpoint, Key, Session, Settings};
use units::Nanos;

use super::h3::{acceptor, address};
use super::initial::{DATAGRAM_BYTES_MIN, Initial, V1, crypto, hello};
use crate::{Input, Reached, Script, Target};

pub const TARGET: Target = Target {
    name: "datagrams",
    run,
    reaches: &[
        "a datagram for a session",
        "a handshake begun",
        "a session",
        "a session broken",
        "a session over",
        "answered",
        "ignored",
        "refused for want of room",
        "retry",
        "version negotiation",
    ],
    seeds,
    mutants: 1_000,
};

const RAW: u8 = 0;
const FRAMES: u8 = 1;
const HELLO: u8 = 2;
/// What is made next joins what was made last, in one datagram.
const JOIN: u8 = 3;
const CUT: u8 = 4;
const FLIP: u8 = 5;
const AGAIN: u8 = 6;
const FROM: u8 = 7;
const PASS: u8 = 8;
const NAME: u8 = 9;
const CROWD: u8 = 10;
const OPERATIONS: u8 = 11;

/// Bits of an input's first byte.
const HAS_LITTLE_ROOM: u8 = 1;

const DATAGRAM_BYTES_MAX: usize = 1452;
const CONNECTIONS_MAX: usize = 3;
/// Half-open connections of the endpoint beyond which a client has to show its address.
const CROWD_CLIENTS: u8 = 101;
const DATAGRAMS_MAX: usize = 2_000;
const TIMEOUTS_MAX: usize = 50;
/// Parts of a ClientHello, as bytes of a packet.
const PART_BYTES: usize = 1000;

struct Peer {
    now: Nanos,
    endpoint: Endpoint,
    sessions: BTreeMap<Key, Session>,
    /// Addresses that something came from.
    heard: BTreeSet<SocketAddr>,
    came: usize,
    went: usize,
    /// Sessions that began.
    begun: usize,
    from: SocketAddr,
    destination: Vec<u8>,
    source: Vec<u8>,
    token: Vec<u8>,
    version: u32,
    number: u32,
    last: Vec<u8>,
    joins: bool,
    connections_max: usize,
    datagrams: usize,
    reached: Reached,
}

impl Peer {
    fn new(choice: u8) -> Peer {
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

    fn initial(&mut self, frames: &[u8], bytes_min: usize) -> Vec<u8> {
        let Peer { version, number, .. } = *self;
        self.number += 1;
        let (destination, source, token) = (&self.destination, &self.source, &self.token);
        Initial { version, destination, source, token, number, frames }.seal(bytes_min)
    }

    fn send(&mut self, datagram: Vec<u8>) {
        self.last = match std::mem::take(&mut self.joins) {
            true => [&self.last[..], &datagram].concat(),
            false => datagram,
        };
        self.last.truncate(usize::from(u16::MAX));
        self.deliver();
    }

    /// What was made last, once more.
    fn deliver(&mut self) {
        self.datagrams += 1;
        if self.datagrams > DATAGRAMS_MAX {
            return;
        }
        self.heard.insert(self.from);
        self.came += self.last.len();
        let mut out = Datagrams::new();
        match self.endpoint.receive(self.now, self.from, None, None, &self.last, &mut out) {
            Arrival::New(session) => {
                self.begun += 1;
                self.reached.mark("a session");
                self.reached.mark_if(session.host().as_deref() == Some("localhost"), "a handshake begun");
                assert!(session.is_handshaking() || session.is_closing(), "a handshake in one datagram");
                assert!(self.sessions.insert(session.key(), session).is_none(), "a key that was used before");
            }
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

    /// What the sessions have to say.
    fn make(&mut self) {
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

    fn carry(&mut self, out: &Datagrams) {
        for datagram in out.iter() {
            assert!(datagram.bytes.len() <= DATAGRAM_BYTES_MAX, "a datagram of {} bytes", datagram.bytes.len());
            assert!(self.heard.contains(&datagram.to), "{} is spoken to and has not spoken", datagram.to);
            self.went += datagram.bytes.len();
            let most = 3 * self.came + self.begun * DATAGRAM_BYTES_MAX;
            assert!(self.went <= most, "{} bytes for {}", self.went, self.came);
        }
    }

    fn pass(&mut self, span: Nanos) {
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

    /// A ClientHello in as many packets as it takes, the last part first if asked for.
    fn hello(&mut self, parameters: &[u8], is_backwards: bool) {
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
    fn crowd(&mut self, clients: u8) {
        let (from, destination) = (self.from, self.destination.clone());
        let packet = crypto(0, b"\x01");
        for client in 0..clients {
            self.from.set_port(10_000 + u16::from(client));
            self.destination = [&[client], &destination[1..]].concat();
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

fn run(bytes: &[u8]) -> Reached {
    let mut input = Input::new(bytes);
    let mut peer = Peer::new(input.byte());
    while !input.is_empty() && peer.datagrams <= DATAGRAMS_MAX {
        step(&mut peer, &mut input);
    }
    peer.pass(Nanos::from_secs(60));
    peer.reached
}

fn step(peer: &mut Peer, input: &mut Input<'_>) {
    match input.byte() % OPERATIONS {
        RAW => peer.send(input.text().to_vec()),
        FRAMES => {
            let bytes_min = if input.byte() % 2 == 0 { DATAGRAM_BYTES_MIN } else { 0 };
            let packet = peer.initial(input.text(), bytes_min);
            peer.send(packet);
        }
        HELLO => {
            let is_backwards = input.byte() % 2 == 1;
            peer.hello(input.text(), is_backwards);
        }
        JOIN => peer.joins = true,
        CUT => {
            peer.last.truncate(input.short().into());
            peer.deliver();
        }
        FLIP => {
            let (at, bits) = (usize::from(input.short()), input.byte());
            let bytes = peer.last.len().max(1);
            if let Some(byte) = peer.last.get_mut(at % bytes) {
                *byte ^= bits;
            }
            peer.deliver();
        }
        AGAIN => (0..input.byte() % 16).for_each(|_| peer.deliver()),
        FROM => peer.from.set_port(5000 + u16::from(input.byte())),
        PASS => peer.pass(Nanos::from_millis(input.short().into())),
        NAME => {
            let version = input.byte();
            peer.version = if version == 0 { V1 } else { u32::from_be_bytes([version; 4]) };
            peer.number = input.byte().into();
            peer.destination = input.text()[..].iter().copied().take(20).collect();
            peer.source = input.text().iter().copied().take(20).collect();
            peer.token = input.text().to_vec();
        }
        _ => {
            if peer.datagrams == 0 {
                peer.crowd(input.byte() % (CROWD_CLIENTS + 2));
            }
        }
    }
}

/// Transport parameters of a client (RFC 9000 section 18): pairs of number and value.
fn parameters(pairs: &[(u8, &[u8])]) -> Vec<u8> {
    pairs.iter().flat_map(|(number, value)| [&[*number, value.len() as u8][..], value].concat()).collect()
}

fn seeds() -> Vec<Vec<u8>> {
    let all = |choice: u8, said: Vec<Script>| said.into_iter().fold(Script::new(&[choice]), Script::then).done();
    let hello = |text: &[u8]| Script::new(&[HELLO, 0]).text(text);
    let frames = |text: &[u8]| Script::new(&[FRAMES, 0]).text(text);
    let raw = |text: &[u8]| Script::new(&[RAW]).text(text);
    let pass = |ms: u16| Script::new(&[PASS]).short(ms);
    let name =
        |version: u8, to: &[u8], token: &[u8]| Script::new(&[NAME, version, 0]).text(to).text(b"mine").text(token);
    let usual =
        parameters(&[(1, &[0x80, 0, 0x75, 0x30]), (3, &[0x45, 0xac]), (4, &[0x80, 0x10, 0, 0]), (0x0f, b"mine")]);
    let more =
        parameters(&[(5, &[0x7f, 0xff]), (6, &[0x40, 9]), (8, &[0x40, 100]), (9, &[3]), (0x0b, &[25]), (0x0c, b"")]);
    let wrong = |pairs: &[(u8, &[u8])]| hello(&[&usual[..], &parameters(pairs)].concat());
    vec![
        all(0, vec![hello(&usual), pass(200), pass(5000)]),
        all(0, vec![hello(&[&usual[..], &more].concat()), frames(&[2, 0, 0, 0, 0]), pass(60_000)]),
        all(
            0,
            vec![
                Script::new(&[HELLO, 1]).text(&usual),
                Script::new(&[AGAIN, 3]),
                Script::new(&[FLIP]).short(400).byte(1),
            ],
        ),
        all(0, vec![wrong(&[(0, b"a server's")]), hello(&[1, 9, 1]), hello(&parameters(&[(0x0f, b"not mine")]))]),
        all(
            0,
            vec![
                wrong(&[(3, &[0x44, 0x4c])]),
                wrong(&[(0x0a, &[21])]),
                wrong(&[(1, &[5]), (1, &[5])]),
                wrong(&[(0x0e, &[1])]),
            ],
        ),
        all(
            0,
            vec![frames(&crypto(0, b"\x01\0\0\x05hello")), frames(&crypto(20_000, b"far")), frames(&[0x1c, 0, 0, 0])],
        ),
        all(0, vec![frames(&[8, 0, b'x']), frames(&[1, 1, 1]), frames(&[0x1e]), pass(1000)]),
        all(0, vec![hello(&usual), frames(&[0x1c, 0x0a, 0, 2, b'n', b'o']), pass(10_000)]),
        all(
            0,
            vec![
                Script::new(&[FRAMES, 1]).text(&[1]),
                Script::new(&[JOIN]),
                hello(&usual),
                Script::new(&[CUT]).short(1199),
            ],
        ),
        all(0, vec![name(0x0a, b"8 bytes.", b""), frames(&[1]), name(0xff, b"8 bytes.", b""), frames(&[1])]),
        all(
            0,
            vec![name(0, b"short", b""), frames(&[1]), name(0, &[7; 20], b"a token"), frames(&[1]), name(0, b"", b"")],
        ),
        all(0, vec![Script::new(&[CROWD, CROWD_CLIENTS]), name(0, b"8 bytes.", b"no token of ours"), hello(&usual)]),
        all(HAS_LITTLE_ROOM, vec![Script::new(&[CROWD, 6]), pass(60_000), hello(&usual)]),
        all(0, vec![raw(b"\x40 short header, nobody's"), raw(&[0xc0, 0, 0, 0, 1, 255]), raw(b""), raw(&[0; 200])]),
        all(
            0,
            vec![hello(&usual), Script::new(&[FROM, 9]), Script::new(&[AGAIN, 1]), frames(&[1]), raw(b"\x408 bytes.")],
        ),
    ]
}
