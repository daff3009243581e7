//! HTTP/2: a client that makes frames, and a server that answers, both as the input asks.
//!
//! What leaves is read again: frames are whole, none is larger than its grant, none belongs to a stream that is over, and no client has more
//! of it than its windows and its own frames account for.

mod seeds;
mod server;

use http2::testing::{self, block, frame};
use units::Nanos;

use crate::{Input, Reached, Target};
use server::Server;

pub const TARGET: Target = Target {
    name: "h2",
    run,
    reaches: &[
        "a malformed request",
        "a request's body cut off",
        "a request's body whole",
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
    seeds: seeds::all,
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
/// The server wants the bodies of requests, and reads them when it writes; or also when it is told of them.
const WANTS_BODIES: u8 = 2;
const READS_AT_ONCE: u8 = 4;

/// Among the flags of a request's frame, where HTTP/2 has none: the client cancels it at once, or opens its window too far.
const IS_CANCELLED: u8 = 0x80;
const IS_WIDENED: u8 = 0x40;

/// How often [`AGAIN`] says the same for each of its units.
const AGAIN_UNIT: usize = 8;

fn run(bytes: &[u8]) -> Reached {
    let mut input = Input::new(bytes);
    let choice = input.byte();
    let mut server = Server::new(choice & WANTS_BODIES != 0, choice & READS_AT_ONCE != 0);
    if choice & HAS_NO_PREFACE == 0 {
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
        AGAIN => server.again(AGAIN_UNIT * usize::from(input.byte())),
        PASS => server.now += Nanos::from_millis(input.short().into()),
        FIELDS => {
            let (flags, count) = (input.byte(), input.byte() % 8);
            let fields: Vec<u8> = (0..count).flat_map(|_| literal(input.text(), input.text())).collect();
            server.send_request(flags, fields);
        }
        BLOCK => {
            let (flags, fields) = (input.byte(), input.text().to_vec());
            server.send_request(flags, fields);
        }
        CUT => server.cut = Some(input.byte()).filter(|bytes| *bytes > 0).map_or(usize::MAX, usize::from),
        GO_AWAY => server.go_away(),
        operation => answer(server, operation, input),
    }
}

/// What the server does with a request.
fn answer(server: &mut Server, operation: u8, input: &mut Input<'_>) {
    let Some(stream) = server.nth(input.byte()) else { return };
    match operation {
        WRITE => {
            server.write(stream, input.short().into());
        }
        RESPOND => {
            server.respond(stream, input.byte());
            server.say();
        }
        _ => server.cancel(stream),
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
