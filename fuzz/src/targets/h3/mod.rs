//! HTTP/3 after a real handshake: a complete QUIC client, whose streams have the contents that the input specifies, and
//! a server that answers as it specifies. `choice`, then operations; after each, datagrams are exchanged in both
//! directions until there are none.

mod link;
mod seeds;

use quic::testing::{self, Dir, HEADERS, PRIORITY_UPDATE};
use units::Nanos;

use crate::{Input, Reached, Target};
use link::{DATAGRAMS_MAX, Link};
pub use link::{acceptor, address};

pub const TARGET: Target = Target {
    name: "h3",
    run,
    reaches: &[
        "a malformed request",
        "a request's body cut off",
        "a request's body whole",
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
    seeds: seeds::all,
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
/// The client stops reading, or resumes.
const DEAF: u8 = 19;
/// The client's address changes, and it sends from the new one.
const MOVE: u8 = 20;
const OPERATIONS: u8 = 21;

/// Bits of an input's first byte.
const HAS_NO_CONTROL: u8 = 1;
const IS_NARROW: u8 = 2;
/// The server wants the bodies of requests, and reads them when it writes; or also when it is told of them.
const WANTS_BODIES: u8 = 4;
const READS_AT_ONCE: u8 = 8;

/// The number of repetitions by [`AGAIN`] for each of its units.
const AGAIN_UNIT: usize = 8;
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
        operation @ (DEAF | CLOSE | GO_AWAY | MOVE) => on_connection(link, operation, input),
        operation @ (MORE | FINISH | RESET | STOP | FRAME) => on_stream(link, operation, input),
        operation => answer(link, operation, input),
    }
}

/// Actions of either side on the connection as a whole.
fn on_connection(link: &mut Link, operation: u8, input: &mut Input<'_>) {
    match operation {
        DEAF => {
            link.client.is_deaf = input.byte() % 2 == 1;
            if !link.client.is_deaf {
                link.client.read();
            }
        }
        MOVE => {
            link.from.set_port(5000 + u16::from(input.byte()));
            link.client.ping();
        }
        CLOSE => {
            link.reached.mark("closed by the client");
            link.client.close(link.now, input.short().into());
        }
        _ => {
            link.reached.mark("farewell");
            link.session().go_away();
        }
    }
    link.exchange();
}

/// Actions of a client on one of its streams.
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

/// Actions of the server on a request.
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
