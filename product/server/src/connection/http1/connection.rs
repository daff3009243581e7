//! An HTTP/1.1 connection: requests in order, each answered before the next is parsed.
//!
//! ```text
//! receive -> next -> Event -> encode -> on_gathered | on_held ... on_sent -> keep
//! ```

use http::http1::{self, Delimiter, Head, OwnedHead, Search};
use http::{BodyLength, HttpDate, Reject, Request, Response, Shown, Status};
use units::Nanos;

use super::answering::{Answering, Form};
use super::passing::Passing;
use super::received::{Kept, Received};
use super::request_body::RequestBody;
use crate::clock::ClientTime;
use crate::limits::Limits;
use crate::upload::Upload;

/// The time within which a client can receive the last response before the connection is cut off: a round trip or two.
/// Apache's SECONDS_TO_LINGER is the same.
const LINGER_FOR: Nanos = Nanos::from_secs(2);

/// The answer to a client that is too slow.
pub const TOO_SLOW: Reject = Reject { status: Status::REQUEST_TIMEOUT, reason: "the request took too long to arrive" };

/// The state of an HTTP/1.1 connection. It holds no buffers while idle.
pub struct Http1 {
    phase: Phase,
    pub answering: Answering,
    kept: Option<Box<Kept>>,
    deadline: ClientTime,
}

enum Phase {
    /// Waiting for a request, or for the rest of its head.
    Head,
    /// Reading a request body that is discarded.
    Body(Box<RequestBody>),
    /// Passing on bytes as they arrive: a request body, or the data of a tunnel.
    Passing(Box<Passing>),
    /// A complete request waits until an earlier response has been sent.
    Waiting(Box<OwnedHead>),
    /// The last response was sent and our side is closed. Reading continues until the client has received the response
    /// and closes its side too. If both sides were closed immediately, late bytes would be answered with a reset, which
    /// can lose the response (RFC 9112 section 9.6).
    Lingering {
        /// The bytes that the client had acknowledged at the last look.
        acked_bytes: u64,
    },
}

impl Phase {
    /// Returns true if arriving bytes belong to the last request taken.
    fn is_passing(&self) -> bool {
        matches!(self, Phase::Passing(passing) if !passing.is_waiting())
    }

    /// The bytes of the request that is incomplete or waiting.
    fn head_bytes(&self) -> usize {
        match self {
            Phase::Body(body) => body.head.view().bytes,
            Phase::Passing(passing) => passing.request().map_or(0, |body| body.head.view().bytes),
            Phase::Waiting(head) => head.view().bytes,
            Phase::Head | Phase::Lingering { .. } => 0,
        }
    }
}

/// An event in the received bytes.
#[derive(Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "one at a time is on the stack")]
pub enum Event<'a> {
    /// There is nothing to answer yet, because the body of a request has not arrived or has not been parsed.
    Body,
    /// A request that must be answered. If its body is passed on, the body may not have arrived yet.
    Request { head: Head<'a> },
    /// Another part of a request body that is passed on.
    Data { bytes: &'a [u8], is_last: bool },
    /// An invalid request, or a request with an invalid body. It must be answered, and nothing more is read. The
    /// received bytes may be TLS.
    Refused { reject: Reject, shown: Shown<'a>, is_tls: bool },
}

/// The action for a connection that has missed its deadline.
#[derive(Debug, PartialEq, Eq)]
pub enum Late {
    /// A request has begun to arrive, so that its sender must get a response (RFC 9110 section 15.5.9).
    Refused {
        reject: Reject,
        shown: Shown<'static>,
    },
    Close,
}

impl Http1 {
    pub fn new(now: ClientTime, limits: &Limits) -> Http1 {
        Http1 { phase: Phase::Head, answering: Answering::new(), kept: None, deadline: now + limits.head_timeout }
    }

    /// Creates the state of a connection whose frames have ended.
    pub fn ended(now: ClientTime) -> Http1 {
        Http1 { phase: Phase::Head, answering: Answering::new(), kept: None, deadline: now }
    }

    /// Stops sending. Bytes that still arrive from the client are read and dropped.
    pub fn drain(&mut self, now: ClientTime, limits: &Limits) {
        self.answering.refuse_aside();
        self.on_sent(now, limits);
    }

    /// Sets the instant until which the connection waits for its client.
    pub fn wait_until(&mut self, deadline: ClientTime) {
        self.deadline = deadline;
    }

    /// Returns true if no whole request has arrived since the last answer.
    pub fn is_unasked(&self) -> bool {
        matches!(self.phase, Phase::Head) && !self.answering.is_on() && !self.answering.closes()
    }

    /// Treats the received bytes as something other than HTTP: they must be answered, and nothing more is read.
    pub fn give_up(&mut self) {
        self.owe(Form::OF_REFUSAL);
    }

    /// Appends received bytes to the stored ones. If `fresh` is empty, the stored bytes are parsed again.
    pub fn receive<'a>(&mut self, fresh: &'a [u8]) -> Received<'a> {
        Received::new(self.kept.take(), fresh)
    }

    /// Returns the next event in the received bytes; `None` if more bytes must arrive or a response must be sent first.
    /// A request whose body is passed on is returned before its body, any other request after it.
    pub fn next<'r>(
        &mut self,
        now: ClientTime,
        limits: &Limits,
        received: &'r mut Received,
        is_wanted: impl Fn(&Request) -> bool,
    ) -> Option<Event<'r>> {
        if !self.is_reading() {
            return None;
        }
        if let Phase::Passing(_) = self.phase {
            return self.next_passed(now, received);
        }
        if self.answering.closes() {
            // No more requests are wanted.
            received.used = received.bytes.len();
            return None;
        }
        match &mut self.phase {
            Phase::Head | Phase::Body(_) | Phase::Lingering { .. } if received.is_empty() => None,
            Phase::Head | Phase::Lingering { .. } => self.next_head(now, limits, received, is_wanted),
            Phase::Passing(_) => unreachable!("it is looked at first"),
            Phase::Body(_) => self.next_of_body(now, received),
            Phase::Waiting(_) => self.begin_kept(received, true),
        }
    }

    /// Reads more of a body that is discarded.
    fn next_of_body<'r>(&mut self, now: ClientTime, received: &'r mut Received) -> Option<Event<'r>> {
        let Phase::Body(body) = &mut self.phase else { return None };
        let taken = body.take(now, received.rest());
        received.used = match taken {
            Ok(Some((bytes, true))) => received.used + bytes,
            _ => received.bytes.len(),
        };
        let reject = match taken {
            Ok(Some((_, false))) => return None,
            Ok(Some((_, true))) => return self.begin_kept(received, true),
            // The body is too long to be awaited.
            Ok(None) => return self.begin_kept(received, false),
            Err(reject) => reject,
        };
        received.head = self.take_unanswered();
        let shown = received.head.as_ref()?.view().shown();
        Some(self.refuse(reject, shown, false))
    }

    /// Reads more of the bytes that are passed on.
    fn next_passed<'r>(&mut self, now: ClientTime, received: &'r mut Received) -> Option<Event<'r>> {
        let Phase::Passing(passing) = &mut self.phase else { return None };
        if let Some(head) = passing.resume(now) {
            let head = received.head.insert(head).view();
            self.owe(Form::of_wanted(&head));
            return Some(Event::Request { head });
        }
        if received.is_empty() {
            return None;
        }
        let reject = match passing.take(now, received) {
            Ok((bytes, is_last)) => {
                if is_last {
                    self.phase = Phase::Head;
                }
                return Some(Event::Data { bytes, is_last });
            }
            Err(reject) => reject,
        };
        let shown = passing.request()?.head.view().shown().into_owned();
        self.phase = Phase::Head;
        if self.answering.is_owed() {
            return Some(self.refuse(reject, shown, false));
        }
        // Its response is under way; nothing after it is read.
        self.answering.close();
        None
    }

    fn next_head<'r>(
        &mut self,
        now: ClientTime,
        limits: &Limits,
        received: &'r mut Received,
        is_wanted: impl Fn(&Request) -> bool,
    ) -> Option<Event<'r>> {
        let rest = &received.bytes[received.used..];
        let parsed = received.search.parse(rest, &limits.request);
        if !matches!(parsed, Ok(None)) {
            received.search = Search::default();
        }
        let refused = match parsed {
            Ok(Some(mut head)) => {
                let is_wanted = head.request.body != BodyLength::None && is_wanted(&head.request);
                let is_answered = self.on_head(now, limits, &mut head, is_wanted);
                received.used += head.bytes;
                return Some(if is_answered { Event::Request { head } } else { Event::Body });
            }
            Ok(None) => {
                // The time for a head runs from its first byte, however slowly the others come.
                self.deadline = self.deadline.min(now + limits.head_timeout);
                return None;
            }
            Err(reject) => reject,
        };
        received.used = received.bytes.len();
        Some(self.refuse(refused, http1::shown(rest), tls::is_tls(rest)))
    }

    /// Handles a head that has arrived. Returns whether it is answered now. A body to be discarded is read first; if it
    /// is too long for that, it is not read, and the connection ends with the answer.
    fn on_head(&mut self, now: ClientTime, limits: &Limits, head: &mut Head, is_wanted: bool) -> bool {
        let upload = Upload::new(now, limits.upload());
        if is_wanted {
            self.owe(Form::of_wanted(head));
            let body = RequestBody::new(head, u64::MAX, upload).expect("no body is longer");
            self.phase = Phase::Passing(Box::new(Passing::of(Some(body))));
            return true;
        }
        if head.request.body != BodyLength::None && !head.expect_continue {
            if let Some(body) = RequestBody::new(head, limits.body_bytes_max, upload) {
                self.phase = Phase::Body(Box::new(body));
                return false;
            }
            head.keep_alive = false;
        }
        self.owe(Form::of(head));
        true
    }

    /// Returns the state of bytes that are passed on as they arrive, if there are any.
    pub fn passing(&mut self) -> Option<&mut Passing> {
        match &mut self.phase {
            Phase::Passing(passing) => Some(passing),
            _ => None,
        }
    }

    /// Begins the answer to the stored request. If its body was not received completely, nothing is read after the
    /// answer.
    fn begin_kept<'r>(&mut self, received: &'r mut Received, is_whole: bool) -> Option<Event<'r>> {
        received.head = self.take_unanswered();
        let mut head = received.head.as_ref()?.view();
        head.keep_alive &= is_whole;
        self.owe(Form::of(&head));
        Some(Event::Request { head })
    }

    fn refuse<'r>(&mut self, reject: Reject, shown: Shown<'r>, is_tls: bool) -> Event<'r> {
        self.owe(Form::OF_REFUSAL);
        Event::Refused { reject, shown, is_tls }
    }

    fn owe(&mut self, form: Form) {
        self.answering.owe(form);
        self.deadline = ClientTime::NEVER;
    }

    /// Keeps the unused bytes.
    pub fn keep(&mut self, received: Received) {
        self.kept = received.into_kept();
    }

    /// Postpones the last request taken until an earlier response has been sent.
    pub fn postpone(&mut self, head: &Head) {
        match &mut self.phase {
            // The body is still to come.
            Phase::Passing(passing) => passing.wait(),
            _ => self.phase = Phase::Waiting(Box::new(head.into())),
        }
        self.answering.postpone();
    }

    /// Appends the head of the response that is due; `is_last` makes it the last one. Returns the delimiter of the
    /// body; `None` if no body follows.
    pub fn encode<B>(
        &mut self,
        response: &Response<B>,
        is_last: bool,
        date: &HttpDate,
        out: &mut Vec<u8>,
    ) -> Option<Delimiter> {
        // If part of the request's body is still to come, nobody may want it once the response is sent.
        let is_last = is_last || self.phase.is_passing();
        let delimiter = self.answering.encode(response, is_last, date, out);
        if response.status == Status::SWITCHING_PROTOCOLS {
            self.answering.close();
            self.phase = Phase::Passing(Box::new(Passing::of(None)));
        }
        delimiter
    }

    /// Records that responses were made and wait to be sent.
    pub fn on_held(&mut self, now: ClientTime) {
        self.answering.on_held();
        self.deadline = ClientTime::NEVER;
        match &mut self.phase {
            Phase::Body(body) => body.upload.hold(now),
            Phase::Passing(passing) => passing.on_held(now),
            Phase::Head | Phase::Waiting(_) | Phase::Lingering { .. } => {}
        }
    }

    /// Records that all responses made so far have been sent. After the last response the connection ends.
    pub fn on_sent(&mut self, now: ClientTime, limits: &Limits) {
        if self.answering.is_owed() {
            return;
        }
        self.answering.on_sent();
        if self.phase.is_passing() {
            // The client continues to send a body that nobody wants any more.
            self.answering.close();
        }
        self.deadline = match &mut self.phase {
            _ if self.answering.closes() => {
                self.phase = Phase::Lingering { acked_bytes: 0 };
                now + LINGER_FOR
            }
            Phase::Body(body) => {
                body.upload.go_on(now);
                ClientTime::NEVER
            }
            // Part of the next head is here already, so the connection is not idle.
            _ if self.kept.is_some() => now + limits.head_timeout,
            _ => limits.idle_until(now),
        };
    }

    /// Takes the stored request, which waits for its body or for an earlier response.
    pub fn take_unanswered(&mut self) -> Option<Box<OwnedHead>> {
        match std::mem::replace(&mut self.phase, Phase::Head) {
            Phase::Body(body) => Some(body.head),
            Phase::Waiting(head) => Some(head),
            Phase::Passing(_) | Phase::Head | Phase::Lingering { .. } => None,
        }
    }

    /// The instant after which the connection has waited too long for its client.
    pub fn deadline(&self) -> ClientTime {
        match &self.phase {
            Phase::Body(body) => body.upload.deadline(),
            Phase::Passing(passing) if self.answering.is_owed() => passing.deadline(),
            _ => self.deadline,
        }
    }

    pub fn on_deadline(&mut self) -> Option<Late> {
        let shown = match &mut self.phase {
            Phase::Passing(passing) if self.answering.is_owed() => passing.request()?.head.view().shown().into_owned(),
            _ if self.answering.is_on() => return None,
            Phase::Passing(_) => return Some(Late::Close),
            Phase::Body(body) => body.head.view().shown().into_owned(),
            Phase::Head => match self.kept.take() {
                Some(kept) => http1::shown(kept.rest()).into_owned(),
                None => return Some(Late::Close),
            },
            Phase::Waiting(_) | Phase::Lingering { .. } => return Some(Late::Close),
        };
        self.phase = Phase::Head;
        self.owe(Form::OF_REFUSAL);
        Some(Late::Refused { reject: TOO_SLOW, shown })
    }

    /// Returns true if arriving bytes are parsed: no response is due, or the body of the current request is still being
    /// passed on.
    pub fn is_reading(&self) -> bool {
        !self.answering.is_on() || matches!(&self.phase, Phase::Passing(passing) if !passing.is_held())
    }

    pub fn is_lingering(&self) -> bool {
        matches!(self.phase, Phase::Lingering { .. })
    }

    /// Extends the wait for a lingering client if the client is still acknowledging, because a reset would lose the
    /// rest of what it was sent. The client has acknowledged `acked_by_now_bytes` so far, and not everything. Returns
    /// false if the client is slower than `bytes_per_s_min`; its connection then ends.
    pub fn linger_on(&mut self, now: ClientTime, acked_by_now_bytes: u64, bytes_per_s_min: u64) -> bool {
        let Phase::Lingering { acked_bytes } = &mut self.phase else { return false };
        let newly_acked_bytes = acked_by_now_bytes.saturating_sub(std::mem::replace(acked_bytes, acked_by_now_bytes));
        let goes_on = newly_acked_bytes >= (bytes_per_s_min * LINGER_FOR.0 / 1_000_000_000).max(1);
        if goes_on {
            self.deadline = now + LINGER_FOR;
        }
        goes_on
    }

    /// Returns true if received bytes or a request wait to be parsed.
    pub fn has_kept(&self) -> bool {
        self.kept.is_some()
            || matches!(self.phase, Phase::Waiting(_))
            || matches!(&self.phase, Phase::Passing(passing) if passing.is_waiting())
    }

    /// The stored bytes of requests that are incomplete or waiting.
    pub fn kept_bytes(&self) -> usize {
        self.phase.head_bytes() + self.kept.as_ref().map_or(0, |kept| kept.memory_bytes())
    }

    /// The stored bytes of a request whose head is incomplete.
    pub fn part_bytes(&self) -> usize {
        let is_part = matches!(self.phase, Phase::Head) && !self.answering.is_on();
        self.kept.as_ref().filter(|_| is_part).map_or(0, |kept| kept.memory_bytes())
    }

    /// Returns true if no request is in progress and none is known to be arriving.
    pub fn is_idle(&self) -> bool {
        self.is_lingering() || (!self.answering.is_on() && matches!(self.phase, Phase::Head) && self.kept.is_none())
    }

    /// Returns true if only part of a request has arrived.
    pub fn has_part(&self) -> bool {
        !self.answering.is_on()
            && (matches!(self.phase, Phase::Body(_)) || (self.kept.is_some() && !self.is_lingering()))
    }
}
