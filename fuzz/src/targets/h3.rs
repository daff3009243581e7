//! HTTP/3 behind a real handshake: a client of QUIC that is whole, whose streams have what the input says, and a server that answers as it says.
//! `choice`, then operations; behind each, datagrams go both ways until nobody has any.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use http::http1::{Limits, parse_request};
use mux::{Broken, Event, Stop};
use quic::testing::{
    self, Client, DATA, Dir, GOAWAY, HEADERS, MAX_PUSH_ID, PRIORITY_UPDATE, SETTINGS, StreamId, Windows,
};
use quic::{Arrival, Datagrams, Endpoint, Session, Settings};
use tls::{Acceptor, Identity, Tickets};
use units::Nanos;

use super::bodies::Body;
use crate::{Input, Reached, Script, Target};

pub const TARGET: Target = Target {
    name: "h3",
    run,
    reaches: &[
        "a stream closed",
        "a wish changed",
        "closed by the client",
        "connection closed by its server",
        "farewell",
        "flood",
        "head beyond the limit",
        "mistake",
        "request",
        "request refused by its head",
        "reset by the server",
        "response whole",
        "source failed",
        "source has nothing",
        "stream window shut",
        "window shut",
    ],
    seeds,
    mutants: 400,
};

const UNI: u8 = 0;
const BIDI: u8 = 1;
const MORE: u8 = 2;
const FINISH: u8 = 3;
const RESET: u8 = 4;
const STOP: u8 = 5;
const REQUEST: u8 = 6;
const FRAME: u8 = 7;
const SECTION: u8 = 8;
const CONTROL: u8 = 9;
const WISH: u8 = 10;
const PASS: u8 = 11;
const RESPOND: u8 = 12;
const WRITE: u8 = 13;
const CANCEL: u8 = 14;
const GO_AWAY: u8 = 15;
const AGAIN: u8 = 16;
const CLOSE: u8 = 17;
const LOSE: u8 = 18;
/// The client reads nothing more, or again.
const DEAF: u8 = 19;
const OPERATIONS: u8 = 20;

/// Bits of an input's first byte.
const HAS_NO_CONTROL: u8 = 1;
const IS_NARROW: u8 = 2;

/// How often [`AGAIN`] says the same for each of its units.
const AGAIN_UNIT: usize = 8;
/// Datagrams of a run, both ways.
const DATAGRAMS_MAX: usize = 5_000;
const DATAGRAM_BYTES_MAX: usize = 1452;
const TURNS_MAX: usize = 200;
/// Grants of the last round, for each stream.
const LAST_GRANTS: usize = 64;
const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nServer: weir\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n";

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
struct Stream {
    body: Option<Body>,
    has_responded: bool,
    is_closed: bool,
}

/// What [`AGAIN`] says again.
#[derive(Clone)]
enum Last {
    Nothing,
    Request(Vec<u8>),
    Bytes(StreamId, Vec<u8>),
}

struct Link {
    now: Nanos,
    endpoint: Endpoint,
    session: Option<Session>,
    client: Client,
    /// Those that the client has opened.
    opened: Vec<StreamId>,
    control: Option<StreamId>,
    requests: BTreeMap<u32, Stream>,
    last: Last,
    /// Datagrams that are lost, of those that follow.
    to_lose: usize,
    datagrams: usize,
    is_broken: bool,
    reached: Reached,
}

impl Link {
    fn new(choice: u8) -> Link {
        let windows =
            if choice & IS_NARROW == 0 { Windows::default() } else { Windows { stream: 700, connection: 1500 } };
        let mut link = Link {
            now: Nanos::from_secs(1),
            endpoint: Endpoint::new(acceptor(), &Settings::default()).expect("a suite and a timeout"),
            session: None,
            client: Client::new(Nanos::from_secs(1), address("198.18.0.1:443"), "localhost", windows),
            opened: Vec::new(),
            control: None,
            requests: BTreeMap::new(),
            last: Last::Nothing,
            to_lose: 0,
            datagrams: 0,
            is_broken: false,
            reached: Reached::default(),
        };
        link.exchange();
        assert!(link.client.is_connected, "a handshake without a mistake");
        if choice & HAS_NO_CONTROL == 0 {
            link.control = link.uni(&[0, SETTINGS as u8, 0]);
        }
        link
    }

    fn session(&mut self) -> &mut Session {
        self.session.as_mut().expect("it began with the handshake")
    }

    /// Until nobody has a datagram to send.
    fn exchange(&mut self) {
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

    /// Counts a datagram; false: it is lost.
    fn passes(&mut self) -> bool {
        self.datagrams += 1;
        let is_lost = self.to_lose > 0;
        self.to_lose = self.to_lose.saturating_sub(1);
        !is_lost && self.datagrams <= DATAGRAMS_MAX
    }

    fn deliver(&mut self, datagram: &[u8]) {
        let mut out = Datagrams::new();
        match self.endpoint.receive(self.now, address("198.18.0.2:5000"), None, None, datagram, &mut out) {
            Arrival::New(session) => self.session = Some(session),
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

    fn note(&mut self, taken: Result<(), Broken>) {
        if let Err(broken) = taken {
            assert!(!self.is_broken, "an end is told once");
            self.is_broken = true;
            self.reached.mark(if matches!(broken, Broken::Flood(_)) { "flood" } else { "mistake" });
        }
    }

    fn carry(&mut self, out: &Datagrams) {
        for datagram in out.iter() {
            assert!(datagram.bytes.len() <= DATAGRAM_BYTES_MAX, "a datagram of {} bytes", datagram.bytes.len());
            if self.passes() {
                self.client.receive(self.now, datagram.bytes);
            }
        }
    }

    fn make(&mut self, room: usize) {
        let Some(session) = &mut self.session else { return };
        let mut out = Datagrams::new();
        session.make(self.now, room, &mut out);
        assert!(out.bytes() <= room.max(DATAGRAM_BYTES_MAX), "{} bytes in a room of {room}", out.bytes());
        self.carry(&out);
    }

    fn events(&mut self) {
        while let Some(event) = self.session.as_mut().and_then(Session::event) {
            match event {
                Event::Request { stream, head } => self.request(stream, &head),
                Event::Priority { .. } => self.reached.mark("a wish changed"),
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

    fn request(&mut self, stream: u32, head: &[u8]) {
        self.reached.mark("request");
        assert!(self.requests.insert(stream, Stream::default()).is_none(), "request {stream} twice, or behind its end");
        let limits = Limits::default();
        match parse_request(head, &limits) {
            Ok(Some(parsed)) => assert_eq!(parsed.bytes, head.len(), "a head ends where it says"),
            Ok(None) => panic!("a head without an end: {:?}", String::from_utf8_lossy(head)),
            Err(_) if head.len() >= limits.head_bytes_max => self.reached.mark("head beyond the limit"),
            Err(_) => self.reached.mark("request refused by its head"),
        }
    }

    fn uni(&mut self, bytes: &[u8]) -> Option<StreamId> {
        let id = self.client.try_open(Dir::Uni)?;
        self.opened.push(id);
        self.say(id, bytes);
        Some(id)
    }

    fn bidi(&mut self, bytes: &[u8]) -> Option<StreamId> {
        let id = self.client.try_open(Dir::Bi)?;
        self.opened.push(id);
        self.say(id, bytes);
        Some(id)
    }

    fn say(&mut self, id: StreamId, bytes: &[u8]) {
        self.client.offer(id, bytes);
        self.exchange();
        self.last = Last::Bytes(id, bytes.to_vec());
    }

    /// A request in one stream that ends.
    fn ask(&mut self, bytes: &[u8]) {
        if let Some(id) = self.bidi(bytes) {
            self.client.try_finish(id);
            self.exchange();
            self.last = Last::Request(bytes.to_vec());
        }
    }

    fn again(&mut self, count: usize) {
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

    /// The stream of this place among those of the client.
    fn opened(&self, place: u8) -> Option<StreamId> {
        let count = self.opened.len().max(1);
        self.opened.get(usize::from(place) % count).copied()
    }

    fn nth(&self, place: u8) -> Option<u32> {
        let count = self.requests.len().max(1);
        self.requests.keys().nth(usize::from(place) % count).copied()
    }

    fn respond(&mut self, stream: u32, choice: u8) {
        let known = self.requests.get_mut(&stream).expect("a stream that was asked for");
        if known.has_responded || known.is_closed {
            return;
        }
        known.has_responded = true;
        let has_body = choice & 0x40 == 0;
        known.body = Some(if has_body { Body::new(choice) } else { Body::new(0) });
        self.session().respond(stream, HEAD, has_body);
    }

    fn write(&mut self, stream: u32, room: usize) -> Option<Stop> {
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

    /// Time passes, in steps of the timers.
    fn pass(&mut self, span: Nanos) {
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

    fn finish(&mut self) {
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

fn run(bytes: &[u8]) -> Reached {
    let mut input = Input::new(bytes);
    let mut link = Link::new(input.byte());
    while !input.is_empty() && link.datagrams <= DATAGRAMS_MAX {
        step(&mut link, &mut input);
    }
    link.finish();
    link.reached
}

fn step(link: &mut Link, input: &mut Input<'_>) {
    match input.byte() % OPERATIONS {
        UNI => {
            link.uni(input.text());
        }
        BIDI => {
            link.bidi(input.text());
        }
        REQUEST => link.ask(&testing::request("/x", &[])),
        SECTION => {
            let (begin, piece) = (input.text(), input.text());
            let section = [begin, &piece.repeat(input.byte().into())].concat();
            link.ask(&testing::frame(HEADERS, &section));
        }
        CONTROL => {
            let frame = testing::frame(input.short().into(), input.text());
            if let Some(control) = link.control {
                link.say(control, &frame);
            }
        }
        WISH => {
            let mut payload = Vec::new();
            testing::varint::write(input.short().into(), &mut payload);
            payload.extend_from_slice(input.text());
            if let Some(control) = link.control {
                link.say(control, &testing::frame(PRIORITY_UPDATE, &payload));
            }
        }
        PASS => link.pass(Nanos::from_millis(input.short().into())),
        AGAIN => link.again(AGAIN_UNIT * usize::from(input.byte())),
        LOSE => link.to_lose = usize::from(input.byte() % 8),
        DEAF => {
            link.client.is_deaf = input.byte() % 2 == 1;
            if !link.client.is_deaf {
                link.client.read();
            }
            link.exchange();
        }
        CLOSE => {
            link.reached.mark("closed by the client");
            link.client.close(link.now, input.short().into());
            link.exchange();
        }
        GO_AWAY => {
            link.reached.mark("farewell");
            link.session().go_away();
            link.exchange();
        }
        operation @ (MORE | FINISH | RESET | STOP | FRAME) => on_stream(link, operation, input),
        operation => answer(link, operation, input),
    }
}

/// What a client does on a stream of its own.
fn on_stream(link: &mut Link, operation: u8, input: &mut Input<'_>) {
    let stream = link.opened(input.byte());
    match (operation, stream) {
        (MORE, Some(id)) => link.say(id, input.text()),
        (FRAME, Some(id)) => {
            let frame = testing::frame(input.short().into(), input.text());
            link.say(id, &frame);
        }
        (FINISH, Some(id)) => link.client.try_finish(id),
        (RESET, Some(id)) => link.client.reset(id, input.short().into()),
        (STOP, Some(id)) if id.dir() == Dir::Bi => link.client.stop(id.index() as u32, input.short().into()),
        _ => {}
    }
    link.exchange();
}

/// What the server does with a request.
fn answer(link: &mut Link, operation: u8, input: &mut Input<'_>) {
    let Some(stream) = link.nth(input.byte()) else { return };
    match operation {
        RESPOND => link.respond(stream, input.byte()),
        WRITE => {
            link.write(stream, input.short().into());
        }
        _ => {
            link.session().cancel(stream);
            link.events();
            link.exchange();
        }
    }
}

/// Programs of a client and its server.
mod say {
    use super::*;

    pub fn control(kind: u64, payload: &[u8]) -> Script {
        Script::new(&[CONTROL]).short(kind as u16).text(payload)
    }

    pub fn frame(place: u8, kind: u64, payload: &[u8]) -> Script {
        Script::new(&[FRAME, place]).short(kind as u16).text(payload)
    }

    pub fn fields(more: &[(&str, &str)]) -> Script {
        let request = [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", "/x")];
        section(&testing::section(&[&request[..], more].concat()), &[], 0)
    }

    /// A section of these bytes, and of others so many times.
    pub fn section(begin: &[u8], piece: &[u8], times: u8) -> Script {
        Script::new(&[SECTION]).text(begin).text(piece).byte(times)
    }

    pub fn bytes(kind: u8, bytes: &[u8]) -> Script {
        Script::new(&[kind]).text(bytes)
    }

    pub fn on(operation: u8, place: u8, number: u16) -> Script {
        Script::new(&[operation, place]).short(number)
    }

    pub fn respond(place: u8, choice: u8) -> Script {
        Script::new(&[RESPOND, place, choice])
    }

    pub fn all(choice: u8, said: impl IntoIterator<Item = Script>) -> Vec<u8> {
        said.into_iter().fold(Script::new(&[choice]), Script::then).done()
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = conversations();
    seeds.extend(mistakes());
    seeds
}

fn conversations() -> Vec<Vec<u8>> {
    use say::{all, bytes, control, fields, frame, on, respond};
    let get = || Script::new(&[REQUEST]);
    let pass = |ms: u16| Script::new(&[PASS]).short(ms);
    let wish = |stream: u16, text: &[u8]| Script::new(&[WISH]).short(stream).text(text);
    let headers = testing::request("/y", &[("content-length", "4")]);
    vec![
        all(
            0,
            [get(), respond(0, 5), on(WRITE, 0, 1200), on(WRITE, 0, 9000), get(), respond(1, 0x40), on(WRITE, 1, 100)],
        ),
        all(0, [get(), get(), respond(0, 7), respond(1, 6), on(WRITE, 1, 3000), on(WRITE, 0, 60_000), pass(100)]),
        all(IS_NARROW, [get(), get(), respond(0, 5), respond(1, 5), on(WRITE, 0, 5000), on(WRITE, 1, 5000), pass(50)]),
        all(
            IS_NARROW,
            [Script::new(&[DEAF, 1]), get(), get(), get(), respond(0, 5), respond(1, 5), respond(2, 5)]
                .into_iter()
                .chain([
                    on(WRITE, 0, 900),
                    on(WRITE, 1, 900),
                    on(WRITE, 2, 900),
                    Script::new(&[DEAF, 0]),
                    on(WRITE, 2, 900),
                ]),
        ),
        all(
            0,
            [
                get(),
                respond(0, 0x0d),
                on(WRITE, 0, 500),
                on(WRITE, 0, 500),
                get(),
                respond(1, 0x35),
                on(WRITE, 1, 60_000),
            ],
        ),
        all(0, [fields(&[("priority", "u=1, i"), ("range", "bytes=0-1")]), wish(0, b"u=6"), wish(4, b"u=0, i"), get()]),
        all(0, [bytes(BIDI, &headers), frame(1, DATA, b"body"), on(FINISH, 1, 0), respond(0, 3), on(WRITE, 0, 500)]),
        all(
            0,
            [bytes(BIDI, &headers[..9]), bytes(BIDI, b""), Script::new(&[MORE, 1]).text(&headers[9..]), respond(0, 2)],
        ),
        all(0, [get(), respond(0, 7), on(WRITE, 0, 5000), on(STOP, 1, 0x10c), on(RESET, 1, 0x10c), on(WRITE, 0, 5000)]),
        all(0, [get(), Script::new(&[CANCEL, 0]), get(), Script::new(&[GO_AWAY]), get(), respond(1, 3), pass(2000)]),
        all(0, [control(GOAWAY, &[0]), control(MAX_PUSH_ID, &[9]), control(0x21, b"grease"), get(), respond(0, 2)]),
        all(0, [bytes(UNI, &[2, 0x20]), bytes(UNI, &[3, 0x44]), bytes(UNI, &[0x21, 1, 2, 3]), get(), pass(40_000)]),
        all(0, [get(), Script::new(&[LOSE, 2]), respond(0, 5), on(WRITE, 0, 3000), pass(1000), on(WRITE, 0, 30_000)]),
        all(0, [get(), Script::new(&[CLOSE]).short(0x100), respond(0, 2), on(WRITE, 0, 100)]),
    ]
}

fn mistakes() -> Vec<Vec<u8>> {
    use say::{all, bytes, control, fields, frame, section};
    let again = |units: u8| Script::new(&[AGAIN, units]);
    let get = || Script::new(&[REQUEST]);
    let long = "x".repeat(200);
    let request = testing::section(&[(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/")]);
    // The last of the static table, over and over.
    let bomb = || section(&request, &[0xff, 0x23].repeat(40), 60);
    vec![
        all(HAS_NO_CONTROL, [bytes(UNI, &[0, GOAWAY as u8, 1, 0])]),
        all(HAS_NO_CONTROL, [bytes(UNI, &[1, 0]), get()]),
        all(0, [bytes(UNI, &[0, 4, 0])]),
        all(0, [control(SETTINGS, &[])]),
        all(0, [control(DATA, b"x")]),
        all(HAS_NO_CONTROL, [bytes(UNI, &[0, 4, 2, 2, 0])]),
        all(0, [bytes(UNI, &[2, 0x80])]),
        all(0, [bytes(UNI, &[3, 0x80])]),
        all(0, [bytes(BIDI, &testing::frame(DATA, b"first"))]),
        all(0, [bytes(BIDI, &testing::frame(SETTINGS, b""))]),
        all(0, [bytes(BIDI, &[1, 5, 0]), Script::new(&[FINISH, 1])]),
        all(0, [section(b"\x02\x00\x80", &[], 0), get()]),
        all(0, [section(b"\x00\x00\xd1", &[], 0), bomb(), get()]),
        all(0, [fields(&[("host", "b")]), fields(&[("Upper", "x")]), fields(&[("te", "x"), ("connection", "close")])]),
        all(0, [fields(&[("content-length", "5")]), fields(&[("x", "a\r\nb")]), fields(&[("a", &long)])]),
        all(0, [get(), again(40)]),
        all(0, [control(0x21, b""), again(140)]),
        all(0, [bytes(BIDI, &testing::request("/", &[])), frame(1, DATA, b""), again(140)]),
        all(0, [bytes(BIDI, b"\x01\x80\x01\x00\x00"), again(40)]),
        all(0, [bytes(BIDI, b"\x01\x7f\xff\x00\x00\xd1\xd7\x50\x01a\xc1"), bytes(MORE, b"\x01"), again(9)]),
    ]
}
