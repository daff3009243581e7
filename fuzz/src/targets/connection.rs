//! A connection of HTTP/1.1 and the part of a worker's loop: `way`, `count`, so many operations, then all that the client sends.
//!
//! An operation takes so many bytes of it, lets a response go, lets time pass, or asks for the end. Where no time passes and nobody asks for
//! the end, the responses are those to the same bytes in one piece.

use std::time::{Duration, UNIX_EPOCH};

use http::{HttpDate, Method, Request, Response, Status};
use server::Limits;
use server::testing::{ClientTime, Event, Http1, Late};
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
const BODY: &[u8] = b"hello";

/// How responses leave.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// Each before the next request is looked at.
    AtOnce,
    /// Those to one piece of input together.
    Gathered,
    /// Each when the next piece has come.
    Held,
    /// Gathered, and requests behind them wait until those are sent.
    Postponed,
}

const WAYS: [Way; 4] = [Way::AtOnce, Way::Gathered, Way::Held, Way::Postponed];

/// A connection, and what a worker does with it.
struct Worker {
    http1: Http1,
    limits: Limits,
    now: ClientTime,
    way: Way,
    sent: Vec<u8>,
    requests: usize,
    has_gathered: bool,
    has_held: bool,
    is_closed: bool,
    reached: Reached,
}

impl Worker {
    fn new(way: Way) -> Worker {
        let (now, limits) = (ClientTime::after(Nanos::from_secs(1)), limits());
        Worker {
            http1: Http1::new(now, &limits),
            limits,
            now,
            way,
            sent: Vec::new(),
            requests: 0,
            has_gathered: false,
            has_held: false,
            is_closed: false,
            reached: Reached::default(),
        }
    }

    fn receive(&mut self, bytes: &[u8]) {
        self.let_go();
        self.take(bytes);
        while self.http1.has_kept() && self.has_held {
            let sent = (self.sent.len(), self.has_held);
            self.let_go();
            self.take(&[]);
            if (self.sent.len(), self.has_held) == sent {
                break;
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        if self.is_closed {
            return;
        }
        // The worker has one connection among many, and takes it out of its table as well.
        let mut http1 = std::mem::replace(&mut self.http1, Http1::new(ClientTime::default(), &self.limits));
        let mut received = http1.receive(bytes);
        while let Some(event) = http1.next(self.now, &self.limits, &mut received, is_wanted) {
            match event {
                Event::Data { bytes, .. } => assert!(bytes.len() <= self.limits.request.head_bytes_max.max(1 << 20)),
                Event::Body => self.reached.mark("a body"),
                Event::Request { head } if self.way == Way::Postponed && self.has_gathered => {
                    self.reached.mark("a request postponed");
                    http1.on_held(self.now);
                    http1.postpone(&head);
                    (self.has_gathered, self.has_held) = (false, true);
                }
                Event::Request { head } => {
                    assert!(head.bytes <= self.limits.request.head_bytes_max);
                    self.requests += 1;
                    self.reached.mark("a request");
                    self.reached.mark_if(self.requests > 1, "several requests");
                    let is_read = matches!(head.request.method, Method::Get | Method::Head);
                    let status = if is_read { Status::OK } else { Status::METHOD_NOT_ALLOWED };
                    self.answer(&mut http1, status, false);
                }
                Event::Refused { reject, .. } => {
                    self.reached.mark("refused");
                    self.answer(&mut http1, reject.status, true);
                    assert!(http1.answering.closes(), "behind a refusal nothing is read");
                }
            }
        }
        http1.keep(received);
        self.http1 = http1;
        if std::mem::take(&mut self.has_gathered) {
            self.http1.on_sent(self.now, &self.limits);
        }
        self.reached.mark_if(self.http1.is_lingering(), "lingering");
    }

    fn answer(&mut self, http1: &mut Http1, status: Status, is_last: bool) {
        assert!(!http1.is_lingering(), "a response behind the last");
        let response = Response::new(status, ()).with_length(BODY.len() as u64);
        let date = HttpDate::new(UNIX_EPOCH + Duration::from_secs(784_111_777));
        if http1.encode(&response, is_last, &date, &mut self.sent).is_some() {
            self.sent.extend_from_slice(BODY);
        }
        match self.way {
            Way::Held => {
                http1.on_held(self.now);
                self.has_held = true;
            }
            Way::Gathered | Way::Postponed if !http1.answering.closes() => {
                http1.answering.on_gathered();
                self.has_gathered = true;
            }
            _ => {
                http1.on_sent(self.now, &self.limits);
                self.has_gathered = false;
            }
        }
    }

    /// What was held is sent.
    fn let_go(&mut self) {
        if std::mem::take(&mut self.has_held) {
            self.http1.on_sent(self.now, &self.limits);
        }
    }

    /// Time passes, as the worker's sweep sees it.
    fn pass(&mut self, span: Nanos) {
        self.now = self.now + span;
        if self.is_closed || self.now < self.http1.deadline() {
            return;
        }
        match self.http1.on_deadline() {
            Some(Late::Refused { reject, .. }) => {
                self.reached.mark("a late head");
                let mut http1 = std::mem::replace(&mut self.http1, Http1::new(ClientTime::default(), &self.limits));
                self.answer(&mut http1, reject.status, true);
                self.http1 = http1;
            }
            Some(Late::Close) => {
                self.reached.mark("an idle connection closed");
                self.is_closed = true;
            }
            None => {}
        }
    }

    fn stop(&mut self) {
        self.reached.mark("stopped");
        self.http1.answering.close();
        if self.http1.is_idle() {
            self.is_closed = true;
        }
    }
}

/// Small, so that bodies of a few bytes go past them.
fn limits() -> Limits {
    Limits { body_bytes_max: 256, ..Limits::default() }
}

fn run(bytes: &[u8]) -> Reached {
    let mut input = Input::new(bytes);
    let way = WAYS[usize::from(input.byte()) % WAYS.len()];
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
            _ => worker.let_go(),
        }
    }
    worker.receive(input.rest());
    worker.let_go();
    if is_pure {
        let mut whole = Worker::new(Way::AtOnce);
        whole.receive(all);
        assert!(whole.sent == worker.sent, "the responses depend on how the bytes came");
        assert_eq!(whole.http1.is_lingering(), worker.http1.is_lingering());
    }
    worker.reached
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

/// Bodies of PUT are passed on, others thrown away.
fn is_wanted(request: &Request) -> bool {
    request.method == Method::Put
}
