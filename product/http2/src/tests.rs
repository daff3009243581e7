//! Tests sessions against a client written out as bytes.

mod bodies;
mod client;

use std::time::UNIX_EPOCH;

use http::{HttpDate, Method, Response, ResponseHead, Status};
use proptest::prelude::*;
use units::Nanos;

use super::*;
use crate::testing::{
    DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, PRIORITY_UPDATE, RST_STREAM, SETTINGS, WINDOW_UPDATE, block,
    frame, hello, wide,
};

const GET: [(&str, &str); 4] = [(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/x")];

/// Returns the head of a response.
fn head(status: Status) -> ResponseHead {
    Response::new(status, ()).with_length(3000).into_head(&HttpDate::new(UNIX_EPOCH)).0
}

fn request(stream: u32, more: &[(&str, &str)]) -> Vec<u8> {
    testing::request(stream, "/x", more)
}

struct Client {
    session: Session,
    out: Vec<u8>,
    seen: usize,
}

/// A source of this many bytes.
struct Plenty(u64);

impl Source for Plenty {
    fn peek(&mut self, into: &mut Vec<u8>, bytes_max: usize) -> Supply {
        let bytes = bytes_max.min(self.0 as usize);
        into.resize(into.len() + bytes, b'x');
        if self.0 == bytes as u64 { Supply::End } else { Supply::More }
    }

    fn advance(&mut self, bytes: usize) {
        self.0 -= bytes as u64;
    }
}

struct Never(Supply);

impl Source for Never {
    fn peek(&mut self, _into: &mut Vec<u8>, _bytes_max: usize) -> Supply {
        self.0
    }

    fn advance(&mut self, bytes: usize) {
        assert_eq!(bytes, 0, "it has none");
    }
}

impl Client {
    fn new() -> Client {
        let mut client = Client { session: Session::new(&Settings::default()), out: Vec::new(), seen: 0 };
        client.say(&hello()).unwrap();
        assert_eq!(client.kinds(), [(SETTINGS, 0), (SETTINGS, 0)], "its own, and the answer to the client's");
        client
    }

    fn say(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        self.session.receive(Nanos(0), bytes, &mut self.out)
    }

    fn write(&mut self, stream: u32, room: usize, source: &mut dyn Source) -> Written {
        self.session.write(stream, room, source, &mut self.out)
    }

    /// Returns the frames made since the last call: type, flags, stream, payload.
    fn frames(&mut self) -> Vec<(u8, u8, u32, Vec<u8>)> {
        let mut fresh = self.out[self.seen..].to_vec();
        let frames = testing::frames(&mut fresh);
        assert!(fresh.is_empty(), "frames are made whole");
        self.seen = self.out.len();
        frames
    }

    fn kinds(&mut self) -> Vec<(u8, u32)> {
        self.frames().into_iter().map(|(kind, _, stream, _)| (kind, stream)).collect()
    }

    fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.session.event()).collect()
    }

    /// Creates a client with a request sent and answered on each stream.
    fn asking(streams: &[u32]) -> Client {
        let mut client = Client::new();
        for stream in streams {
            client.say(&request(*stream, &[])).unwrap();
            assert!(client.session.respond(*stream, &head(Status::OK), true));
        }
        client.events();
        client
    }
}

#[test]
fn a_request_has_its_fields() {
    let mut client = Client::new();
    client.say(&request(1, &[("range", "bytes=0-1"), ("priority", "u=1, i")])).unwrap();
    let [Event::Request { stream: 1, request: Ok(request) }] = &client.events()[..] else { panic!("a request") };
    let view = request.view();
    assert_eq!((view.method, view.path, view.fields.range), (Method::Get, &b"/x"[..], Some(&b"bytes=0-1"[..])));
    let all: [(&[u8], &[u8]); 3] = [(b"host", b"a"), (b"range", b"bytes=0-1"), (b"priority", b"u=1, i")];
    assert_eq!(view.all().collect::<Vec<_>>(), all);
    assert_eq!(client.session.priority(1), Some(Priority { urgency: 1, is_incremental: true }));
    client.say(&frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\x01u=6")).unwrap();
    assert_eq!(client.events(), [Event::Priority { stream: 1 }]);
    assert_eq!(client.session.priority(1), Some(Priority { urgency: 6, is_incremental: false }));
    assert_eq!(client.session.priority(3), None);
}

#[test]
fn only_what_has_its_turn_is_made() {
    let mut client = Client::asking(&[1, 3]);
    let (mut first, mut second) = (Plenty(3000), Plenty(3000));
    let written = client.write(3, 1000, &mut second);
    assert_eq!(written.stop, Stop::Room);
    let frames = client.frames();
    let of_third: usize = frames.iter().filter(|frame| frame.2 == 3).map(|frame| frame.3.len() + 9).sum();
    assert_eq!(
        frames.iter().map(|frame| (frame.0, frame.2)).collect::<Vec<_>>(),
        [(HEADERS, 1), (HEADERS, 3), (DATA, 3)]
    );
    assert_eq!(written.bytes, frames[2].3.len() as u64);
    assert_eq!(of_third, 1000);
    assert_eq!(client.write(1, 109, &mut first), Written { bytes: 100, stop: Stop::Room });
    assert_eq!(client.kinds(), [(DATA, 1)]);
    let left = 3000 - written.bytes;
    assert_eq!(client.write(3, 9000, &mut second), Written { bytes: left, stop: Stop::End });
    let frames = client.frames();
    assert_eq!((frames.len(), frames[0].1, frames[0].3.len() as u64), (1, END_STREAM, left));
    assert_eq!(client.events(), [Event::Closed { stream: 3 }]);
}

#[test]
fn a_frame_ends_where_the_room_does() {
    let mut client = Client::asking(&[1]);
    client.write(1, 0, &mut Plenty(1));
    client.frames();
    for room in [9, 10, 500, 1448, 16_393, 20_000] {
        let begin = client.out.len();
        let written = client.write(1, room, &mut Plenty(1 << 20));
        assert_eq!((client.out.len() - begin, written.stop), (if room == 9 { 0 } else { room }, Stop::Room), "{room}");
    }
}

#[test]
fn shut_windows_stop_a_stream_or_all() {
    let mut client = Client::asking(&[1, 3]);
    let small = frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 100]);
    client.say(&small).unwrap();
    assert_eq!(client.write(1, 5000, &mut Plenty(200)), Written { bytes: 100, stop: Stop::StreamWindow });
    assert_eq!((client.session.stream_window(1), client.session.window()), (Some(0), 65_435));
    client.say(&frame(WINDOW_UPDATE, 0, 1, &[0, 1, 0, 0])).unwrap();
    let written = client.write(1, 200_000, &mut Plenty(100_000));
    assert_eq!(written, Written { bytes: 65_435, stop: Stop::Window });
    assert_eq!(client.write(3, 5000, &mut Plenty(200)), Written { bytes: 0, stop: Stop::Window });
    assert_eq!(client.session.stream_window(5), None);
}

#[test]
fn a_source_may_wait_or_fail() {
    let mut client = Client::asking(&[1, 3]);
    assert_eq!(client.write(1, 5000, &mut Never(Supply::Later)), Written { bytes: 0, stop: Stop::Source });
    assert_eq!(client.write(3, 5000, &mut Never(Supply::Failed)), Written { bytes: 0, stop: Stop::Failed });
    assert!(client.kinds().contains(&(RST_STREAM, 3)));
    assert_eq!(client.write(1, 5000, &mut Plenty(10)), Written { bytes: 10, stop: Stop::End });
    assert_eq!(client.write(1, 5000, &mut Plenty(10)), Written { bytes: 0, stop: Stop::Closed });
}

/// A source that fails after some bytes.
struct BreaksOff;

impl Source for BreaksOff {
    fn peek(&mut self, into: &mut Vec<u8>, bytes_max: usize) -> Supply {
        into.resize(into.len() + bytes_max.min(500), b'x');
        Supply::Failed
    }

    fn advance(&mut self, bytes: usize) {
        assert_eq!(bytes, 0, "nothing of it is sent");
    }
}

#[test]
fn of_a_source_that_breaks_off_nothing_is_sent() {
    let mut client = Client::asking(&[1]);
    assert_eq!(client.write(1, 5000, &mut BreaksOff), Written { bytes: 0, stop: Stop::Failed });
    assert_eq!(client.kinds(), [(HEADERS, 1), (RST_STREAM, 1)], "frames alone");
}

#[test]
fn an_end_may_have_no_byte() {
    let mut client = Client::asking(&[1]);
    assert_eq!(client.write(1, 5000, &mut Never(Supply::End)), Written { bytes: 0, stop: Stop::End });
    let frames = client.frames();
    assert_eq!((frames[1].0, frames[1].1, frames[1].3.len()), (DATA, END_STREAM, 0));
}

#[test]
fn a_response_without_a_body_is_its_head() {
    let mut client = Client::new();
    client.say(&request(1, &[])).unwrap();
    assert!(client.session.respond(1, &head(Status::NOT_MODIFIED), false));
    client.session.control(&mut client.out);
    let frames = client.frames();
    assert_eq!((frames.len(), frames[0].0, frames[0].1), (1, HEADERS, END_HEADERS | END_STREAM));
}

#[test]
fn the_rest_of_a_request_that_was_answered_is_not_wanted() {
    let mut client = Client::new();
    client.say(&frame(HEADERS, END_HEADERS, 1, &block(&GET))).unwrap();
    assert!(client.session.respond(1, &head(Status::OK), true));
    assert_eq!(client.write(1, 5000, &mut Plenty(10)).stop, Stop::End);
    client.say(&frame(DATA, 0, 1, &[7; 16 << 10])).unwrap();
    client.say(&frame(DATA, 0, 1, &[7; 16 << 10])).unwrap();
    assert!(!client.kinds().contains(&(RST_STREAM, 1)), "a short one may come to its end");
    client.say(&frame(DATA, 0, 1, &[7; 16 << 10])).unwrap();
    let frames = client.frames();
    let last = frames.last().unwrap();
    assert_eq!((last.0, last.2, &last.3[..]), (RST_STREAM, 1, &[0, 0, 0, 0][..]));
}

/// A client that goes on sending, as some do after a 304, would otherwise wait for its window indefinitely.
#[test]
fn a_long_request_is_stopped_behind_a_response_without_a_body() {
    let mut client = Client::new();
    client.say(&frame(HEADERS, END_HEADERS, 1, &block(&GET))).unwrap();
    assert!(client.session.respond(1, &head(Status::NOT_MODIFIED), false));
    client.session.control(&mut client.out);
    (0..3).for_each(|_| client.say(&frame(DATA, 0, 1, &[7; 16 << 10])).unwrap());
    let frames = client.frames();
    let last = frames.last().unwrap();
    assert_eq!((last.0, last.2, &last.3[..]), (RST_STREAM, 1, &[0, 0, 0, 0][..]));
    assert!(frames.iter().any(|frame| frame.0 == HEADERS));
}

/// curl 7.88 treated a response as missing if its stream was reset in the middle of a one-byte body.
#[test]
fn a_short_request_that_was_answered_early_may_end() {
    let mut client = Client::new();
    client.say(&frame(HEADERS, END_HEADERS, 1, &block(&GET))).unwrap();
    assert!(client.session.respond(1, &head(Status::OK), true));
    assert_eq!(client.write(1, 5000, &mut Plenty(10)).stop, Stop::End);
    client.events();
    client.say(&frame(DATA, END_STREAM, 1, &[7])).unwrap();
    assert_eq!(client.events(), [Event::Closed { stream: 1 }]);
    assert!(!client.kinds().contains(&(RST_STREAM, 1)));
}

#[test]
fn a_client_that_cancels_is_heard() {
    let mut client = Client::asking(&[1]);
    client.say(&frame(RST_STREAM, 0, 1, &[0, 0, 0, 8])).unwrap();
    assert_eq!(client.events(), [Event::Closed { stream: 1 }]);
    assert_eq!(client.write(1, 5000, &mut Plenty(10)).stop, Stop::Closed);
    assert!(
        !client.session.respond(1, &head(Status::OK), true)
            || client.write(1, 100, &mut Plenty(1)).stop == Stop::Closed
    );
}

#[test]
fn a_response_that_is_cut_is_told_of_once() {
    let mut client = Client::asking(&[1, 3]);
    client.say(&frame(RST_STREAM, 0, 1, &[0, 0, 0, 8])).unwrap();
    client.frames();
    client.session.cancel(1);
    client.session.cancel(3);
    client.session.control(&mut client.out);
    assert_eq!(client.kinds(), [(RST_STREAM, 3)], "the client has closed the first");
}

#[test]
fn mistakes_end_a_connection_with_a_reason() {
    let mut client = Client::new();
    let error = client.say(&frame(DATA, 0, 0, b"x")).unwrap_err();
    assert!(matches!(&error, Broken::Protocol(why) if why.contains("DATA")), "{error:?}");
    assert_eq!(client.kinds(), [(GOAWAY, 0)]);
    assert!(client.session.has_ended());
    assert_eq!(client.say(b"more"), Ok(()), "nothing is taken any more");
}

#[test]
fn no_preface_no_session() {
    let mut session = Session::new(&Settings::default());
    let error = session.receive(Nanos(0), b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", &mut Vec::new()).unwrap_err();
    assert!(matches!(error, Broken::Protocol(_)), "{error:?}");
}

#[test]
fn a_client_that_says_farewell_made_no_mistake() {
    let mut client = Client::new();
    client.say(&frame(GOAWAY, 0, 0, &[0; 8])).unwrap();
    assert!(client.session.has_ended());
}

#[test]
fn after_our_farewell_open_streams_end_and_no_others_begin() {
    let mut client = Client::asking(&[1]);
    client.session.go_away();
    assert_eq!(client.write(1, 5000, &mut Plenty(10)).stop, Stop::End);
    assert!(client.kinds().contains(&(GOAWAY, 0)));
    client.events();
    client.say(&request(3, &[])).unwrap();
    assert_eq!(client.events(), []);
}

/// Sends each frame as often as given, at once, and then once more.
fn trip(count: usize, make: impl Fn(u32) -> Vec<u8>) -> Broken {
    let mut client = Client::new();
    for nth in 0..count as u32 {
        client.say(&make(1 + 2 * nth)).unwrap_or_else(|error| panic!("{nth}: {error}"));
        client.out.clear();
        client.seen = 0;
    }
    let error = client.say(&make(1 + 2 * count as u32)).unwrap_err();
    let frames = client.frames();
    let calm = frames.iter().find(|frame| frame.0 == GOAWAY).unwrap_or_else(|| panic!("{error}: {frames:?}"));
    assert_eq!(calm.3[7], 11, "ENHANCE_YOUR_CALM");
    error
}

#[test]
fn floods_end_the_connection() {
    // One SETTINGS frame was sent before.
    assert_eq!(trip(999, |_| frame(PING, 0, 0, &[0; 8])), Broken::Flood(Flood::Control));
    assert_eq!(trip(999, |_| frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\x01u=1")), Broken::Flood(Flood::Control));
    let reset = |stream| [request(stream, &[]), frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])].concat();
    assert_eq!(trip(200, reset), Broken::Flood(Flood::Resets));
}

/// Malformed messages on stream 3, by their heads.
fn malformed_heads() -> Vec<(&'static str, Vec<u8>)> {
    let head = |fields: &[(&str, &str)]| frame(HEADERS, END_HEADERS | END_STREAM, 3, &block(fields));
    let with = |more: &[(&str, &str)]| head(&[&GET[..], more].concat());
    let pseudo = |at: usize, value| {
        let mut fields = GET;
        fields[at].1 = value;
        head(&fields)
    };
    vec![
        ("no path", head(&GET[..3])),
        ("two paths", with(&[(":path", "/")])),
        ("pseudo-fields last", head(&[&[("a", "b")], &GET[..]].concat())),
        ("an unknown pseudo-field", with(&[(":status", "200")])),
        ("a protocol", with(&[(":protocol", "websocket")])),
        ("a name in upper case", with(&[("A", "b")])),
        ("a name that is no token", with(&[("a b", "c")])),
        ("no name", with(&[("", "c")])),
        ("a line feed in a value", with(&[("a", "b\nc: d")])),
        ("a carriage return in a value", with(&[("a", "b\rc")])),
        ("a NUL in a value", with(&[("a", "b\0c")])),
        ("a field of the connection", with(&[("connection", "close")])),
        ("chunks", with(&[("transfer-encoding", "chunked")])),
        ("TE", with(&[("te", "gzip")])),
        ("an authority with userinfo", pseudo(2, "u@a")),
        ("an authority with a space", pseudo(2, "a b")),
        ("an absolute path", pseudo(3, "http://b/")),
        ("an empty path", pseudo(3, "")),
        ("a length that is none", with(&[("content-length", "x")])),
        ("a length of 2^63", with(&[("content-length", "9223372036854775808")])),
        ("a length of 2^64 - 1", with(&[("content-length", "18446744073709551615")])),
        ("a length and an end", with(&[("content-length", "5")])),
    ]
}

/// Malformed messages on stream 3, by their content or trailers.
fn malformed_contents() -> Vec<(&'static str, Vec<u8>)> {
    let post = |more: &[(&str, &str)]| frame(HEADERS, END_HEADERS, 3, &block(&[&GET[..], more].concat()));
    let data = |flags: u8, bytes: &[u8]| frame(DATA, flags, 3, bytes);
    let trailers = |flags: u8, fields: &[(&str, &str)]| frame(HEADERS, END_HEADERS | flags, 3, &block(fields));
    let five = [("content-length", "5")];
    vec![
        ("two lengths", post(&[("content-length", "5"), ("content-length", "6")])),
        ("less than the length", [post(&five), data(END_STREAM, b"four")].concat()),
        ("more than the length", [post(&five), data(0, b"sixsix")].concat()),
        (
            "less than the length and trailers",
            [post(&five), data(0, b"four"), trailers(END_STREAM, &[("a", "b")])].concat(),
        ),
        ("a pseudo-field in trailers", [post(&[]), trailers(END_STREAM, &[(":path", "/")])].concat()),
        ("a line feed in trailers", [post(&[]), trailers(END_STREAM, &[("a", "b\nc")])].concat()),
        ("trailers without an end", [post(&[]), trailers(0, &[("a", "b")])].concat()),
    ]
}

/// RFC 9113 section 8.1.1: a client's mistake in one request used to end all other responses of a page too.
#[test]
fn a_malformed_request_ends_its_stream_alone() {
    for (what, bytes) in malformed_heads().into_iter().chain(malformed_contents()) {
        for cut in [bytes.len(), 1] {
            let mut client = Client::asking(&[1]);
            client.frames();
            bytes.chunks(cut).for_each(|piece| client.say(piece).unwrap_or_else(|error| panic!("{what}: {error}")));
            let frames = client.frames();
            let resets: Vec<_> = frames.iter().filter(|frame| frame.0 == RST_STREAM).collect();
            assert_eq!(resets, [&(RST_STREAM, 0, 3, vec![0, 0, 0, 1])], "{what}");
            let events = client.events();
            let told = events.iter().filter(|event| matches!(event, Event::Malformed { stream: 3, .. })).count();
            assert_eq!((told, events.last()), (1, Some(&Event::Closed { stream: 3 })), "{what}");
            // The response in progress completes, and another request is served.
            assert_eq!(client.write(1, 5000, &mut Plenty(10)), Written { bytes: 10, stop: Stop::End }, "{what}");
            client.events();
            client.say(&request(5, &[])).unwrap();
            assert!(matches!(client.events()[..], [Event::Request { stream: 5, request: Ok(_) }]), "{what}");
            assert_eq!(client.session.body_bytes(), 0, "{what}");
        }
    }
}

/// An upload that is answered early ends sooner than its head declared, as with libcurl 7.88.
#[test]
fn a_short_end_behind_the_whole_response_costs_nothing() {
    let mut client = Client::asking(&[1]);
    let fields = [&GET[..], &[("content-length", "20000000")]].concat();
    client.say(&frame(HEADERS, END_HEADERS, 3, &block(&fields))).unwrap();
    client.say(&frame(DATA, 0, 3, &[7; 10_000])).unwrap();
    client.events();
    assert!(client.session.respond(3, &head(Status::CONTENT_TOO_LARGE), true));
    assert_eq!(client.write(3, 5000, &mut Plenty(5)).stop, Stop::End);
    client.say(&frame(DATA, END_STREAM, 3, b"")).unwrap();
    assert_eq!(client.write(1, 5000, &mut Plenty(10)), Written { bytes: 10, stop: Stop::End });
}

/// RFC 9113 section 6.9.
#[test]
fn an_update_by_nothing_costs_the_stream_it_is_for() {
    let mut client = Client::asking(&[1, 3]);
    client.frames();
    client.say(&frame(WINDOW_UPDATE, 0, 3, &[0; 4])).unwrap();
    assert_eq!(client.frames().last(), Some(&(RST_STREAM, 0, 3, vec![0, 0, 0, 1])));
    assert_eq!(client.write(1, 5000, &mut Plenty(10)), Written { bytes: 10, stop: Stop::End });
    for stream in [0, 3] {
        let mut client = Client::asking(&[1]);
        let error = client.say(&frame(WINDOW_UPDATE, 0, stream, &[0; 4])).unwrap_err();
        assert!(matches!(error, Broken::Protocol(_)), "{error:?}");
    }
}

#[test]
fn malformed_requests_without_end_are_a_flood() {
    let malformed = |stream| request(stream, &[("connection", "close")]);
    assert_eq!(trip(100, malformed), Broken::Flood(Flood::Provoked));
}

/// RFC 9113 section 8.2.3.
#[test]
fn crumbs_are_one_cookie() {
    let mut client = Client::new();
    client.say(&request(1, &[("cookie", "a=b"), ("x", "y"), ("cookie", "c=d"), ("cookie", "e=f")])).unwrap();
    let [Event::Request { request: Ok(request), .. }] = &client.events()[..] else { panic!("a request") };
    assert_eq!(request.view().values("cookie").collect::<Vec<_>>(), [b"a=b; c=d; e=f"]);
}

#[test]
fn a_header_block_of_many_parts_ends_the_connection() {
    let mut client = Client::new();
    client.say(&frame(HEADERS, END_STREAM, 1, &block(&GET))).unwrap();
    for _ in 0..8 {
        client.say(&frame(9, 0, 1, &block(&[("a", "b")]))).unwrap();
    }
    assert_eq!(client.say(&frame(9, 0, 1, &block(&[("a", "b")]))), Err(Broken::Flood(Flood::Continuations)));
}

#[test]
fn more_streams_than_may_be_open_are_refused() {
    let mut client = Client::new();
    for nth in 0..100 {
        client.say(&request(1 + 2 * nth, &[])).unwrap();
    }
    assert_eq!(client.events().len(), 100);
    client.say(&request(201, &[])).unwrap();
    assert_eq!(client.events(), []);
    let refused = client.frames();
    assert!(refused.iter().any(|frame| (frame.0, frame.2) == (RST_STREAM, 201)), "{refused:?}");
}

#[test]
fn a_header_bomb_is_cut_short() {
    // A field of 4000 bytes in the table, referenced 16,000 times by one byte each.
    let mut client = Client::new();
    let mut bomb = block(&GET);
    bomb.extend_from_slice(&[0x40, 1, b'a', 0x7f, 0xa1, 0x1e]);
    bomb.extend_from_slice(&[b'x'; 4000]);
    bomb.extend_from_slice(&[0xbe; 12_000]);
    let result = client.say(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &bomb));
    let events = client.events();
    let [Event::Request { request: Err(refused), .. }] = &events[..] else { panic!("{events:?}, {result:?}") };
    assert_eq!(refused.reject.status, Status::HEAD_TOO_LARGE);
}

proptest! {
    /// No input causes a panic, a partial frame or an endless series of events.
    #[test]
    fn any_bytes_are_taken(frames in prop::collection::vec((0u8..20, any::<u8>(), 0u32..6, prop::collection::vec(any::<u8>(), 0..40)), 0..40), cut in 1usize..50) {
        let mut client = Client::asking(&[1]);
        let bytes: Vec<u8> = frames.iter().flat_map(|(kind, flags, stream, payload)| frame(*kind, *flags, *stream, payload)).collect();
        for piece in bytes.chunks(cut) {
            if client.say(piece).is_err() {
                break;
            }
            client.write(1, 100, &mut Plenty(1 << 30));
        }
        client.frames();
        prop_assert!(client.events().len() <= 80);
    }

    #[test]
    fn a_body_is_what_was_read_however_it_is_cut(rooms in prop::collection::vec(0usize..40_000, 1..20)) {
        let mut client = Client::asking(&[1]);
        client.say(&wide()).unwrap();
        let mut source = Plenty(300_000);
        let mut bytes = 0;
        for room in rooms {
            let written = client.write(1, room, &mut source);
            bytes += written.bytes;
            if written.stop == Stop::End {
                break;
            }
            prop_assert_eq!(written.stop, Stop::Room);
        }
        let sent: usize = client.frames().iter().filter(|frame| frame.0 == DATA).map(|frame| frame.3.len()).sum();
        prop_assert_eq!(sent as u64, bytes);
        prop_assert_eq!(300_000 - source.0, bytes);
    }
}
