//! Request bodies.

use http::{BodyLength, HttpDate, Response, Status};
use http2::{BodyRead, Broken, Event};
use proptest::prelude::*;
use std::time::UNIX_EPOCH;

use super::rig::*;
use crate::Settings;
use crate::endpoint::{STREAM_WINDOW_BYTES, WINDOW_BYTES};
use crate::h3::fault::{FRAME_UNEXPECTED, MESSAGE_ERROR, NO_ERROR};
use crate::intake::HEAD_PIECE_BYTES;
use crate::testing::*;

const WINDOW: usize = STREAM_WINDOW_BYTES as usize;
const ALL: usize = usize::MAX >> 1;

/// Creates a rig that wants the bodies of all requests.
fn wanting() -> Rig {
    let mut rig = Rig::connected();
    rig.wants_bodies = true;
    rig
}

impl Rig {
    /// Sends an incomplete request.
    fn post(&mut self, more: &[(&str, &str)]) -> u32 {
        let stream = self.client.open();
        self.client.send(id(stream), &request("/", more));
        self.run();
        stream
    }

    /// Offers bytes until the server's windows are shut. Returns how many were taken.
    fn pour(&mut self, stream: u32, bytes: &[u8]) -> usize {
        let mut taken = 0;
        loop {
            let more = self.client.offer(id(stream), &bytes[taken..]);
            self.run();
            taken += more;
            if more == 0 || taken == bytes.len() {
                return taken;
            }
        }
    }

    fn read(&mut self, stream: u32, bytes_max: usize) -> (Vec<u8>, BodyRead) {
        let mut into = Vec::new();
        let read = self.session().read_body(stream, &mut into, bytes_max);
        assert!(into.len() <= bytes_max);
        self.run();
        (into, read)
    }

    fn length(&self) -> BodyLength {
        let mut lengths = self.events.iter().filter_map(|event| match event {
            Event::Request { request: Ok(request), .. } => Some(request.view().body),
            _ => None,
        });
        lengths.next_back().expect("a request")
    }

    fn told(&self, stream: u32) -> usize {
        self.events.iter().filter(|event| **event == Event::Body { stream }).count()
    }
}

#[test]
fn a_head_says_how_long_the_body_is() {
    let mut rig = wanting();
    let stream = rig.client.request("/", &[]);
    rig.run();
    assert_eq!(rig.length(), BodyLength::None);
    assert_eq!(rig.told(stream), 1);
    assert_eq!(rig.read(stream, ALL), (Vec::new(), BodyRead::End));
    rig.post(&[]);
    assert_eq!(rig.length(), BodyLength::Unknown);
    rig.post(&[("content-length", "70")]);
    assert_eq!(rig.length(), BodyLength::Known(70.into()));
    rig.post(&[("content-length", "0")]);
    assert_eq!(rig.length(), BodyLength::None);
}

#[test]
fn a_body_that_came_with_the_head_is_read_without_its_trailers() {
    let mut rig = wanting();
    let stream = rig.client.open();
    let body =
        [frame(DATA, b"some"), frame(0x21, b"grease"), frame(DATA, b"body"), frame(HEADERS, &section(&[("a", "b")]))];
    rig.client.send(id(stream), &[request("/", &[("content-length", "8")]), body.concat()].concat());
    rig.client.finish(id(stream));
    rig.run();
    assert_eq!(rig.told(stream), 1);
    assert!(rig.session().body_bytes() > 0);
    assert_eq!(rig.read(stream, 5).0, b"someb");
    let (mut read, mut end) = (Vec::new(), BodyRead::More);
    while end == BodyRead::More {
        let (part, next) = rig.read(stream, 3);
        read.extend(part);
        end = next;
    }
    assert_eq!((read, end), (b"ody".to_vec(), BodyRead::End));
    assert_eq!((rig.session().body_bytes(), rig.closed()), (0, vec![]));
}

#[test]
fn a_reader_is_told_once_until_it_reads() {
    let mut rig = wanting();
    let stream = rig.post(&[]);
    assert_eq!((rig.told(stream), rig.read(stream, ALL)), (1, (Vec::new(), BodyRead::Later)));
    for part in [b"a", b"b"] {
        rig.client.send(id(stream), &frame(DATA, part));
        rig.run();
    }
    assert_eq!((rig.told(stream), rig.read(stream, ALL)), (2, (b"ab".to_vec(), BodyRead::Later)));
    rig.client.finish(id(stream));
    rig.run();
    assert_eq!((rig.told(stream), rig.read(stream, ALL)), (3, (Vec::new(), BodyRead::End)));
}

/// The body exceeds the windows of stream and connection.
#[test]
fn a_body_that_nobody_wants_is_thrown_away() {
    let mut rig = Rig::connected();
    let stream = rig.post(&[]);
    let bytes = frame(DATA, &counted(2 * WINDOW_BYTES as usize));
    assert_eq!(rig.pour(stream, &bytes), bytes.len());
    assert!(!rig.session().want_body(stream), "it is too late");
    assert_eq!((rig.told(stream), rig.session().body_bytes()), (0, 0));
    assert_eq!(rig.read(stream, ALL), (Vec::new(), BodyRead::Cut));
}

#[test]
fn a_reader_that_stops_holds_its_stream_and_no_other() {
    let mut rig = wanting();
    let (held, other) = (rig.post(&[]), rig.post(&[]));
    let body = counted(WINDOW * 3);
    let bytes = frame(DATA, &body);
    let taken = rig.pour(held, &bytes);
    assert!(taken <= WINDOW && taken > WINDOW - 100, "{taken}");
    let mut read = Vec::new();
    let mut sent = 0;
    while sent < bytes.len() {
        sent += rig.pour(other, &bytes[sent..]);
        read.extend(rig.read(other, ALL).0);
    }
    assert_eq!(read, body);
    assert_eq!(rig.pour(held, &bytes[taken..]), 0);
    let mut read = Vec::new();
    let mut sent = taken;
    while read.len() < body.len() {
        read.extend(rig.read(held, ALL).0);
        sent += rig.pour(held, &bytes[sent..]);
    }
    assert!(read == body && sent == bytes.len());
}

#[test]
fn all_streams_may_be_held_at_once() {
    let mut rig = wanting();
    let bytes = frame(DATA, &counted(WINDOW * 2));
    let held: Vec<u32> = (0..99).map(|_| rig.post(&[])).collect();
    for &stream in &held {
        let taken = rig.pour(stream, &bytes);
        assert!(taken > WINDOW - 100, "{taken} of {stream}");
    }
    let at_most = held.len() * (WINDOW + HEAD_PIECE_BYTES);
    assert_eq!(rig.session().body_bytes(), at_most);
    let other = rig.post(&[]);
    assert!(rig.pour(other, &bytes) > WINDOW - 100);
    assert!(!rig.read(other, ALL).0.is_empty());
    held.iter().for_each(|&stream| rig.session().leave_body(stream));
    assert_eq!(rig.session().streams.windows, 1, "that of the last");
    assert_eq!(rig.session().body_bytes(), WINDOW + HEAD_PIECE_BYTES);
}

/// RFC 9114 section 4.1.2.
#[test]
fn a_body_of_another_length_than_said_has_no_clean_end() {
    let data = |bytes: &[u8]| frame(DATA, bytes);
    let trailers = || frame(HEADERS, &section(&[("a", "b")]));
    for bytes in
        [data(b"four"), [data(b"four"), trailers()].concat(), data(b"sixsix"), [data(b"five5"), data(b"x")].concat()]
    {
        let mut rig = wanting();
        let stream = rig.post(&[("content-length", "5")]);
        rig.client.send(id(stream), &bytes);
        rig.client.finish(id(stream));
        rig.run();
        let mut end = BodyRead::More;
        while end == BodyRead::More {
            end = rig.read(stream, 2).1;
        }
        assert_eq!((end, rig.closed(), rig.malformed()), (BodyRead::Cut, vec![stream], vec![stream]), "{bytes:?}");
        assert_eq!(rig.client.came(id(stream)).reset, Some(MESSAGE_ERROR));
        assert_eq!(rig.broken, None);
    }
}

#[test]
fn a_mistake_that_is_found_by_reading_ends_the_connection() {
    let mut rig = wanting();
    let stream = rig.post(&[]);
    rig.client.send(id(stream), &[frame(DATA, b"body"), frame(SETTINGS, b"")].concat());
    rig.run();
    assert_eq!((rig.broken.take(), rig.read(stream, ALL).1), (None, BodyRead::Cut));
    assert!(matches!(&rig.broken, Some(Broken::Protocol(_))), "{:?}", rig.broken);
    assert_eq!((rig.client.close_code(), rig.closed()), (Some(FRAME_UNEXPECTED), vec![stream]));
}

#[test]
fn a_body_that_is_cut_off_is_told_of_whoever_reads() {
    for is_full in [false, true] {
        let mut rig = wanting();
        let stream = rig.post(&[]);
        let body = frame(DATA, &counted(if is_full { 2 * WINDOW } else { 100 }));
        rig.pour(stream, &body);
        rig.client.reset(id(stream), 0x10c);
        rig.run();
        assert_eq!(rig.closed(), [stream], "{is_full}");
        assert_eq!(rig.read(stream, ALL), (Vec::new(), BodyRead::Cut));
        assert!(!rig.session().want_body(stream));
    }
}

#[test]
fn the_rest_of_a_body_may_be_left() {
    let mut rig = wanting();
    let stream = rig.post(&[]);
    let bytes = frame(DATA, &counted(4 * WINDOW));
    let taken = rig.pour(stream, &bytes);
    assert!(taken < bytes.len());
    rig.session().leave_body(stream);
    rig.run();
    assert_eq!(rig.pour(stream, &bytes[taken..]), bytes.len() - taken);
    assert_eq!(rig.session().body_bytes(), 0);
    rig.answer(stream, 100);
    rig.run();
    assert_eq!(rig.client.came(id(stream)).stopped, Some(NO_ERROR));
    assert_eq!(rig.closed(), [stream]);
}

#[test]
fn interim_heads_go_before_the_response() {
    let mut rig = wanting();
    let stream = rig.post(&[]);
    for status in [Status(100), Status(103)] {
        let head = Response::new(status, ()).into_head(&HttpDate::new(UNIX_EPOCH)).0;
        assert!(rig.session().interim(stream, &head));
        rig.run();
        let text = format!("{}", status.0);
        assert_eq!(rig.client.response(stream).field(":status"), Some(&text[..]));
    }
    rig.client.send(id(stream), &frame(DATA, b"body"));
    rig.client.finish(id(stream));
    rig.run();
    assert_eq!(rig.read(stream, ALL).0, b"body");
    assert!(rig.session().stream_window(stream).is_some());
    rig.answer(stream, 10_000);
    assert!(!rig.session().interim(stream, &head(None)), "its response has begun");
    rig.run();
    let response = rig.client.response(stream);
    assert_eq!(response.field(":status"), Some("200"));
    assert_eq!(response.body, counted(10_000));
    assert_eq!(rig.session().waiting_bytes(), 0);
}

#[test]
fn interim_heads_that_wait_for_a_window_are_counted() {
    let mut rig = Rig::with(&Settings::default(), Windows { stream: 64, ..Windows::default() });
    rig.connect();
    let stream = rig.client.request("/", &[]);
    rig.run();
    let head = Response::new(Status(103), ()).with("Link", &[b'x'; 5000]).into_head(&HttpDate::new(UNIX_EPOCH)).0;
    assert!(rig.session().interim(stream, &head));
    rig.run();
    assert!((4000..10_000).contains(&rig.session().body_bytes()), "{} bytes", rig.session().body_bytes());
}

/// Returns a request with this body in frames of the given sizes.
fn framed(mut body: &[u8], sizes: &[usize]) -> Vec<u8> {
    let mut bytes = request("/", &[]);
    for size in sizes {
        let (part, rest) = body.split_at(*size);
        bytes.extend(frame(DATA, part));
        body = rest;
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The result does not depend on how frames are made, or on when how much is sent and read.
    #[test]
    fn a_body_is_read_as_it_was_sent(
        frames in prop::collection::vec(0usize..9000, 0..20),
        pieces in prop::collection::vec(1usize..30_000, 1..10),
        reads in prop::collection::vec(1usize..20_000, 1..10),
        lost in prop::option::of(3usize..20),
    ) {
        let body = counted(frames.iter().sum());
        let bytes = framed(&body, &frames);
        let mut rig = wanting();
        if let Some(every) = lost {
            rig.passes = Box::new(move |nth| nth % every != 0);
        }
        let stream = rig.client.open();
        let (mut sent, mut read, mut end) = (0, Vec::new(), BodyRead::Later);
        let mut sizes = pieces.into_iter().cycle().zip(reads.into_iter().cycle());
        for _ in 0..10_000 {
            let (piece, ask) = sizes.next().unwrap();
            if sent < bytes.len() {
                sent += rig.client.offer(id(stream), &bytes[sent..bytes.len().min(sent + piece)]);
            } else {
                rig.client.try_finish(id(stream));
            }
            rig.run();
            if rig.told(stream) > 0 || end == BodyRead::More {
                rig.events.retain(|event| *event != Event::Body { stream });
                let (part, next) = rig.read(stream, ask);
                read.extend(part);
                end = next;
            }
            if end == BodyRead::End {
                break;
            }
        }
        prop_assert_eq!((end, rig.broken), (BodyRead::End, None));
        prop_assert!(read == body);
    }
}
