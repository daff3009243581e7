//! HTTP/2: a client that makes frames, and a server that answers, both as the input asks.
//!
//! What leaves is read again: frames are whole, none is larger than its grant, none belongs to a stream that is over, and no client has more
//! of it than its windows and its own frames account for.

use std::collections::BTreeMap;

use http::http1::{Limits, parse_request};
use mux::testing::{self, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, PRIORITY_UPDATE};
use mux::testing::{RST_STREAM, SETTINGS, WINDOW_UPDATE, block, frame};
use mux::{Broken, Event, FRAME_HEADER_BYTES, Flood, STREAMS_MAX, Session, Settings, Stop};
use units::Nanos;

use super::bodies::Body;
use crate::{Input, Reached, Script, Target};

pub const TARGET: Target = Target {
    name: "mux",
    run,
    reaches: &[
        "a stream closed",
        "a wish changed",
        "anything after the end",
        "flood of cancelled streams",
        "flood of control frames",
        "flood of parts of a head",
        "flood of stream errors",
        "flood of updates",
        "head beyond the limit",
        "mistake",
        "request",
        "request refused by its head",
        "reset by the server",
        "response whole",
        "server says farewell",
        "source failed",
        "source has nothing",
        "stream refused",
        "stream window shut",
        "window shut",
    ],
    seeds,
    mutants: 5_000,
};

/// The part of the input that is an operation.
const RAW: u8 = 0;
const FRAME: u8 = 1;
const REQUEST: u8 = 2;
const AGAIN: u8 = 3;
const PASS: u8 = 4;
const WRITE: u8 = 5;
const RESPOND: u8 = 6;
const CANCEL: u8 = 7;
const GO_AWAY: u8 = 8;
const FIELDS: u8 = 9;
const BLOCK: u8 = 10;
const CUT: u8 = 11;
const OPERATIONS: u8 = 12;

/// The first byte of an input: the client begins with something else than the preface.
const HAS_NO_PREFACE: u8 = 1;

/// Among the flags of a request's frame, where HTTP/2 has none: the client cancels it at once, or opens its window too far.
const IS_CANCELLED: u8 = 0x80;
const IS_WIDENED: u8 = 0x40;

/// How often [`AGAIN`] says the same for each of its units.
const AGAIN_UNIT: usize = 8;
/// Bytes that a client sends in one run.
const WIRE_BYTES_MAX: usize = 1 << 20;
/// Bytes of answers, for each that has come and beside them: SETTINGS, GOAWAY with its text.
const ANSWER_FACTOR: usize = 4;
const ANSWER_BYTES: usize = 256;
/// The head of a response in a run.
const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nServer: weir\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n";
const HEAD_BYTES_MAX: usize = 128;
/// A field of the engine's, beyond the limit of a head.
const FIELD_BYTES_MAX: usize = 80 << 10;
/// Grants of the last round, for each stream.
const LAST_GRANTS: usize = 64;

/// A stream as its server knows it.
#[derive(Default)]
struct Stream {
    body: Option<Body>,
    has_responded: bool,
    /// By either side, as an event said, or because all of it was sent.
    is_closed: bool,
    /// What it was said to be: END_STREAM or RST_STREAM has left.
    is_over: bool,
}

struct Server {
    session: Session,
    now: Nanos,
    out: Vec<u8>,
    streams: BTreeMap<u32, Stream>,
    /// Of those that were asked for or closed.
    highest: u32,
    is_broken: bool,
    /// Answers that are accounted for.
    allowance: usize,
    wire_bytes: usize,
    cut: usize,
    next: u32,
    last: Last,
    reached: Reached,
}

/// What [`AGAIN`] says again.
#[derive(Clone)]
enum Last {
    Bytes(Vec<u8>),
    /// With a number of its own each time.
    Request(u8, Vec<u8>),
}

impl Server {
    fn new() -> Server {
        Server {
            session: Session::new(&Settings::default()),
            now: Nanos::ZERO,
            out: Vec::new(),
            streams: BTreeMap::new(),
            highest: 0,
            is_broken: false,
            allowance: ANSWER_BYTES,
            wire_bytes: 0,
            cut: usize::MAX,
            next: 1,
            last: Last::Bytes(Vec::new()),
            reached: Reached::default(),
        }
    }

    fn receive(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(self.cut) {
            self.wire_bytes += piece.len();
            if self.wire_bytes > WIRE_BYTES_MAX {
                return;
            }
            self.receive_piece(piece);
        }
    }

    fn receive_piece(&mut self, bytes: &[u8]) {
        let had_ended = self.is_broken;
        let taken = self.session.receive(self.now, bytes, &mut self.out);
        self.allowance += ANSWER_FACTOR * bytes.len();
        if had_ended {
            assert!(taken.is_ok() && self.out.is_empty(), "an end is told once");
            self.reached.mark("anything after the end");
        }
        if let Err(broken) = taken {
            self.is_broken = true;
            self.reached.mark(name(&broken));
            assert!(self.session.has_ended(), "{broken}");
        }
        self.look(None, 0);
        self.events();
    }

    fn events(&mut self) {
        while let Some(event) = self.session.event() {
            match event {
                Event::Request { stream, head } => self.request(stream, &head),
                // Perhaps of a stream whose request is still to come (RFC 9218 section 7.1).
                Event::Priority { .. } => self.reached.mark("a wish changed"),
                Event::Closed { stream } => {
                    self.reached.mark("a stream closed");
                    // One whose request was not whole, or malformed, was never told of: it may not come later.
                    self.highest = self.highest.max(stream);
                    if let Some(known) = self.streams.get_mut(&stream) {
                        assert!(!known.is_closed, "{stream} is closed twice");
                        known.is_closed = true;
                    }
                    assert_eq!(self.session.stream_window(stream), None, "{stream} is closed and has a window");
                }
            }
        }
        let open = self.streams.values().filter(|stream| !stream.is_closed).count();
        assert!(open <= STREAMS_MAX as usize, "{open} streams are open");
    }

    fn request(&mut self, stream: u32, head: &[u8]) {
        self.reached.mark("request");
        assert!(stream > self.highest && stream % 2 == 1, "request {stream} behind {}", self.highest);
        self.highest = stream;
        self.streams.insert(stream, Stream::default());
        let limits = Limits::default();
        assert!(head.len() <= limits.head_bytes_max + FIELD_BYTES_MAX, "a head of {} bytes", head.len());
        match parse_request(head, &limits) {
            Ok(Some(parsed)) => assert_eq!(parsed.bytes, head.len(), "a head ends where it says"),
            Ok(None) => panic!("a head without an end: {:?}", String::from_utf8_lossy(head)),
            Err(_) if head.len() >= limits.head_bytes_max => self.reached.mark("head beyond the limit"),
            Err(_) => self.reached.mark("request refused by its head"),
        }
    }

    /// Reads what has left; `granted` is the stream whose turn it was, with its room.
    fn look(&mut self, granted: Option<u32>, room: usize) -> u64 {
        let mut content = 0;
        let mut others = 0;
        let frames = testing::frames(&mut self.out);
        assert!(self.out.is_empty(), "frames are made whole");
        for (kind, flags, stream, payload) in frames {
            let bytes = FRAME_HEADER_BYTES + payload.len();
            if let Some(known) = self.streams.get_mut(&stream) {
                assert!(
                    !known.is_over || matches!(kind, RST_STREAM | WINDOW_UPDATE),
                    "{kind} on {stream}, which is over"
                );
                known.is_over |= kind == RST_STREAM || (matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0);
            }
            match kind {
                DATA => {
                    assert_eq!(Some(stream), granted, "content of a stream that was not granted");
                    content += bytes;
                }
                HEADERS => assert!(self.streams[&stream].has_responded, "a head for {stream} from nowhere"),
                RST_STREAM if payload[..] == [0, 0, 0, 7] => self.reached.mark("stream refused"),
                RST_STREAM => self.reached.mark("reset by the server"),
                GOAWAY => self.reached.mark("server says farewell"),
                _ => {}
            }
            others += if kind == DATA { 0 } else { bytes };
        }
        assert!(content <= room, "{content} bytes in a room of {room}");
        assert!(others <= self.allowance, "{others} bytes of answers, {} are accounted for", self.allowance);
        self.allowance -= others;
        content as u64
    }

    /// The stream of this place among all that were asked for.
    fn nth(&self, place: u8) -> Option<u32> {
        let count = self.streams.len().max(1);
        self.streams.keys().nth(usize::from(place) % count).copied()
    }

    fn respond(&mut self, stream: u32, choice: u8) {
        let known = self.streams.get_mut(&stream).expect("a stream that was asked for");
        if known.has_responded || known.is_closed {
            return;
        }
        known.has_responded = true;
        let has_body = choice & 0x40 == 0;
        known.body = has_body.then(|| Body::new(choice));
        self.session.respond(stream, HEAD, has_body);
        self.allowance += HEAD_BYTES_MAX;
    }

    fn write(&mut self, stream: u32, room: usize) -> Option<Stop> {
        let known = self.streams.get_mut(&stream).expect("a stream that was asked for");
        let mut body = known.body.take()?;
        let windows = self.session.stream_window(stream).unwrap_or(0).min(self.session.window());
        let written = self.session.write(stream, room, &mut body, &mut self.out);
        self.allowance += 2 * ANSWER_BYTES;
        let framed = self.look(Some(stream), room);
        assert!(written.bytes <= windows.into(), "{} bytes in windows of {windows}", written.bytes);
        assert!(written.bytes <= framed, "{} bytes said, {framed} made", written.bytes);
        let known = self.streams.get_mut(&stream).expect("it is still there");
        assert!(written.bytes == 0 || !known.is_closed, "content of {stream}, which is closed");
        match written.stop {
            Stop::Room => {}
            Stop::End => self.reached.mark("response whole"),
            Stop::Source => self.reached.mark("source has nothing"),
            Stop::Failed => self.reached.mark("source failed"),
            Stop::StreamWindow => self.reached.mark("stream window shut"),
            Stop::Window => self.reached.mark("window shut"),
            Stop::Closed => assert_eq!(written.bytes, 0),
        }
        if !matches!(written.stop, Stop::End | Stop::Failed | Stop::Closed) {
            known.body = Some(body);
        }
        self.events();
        Some(written.stop)
    }

    /// What the session has to say for itself.
    fn say(&mut self) {
        self.session.control(&mut self.out);
        self.look(None, 0);
        self.events();
    }

    fn send_request(&mut self, flags: u8, fields: Vec<u8>) {
        let stream = self.next;
        self.next = self.next.wrapping_add(2);
        self.receive(&frame(HEADERS, flags & !(IS_CANCELLED | IS_WIDENED), stream, &fields));
        if flags & IS_WIDENED != 0 {
            self.receive(&frame(WINDOW_UPDATE, 0, stream, &[0x7f, 0xff, 0xff, 0xff]));
        }
        if flags & IS_CANCELLED != 0 {
            self.receive(&frame(RST_STREAM, 0, stream, &[0, 0, 0, 8]));
        }
        self.last = Last::Request(flags, fields);
    }

    fn again(&mut self, count: usize) {
        for _ in 0..count {
            match self.last.clone() {
                _ if self.is_broken => return,
                Last::Bytes(bytes) => self.receive(&bytes),
                Last::Request(flags, fields) => self.send_request(flags, fields),
            }
        }
    }

    fn finish(&mut self) {
        let streams: Vec<u32> = self.streams.keys().copied().collect();
        for &stream in &streams {
            self.respond(stream, 3);
        }
        for &stream in &streams {
            for _ in 0..LAST_GRANTS {
                if self.write(stream, 1448) != Some(Stop::Room) {
                    break;
                }
            }
        }
        self.session.go_away();
        self.allowance += ANSWER_BYTES;
        self.say();
        let unanswered = self.streams.values().filter(|stream| !stream.has_responded && !stream.is_closed).count();
        assert_eq!(unanswered, 0);
    }
}

fn name(broken: &Broken) -> &'static str {
    match broken {
        Broken::Protocol(_) => "mistake",
        Broken::Flood(Flood::Control) => "flood of control frames",
        Broken::Flood(Flood::Updates) => "flood of updates",
        Broken::Flood(Flood::Resets) => "flood of cancelled streams",
        Broken::Flood(Flood::Provoked) => "flood of stream errors",
        Broken::Flood(Flood::Continuations) => "flood of parts of a head",
        Broken::Flood(Flood::Unread) => "flood of answers unread",
    }
}

fn run(bytes: &[u8]) -> Reached {
    let mut input = Input::new(bytes);
    let mut server = Server::new();
    if input.byte() & HAS_NO_PREFACE == 0 {
        server.receive(&testing::hello());
    }
    while !input.is_empty() {
        step(&mut server, &mut input);
    }
    server.finish();
    server.reached
}

fn step(server: &mut Server, input: &mut Input<'_>) {
    match input.byte() % OPERATIONS {
        RAW => server.send(input.text().to_vec()),
        FRAME => {
            let (kind, flags, stream) = (input.byte(), input.byte(), u32::from(input.short()));
            let payload = input.text();
            server.send(frame(kind, flags, stream, payload));
        }
        REQUEST => {
            let flags = input.byte();
            let fields = [&testing::GET[..], &[(":path", "/x")]].concat();
            server.send_request(flags, block(&fields));
        }
        AGAIN => {
            let count = AGAIN_UNIT * usize::from(input.byte());
            server.again(count);
        }
        PASS => server.now += Nanos::from_millis(input.short().into()),
        WRITE => {
            let (place, room) = (input.byte(), input.short());
            if let Some(stream) = server.nth(place) {
                server.write(stream, room.into());
            }
        }
        RESPOND => {
            let (place, choice) = (input.byte(), input.byte());
            if let Some(stream) = server.nth(place) {
                server.respond(stream, choice);
                server.say();
            }
        }
        CANCEL => {
            if let Some(stream) = server.nth(input.byte()) {
                server.session.cancel(stream);
                server.allowance += ANSWER_BYTES;
                server.say();
            }
        }
        GO_AWAY => {
            server.session.go_away();
            server.allowance += ANSWER_BYTES;
            server.say();
        }
        FIELDS => {
            let (flags, count) = (input.byte(), input.byte() % 8);
            let fields: Vec<u8> = (0..count).flat_map(|_| literal(input.text(), input.text())).collect();
            server.send_request(flags, fields);
        }
        BLOCK => {
            let (flags, fields) = (input.byte(), input.text().to_vec());
            server.send_request(flags, fields);
        }
        _ => server.cut = Some(input.byte()).filter(|bytes| *bytes > 0).map_or(usize::MAX, usize::from),
    }
}

impl Server {
    fn send(&mut self, bytes: Vec<u8>) {
        self.receive(&bytes);
        self.last = Last::Bytes(bytes);
    }
}

/// A field without indexing (RFC 7541 section 6.2.2), of up to 126 bytes each.
fn literal(name: &[u8], value: &[u8]) -> Vec<u8> {
    let text = |text: &[u8]| {
        let kept = &text[..text.len().min(126)];
        [&[kept.len() as u8][..], kept].concat()
    };
    [&[0][..], &text(name), &text(value)].concat()
}

/// Programs of a client and its server.
mod say {
    use super::*;

    pub fn frame(kind: u8, flags: u8, stream: u16, payload: &[u8]) -> Script {
        Script::new(&[FRAME, kind, flags]).short(stream).text(payload)
    }

    pub fn request(flags: u8) -> Script {
        Script::new(&[REQUEST, flags])
    }

    pub fn fields(flags: u8, fields: &[(&str, &str)]) -> Script {
        let begin = Script::new(&[FIELDS, flags, fields.len() as u8]);
        fields.iter().fold(begin, |said, (name, value)| said.text(name.as_bytes()).text(value.as_bytes()))
    }

    pub fn again(units: u8) -> Script {
        Script::new(&[AGAIN, units])
    }

    pub fn respond(place: u8, choice: u8) -> Script {
        Script::new(&[RESPOND, place, choice])
    }

    pub fn write(place: u8, room: u16) -> Script {
        Script::new(&[WRITE, place]).short(room)
    }

    pub fn all(said: impl IntoIterator<Item = Script>) -> Vec<u8> {
        said.into_iter().fold(Script::new(&[0]), Script::then).done()
    }
}

const WHOLE: u8 = END_HEADERS | END_STREAM;
const PATH: [(&str, &str); 4] = [(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/x")];

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = conversations();
    seeds.extend(floods());
    seeds
}

fn conversations() -> Vec<Vec<u8>> {
    use say::{all, fields, frame, request, respond, write};
    let wide =
        || frame(SETTINGS, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff]).then(frame(WINDOW_UPDATE, 0, 0, &[0x7f, 0, 0, 0]));
    let with = |more: &[(&'static str, &'static str)]| fields(WHOLE, &[&PATH[..], more].concat());
    let cut = |bytes: u8| Script::new(&[CUT, bytes]);
    vec![
        all([request(WHOLE), respond(0, 4), write(0, 1448), write(0, 1448)]),
        all([wide(), request(WHOLE), request(WHOLE), respond(0, 6), respond(1, 5), write(1, 1448), write(0, 9000)]),
        all([cut(1), with(&[("priority", "u=1, i")]), frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\x01u=6"), respond(0, 2)]),
        all([frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 100]), request(WHOLE), respond(0, 4), write(0, 5000)]),
        all([wide(), request(WHOLE), respond(0, 0x0d), write(0, 100), write(0, 100), respond(0, 0x34)]),
        all([request(WHOLE), respond(0, 0x34), write(0, 9000), request(WHOLE), respond(1, 0x40)]),
        all([request(WHOLE), Script::new(&[CANCEL, 0]), request(WHOLE), respond(1, 7), Script::new(&[GO_AWAY])]),
        all([request(END_HEADERS), frame(DATA, 0, 1, b"body"), frame(DATA, END_STREAM, 1, b""), respond(0, 1)]),
        all([request(END_HEADERS), respond(0, 3), write(0, 500), frame(DATA, 0, 1, &[7; 100])]),
        all([with(&[("host", "b")]), with(&[("range", "bytes=0-1"), ("if-none-match", "\"v1\"")])]),
        all([with(&[("content-length", "5")]), fields(WHOLE, &[(":method", "CONNECT"), (":authority", "a:1")])]),
        all([fields(END_STREAM, &PATH), frame(CONTINUATION, END_HEADERS, 1, &block(&[("a", "b")])), respond(0, 2)]),
        all([request(WHOLE), frame(GOAWAY, 0, 0, &[0; 8]), respond(0, 3)]),
        all([request(WHOLE), frame(WINDOW_UPDATE, 0, 1, &[0x7f, 0xff, 0xff, 0xff]), respond(0, 7)]),
        all([request(WHOLE), frame(DATA, 0, 1, b"late"), request(WHOLE)]),
        all([frame(SETTINGS, 0, 0, &[0, 1, 0, 0, 0, 0, 0, 5, 0, 0, 0x40, 0]), request(WHOLE), respond(0, 3)]),
        // Another version, and HPACK with indices, Huffman's code and a table that shrinks.
        Script::new(&[HAS_NO_PREFACE, RAW]).text(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").done(),
        all([Script::new(&[BLOCK, WHOLE])
            .text(b"\x82\x87\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff\x20\xbe")]),
        all([Script::new(&[BLOCK, WHOLE])
            .text(&[&b"\x82\x87\x84\x41\x01a\x40\x01a\x7f\x21"[..], &[b'x'; 160], &[0xbe; 40]].concat())]),
    ]
}

fn floods() -> Vec<Vec<u8>> {
    use say::{again, all, fields, frame, request, respond};
    let pass = || Script::new(&[PASS]).short(2000);
    vec![
        all([frame(PING, 0, 0, &[7; 8]), again(200)]),
        all([frame(PING, 0, 0, &[7; 8]), again(100), pass(), frame(SETTINGS, 0, 0, &[]), again(130)]),
        all([request(WHOLE), frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\x01u=1"), again(130)]),
        all([request(WHOLE), frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]), again(140)]),
        all([request(WHOLE | IS_CANCELLED), again(26)]),
        all([request(END_HEADERS), frame(DATA, 0, 1, b"x"), again(130)]),
        all([request(WHOLE), again(20), respond(0, 3), request(WHOLE)]),
        all([request(WHOLE | IS_WIDENED), again(13)]),
        all([fields(0, &PATH), frame(CONTINUATION, 0, 1, b""), again(2)]),
        // More streams than may be open, and each that is refused costs one.
        all([request(WHOLE), again(40)]),
        // A head beyond the limit, by an entry of the table that is named over and over.
        all([Script::new(&[BLOCK, END_STREAM])
            .text(&[&b"\x82\x87\x84\x41\x01a\x40\x01a\x7f\x21"[..], &[b'x'; 160]].concat())
            .then(frame(CONTINUATION, END_HEADERS, 1, &[0xbe; 120]))]),
    ]
}
