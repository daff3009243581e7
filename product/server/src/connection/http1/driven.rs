//! An HTTP/1.1 connection driven in the way a worker drives it, in simulated time, for tests and fuzzing.

use std::time::{Duration, UNIX_EPOCH};

use http::{HttpDate, Method, Request, Response, Status};
use units::Nanos;

use super::{Event, Http1, Late};
use crate::clock::ClientTime;
use crate::limits::Limits;

/// The body of every response.
const BODY: &[u8] = b"hello";

/// The order in which responses are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Each response is sent before the next request is parsed.
    AtOnce,
    /// The responses to one piece of input are sent together, after it.
    Gathered,
    /// Each response is sent when the next piece of input has arrived, or when there is no more input.
    Held,
    /// Responses are gathered as in `Gathered`, but sent only with the next piece of input, and later requests wait for
    /// that.
    Postponed,
}

pub const WAYS: [Way; 4] = [Way::AtOnce, Way::Gathered, Way::Held, Way::Postponed];

/// The number of times that each event occurred.
#[derive(Default)]
pub struct Seen {
    pub bodies: usize,
    pub requests: usize,
    pub postponed: usize,
    pub refused: usize,
    pub late_heads: usize,
}

pub struct Driven {
    pub http1: Http1,
    pub limits: Limits,
    pub now: ClientTime,
    way: Way,
    /// Returns true for requests whose bodies are passed on.
    is_wanted: fn(&Request) -> bool,
    pub sent: Vec<u8>,
    pub seen: Seen,
    /// True if responses were made and not sent.
    gathered: bool,
    held: bool,
    pub is_closed: bool,
}

impl Driven {
    pub fn new(way: Way, limits: Limits, is_wanted: fn(&Request) -> bool) -> Driven {
        let now = ClientTime::after(Nanos::from_secs(1));
        let (http1, sent, seen) = (Http1::new(now, &limits), Vec::new(), Seen::default());
        let (gathered, held, is_closed) = (false, false, false);
        Driven { http1, limits, now, way, is_wanted, sent, seen, gathered, held, is_closed }
    }

    /// Receives bytes. Bytes that arrive while a response is being sent are read after it, as with a socket.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.let_go();
        self.take(bytes);
        while self.http1.has_kept() && self.held {
            let before = self.sent.len();
            self.let_go();
            self.take(&[]);
            if self.sent.len() == before && self.held {
                break;
            }
        }
    }

    pub fn take(&mut self, bytes: &[u8]) {
        if self.is_closed {
            return;
        }
        let mut http1 = std::mem::replace(&mut self.http1, Http1::new(ClientTime::default(), &self.limits));
        let mut received = http1.receive(bytes);
        while let Some(event) = http1.next(self.now, &self.limits, &mut received, self.is_wanted) {
            match event {
                Event::Body => self.seen.bodies += 1,
                Event::Data { .. } => {}
                Event::Request { head } if self.way == Way::Postponed && self.gathered => {
                    self.seen.postponed += 1;
                    http1.on_held(self.now);
                    http1.postpone(&head);
                    (self.gathered, self.held) = (false, true);
                }
                Event::Request { head } => {
                    assert!(head.bytes <= self.limits.request.head_bytes_max);
                    self.seen.requests += 1;
                    let is_read = matches!(head.request.method, Method::Get | Method::Head);
                    let status = if is_read { Status::OK } else { Status::METHOD_NOT_ALLOWED };
                    self.answer(&mut http1, status, false);
                }
                Event::Refused { reject, .. } => {
                    self.seen.refused += 1;
                    self.answer(&mut http1, reject.status, true);
                    assert!(http1.answering.closes(), "nothing is read after a refusal");
                }
            }
        }
        http1.keep(received);
        self.http1 = http1;
        if std::mem::take(&mut self.gathered) {
            self.http1.on_sent(self.now, &self.limits);
        }
    }

    pub fn answer(&mut self, http1: &mut Http1, status: Status, is_last: bool) {
        assert!(!http1.is_lingering(), "a response after the last");
        let response = Response::new(status, ()).with_length(BODY.len() as u64);
        let date = HttpDate::new(UNIX_EPOCH + Duration::from_secs(784_111_777));
        if http1.encode(&response, is_last, &date, &mut self.sent).is_some() {
            self.sent.extend_from_slice(BODY);
        }
        match self.way {
            Way::Held => {
                http1.on_held(self.now);
                self.held = true;
            }
            Way::Gathered | Way::Postponed if !http1.answering.closes() => {
                http1.answering.on_gathered();
                self.gathered = true;
            }
            _ => {
                http1.on_sent(self.now, &self.limits);
                self.gathered = false;
            }
        }
    }

    /// Sends the responses that were held.
    pub fn let_go(&mut self) {
        if std::mem::take(&mut self.held) {
            self.http1.on_sent(self.now, &self.limits);
        }
    }

    /// Advances the time, as the worker's sweep does.
    pub fn pass(&mut self, span: Nanos) {
        self.now = self.now + span;
        if self.is_closed || self.now < self.http1.deadline() {
            return;
        }
        match self.http1.on_deadline() {
            Some(Late::Refused { reject, .. }) => {
                self.seen.late_heads += 1;
                let mut http1 = std::mem::replace(&mut self.http1, Http1::new(ClientTime::default(), &self.limits));
                self.answer(&mut http1, reject.status, true);
                self.http1 = http1;
            }
            Some(Late::Close) => self.is_closed = true,
            None => {}
        }
    }
}
