//! Programs of a server and its client.

use http2::testing::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, RST_STREAM, SETTINGS, WINDOW_UPDATE, block,
};

use super::{AGAIN, CUT, FIELDS, FRAME, HAS_NO_SETTINGS, LEAVE, ON_STREAM, PASS, RAW, READ, REQUEST, WRITE};
use crate::Script;

const WHOLE: u8 = END_HEADERS | END_STREAM;
/// Choices of a request: its method, and the body where that has one.
const GET: u8 = 0;
const HEAD: u8 = 0x40;
const POST: u8 = 0x80;
const OK: (&str, &str) = (":status", "200");
const PUSH_PROMISE: u8 = 5;

pub fn all() -> Vec<Vec<u8>> {
    let mut seeds = conversations();
    seeds.extend(ends());
    seeds.extend(malformed());
    seeds.extend(uploads());
    seeds.extend(floods());
    seeds.extend(crate::LENGTHS.map(|length| {
        let (head, data) = (fields(0, END_HEADERS, &[OK, ("content-length", length)]), on_stream(0, DATA, 0, b"hello"));
        program([request(GET), head, data, read(0, 100), on_stream(0, DATA, END_STREAM, b"x"), read(0, 100)])
    }));
    seeds
}

fn conversations() -> Vec<Vec<u8>> {
    let data = |place, flags, text: &[u8]| on_stream(place, DATA, flags, text);
    vec![
        program([request(GET), fields(0, END_HEADERS, &[OK]), data(0, END_STREAM, b"hello"), read(0, 100)]),
        program([
            request(GET),
            fields(0, END_HEADERS, &[OK, ("content-length", "5")]),
            data(0, 0, b"he"),
            read(0, 1),
            data(0, END_STREAM, b"llo"),
            read(0, 1),
            read(0, 100),
        ]),
        program([
            request(GET),
            fields(0, END_HEADERS, &[(":status", "103"), ("link", "x")]),
            fields(0, END_HEADERS, &[OK]),
            data(0, 0, b"hello"),
            fields(0, WHOLE, &[("grpc-status", "0"), ("content-length", "1")]),
            read(0, 100),
        ]),
        program([Script::new(&[CUT, 1]), request(HEAD), fields(0, WHOLE, &[OK, ("content-length", "9")]), read(0, 9)]),
        program([request(GET), request(GET), fields(1, WHOLE, &[(":status", "204")]), read(1, 9), leave(0)]),
        program([
            request(GET),
            fields(0, END_HEADERS, &[OK]),
            data(0, 8, b"\x02hello\0\0"),
            leave(0),
            data(0, 0, b"late"),
        ]),
    ]
}

/// Ends of streams and connections, and windows.
fn ends() -> Vec<Vec<u8>> {
    let data = |place, flags, text: &[u8]| on_stream(place, DATA, flags, text);
    vec![
        program([request(GET), on_stream(0, RST_STREAM, 0, &[0, 0, 0, 7]), leave(0), request(GET)]),
        program([request(GET), fields(0, END_HEADERS, &[OK]), on_stream(0, RST_STREAM, 0, &[0, 0, 0, 2]), read(0, 9)]),
        program([request(GET), request(GET), frame(GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0]), request(GET), leave(1)]),
        program([frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0]), request(GET), request(GET)]),
        // As much as its window lets through, and a reader that opens it.
        program([
            request(GET),
            fields(0, END_HEADERS, &[OK]),
            data(0, 0, &[7; 250]),
            again(30),
            read(0, 60_000),
            data(0, 0, &[7; 250]),
            again(20),
            read(0, 9),
        ]),
        program([
            request(GET),
            frame(HEADERS, 0, 1, &block(&[OK])),
            frame(CONTINUATION, END_HEADERS, 1, &block(&[("a", "b")])),
        ]),
        Script::new(&[HAS_NO_SETTINGS, RAW]).text(b"HTTP/1.1 400 Bad Request\r\n\r\n").then(request(GET)).done(),
    ]
}

/// Each breaks its own stream, or the connection.
fn malformed() -> Vec<Vec<u8>> {
    let other = || fields(1, WHOLE, &[OK]).then(read(1, 9));
    let with = |said: Script| program([request(GET), request(GET), said, read(0, 9), other()]);
    vec![
        with(fields(0, WHOLE, &[("a", "b")])),
        with(fields(0, WHOLE, &[OK, OK])),
        with(fields(0, WHOLE, &[OK, ("connection", "close")])),
        with(fields(0, WHOLE, &[OK, ("A", "b")])),
        with(fields(0, WHOLE, &[OK, ("content-length", "5")])),
        with(fields(0, END_HEADERS, &[OK, ("content-length", "5")]).then(on_stream(0, DATA, 0, b"too much"))),
        with(fields(0, END_HEADERS, &[OK]).then(fields(0, END_HEADERS, &[OK]))),
        with(on_stream(0, DATA, 0, b"before the head")),
        with(fields(0, END_HEADERS, &[(":status", "100")]).then(again(4))),
        with(on_stream(0, PUSH_PROMISE, END_HEADERS, &[0, 0, 0, 2, 0x82])),
        with(frame(HEADERS, WHOLE, 2, &block(&[OK]))),
        with(frame(HEADERS, WHOLE, 9, &block(&[OK]))),
        with(on_stream(0, WINDOW_UPDATE, 0, &[0x7f, 0xff, 0xff, 0xff])),
        with(fields(0, WHOLE, &[OK]).then(on_stream(0, DATA, 0, b"behind the end"))),
        with(frame(SETTINGS, 0, 0, &[0, 5, 0, 0, 0, 1])),
        with(frame(HEADERS, END_HEADERS, 1, &[0xff; 40])),
    ]
}

fn uploads() -> Vec<Vec<u8>> {
    let narrow = || frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 100]);
    vec![
        program([request(POST | 4), write(0, 1448), write(0, 1448), fields(0, WHOLE, &[OK]), read(0, 9)]),
        program([
            narrow(),
            request(POST | 4),
            write(0, 1448),
            on_stream(0, WINDOW_UPDATE, 0, &[0, 0, 1, 0]),
            write(0, 9000),
        ]),
        program([request(POST | 0x34), write(0, 9000), write(0, 60_000)]),
        program([
            request(POST | 0x0d),
            write(0, 100),
            fields(0, WHOLE, &[(":status", "413")]),
            read(0, 9),
            write(0, 9000),
        ]),
        program([request(POST | 7), write(0, 60_000), write(0, 60_000), on_stream(0, RST_STREAM, 0, &[0, 0, 0, 0])]),
        program([request(POST), write(0, 0), write(0, 9), leave(0)]),
    ]
}

fn floods() -> Vec<Vec<u8>> {
    let pass = || Script::new(&[PASS]).short(2000);
    let refused = || request(GET).then(on_stream(0, RST_STREAM, 0, &[0, 0, 0, 7])).then(leave(0));
    vec![
        program([frame(PING, 0, 0, &[7; 8]), again(200), frame(PING, 0, 0, &[7; 8])]),
        program([frame(PING, 0, 0, &[7; 8]), again(100), pass(), frame(SETTINGS, 0, 0, &[]), again(130)]),
        program([request(GET), on_stream(0, WINDOW_UPDATE, 0, &[0, 0, 0, 1]), again(140)]),
        program([request(GET), frame(HEADERS, 0, 1, &block(&[OK])), frame(CONTINUATION, 0, 1, b""), again(2)]),
        program([request(GET), on_stream(0, RST_STREAM, 0, &[0, 0, 0, 8]), again(40)]),
        program([refused(), refused(), refused(), frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]), again(60)]),
        program([request(GET), fields(0, END_HEADERS, &[OK]), on_stream(0, DATA, 0, b""), again(140)]),
    ]
}

fn frame(kind: u8, flags: u8, stream: u16, payload: &[u8]) -> Script {
    Script::new(&[FRAME, kind, flags]).short(stream).text(payload)
}

fn on_stream(place: u8, kind: u8, flags: u8, payload: &[u8]) -> Script {
    Script::new(&[ON_STREAM, place, kind, flags]).text(payload)
}

fn fields(place: u8, flags: u8, fields: &[(&str, &str)]) -> Script {
    let begin = Script::new(&[FIELDS, place, flags, fields.len() as u8]);
    fields.iter().fold(begin, |said, (name, value)| said.text(name.as_bytes()).text(value.as_bytes()))
}

fn request(choice: u8) -> Script {
    Script::new(&[REQUEST, choice])
}

fn write(place: u8, room: u16) -> Script {
    Script::new(&[WRITE, place]).short(room)
}

fn read(place: u8, bytes: u16) -> Script {
    Script::new(&[READ, place]).short(bytes)
}

fn leave(place: u8) -> Script {
    Script::new(&[LEAVE, place])
}

fn again(units: u8) -> Script {
    Script::new(&[AGAIN, units])
}

fn program(said: impl IntoIterator<Item = Script>) -> Vec<u8> {
    said.into_iter().fold(Script::new(&[0]), Script::then).done()
}
