//! Programs of a client and its server.

use quic::testing::{self, DATA, GOAWAY, HEADERS, MAX_PUSH_ID, SETTINGS};

use super::{
    AGAIN, BIDI, CANCEL, CLOSE, CONTROL, DEAF, FINISH, FRAME, GO_AWAY, HAS_NO_CONTROL, IS_NARROW, LOSE, MORE, MOVE,
    PASS, READS_AT_ONCE, REQUEST, RESET, RESPOND, SECTION, STOP, UNI, WANTS_BODIES, WISH, WRITE,
};
use crate::Script;

pub fn all() -> Vec<Vec<u8>> {
    [responses(), windows(), requests(), uploads(), ends(), mistakes()].concat()
}

fn get() -> Script {
    op(&[REQUEST])
}

fn write(place: u8, room: u16) -> Script {
    on(WRITE, place, room)
}

fn responses() -> Vec<Vec<u8>> {
    vec![
        program(0, [get(), respond(0, 5), write(0, 1200), write(0, 9000), get(), respond(1, 0x40), write(1, 100)]),
        program(0, [get(), get(), respond(0, 7), respond(1, 6), write(1, 3000), write(0, 60_000), pass(100)]),
        program(0, [get(), respond(0, 0x0d), write(0, 500), write(0, 500), get(), respond(1, 0x35), write(1, 60_000)]),
        program(0, [get(), op(&[LOSE, 2]), respond(0, 5), write(0, 3000), pass(1000), write(0, 30_000)]),
    ]
}

fn windows() -> Vec<Vec<u8>> {
    let three = [respond(0, 5), respond(1, 5), respond(2, 5), write(0, 900), write(1, 900), write(2, 900)];
    let deaf = [op(&[DEAF, 1]), get(), get(), get()].into_iter().chain(three);
    vec![
        program(IS_NARROW, [get(), get(), respond(0, 5), respond(1, 5), write(0, 5000), write(1, 5000), pass(50)]),
        program(IS_NARROW, deaf.chain([op(&[DEAF, 0]), write(2, 900)])),
    ]
}

fn requests() -> Vec<Vec<u8>> {
    let wish = |stream: u16, text: &[u8]| op(&[WISH]).short(stream).text(text);
    let wishing = fields(&[("priority", "u=1, i"), ("range", "bytes=0-1")]);
    let headers = testing::request("/y", &[("content-length", "4")]);
    let (begin, rest) = headers.split_at(9);
    vec![
        program(0, [wishing, wish(0, b"u=6"), wish(4, b"u=0, i"), get()]),
        program(0, [bytes(BIDI, &headers), frame(1, DATA, b"body"), on(FINISH, 1, 0), respond(0, 3), write(0, 500)]),
        program(0, [bytes(BIDI, begin), bytes(BIDI, b""), op(&[MORE, 1]).text(rest), respond(0, 2)]),
        program(0, [control(GOAWAY, &[0]), control(MAX_PUSH_ID, &[9]), control(0x21, b"grease"), get(), respond(0, 2)]),
        program(0, [bytes(UNI, &[2, 0x20]), bytes(UNI, &[3, 0x44]), bytes(UNI, &[0x21, 1, 2, 3]), get(), pass(40_000)]),
    ]
}

/// Bodies of requests that are wanted: with the head and behind it, of another length than said, cut off, and with a frame that may not be there.
fn uploads() -> Vec<Vec<u8>> {
    let post = |more: &[(&str, &str)], body: &[u8]| bytes(BIDI, &[testing::request("/", more), body.to_vec()].concat());
    let data = |bytes: &[u8]| testing::frame(DATA, bytes);
    let trailers = testing::frame(HEADERS, &testing::section(&[("a", "b")]));
    let (finish, read) = (on(FINISH, 1, 0), write(0, 9));
    let programs = [
        vec![
            post(&[("content-length", "8")], &data(b"some")),
            frame(1, DATA, b"body"),
            finish.clone(),
            respond(0, 3),
            read.clone(),
        ],
        vec![
            post(&[], &[data(&[7; 100]), trailers].concat()),
            read.clone(),
            finish.clone(),
            respond(0, 2),
            read.clone(),
        ],
        vec![post(&[("content-length", "5")], &data(b"four")), finish, read.clone()],
        vec![post(&[("content-length", "5")], &data(b"sixsix")), read.clone()],
        vec![post(&[], &data(b"half")), on(RESET, 1, 0x10c), read.clone()],
        vec![post(&[], &data(b"body")), frame(1, SETTINGS, b""), read.clone(), pass(10), get()],
        vec![post(&[], b""), frame(1, DATA, &[7; 200]), op(&[AGAIN, 50]), respond(0, 3), read],
    ];
    let lengths = crate::LENGTHS.map(|length| {
        vec![post(&[("content-length", length)], &data(b"four")), on(FINISH, 1, 0), write(0, 9), get(), respond(1, 2)]
    });
    let programs: Vec<_> = programs.into_iter().chain(lengths).collect();
    let choices = [WANTS_BODIES, WANTS_BODIES | READS_AT_ONCE];
    choices
        .into_iter()
        .flat_map(|choice| programs.iter().map(move |said| program(choice, said.iter().cloned())))
        .collect()
}

fn ends() -> Vec<Vec<u8>> {
    let leave = [on(STOP, 1, 0x10c), on(RESET, 1, 0x10c), write(0, 5000)];
    vec![
        program(0, [get(), respond(0, 7), write(0, 5000)].into_iter().chain(leave)),
        program(0, [get(), op(&[CANCEL, 0]), get(), op(&[GO_AWAY]), get(), respond(1, 3), pass(2000)]),
        program(0, [get(), op(&[MOVE, 1]), respond(0, 3), op(&[MOVE, 2]), write(0, 5000), op(&[MOVE, 1]), pass(2000)]),
        program(0, (0..20).map(|port| op(&[MOVE, port]))),
        program(0, [get(), op(&[CLOSE]).short(0x100), respond(0, 2), write(0, 100)]),
    ]
}

fn mistakes() -> Vec<Vec<u8>> {
    let again = |units: u8| op(&[AGAIN, units]);
    let long = "x".repeat(200);
    let request = testing::section(&[(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/")]);
    // The last of the static table, over and over.
    let bomb = || section(&request, &[0xff, 0x23].repeat(40), 60);
    vec![
        program(HAS_NO_CONTROL, [bytes(UNI, &[0, GOAWAY as u8, 1, 0])]),
        program(HAS_NO_CONTROL, [bytes(UNI, &[1, 0]), get()]),
        program(0, [bytes(UNI, &[0, 4, 0])]),
        program(0, [control(SETTINGS, &[])]),
        program(0, [control(DATA, b"x")]),
        program(HAS_NO_CONTROL, [bytes(UNI, &[0, 4, 2, 2, 0])]),
        program(0, [bytes(UNI, &[2, 0x80])]),
        program(0, [bytes(UNI, &[3, 0x80])]),
        program(0, [bytes(BIDI, &testing::frame(DATA, b"first"))]),
        program(0, [bytes(BIDI, &testing::frame(SETTINGS, b""))]),
        program(0, [bytes(BIDI, &[1, 5, 0]), op(&[FINISH, 1])]),
        program(0, [section(b"\x02\x00\x80", &[], 0), get()]),
        program(0, [section(b"\x00\x00\xd1", &[], 0), bomb(), get()]),
        program(
            0,
            [fields(&[("host", "b")]), fields(&[("Upper", "x")]), fields(&[("te", "x"), ("connection", "close")])],
        ),
        program(0, [fields(&[("content-length", "5")]), fields(&[("x", "a\r\nb")]), fields(&[("a", &long)])]),
        program(0, [get(), again(40)]),
        program(0, [control(0x21, b""), again(140)]),
        program(0, [bytes(BIDI, &testing::request("/", &[])), frame(1, DATA, b""), again(140)]),
        program(0, [bytes(BIDI, b"\x01\x80\x01\x00\x00"), again(40)]),
        program(0, [bytes(BIDI, b"\x01\x7f\xff\x00\x00\xd1\xd7\x50\x01a\xc1"), bytes(MORE, b"\x01"), again(9)]),
    ]
}

fn control(kind: u64, payload: &[u8]) -> Script {
    Script::new(&[CONTROL]).short(kind as u16).text(payload)
}

fn frame(place: u8, kind: u64, payload: &[u8]) -> Script {
    Script::new(&[FRAME, place]).short(kind as u16).text(payload)
}

fn fields(more: &[(&str, &str)]) -> Script {
    let request = [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", "/x")];
    section(&testing::section(&[&request[..], more].concat()), &[], 0)
}

/// A section of these bytes, and of others so many times.
fn section(begin: &[u8], piece: &[u8], times: u8) -> Script {
    Script::new(&[SECTION]).text(begin).text(piece).byte(times)
}

fn bytes(kind: u8, bytes: &[u8]) -> Script {
    Script::new(&[kind]).text(bytes)
}

fn on(operation: u8, place: u8, number: u16) -> Script {
    Script::new(&[operation, place]).short(number)
}

fn respond(place: u8, choice: u8) -> Script {
    Script::new(&[RESPOND, place, choice])
}

fn program(choice: u8, said: impl IntoIterator<Item = Script>) -> Vec<u8> {
    said.into_iter().fold(Script::new(&[choice]), Script::then).done()
}

fn op(bytes: &[u8]) -> Script {
    Script::new(bytes)
}

fn pass(ms: u16) -> Script {
    op(&[PASS]).short(ms)
}
