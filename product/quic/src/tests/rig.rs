//! A server of this crate and one client on a link of a known delay, in virtual time.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use http::{HttpDate, Response, ResponseHead, Status};
use http2::{Broken, Event, Source, Stop, Supply};
use units::Nanos;

use crate::testing::{Client, Windows};
use crate::{Arrival, Datagrams, Endpoint, Key, Session, Settings, Wrote};

pub const DELAY: Nanos = Nanos(5_000_000);
pub const SERVER: &str = "198.18.0.1:443";
pub const CLIENT: &str = "198.18.0.2:5000";
const STEPS_MAX: usize = 200_000;

pub fn acceptor() -> tls::Acceptor {
    let identity = tls::Identity::for_development(&["localhost".to_string()]).unwrap();
    tls::Acceptor::new(&[Arc::new(identity)], &tls::Tickets::new().unwrap(), |_| 0)
}

pub fn endpoint(settings: &Settings) -> Endpoint {
    Endpoint::new(&acceptor(), settings).unwrap()
}

/// A source of bytes that count up.
pub struct Counting {
    pub at: usize,
    pub size: usize,
}

pub fn counted(size: usize) -> Vec<u8> {
    (0..size).map(|at| (at % 251) as u8).collect()
}

impl Source for Counting {
    fn peek(&mut self, into: &mut Vec<u8>, bytes_max: usize) -> Supply {
        let end = self.size.min(self.at + bytes_max);
        into.extend((self.at..end).map(|at| (at % 251) as u8));
        if end == self.size { Supply::End } else { Supply::More }
    }

    fn advance(&mut self, bytes: usize) {
        self.at += bytes;
    }
}

/// A source that must not be read.
pub struct Untouched;

impl Source for Untouched {
    fn peek(&mut self, _: &mut Vec<u8>, _: usize) -> Supply {
        panic!("content of a stream that was not granted")
    }

    fn advance(&mut self, _: usize) {}
}

pub struct Rig {
    pub now: Nanos,
    pub endpoint: Endpoint,
    pub sessions: BTreeMap<Key, Session>,
    pub client: Client,
    pub client_address: SocketAddr,
    /// Datagrams in flight, with the time of their arrival.
    pub to_server: VecDeque<(Nanos, Vec<u8>)>,
    pub to_client: VecDeque<(Nanos, Vec<u8>)>,
    /// Returns true if the datagram of this number to the client arrives.
    pub passes: Box<dyn FnMut(usize) -> bool>,
    pub sent: usize,
    pub events: Vec<Event>,
    pub broken: Option<Broken>,
    /// Responses in progress, in the order in which they are granted.
    pub bodies: Vec<(u32, Counting)>,
    pub room: usize,
    /// True if the bodies of requests are wanted.
    pub wants_bodies: bool,
}

/// Returns the head of a response with a body of this size.
pub fn head(size: Option<usize>) -> ResponseHead {
    let response = Response::new(Status::OK, ());
    let response = match size {
        Some(size) => response.with_length(size as u64),
        None => response,
    };
    response.into_head(&HttpDate::new(UNIX_EPOCH)).0
}

impl Rig {
    pub fn new() -> Rig {
        Rig::with(&Settings::default(), Windows::default())
    }

    pub fn with(settings: &Settings, windows: Windows) -> Rig {
        Rig {
            now: Nanos(0),
            endpoint: endpoint(settings),
            sessions: BTreeMap::new(),
            client: Client::new(Nanos(0), SERVER.parse().unwrap(), "localhost", windows),
            client_address: CLIENT.parse().unwrap(),
            to_server: VecDeque::new(),
            to_client: VecDeque::new(),
            passes: Box::new(|_| true),
            sent: 0,
            events: Vec::new(),
            broken: None,
            bodies: Vec::new(),
            room: 14_000,
            wants_bodies: false,
        }
    }

    /// Returns a connected rig, with SETTINGS exchanged.
    pub fn connected() -> Rig {
        let mut rig = Rig::new();
        rig.connect();
        rig
    }

    pub fn connect(&mut self) {
        self.run_until(|rig| rig.client.is_connected);
        self.client.hello();
        self.run();
    }

    pub fn session(&mut self) -> &mut Session {
        self.sessions.values_mut().next().expect("a session")
    }

    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// Answers a request with this many bytes, as `run` grants them.
    pub fn answer(&mut self, stream: u32, size: usize) {
        assert!(self.session().respond(stream, &head(Some(size)), size > 0));
        self.bodies.push((stream, Counting { at: 0, size }));
    }

    /// The streams of the received requests.
    pub fn requests(&self) -> Vec<u32> {
        self.events
            .iter()
            .filter_map(|event| if let Event::Request { stream, .. } = event { Some(*stream) } else { None })
            .collect()
    }

    pub fn malformed(&self) -> Vec<u32> {
        self.events
            .iter()
            .filter_map(|event| if let Event::Malformed { stream, .. } = event { Some(*stream) } else { None })
            .collect()
    }

    pub fn closed(&self) -> Vec<u32> {
        self.events
            .iter()
            .filter_map(|event| if let Event::Closed { stream } = event { Some(*stream) } else { None })
            .collect()
    }

    /// Runs until nothing is in flight and no timer fires within a second.
    pub fn run(&mut self) {
        let end = self.now + Nanos::from_secs(1);
        self.run_until(|rig| rig.now >= end || (rig.is_quiet() && rig.next_time().is_none_or(|at| at > end)));
    }

    pub fn run_for(&mut self, span: Nanos) {
        let end = self.now + span;
        for _ in 0..STEPS_MAX {
            self.step();
            match self.next_time().filter(|at| *at < end) {
                Some(at) => self.now = at.max(self.now),
                None => return self.now = end,
            }
        }
        panic!("no end after {STEPS_MAX} steps");
    }

    fn is_quiet(&self) -> bool {
        self.to_client.is_empty() && self.to_server.is_empty()
    }

    pub fn run_until(&mut self, mut is_enough: impl FnMut(&mut Rig) -> bool) {
        for _ in 0..STEPS_MAX {
            self.step();
            if is_enough(self) {
                return;
            }
            let Some(at) = self.next_time() else { return };
            self.now = at.max(self.now);
        }
        panic!("no end after {STEPS_MAX} steps");
    }

    fn next_time(&mut self) -> Option<Nanos> {
        let ways = [&self.to_client, &self.to_server].map(|way| way.front().map(|(at, _)| *at));
        let server = self.sessions.values_mut().filter_map(Session::timeout).min();
        ways.into_iter().chain([server, self.client.timeout()]).flatten().min()
    }

    /// Does everything due now.
    pub fn step(&mut self) {
        let now = self.now;
        while self.to_server.front().is_some_and(|(at, _)| *at <= now) {
            let (_, datagram) = self.to_server.pop_front().unwrap();
            self.deliver(self.client_address, &datagram);
        }
        while self.to_client.front().is_some_and(|(at, _)| *at <= now) {
            let (_, datagram) = self.to_client.pop_front().unwrap();
            self.client.receive(now, &datagram);
        }
        if self.client.timeout().is_some_and(|at| at <= now) {
            self.client.on_timeout(now);
        }
        for session in self.sessions.values_mut() {
            if session.timeout().is_some_and(|at| at <= now) {
                self.broken = session.on_timeout(now).err().or(self.broken.take());
            }
            self.events.extend(events(session, self.wants_bodies));
        }
        self.grant();
        self.make(usize::MAX);
        self.drain_client();
    }

    pub fn drain_client(&mut self) {
        while let Some(datagram) = self.client.transmit(self.now) {
            self.to_server.push_back((self.now + DELAY, datagram));
        }
    }

    /// Delivers one datagram to the server.
    pub fn deliver(&mut self, from: SocketAddr, datagram: &[u8]) {
        let mut out = Datagrams::new();
        match self.endpoint.receive(self.now, from, None, None, datagram, &mut out) {
            Arrival::New(attempt) => {
                let key = Key(self.sessions.keys().last().map_or(1, |key| key.0 + 1));
                let session = self.endpoint.accept(self.now, attempt, key, &mut out);
                self.sessions.extend(session.map(|session| (session.key(), session)));
            }
            Arrival::For(key, incoming) => {
                let session = self.sessions.get_mut(&key).expect("a session that is kept");
                self.broken = session.receive(self.now, incoming).err().or(self.broken.take());
                self.events.extend(events(session, self.wants_bodies));
            }
            Arrival::Answered => assert!(!out.is_empty()),
            Arrival::Ignored => assert!(out.is_empty()),
        }
        self.carry(out);
    }

    /// Gives room to each response until it is held or its window is shut.
    fn grant(&mut self) {
        let Some(key) = self.sessions.keys().next().copied() else { return };
        let mut bodies = std::mem::take(&mut self.bodies);
        bodies.retain_mut(|(stream, body)| {
            for _ in 0..10_000 {
                let (wrote, made) = self.write_and_make(key, *stream, body);
                match wrote.stop {
                    Stop::Room if made > 0 => {}
                    Stop::End | Stop::Closed | Stop::Failed => return false,
                    _ => return true,
                }
            }
            panic!("a grant without an end");
        });
        self.bodies = bodies;
    }

    fn write_and_make(&mut self, key: Key, stream: u32, body: &mut dyn Source) -> (Wrote, usize) {
        let room = self.room;
        let session = self.sessions.get_mut(&key).unwrap();
        let wrote = session.write(stream, room, body);
        (wrote, self.make(room))
    }

    /// Makes what may leave within this room. Returns its bytes.
    pub fn make(&mut self, room: usize) -> usize {
        let mut made = 0;
        let keys: Vec<Key> = self.sessions.keys().copied().collect();
        for key in keys {
            let mut out = Datagrams::new();
            self.sessions.get_mut(&key).unwrap().make(self.now, room, &mut out);
            made += out.bytes();
            self.carry(out);
        }
        made
    }

    fn carry(&mut self, out: Datagrams) {
        for datagram in out.iter() {
            self.sent += 1;
            if datagram.to == self.client_address && (self.passes)(self.sent) {
                self.to_client.push_back((self.now + DELAY, datagram.bytes.to_vec()));
            }
        }
    }
}

fn events(session: &mut Session, wants_bodies: bool) -> Vec<Event> {
    let next = || {
        let event = session.event()?;
        if let (Event::Request { stream, .. }, true) = (&event, wants_bodies) {
            assert!(session.want_body(*stream));
        }
        Some(event)
    };
    std::iter::from_fn(next).collect()
}
