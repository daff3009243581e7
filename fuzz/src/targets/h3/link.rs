//! Both ends of a connection, and the bounds of the server's.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use http::{Limits, OwnedRequest, Refused, Status};
use http2::{Broken, Event, Stop};
use quic::testing::{Client, Dir, SETTINGS, StreamId, Windows};
use quic::{Arrival, Datagrams, Endpoint, Key, Session, Settings};
use tls::{Acceptor, Identity, Tickets};
use units::Nanos;

use super::super::bodies::{Body, Upload, head};
use super::super::qpack::check_request;
use super::{HAS_NO_CONTROL, IS_NARROW, READS_AT_ONCE, WANTS_BODIES};
use crate::Reached;

/// The maximum number of datagrams of a run, in both directions.
pub const DATAGRAMS_MAX: usize = 5_000;
const DATAGRAM_BYTES_MAX: usize = 1452;
const TURNS_MAX: usize = 200;
/// Grants of the last round, for each stream.
const LAST_GRANTS: usize = 64;
/// Read at once of a request's body.
const READ_BYTES: usize = 100;

pub fn acceptor() -> &'static Acceptor {
    static ACCEPTOR: OnceLock<Acceptor> = OnceLock::new();
    ACCEPTOR.get_or_init(|| {
        let identity = Identity::for_development(&["localhost".to_string()]).expect("a certificate of our own");
        Acceptor::new(&[Arc::new(identity)], &Tickets::new().expect("random numbers"), |_| 0)
    })
}

pub fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address of our own")
}

#[derive(Default)]
pub struct Stream {
    body: Option<Body>,
    upload: Option<Upload>,
    has_responded: bool,
    is_closed: bool,
}

/// The action that [`AGAIN`] repeats.
#[derive(Clone)]
pub enum Last {
    Nothing,
    Request(Vec<u8>),
    Bytes(StreamId, Vec<u8>),
}

pub struct Link {
    pub now: Nanos,
    endpoint: Endpoint,
    session: Option<Session>,
    pub client: Client,
    pub from: SocketAddr,
    /// The streams that the client has opened.
    opened: Vec<StreamId>,
    pub control: Option<StreamId>,
    requests: BTreeMap<u32, Stream>,
    last: Last,
    /// The number of following datagrams that are lost.
    pub to_lose: usize,
    pub datagrams: usize,
    is_broken: bool,
    wants_bodies: bool,
    reads_at_once: bool,
    pub reached: Reached,
}

impl Link {
    pub fn new(choice: u8) -> Link {
        let windows =
            if choice & IS_NARROW == 0 { Windows::default() } else { Windows { stream: 700, connection: 1500 } };
        let mut link = Link {
            now: Nanos::from_secs(1),
            endpoint: Endpoint::new(acceptor(), &Settings::default()).expect("a suite and a timeout"),
            session: None,
            client: Client::new(Nanos::from_secs(1), address("198.18.0.1:443"), "localhost", windows),
            from: address("198.18.0.2:5000"),
            opened: Vec::new(),
            control: None,
            requests: BTreeMap::new(),
            last: Last::Nothing,
            to_lose: 0,
            datagrams: 0,
            is_broken: false,
            wants_bodies: choice & WANTS_BODIES != 0,
            reads_at_once: choice & READS_AT_ONCE != 0,
            reached: Reached::default(),
        };
        link.exchange();
        assert!(link.client.is_connected, "a handshake without a mistake");
        if choice & HAS_NO_CONTROL == 0 {
            link.control = link.uni(&[0, SETTINGS as u8, 0]);
        }
        link
    }

    pub fn session(&mut self) -> &mut Session {
        self.session.as_mut().expect("it began with the handshake")
    }

    /// Exchanges datagrams until neither side has any to send.
    pub fn exchange(&mut self) {
        for _ in 0..TURNS_MAX {
            let before = self.datagrams;
            while let Some(datagram) = self.client.transmit(self.now) {
                if self.passes() {
                    self.deliver(&datagram);
                }
            }
            self.make(usize::MAX);
            if self.datagrams == before {
                break;
            }
        }
        if let Some(complaint) = self.client.complaint() {
            panic!("the client complains: {complaint}");
        }
    }

    /// Counts a datagram. Returns false if it is lost.
    pub fn passes(&mut self) -> bool {
        self.datagrams += 1;
        let is_lost = self.to_lose > 0;
        self.to_lose = self.to_lose.saturating_sub(1);
        !is_lost && self.datagrams <= DATAGRAMS_MAX
    }

    pub fn deliver(&mut self, datagram: &[u8]) {
        let mut out = Datagrams::new();
        match self.endpoint.receive(self.now, self.from, None, None, datagram, &mut out) {
            Arrival::New(attempt) => {
                self.session = self.endpoint.accept(self.now, attempt, Key(self.datagrams as u64), &mut out)
            }
            Arrival::For(_, incoming) => {
                let now = self.now;
                let taken = self.session().receive(now, incoming);
                self.note(taken);
            }
            Arrival::Answered | Arrival::Ignored => {}
        }
        self.carry(&out);
        self.events();
    }

    pub fn note(&mut self, taken: Result<(), Broken>) {
        if let Err(broken) = taken {
            assert!(!self.is_broken, "an end is told once");
            self.is_broken = true;
            self.reached.mark(if matches!(broken, Broken::Flood(_)) { "flood" } else { "mistake" });
        }
    }

    pub fn carry(&mut self, out: &Datagrams) {
        for datagram in out.iter() {
            assert!(datagram.bytes.len() <= DATAGRAM_BYTES_MAX, "a datagram of {} bytes", datagram.bytes.len());
            if self.passes() && datagram.to == self.from {
                self.client.receive(self.now, datagram.bytes);
            }
        }
    }

    pub fn make(&mut self, room: usize) {
        let Some(session) = &mut self.session else { return };
        let mut out = Datagrams::new();
        session.make(self.now, room, &mut out);
        assert!(out.bytes() <= room.max(DATAGRAM_BYTES_MAX), "{} bytes in a room of {room}", out.bytes());
        self.carry(&out);
    }

    pub fn events(&mut self) {
        while let Some(event) = self.session.as_mut().and_then(Session::event) {
            match event {
                Event::Request { stream, request } => self.request(stream, request),
                Event::Priority { .. } => self.reached.mark("a wish changed"),
                Event::Body { stream } => {
                    let known = self.requests.get_mut(&stream).and_then(|known| known.upload.as_mut());
                    let upload = known.expect("a body that is wanted");
                    assert!(!std::mem::replace(&mut upload.is_readable, true), "{stream} is told of twice");
                    if self.reads_at_once {
                        self.read(stream);
                    }
                }
                Event::Malformed { stream, refused } => {
                    assert!((400..500).contains(&refused.reject.status.0), "{stream}: {}", refused.reject);
                    self.reached.mark("a malformed request");
                }
                Event::Closed { stream } => {
                    self.reached.mark("a stream closed");
                    let known = self.requests.entry(stream).or_default();
                    assert!(!known.is_closed, "{stream} is closed twice");
                    known.is_closed = true;
                    assert_eq!(self.session().stream_window(stream), None, "{stream} is closed and has a window");
                }
            }
        }
        let open = self.requests.values().filter(|stream| !stream.is_closed).count();
        assert!(open <= Settings::default().streams_max as usize, "{open} streams are open");
    }

    pub fn request(&mut self, stream: u32, request: Result<Box<OwnedRequest>, Box<Refused>>) {
        self.reached.mark("request");
        assert!(self.requests.insert(stream, Stream::default()).is_none(), "request {stream} twice, or behind its end");
        match request {
            Ok(request) => {
                check_request(&request.view(), &Limits::default());
                if self.wants_bodies && self.session().want_body(stream) {
                    self.requests.entry(stream).or_default().upload = Some(Upload::new(&request.view()));
                }
            }
            Err(refused) if refused.reject.status == Status::HEAD_TOO_LARGE => {
                self.reached.mark("head beyond the limit");
            }
            Err(_) => self.reached.mark("request refused by its head"),
        }
    }

    /// Reads the available part of a request's body.
    fn read(&mut self, stream: u32) {
        let upload = self.requests.get_mut(&stream).and_then(|known| known.upload.as_mut());
        let (Some(upload), Some(session)) = (upload, &mut self.session) else { return };
        while upload.is_readable {
            let mut came = Vec::new();
            let read = session.read_body(stream, &mut came, READ_BYTES);
            upload.on_read(READ_BYTES, &came, read, &mut self.reached);
        }
    }

    pub fn uni(&mut self, bytes: &[u8]) -> Option<StreamId> {
        let id = self.client.try_open(Dir::Uni)?;
        self.opened.push(id);
        self.say(id, bytes);
        Some(id)
    }

    pub fn bidi(&mut self, bytes: &[u8]) -> Option<StreamId> {
        let id = self.client.try_open(Dir::Bi)?;
        self.opened.push(id);
        self.say(id, bytes);
        Some(id)
    }

    pub fn say(&mut self, id: StreamId, bytes: &[u8]) {
        self.client.offer(id, bytes);
        self.exchange();
        self.last = Last::Bytes(id, bytes.to_vec());
    }

    /// Sends a request on a new stream, which then ends.
    pub fn ask(&mut self, bytes: &[u8]) {
        if let Some(id) = self.bidi(bytes) {
            self.client.try_finish(id);
            self.exchange();
            self.last = Last::Request(bytes.to_vec());
        }
    }

    pub fn again(&mut self, count: usize) {
        for _ in 0..count {
            match self.last.clone() {
                _ if self.is_broken || self.datagrams > DATAGRAMS_MAX => return,
                Last::Nothing => {}
                // And leaves.
                Last::Request(bytes) => {
                    self.ask(&bytes);
                    if let Some(id) = self.opened.last().copied() {
                        self.client.reset(id, 0x10c);
                        self.client.stop(id.index() as u32, 0x10c);
                    }
                    self.exchange();
                    self.last = Last::Request(bytes);
                }
                Last::Bytes(id, bytes) => self.say(id, &bytes),
            }
        }
    }

    /// The stream with this index among the client's.
    pub fn opened(&self, place: u8) -> Option<StreamId> {
        let count = self.opened.len().max(1);
        self.opened.get(usize::from(place) % count).copied()
    }

    pub fn nth(&self, place: u8) -> Option<u32> {
        let count = self.requests.len().max(1);
        self.requests.keys().nth(usize::from(place) % count).copied()
    }

    pub fn respond(&mut self, stream: u32, choice: u8) {
        let known = self.requests.get_mut(&stream).expect("a stream that was asked for");
        if known.has_responded || known.is_closed {
            return;
        }
        known.has_responded = true;
        let has_body = choice & 0x40 == 0;
        known.body = Some(if has_body { Body::new(choice) } else { Body::new(0) });
        self.session().respond(stream, &head(), has_body);
    }

    pub fn write(&mut self, stream: u32, room: usize) -> Option<Stop> {
        self.read(stream);
        let mut body = self.requests.get_mut(&stream).expect("a stream that was asked for").body.take()?;
        let wrote = self.session().write(stream, room, &mut body);
        match wrote.stop {
            Stop::Room => {}
            Stop::End => self.reached.mark("response whole"),
            Stop::Source => self.reached.mark("source has nothing"),
            Stop::Failed => self.reached.mark("source failed"),
            Stop::StreamWindow => self.reached.mark("stream window shut"),
            Stop::Window => self.reached.mark("window shut"),
            Stop::Closed => assert_eq!((wrote.bytes, wrote.carried_bytes), (0, 0)),
        }
        let known = self.requests.get_mut(&stream).expect("it is still there");
        assert!(wrote.bytes == 0 || !known.is_closed, "content of {stream}, which is closed");
        if !matches!(wrote.stop, Stop::End | Stop::Failed | Stop::Closed) {
            known.body = Some(body);
        }
        self.make(room);
        self.events();
        self.exchange();
        Some(wrote.stop)
    }

    /// Lets time pass, in steps of the timers.
    pub fn pass(&mut self, span: Nanos) {
        let end = self.now + span;
        for _ in 0..TURNS_MAX {
            let server = self.session.as_mut().and_then(Session::timeout);
            let Some(at) = [server, self.client.timeout()].into_iter().flatten().min().filter(|at| *at <= end) else {
                break;
            };
            self.now = at.max(self.now);
            if self.client.timeout().is_some_and(|at| at <= self.now) {
                self.client.on_timeout(self.now);
            }
            let now = self.now;
            if self.session().timeout().is_some_and(|at| at <= now) {
                let taken = self.session().on_timeout(now);
                self.note(taken);
                self.events();
            }
            self.exchange();
        }
        self.now = end;
        self.exchange();
    }

    pub fn finish(&mut self) {
        let streams: Vec<u32> = self.requests.keys().copied().collect();
        for &stream in &streams {
            self.respond(stream, 3);
        }
        for &stream in &streams {
            for _ in 0..LAST_GRANTS {
                if self.datagrams > DATAGRAMS_MAX || self.write(stream, 3000) != Some(Stop::Room) {
                    break;
                }
            }
        }
        self.session().go_away();
        self.exchange();
        let has_reset = self.opened.iter().any(|id| self.client.came(*id).reset.is_some());
        self.reached.mark_if(has_reset, "reset by the server");
        self.reached.mark_if(self.client.close_code().is_some(), "connection closed by its server");
        let is_code = |code: u64| (0x100..=0x110).contains(&code) || (0x200..=0x202).contains(&code);
        assert!(self.client.close_code().is_none_or(is_code), "{:?}", self.client.close_code());
    }
}
