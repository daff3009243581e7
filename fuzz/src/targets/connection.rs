//! A connection of HTTP/1.1 and part of a worker's loop: `way`, `count`, that many operations, then everything that the
//! client sends.
//!
//! An operation takes some of the client's bytes, sends a response, lets time pass, or requests the end. If no time
//! passes and no end is requested, the responses equal those to the same bytes in one piece.

use http::{Method, Request};
use server::Limits;
use server::testing::{Driven, Seen, WAYS};
use units::Nanos;

use crate::{Input, Reached, Script, Target};

pub const TARGET: Target = Target {
    name: "connection",
    run,
    reaches: &[
        "a body",
        "a late head",
        "a request",
        "a request postponed",
        "an idle connection closed",
        "lingering",
        "refused",
        "several requests",
        "stopped",
    ],
    seeds,
    mutants: 10_000,
};

const OPERATIONS_MAX: u8 = 32;

/// A connection, and the marks that it has reached.
struct Worker {
    driven: Driven,
    reached: Reached,
}

impl Worker {
    fn new(way: usize) -> Worker {
        Worker { driven: Driven::new(WAYS[way % WAYS.len()], limits(), is_wanted), reached: Reached::default() }
    }

    /// Lets time pass.
    fn pass(&mut self, span: Nanos) {
        let was_closed = self.driven.is_closed;
        self.driven.pass(span);
        self.reached.mark_if(self.driven.is_closed && !was_closed, "an idle connection closed");
    }

    fn stop(&mut self) {
        self.reached.mark("stopped");
        self.driven.http1.answering.close();
        self.driven.is_closed |= self.driven.http1.is_idle();
    }

    fn receive(&mut self, bytes: &[u8]) {
        self.driven.receive(bytes);
        self.reached.mark_if(self.driven.http1.is_lingering(), "lingering");
    }

    fn reached(mut self) -> Reached {
        let Seen { bodies, requests, postponed, refused, late_heads } = self.driven.seen;
        for (count, name) in [
            (bodies, "a body"),
            (requests, "a request"),
            (requests.saturating_sub(1), "several requests"),
            (postponed, "a request postponed"),
            (refused, "refused"),
            (late_heads, "a late head"),
        ] {
            self.reached.mark_if(count > 0, name);
        }
        self.reached
    }
}

/// Small limits, which bodies of a few bytes exceed.
fn limits() -> Limits {
    Limits { body_bytes_max: 256, ..Limits::default() }
}

fn run(bytes: &[u8]) -> Reached {
    let mut input = Input::new(bytes);
    let way = input.byte().into();
    let count = input.byte() % OPERATIONS_MAX;
    let operations = input.take(count.into());
    let mut wire = input;
    let all = wire.rest();
    let mut worker = Worker::new(way);
    let mut is_pure = true;
    for operation in operations {
        let (kind, amount) = (operation >> 6, operation & 0x3f);
        match kind {
            0 | 1 => worker.receive(input.take(usize::from(amount) << (4 * kind))),
            2 => {
                is_pure = false;
                worker.pass(Nanos::from_secs(u64::from(amount) * 2));
            }
            _ if amount == 0 => {
                is_pure = false;
                worker.stop();
            }
            _ => worker.driven.let_go(),
        }
    }
    worker.receive(input.rest());
    worker.driven.let_go();
    if is_pure {
        let mut whole = Worker::new(0);
        whole.receive(all);
        assert!(whole.driven.sent == worker.driven.sent, "the responses depend on how the bytes came");
        assert_eq!(whole.driven.http1.is_lingering(), worker.driven.http1.is_lingering());
    }
    worker.reached()
}

const GET: &str = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n";

fn post(fields: &str) -> String {
    format!("POST /a HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
}

/// A program of these operations and bytes.
fn program(way: usize, operations: &[u8], wire: &str) -> Vec<u8> {
    Script::default().byte(way as u8).text(operations).raw(wire.as_bytes()).done()
}

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = (0..WAYS.len()).flat_map(conversations).collect();
    seeds.extend(ends());
    seeds
}

fn conversations(way: usize) -> [Vec<u8>; 4] {
    let (five, one) = (post("Content-Length: 5\r\n"), post("Content-Length: 1\r\n"));
    let chunked = post("Transfer-Encoding: chunked\r\n");
    [
        program(way, &[20, 60, 0xc1], &GET.repeat(7)),
        program(way, &[3], &format!("\r\n{GET}\r\n{}{GET}", GET.replace("GET", "HEAD"))),
        program(way, &[50, 9], &format!("{GET}{five}hello{GET}{one}x{GET}")),
        program(way, &[], &format!("{GET}{chunked}5;a=b\r\nhello\r\n0\r\nT: x\r\n\r\n{GET}")),
    ]
}

fn ends() -> [Vec<u8>; 10] {
    let five = post("Content-Length: 5\r\n");
    let old = "GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
    let closing = GET.replace("Host", "Connection: close\r\nHost");
    [
        program(0, &[], &format!("{}hello{GET}", post("Content-Length: 5\r\nExpect: 100-continue\r\n"))),
        program(1, &[], &format!("{GET}{}hello{GET}", post("Content-Length: 4000\r\n"))),
        program(0, &[], &format!("{GET}nonsense\r\n\r\n{GET}")),
        program(2, &[], &format!("{}5\r\nhello!\r\n{GET}", post("Transfer-Encoding: chunked\r\n"))),
        program(0, &[], &format!("{old}{closing}")),
        // Late: in a head, in a body, idle, lingering.
        program(0, &[10, 0xbf, 20], GET),
        program(0, &[0x43, 0x8f, 0xbf], &format!("{five}hel")),
        program(0, &[28, 0xbf], GET),
        program(0, &[0x4f, 0x82], "nonsense\r\n\r\n"),
        program(3, &[56, 0xc0], &GET.repeat(3)),
    ]
}

/// Bodies of PUT are passed on, others are discarded.
fn is_wanted(request: &Request) -> bool {
    request.method == Method::Put
}
