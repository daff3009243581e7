//! HTTP/2 with an upstream: a server that makes frames, and a client that sends requests and reads, both as the input
//! directs.
//!
//! The bytes sent are parsed again: frames are complete, and none belongs to a stream that has ended. The bytes read of
//! a response agree with its head, and no more is buffered than its window allows.

mod client;
mod seeds;

use http2::testing::{HEADERS, SETTINGS, frame};
use units::Nanos;

use crate::{Input, Reached, Target};
use client::Client;

pub const TARGET: Target = Target {
    name: "h2-client",
    run,
    reaches: &[
        "a body cut off",
        "a body whole",
        "a request's body that fails",
        "a request's body waits for a window",
        "a request's body whole",
        "a response whole",
        "a stream refused",
        "a stream reset",
        "anything after the end",
        "flood of cancelled streams",
        "flood of control frames",
        "flood of parts of a head",
        "flood of updates",
        "head",
        "interim head",
        "malformed response",
        "mistake",
        "no more requests",
        "trailers",
    ],
    seeds: seeds::all,
    mutants: 5_000,
};

/// The part of the input that is an operation. Of the server:
const RAW: u8 = 0;
const FRAME: u8 = 1;
/// Fields on an opened stream, given by its index.
const FIELDS: u8 = 2;
/// A frame on such a stream.
const ON_STREAM: u8 = 3;
const AGAIN: u8 = 4;
const PASS: u8 = 5;
const CUT: u8 = 6;
/// Of the client:
const REQUEST: u8 = 7;
const WRITE: u8 = 8;
const READ: u8 = 9;
const LEAVE: u8 = 10;
const OPERATIONS: u8 = 11;

/// Bits of the first byte of an input: the server does not begin with SETTINGS.
const HAS_NO_SETTINGS: u8 = 1;

/// The number of repetitions by [`AGAIN`] for each of its units.
const AGAIN_UNIT: usize = 8;

fn run(bytes: &[u8]) -> Reached {
    let mut input = Input::new(bytes);
    let choice = input.byte();
    let mut client = Client::new();
    if choice & HAS_NO_SETTINGS == 0 {
        client.receive(&frame(SETTINGS, 0, 0, &[]));
    }
    while !input.is_empty() {
        step(&mut client, &mut input);
    }
    client.finish();
    client.reached
}

fn step(client: &mut Client, input: &mut Input<'_>) {
    match input.byte() % OPERATIONS {
        RAW => client.hear(input.text().to_vec()),
        FRAME => {
            let (kind, flags, stream) = (input.byte(), input.byte(), u32::from(input.short()));
            client.hear(frame(kind, flags, stream, input.text()));
        }
        FIELDS => {
            let (place, flags, count) = (input.byte(), input.byte(), input.byte() % 8);
            let fields: Vec<u8> = (0..count).flat_map(|_| literal(input.text(), input.text())).collect();
            if let Some(stream) = client.nth(place) {
                client.hear(frame(HEADERS, flags, stream, &fields));
            }
        }
        ON_STREAM => {
            let (place, kind, flags, payload) = (input.byte(), input.byte(), input.byte(), input.text());
            if let Some(stream) = client.nth(place) {
                client.hear(frame(kind, flags, stream, payload));
            }
        }
        AGAIN => client.again(AGAIN_UNIT * usize::from(input.byte())),
        PASS => client.now += Nanos::from_millis(input.short().into()),
        CUT => client.cut = Some(input.byte()).filter(|bytes| *bytes > 0).map_or(usize::MAX, usize::from),
        REQUEST => client.request(input.byte()),
        operation => act(client, operation, input),
    }
}

/// The client's actions.
fn act(client: &mut Client, operation: u8, input: &mut Input<'_>) {
    let Some(stream) = client.nth(input.byte()) else { return };
    match operation {
        WRITE => client.write(stream, input.short().into()),
        READ => client.read(stream, input.short().into()),
        _ => client.leave(stream),
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
