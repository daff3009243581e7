//! Programs of a client and its server.

use http2::testing::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, PRIORITY_UPDATE, RST_STREAM, SETTINGS,
    WINDOW_UPDATE, block,
};

use super::{
    AGAIN, BLOCK, CANCEL, CUT, FIELDS, FRAME, GO_AWAY, HAS_NO_PREFACE, IS_CANCELLED, IS_WIDENED, PASS, RAW,
    READS_AT_ONCE, REQUEST, RESPOND, WANTS_BODIES, WRITE,
};
use crate::Script;

const WHOLE: u8 = END_HEADERS | END_STREAM;
const PATH: [(&str, &str); 4] = [(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/x")];

pub fn all() -> Vec<Vec<u8>> {
    let mut seeds = conversations();
    seeds.extend(floods());
    seeds.extend(uploads());
    seeds
}

fn conversations() -> Vec<Vec<u8>> {
    let wide =
        || frame(SETTINGS, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff]).then(frame(WINDOW_UPDATE, 0, 0, &[0x7f, 0, 0, 0]));
    let with = |more: &[(&'static str, &'static str)]| fields(WHOLE, &[&PATH[..], more].concat());
    let cut = |bytes: u8| Script::new(&[CUT, bytes]);
    vec![
        program([request(WHOLE), respond(0, 4), write(0, 1448), write(0, 1448)]),
        program([wide(), request(WHOLE), request(WHOLE), respond(0, 6), respond(1, 5), write(1, 1448), write(0, 9000)]),
        program([
            cut(1),
            with(&[("priority", "u=1, i")]),
            frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\x01u=6"),
            respond(0, 2),
        ]),
        program([frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 100]), request(WHOLE), respond(0, 4), write(0, 5000)]),
        program([wide(), request(WHOLE), respond(0, 0x0d), write(0, 100), write(0, 100), respond(0, 0x34)]),
        program([request(WHOLE), respond(0, 0x34), write(0, 9000), request(WHOLE), respond(1, 0x40)]),
        program([request(WHOLE), Script::new(&[CANCEL, 0]), request(WHOLE), respond(1, 7), Script::new(&[GO_AWAY])]),
        program([request(END_HEADERS), frame(DATA, 0, 1, b"body"), frame(DATA, END_STREAM, 1, b""), respond(0, 1)]),
        program([request(END_HEADERS), respond(0, 3), write(0, 500), frame(DATA, 0, 1, &[7; 100])]),
        program([with(&[("host", "b")]), with(&[("range", "bytes=0-1"), ("if-none-match", "\"v1\"")])]),
        program([with(&[("content-length", "5")]), fields(WHOLE, &[(":method", "CONNECT"), (":authority", "a:1")])]),
        program([fields(END_STREAM, &PATH), frame(CONTINUATION, END_HEADERS, 1, &block(&[("a", "b")])), respond(0, 2)]),
        program([request(WHOLE), frame(GOAWAY, 0, 0, &[0; 8]), respond(0, 3)]),
        program([request(WHOLE), frame(WINDOW_UPDATE, 0, 1, &[0x7f, 0xff, 0xff, 0xff]), respond(0, 7)]),
        program([request(WHOLE), frame(DATA, 0, 1, b"late"), request(WHOLE)]),
        program([frame(SETTINGS, 0, 0, &[0, 1, 0, 0, 0, 0, 0, 5, 0, 0, 0x40, 0]), request(WHOLE), respond(0, 3)]),
        // Another version, and HPACK with indices, Huffman's code and a table that shrinks.
        Script::new(&[HAS_NO_PREFACE, RAW]).text(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").done(),
        program([Script::new(&[BLOCK, WHOLE])
            .text(b"\x82\x87\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff\x20\xbe")]),
        program([Script::new(&[BLOCK, WHOLE])
            .text(&[&b"\x82\x87\x84\x41\x01a\x40\x01a\x7f\x21"[..], &[b'x'; 160], &[0xbe; 40]].concat())]),
    ]
}

/// Bodies of requests that are wanted: with the head and behind it, of another length than said, cut off, and more than windows let through.
fn uploads() -> Vec<Vec<u8>> {
    let post = |more: &[(&'static str, &'static str)]| fields(END_HEADERS, &[&PATH[..], more].concat());
    let body = |flags, bytes: &'static [u8]| frame(DATA, flags, 1, bytes);
    let trailers = || frame(HEADERS, WHOLE, 1, &block(&[("a", "b")]));
    let programs = [
        vec![post(&[("content-length", "8")]), body(0, b"some"), body(END_STREAM, b"body"), write(0, 9)],
        vec![post(&[]), body(8, b"\x02body\0\0"), respond(0, 3), write(0, 9), trailers(), write(0, 5000)],
        vec![post(&[("content-length", "5")]), body(END_STREAM, b"four"), write(0, 9)],
        vec![post(&[("content-length", "5")]), body(0, b"four"), trailers(), write(0, 9)],
        vec![post(&[]), body(0, b"half"), frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]), respond(0, 3), write(0, 9)],
        vec![post(&[]), body(0, &[7; 200]), again(50), respond(0, 3), write(0, 9), Script::new(&[CANCEL, 0])],
    ];
    let lengths = crate::LENGTHS.map(|length| {
        vec![post(&[("content-length", length)]), body(END_STREAM, b"four"), request(WHOLE), respond(0, 3), write(0, 9)]
    });
    let programs: Vec<_> = programs.into_iter().chain(lengths).collect();
    let choices = [WANTS_BODIES, WANTS_BODIES | READS_AT_ONCE];
    let with = |choice: u8| {
        programs.iter().map(move |said| said.iter().cloned().fold(Script::new(&[choice]), Script::then).done())
    };
    choices.into_iter().flat_map(with).collect()
}

fn floods() -> Vec<Vec<u8>> {
    let pass = || Script::new(&[PASS]).short(2000);
    vec![
        program([frame(PING, 0, 0, &[7; 8]), again(200)]),
        program([frame(PING, 0, 0, &[7; 8]), again(100), pass(), frame(SETTINGS, 0, 0, &[]), again(130)]),
        program([request(WHOLE), frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\x01u=1"), again(130)]),
        program([request(WHOLE), frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]), again(140)]),
        program([request(WHOLE | IS_CANCELLED), again(26)]),
        program([request(END_HEADERS), frame(DATA, 0, 1, b"x"), again(130)]),
        program([request(WHOLE), again(20), respond(0, 3), request(WHOLE)]),
        program([request(WHOLE | IS_WIDENED), again(13)]),
        program([fields(0, &PATH), frame(CONTINUATION, 0, 1, b""), again(2)]),
        // More streams than may be open, and each that is refused costs one.
        program([request(WHOLE), again(40)]),
        // A head beyond the limit, by an entry of the table that is named over and over.
        program([Script::new(&[BLOCK, END_STREAM])
            .text(&[&b"\x82\x87\x84\x41\x01a\x40\x01a\x7f\x21"[..], &[b'x'; 160]].concat())
            .then(frame(CONTINUATION, END_HEADERS, 1, &[0xbe; 120]))]),
    ]
}

fn frame(kind: u8, flags: u8, stream: u16, payload: &[u8]) -> Script {
    Script::new(&[FRAME, kind, flags]).short(stream).text(payload)
}

fn request(flags: u8) -> Script {
    Script::new(&[REQUEST, flags])
}

fn fields(flags: u8, fields: &[(&str, &str)]) -> Script {
    let begin = Script::new(&[FIELDS, flags, fields.len() as u8]);
    fields.iter().fold(begin, |said, (name, value)| said.text(name.as_bytes()).text(value.as_bytes()))
}

fn again(units: u8) -> Script {
    Script::new(&[AGAIN, units])
}

fn respond(place: u8, choice: u8) -> Script {
    Script::new(&[RESPOND, place, choice])
}

fn write(place: u8, room: u16) -> Script {
    Script::new(&[WRITE, place]).short(room)
}

fn program(said: impl IntoIterator<Item = Script>) -> Vec<u8> {
    said.into_iter().fold(Script::new(&[0]), Script::then).done()
}
