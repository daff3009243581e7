//! Tests a client's session against a server's, and against servers written out as bytes.

use std::net::{IpAddr, Ipv4Addr};

use http::gateway::{Gateway, RequestHead};
use http::http1::parse_request;
use http::http1::upstream::{Framing, UpstreamFault};
use http::{BodyLength, Trailers};
use units::memory::Account;

use super::*;
use crate::{BODY_BYTES_MAX, BodyRead, Closed, STREAMS_MAX};

const PROTOCOL_ERROR: u8 = 1;
const ENHANCE_YOUR_CALM: u8 = 11;

/// Returns a request for `/a`.
pub(super) fn request_head(method: &str) -> (Method, RequestHead) {
    let bytes = format!("{method} /a HTTP/1.1\r\nHost: a\r\nTE: trailers\r\n\r\n");
    let head = parse_request(bytes.as_bytes(), &http::Limits::default()).unwrap().expect("a whole head");
    let gateway = Gateway {
        client: IpAddr::V4(Ipv4Addr::LOCALHOST),
        client_port: None,
        is_secure: false,
        is_trusted: false,
        claimed_client: None,
        host: None,
        version: (1, 1),
        is_upgrade: false,
        websocket_key: None,
        changes: &[],
    };
    (head.request.method, RequestHead::new(&head.request, &gateway, BodyLength::Unknown, "http"))
}

/// A source of bytes, with trailers.
struct Content {
    bytes: Vec<u8>,
    at: usize,
    /// The number of bytes that are available.
    come: usize,
    trailers: Option<Box<Trailers>>,
}

impl Content {
    fn new(bytes: usize) -> Content {
        Content { bytes: (0..bytes).map(|at| (at % 251) as u8).collect(), at: 0, come: bytes, trailers: None }
    }

    fn with(self, name: &str, value: &str) -> Content {
        let trailers = Trailers::of(std::iter::once((name.as_bytes(), value.as_bytes()))).unwrap();
        Content { trailers, ..self }
    }
}

impl Source for Content {
    fn peek(&mut self, into: &mut Vec<u8>, bytes_max: usize) -> Supply {
        let end = self.come.min(self.at + bytes_max);
        into.extend_from_slice(&self.bytes[self.at..end]);
        match end {
            end if end == self.bytes.len() => Supply::End,
            end if end == self.come => Supply::Later,
            _ => Supply::More,
        }
    }

    fn advance(&mut self, bytes: usize) {
        self.at += bytes;
    }

    fn trailers(&mut self) -> Option<Box<Trailers>> {
        self.trailers.take()
    }
}

/// A client and its server, connected directly.
struct Pair {
    client: ClientSession,
    server: Session,
    up: Vec<u8>,
    down: Vec<u8>,
}

impl Pair {
    fn new() -> Pair {
        Pair::of(Settings::default())
    }

    fn of(settings: Settings) -> Pair {
        let (client, server) = (ClientSession::new(&ClientSettings::default()), Session::new(&settings));
        let mut pair = Pair { client, server, up: Vec::new(), down: Vec::new() };
        pair.exchange();
        pair
    }

    /// Exchanges frames until neither has anything to send.
    fn exchange(&mut self) {
        loop {
            self.client.control(&mut self.up);
            self.server.control(&mut self.down);
            if self.up.is_empty() && self.down.is_empty() {
                return;
            }
            let (up, down) = (std::mem::take(&mut self.up), std::mem::take(&mut self.down));
            self.server.receive(Nanos(0), &up, &mut self.down).expect("a client as it should be");
            self.client.receive(Nanos(0), &down, &mut self.up).expect("a server as it should be");
        }
    }

    fn ask(&mut self, method: &str, has_body: bool) -> u32 {
        let (method, head) = request_head(method);
        let stream = self
            .client
            .request(Nanos(0), method, &head, has_body, &Account::default(), &mut self.up)
            .expect("it takes requests");
        self.exchange();
        stream
    }

    /// Returns the request that has arrived.
    fn asked(&mut self) -> (u32, Box<http::OwnedRequest>) {
        loop {
            match self.server.event() {
                Some(Event::Request { stream, request: Ok(request) }) => return (stream, request),
                Some(_) => {}
                None => panic!("no request"),
            }
        }
    }

    fn answer(&mut self, stream: u32, head: &ResponseHead, content: &mut Content) -> Stop {
        assert!(self.server.respond(stream, head, true));
        let written = self.server.write(stream, 1 << 20, content, &mut self.down);
        self.exchange();
        written.stop
    }

    fn read(&mut self, stream: u32, bytes_max: usize) -> (Vec<u8>, BodyRead) {
        let mut into = Vec::new();
        let read = self.client.read_body(Nanos(0), stream, &mut into, bytes_max);
        self.exchange();
        (into, read)
    }
}

fn status(status: Status) -> ResponseHead {
    Response::new(status, ()).into_head(&HttpDate::new(UNIX_EPOCH)).0
}

#[test]
fn a_response_comes_with_its_body_and_trailers() {
    let mut pair = Pair::new();
    assert_eq!(pair.ask("GET", false), 1);
    let (stream, request) = pair.asked();
    let view = request.view();
    assert_eq!((view.method, view.path, view.fields.host), (Method::Get, &b"/a"[..], Some(&b"a"[..])));
    assert_eq!(view.values("te").collect::<Vec<_>>(), [b"trailers"]);
    let mut content = Content::new(3000).with("grpc-status", "0");
    assert_eq!(pair.answer(stream, &status(Status::OK), &mut content), Stop::End);
    assert_eq!((pair.client.news(), pair.client.news()), (Some(1), None));
    let head = pair.client.take_head(1).unwrap().unwrap();
    assert_eq!((head.status, head.framing, pair.client.take_head(1)), (Status::OK, Framing::Stream, None));
    assert_eq!(pair.client.closed(1), Some(Closed::Whole));
    assert_eq!(pair.read(1, 1000), (content.bytes[..1000].to_vec(), BodyRead::More));
    assert_eq!(pair.read(1, 9000), (content.bytes[1000..].to_vec(), BodyRead::End));
    let trailers = pair.client.take_trailers(1).expect("they came");
    assert_eq!(trailers.fields().collect::<Vec<_>>(), [(&b"grpc-status"[..], &b"0"[..])]);
    pair.client.leave(1);
    pair.exchange();
    assert_eq!((pair.client.closed(1), pair.client.body_bytes()), (None, 0));
    assert_eq!(pair.ask("GET", false), 3, "nothing was wrong");
}

/// A response of trailers alone, in gRPC's terms.
#[test]
fn a_response_may_be_its_head() {
    let mut pair = Pair::new();
    pair.ask("POST", true);
    let stream = pair.asked().0;
    assert!(pair.server.respond(stream, &status(Status::OK), false));
    pair.exchange();
    let head = pair.client.take_head(1).unwrap().unwrap();
    assert_eq!((head.framing, pair.read(1, 9)), (Framing::None, (Vec::new(), BodyRead::End)));
    assert_eq!(pair.client.closed(1), None, "its request goes on");
}

/// Trailers without a body, and a head that declares the body's length.
#[test]
fn trailers_may_follow_nothing() {
    let mut pair = Pair::new();
    pair.ask("GET", false);
    let stream = pair.asked().0;
    assert_eq!(pair.answer(stream, &status(Status::OK), &mut Content::new(0).with("a", "b")), Stop::End);
    assert!(pair.client.take_head(1).unwrap().is_ok());
    assert_eq!(pair.read(1, 9), (Vec::new(), BodyRead::End));
    assert!(pair.client.take_trailers(1).is_some());
}

#[test]
fn what_nobody_reads_holds_its_stream_and_no_other() {
    let mut pair = Pair::new();
    let mut contents: Vec<Content> = (0..STREAMS_MAX).map(|_| Content::new(3 * BODY_BYTES_MAX)).collect();
    for content in &mut contents {
        pair.ask("GET", false);
        let stream = pair.asked().0;
        assert_eq!(pair.answer(stream, &status(Status::OK), content), Stop::StreamWindow);
        assert!(content.at < BODY_BYTES_MAX);
    }
    assert!(pair.client.body_bytes() <= crate::BODIES_BYTES_MAX);
    assert_eq!(pair.client.streams_max(), STREAMS_MAX);
    // The stream that is read goes on.
    let (mut came, mut read) = (Vec::new(), BodyRead::More);
    while read != BodyRead::End {
        let (part, next) = pair.read(5, 10_000);
        came.extend(part);
        pair.server.write(5, 1 << 20, &mut contents[2], &mut pair.down);
        pair.exchange();
        read = next;
    }
    assert!(came == contents[2].bytes && contents[1].at < BODY_BYTES_MAX);
}

#[test]
fn a_request_is_held_by_its_server() {
    let mut pair = Pair::new();
    pair.ask("POST", true);
    let stream = pair.asked().0;
    assert!(pair.server.want_body(stream));
    let mut content = Content::new(200_000);
    content.come = 10;
    let write = |pair: &mut Pair, content: &mut Content| {
        let written = pair.client.write(1, 1 << 20, content, &mut pair.up);
        pair.exchange();
        written
    };
    assert_eq!(write(&mut pair, &mut content), Written { bytes: 10, stop: Stop::Source });
    content.come = content.bytes.len();
    assert_eq!(write(&mut pair, &mut content).stop, Stop::Window, "of the connection and the stream alike");
    assert_eq!(pair.client.window(1), Some(0));
    // The response may start earlier.
    assert!(pair.server.respond(stream, &status(Status::OK), true));
    let mut came = Vec::new();
    loop {
        let read = pair.server.read_body(stream, &mut came, 5000);
        pair.exchange();
        if read == BodyRead::End {
            break;
        }
        write(&mut pair, &mut content);
    }
    assert!(came == content.bytes);
    assert!(pair.client.take_head(1).unwrap().is_ok());
}

#[test]
fn what_is_not_wanted_is_cancelled_and_the_connection_stays() {
    let mut pair = Pair::new();
    pair.ask("GET", false);
    let stream = pair.asked().0;
    assert_eq!(pair.answer(stream, &status(Status::OK), &mut Content::new(100_000)), Stop::StreamWindow);
    pair.client.leave(1);
    pair.exchange();
    assert_eq!(pair.client.body_bytes(), 0);
    assert!(std::iter::from_fn(|| pair.server.event()).any(|event| event == Event::Closed { stream }));
    assert_eq!(pair.ask("GET", false), 3);
}

#[test]
fn a_server_says_how_many_streams_it_takes_and_when_it_leaves() {
    let mut pair = Pair::of(Settings { streams_max: 7, ..Settings::default() });
    assert_eq!(pair.client.streams_max(), 7);
    pair.ask("GET", false);
    pair.server.go_away();
    pair.exchange();
    assert_eq!((pair.client.streams_max(), pair.client.is_leaving()), (0, true));
    let (method, head) = request_head("GET");
    assert_eq!(pair.client.request(Nanos(0), method, &head, false, &Account::default(), &mut pair.up), None);
    let stream = pair.asked().0;
    assert_eq!(pair.answer(stream, &status(Status::OK), &mut Content::new(10)), Stop::End, "what was begun ends");
    assert_eq!(pair.read(1, 100).0.len(), 10);
    assert!(pair.client.has_ended());
}

#[test]
fn a_client_says_farewell() {
    let mut pair = Pair::new();
    pair.client.end(&mut pair.up);
    pair.exchange();
    assert!(pair.client.has_ended() && pair.server.has_ended());
}

/// A server written out as bytes.
struct Server {
    client: ClientSession,
    out: Vec<u8>,
}

impl Server {
    /// Creates the server of a client with requests on this many streams.
    fn asked(streams: u32) -> Server {
        let mut client = ClientSession::new(&ClientSettings::default());
        let mut out = Vec::new();
        client.control(&mut out);
        assert!(out.starts_with(PREFACE));
        let (method, head) = request_head("GET");
        for _ in 0..streams {
            assert!(client.request(Nanos(0), method, &head, false, &Account::default(), &mut out).is_some());
        }
        let mut server = Server { client, out: out.split_off(PREFACE.len()) };
        server.say(&frame(SETTINGS, 0, 0, &[])).unwrap();
        let kinds: Vec<_> = server.frames().iter().map(|frame| (frame.0, frame.2)).collect();
        assert_eq!(kinds[..2], [(SETTINGS, 0), (WINDOW_UPDATE, 0)]);
        assert_eq!(kinds.iter().filter(|(kind, _)| *kind == HEADERS).count(), streams as usize);
        server
    }

    fn say(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        self.client.receive(Nanos(0), bytes, &mut self.out)
    }

    fn frames(&mut self) -> Vec<testing::Came> {
        testing::frames(&mut self.out)
    }

    /// The last frame it received: kind, stream, and the last byte of the payload.
    fn last(&mut self) -> Option<(u8, u32, u8)> {
        self.frames().last().map(|(kind, _, stream, payload)| (*kind, *stream, payload.last().copied().unwrap_or(0)))
    }

    fn news(&mut self) -> Vec<u32> {
        std::iter::from_fn(|| self.client.news()).collect()
    }
}

fn answer(flags: u8, stream: u32, fields: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | flags, stream, &block(fields))
}

#[test]
fn a_cut_is_no_end() {
    for cut in [
        // A reset, an end before the declared length, and an end after it.
        frame(RST_STREAM, 0, 1, &[0, 0, 0, 2]),
        frame(DATA, END_STREAM, 1, b"x"),
        frame(DATA, END_STREAM, 1, b"hello and more"),
    ] {
        let mut server = Server::asked(1);
        server.say(&answer(0, 1, &[(":status", "200"), ("content-length", "5")])).unwrap();
        server.say(&frame(DATA, 0, 1, b"hel")).unwrap();
        server.say(&cut).unwrap();
        assert!(server.client.take_head(1).unwrap().is_ok());
        let mut into = Vec::new();
        assert_eq!(server.client.read_body(Nanos(0), 1, &mut into, 100), BodyRead::Cut);
        let is_reset = matches!(server.client.closed(1), Some(Closed::Reset(2)));
        assert!(is_reset || matches!(server.client.take_head(1), Some(Err(_))), "{cut:?}");
        assert!(!server.client.has_ended(), "others go on");
    }
}

/// Servers that have answered send such resets if they want no more of the request.
#[test]
fn a_reset_behind_a_whole_response_costs_nothing() {
    let mut server = Server::asked(1);
    server.say(&answer(0, 1, &[(":status", "200")])).unwrap();
    server.say(&frame(DATA, END_STREAM, 1, b"hello")).unwrap();
    server.say(&frame(RST_STREAM, 0, 1, &[0, 0, 0, 0])).unwrap();
    let mut into = Vec::new();
    assert_eq!((server.client.read_body(Nanos(0), 1, &mut into, 100), &into[..]), (BodyRead::End, &b"hello"[..]));
}

#[test]
fn what_was_not_begun_may_be_sent_again() {
    let mut server = Server::asked(3);
    server.say(&frame(RST_STREAM, 0, 1, &[0, 0, 0, 7])).unwrap();
    assert_eq!(server.client.closed(1), Some(Closed::Refused));
    assert!(!server.client.leaves_after_some());
    // The server will answer no stream after the second.
    server.say(&frame(GOAWAY, 0, 0, &[0, 0, 0, 3, 0, 0, 0, 0])).unwrap();
    assert!(server.client.leaves_after_some());
    assert_eq!((server.client.closed(3), server.client.closed(5)), (None, Some(Closed::Refused)));
    assert_eq!(server.news(), [1, 5]);
    // One that processes none, or has found a mistake, is not at work.
    for payload in [[0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 1, 0, 0, 0, 11]] {
        let mut server = Server::asked(2);
        server.say(&frame(GOAWAY, 0, 0, &payload)).unwrap();
        assert!(!server.client.leaves_after_some() && server.client.closed(3) == Some(Closed::Refused), "{payload:?}");
    }
}

#[test]
fn interim_responses_come_before_the_final_one_and_are_bounded() {
    let hint = answer(0, 1, &[(":status", "103"), ("link", "</a>")]);
    let mut server = Server::asked(1);
    server.say(&hint).unwrap();
    server.say(&answer(END_STREAM, 1, &[(":status", "200")])).unwrap();
    let statuses = [0; 2].map(|_| server.client.take_head(1).unwrap().unwrap().status);
    assert_eq!((statuses, server.client.take_head(1)), ([Status::EARLY_HINTS, Status::OK], None));
    let mut server = Server::asked(1);
    server.say(&hint.repeat(17)).unwrap();
    let heads: Vec<_> = std::iter::from_fn(|| server.client.take_head(1)).collect();
    assert_eq!((heads.len(), heads[16].clone()), (17, Err(UpstreamFault("interim responses without end"))));
    assert_eq!(server.last(), Some((RST_STREAM, 1, PROTOCOL_ERROR)));
    // One that is read as it comes may be one of many.
    let mut server = Server::asked(1);
    for nth in 0..1001 {
        server.say(&hint).unwrap();
        assert_eq!(server.client.take_head(1).unwrap().is_ok(), nth < 1000, "{nth}");
    }
}

#[test]
fn a_response_that_is_none_is_reset() {
    let long = "x".repeat(50);
    let many: Vec<(&str, &str)> = std::iter::once((":status", "200")).chain([("a", long.as_str()); 201]).collect();
    for fields in [
        &[(":status", "99")][..],
        &[("a", "b")],
        &[(":status", "200"), ("content-length", "3"), ("content-length", "4")],
        &[(":status", "200"), ("connection", "close")],
        &[(":status", "200"), ("a b", "c")],
        &[(":status", "200"), ("a", "b\r\nc")],
        &many,
    ] {
        let mut server = Server::asked(1);
        server.say(&answer(END_STREAM, 1, fields)).unwrap();
        assert!(server.client.take_head(1).unwrap().is_err(), "{fields:?}");
        server.client.leave(1);
        let (method, head) = request_head("GET");
        assert_eq!(
            server.client.request(Nanos(0), method, &head, false, &Account::default(), &mut Vec::new()),
            Some(3),
            "{fields:?}"
        );
    }
}

/// These bytes used to be returned as the body.
#[test]
fn bytes_where_there_is_no_body_are_malformed() {
    let mut server = Server::asked(1);
    server.say(&answer(0, 1, &[(":status", "204")])).unwrap();
    assert!(server.client.take_head(1).unwrap().is_ok());
    server.say(&frame(DATA, 0, 1, b"hello")).unwrap();
    assert!(server.client.take_head(1).unwrap().is_err());
    assert_eq!(server.last(), Some((RST_STREAM, 1, PROTOCOL_ERROR)));
}

#[test]
fn floods_end_the_connection() {
    for (flood, count) in [
        (frame(PING, 0, 0, &[0; 8]), 1001),
        (frame(SETTINGS, 0, 0, &[]), 1001),
        (frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]), 1001),
        (frame(DATA, 0, 1, &[]), 1001),
    ] {
        let mut server = Server::asked(1);
        server.say(&answer(0, 1, &[(":status", "200")])).unwrap();
        let error = server.say(&flood.repeat(count)).unwrap_err();
        assert!(matches!(error, Broken::Flood(_)), "{error}");
        assert_eq!(server.frames().last().map(|frame| (frame.0, frame.3[7])), Some((GOAWAY, ENHANCE_YOUR_CALM)));
        assert!(server.client.has_ended() && server.client.streams_max() == 0);
    }
}

/// A gRPC server sends each message as a frame, and may refuse each request.
#[test]
fn small_messages_and_refusals_are_no_flood() {
    let mut server = Server::asked(1);
    server.say(&answer(0, 1, &[(":status", "200")])).unwrap();
    for _ in 0..5000 {
        server.say(&frame(DATA, 0, 1, b"hello")).unwrap();
        let mut into = Vec::new();
        server.client.read_body(Nanos(0), 1, &mut into, 100);
        assert_eq!(into, b"hello");
    }
    let (method, head) = request_head("GET");
    for _ in 0..1000 {
        let stream =
            server.client.request(Nanos(0), method, &head, false, &Account::default(), &mut server.out).unwrap();
        server.say(&frame(RST_STREAM, 0, stream, &[0, 0, 0, 7])).unwrap();
        server.client.leave(stream);
    }
}

#[test]
fn a_server_that_pushes_or_speaks_something_else_is_none() {
    let mut server = Server::asked(1);
    let promise = [&[0, 0, 0, 2][..], &block(&[(":method", "GET"), (":path", "/b")])].concat();
    server.say(&frame(SETTINGS, 1, 0, &[])).unwrap();
    assert!(server.say(&frame(5, END_HEADERS, 1, &promise)).is_err());
    let mut client = ClientSession::new(&ClientSettings::default());
    assert!(client.receive(Nanos(0), b"HTTP/1.1 400 Bad Request\r\n\r\n", &mut Vec::new()).is_err());
    assert!(client.has_ended());
}

proptest! {
    /// No server causes a panic or growth past a limit.
    #[test]
    fn any_server_is_heard(pieces in prop::collection::vec((0u8..12, 0u8..6, 0u32..8, prop::collection::vec(any::<u8>(), 0..40)), 0..40)) {
        let mut server = Server::asked(2);
        for (kind, flags, stream, payload) in pieces {
            if server.say(&frame(kind, flags, stream, &payload)).is_err() {
                break;
            }
            for stream in server.news() {
                server.client.take_head(stream);
                server.client.read_body(Nanos(0), stream, &mut Vec::new(), 10);
            }
        }
        prop_assert!(server.client.body_bytes() <= 2 * BODY_BYTES_MAX);
        for stream in [1, 3] {
            server.client.leave(stream);
        }
        server.client.control(&mut server.out);
        prop_assert_eq!(server.client.body_bytes(), 0);
    }
}

#[test]
fn a_server_takes_tunnels_if_its_settings_say_so() {
    for has_tunnels in [false, true] {
        let pair = &mut Pair::of(Settings { has_tunnels, ..Settings::default() });
        assert_eq!(pair.client.takes_tunnels(), Some(has_tunnels));
    }
    assert_eq!(ClientSession::new(&ClientSettings::default()).takes_tunnels(), None, "nothing has arrived");
}
