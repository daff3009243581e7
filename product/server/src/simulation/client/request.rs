//! A client's request, and the correct response.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use http::Coding;

use super::super::application::{Ask, Expected, TEXT};
use super::super::files::{ABSENT, Site};
use super::super::plan::{Plan, UpstreamPlan};
use super::super::random::Random;
use crate::codec::decoded_bytes;
use crate::codec::testing::decoded;
use crate::stages::staging;

/// The maximum body of a client that sends a few bytes at a time: the server's patience is limited.
const SLOW_UPLOAD_BYTES_MAX: usize = 100;

#[derive(Debug, Clone)]
pub struct Request {
    pub path: String,
    pub kind: Kind,
    file: Option<usize>,
    /// Set if the response may use a content coding.
    coded: Option<Coded>,
}

/// The codings that a request accepts, and the bytes received so far.
#[derive(Debug, Clone)]
struct Coded {
    accepted: &'static str,
    came: Rc<RefCell<Vec<u8>>>,
}

/// Values of Accept-Encoding.
const ACCEPTED: [&str; 5] =
    ["gzip, deflate, br, zstd", "gzip", "zstd;q=0.5, gzip;q=0.4", "br, identity;q=0", "identity"];

#[derive(Debug, Clone)]
pub enum Kind {
    Get,
    Head,
    /// A page of text.
    Page(usize),
    /// The existing bytes of the range, and the last byte requested, which may be far past the end.
    Part(Range<usize>, u128),
    /// If-None-Match with a value that matches anything.
    Unchanged,
    Late,
    /// A request to an application.
    Passed(Box<Ask>, Expected),
}

/// The meaning of a response, by its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// The requested content.
    Answer,
    /// The body is the text of an error.
    Reason,
}

impl Request {
    pub fn of(plan: &Plan, site: &Site, is_slow: bool, random: &mut Random) -> Request {
        if let Some(upstreams) = plan.upstreams.as_ref().filter(|_| random.once_in(2)) {
            let is_small =
                |ask: &Ask| ask.upload.is_none_or(|upload| !is_slow || upload.bytes <= SLOW_UPLOAD_BYTES_MAX);
            let ask = Ask::find(site, random, |ask| is_small(ask) && !ask.is_tunnel);
            let request = Request::of_ask(ask, upstreams);
            return if plan.is_coded { request.of_text(random) } else { request };
        }
        if plan.is_coded && random.once_in(2) {
            let page = random.below(site.pages() as u64) as usize;
            return Request::new(format!("/p{page}.html"), Kind::Page(page), None).coded(random);
        }
        Request::of_file(site, random)
    }

    fn new(path: String, kind: Kind, file: Option<usize>) -> Request {
        Request { path, kind, file, coded: None }
    }

    /// Turns this into a request to an application for a response of text.
    fn of_text(self, random: &mut Random) -> Request {
        Request { path: format!("{}{TEXT}", self.path), ..self }.coded(random)
    }

    /// Adds the codings that the client accepts.
    fn coded(self, random: &mut Random) -> Request {
        Request { coded: Some(Coded { accepted: random.one_of(&ACCEPTED), came: Rc::default() }), ..self }
    }

    /// Takes bytes of the content.
    pub fn take(&self, data: &[u8]) {
        if let Some(coded) = &self.coded {
            coded.came.borrow_mut().extend_from_slice(data);
        }
    }

    /// Checks the complete content, if it may be coded.
    pub fn judge_content(&self, site: &Site) -> Result<(), String> {
        let Some(coded) = &self.coded else { return Ok(()) };
        let expected = match &self.kind {
            Kind::Page(number) => site.page(*number),
            Kind::Passed(ask, _) => ask.sent(site),
            _ => return Ok(()),
        };
        let came = coded.came.borrow();
        let is_coded = |coding: Coding| {
            let bytes = decoded_bytes(coding, &came[..], expected.len() as u64);
            coded.accepted.contains(coding.token()) && bytes.is_ok() && decoded(coding, &came) == expected
        };
        let is_right = *came == expected || Coding::ALL.into_iter().any(is_coded);
        if is_right { Ok(()) } else { Err(format!("{} wrong bytes for {self:?}", came.len())) }
    }

    pub fn of_ask(ask: Ask, upstreams: &UpstreamPlan) -> Request {
        let expected = ask.expected(upstreams);
        Request::new(ask.path(), Kind::Passed(Box::new(ask), expected), None)
    }

    pub fn of_file(site: &Site, random: &mut Random) -> Request {
        if random.once_in(12) {
            return Request::new(format!("/none{}", random.below(ABSENT)), Kind::Get, None);
        }
        let file = random.below(site.count() as u64) as usize;
        let size = site.file(file).len();
        let kind = match random.below(8) {
            0 => Kind::Head,
            1 if size > 0 => {
                let from = random.below(size as u64) as usize;
                let part = from..from + 1 + random.below((size - from) as u64) as usize;
                match random.once_in(3) {
                    true => Kind::Part(from..size, random.near_power()),
                    false => Kind::Part(part.clone(), part.end as u128 - 1),
                }
            }
            2 => Kind::Unchanged,
            _ => Kind::Get,
        };
        Request::new(format!("/f{file}"), kind, Some(file))
    }

    /// Returns a request for the whole of this file.
    pub fn of_whole(file: usize) -> Request {
        Request::new(format!("/f{file}"), Kind::Get, Some(file))
    }

    /// Returns a request that the application answers too late.
    pub fn late() -> Request {
        Request::new(String::new(), Kind::Late, None)
    }

    pub fn method(&self) -> &'static str {
        match &self.kind {
            Kind::Head => "HEAD",
            Kind::Passed(ask, _) => ask.method,
            _ => "GET",
        }
    }

    /// The name and value of the request's extra field.
    pub fn field(&self) -> Option<(&'static str, String)> {
        if let Some(coded) = &self.coded {
            return Some(("accept-encoding", coded.accepted.into()));
        }
        match &self.kind {
            Kind::Part(range, last) => Some(("range", format!("bytes={}-{last}", range.start))),
            Kind::Unchanged => Some(("if-none-match", "*".into())),
            Kind::Get | Kind::Head | Kind::Page(_) | Kind::Late | Kind::Passed(..) => None,
        }
    }

    /// The body of the request, and true if its length is announced.
    pub fn upload<'s>(&self, site: &'s Site) -> Option<(&'s [u8], bool)> {
        match &self.kind {
            Kind::Passed(ask, _) => ask.upload.map(|upload| (ask.uploaded(site), !upload.is_chunked)),
            _ => None,
        }
    }

    /// Returns true if the client waits for 100 (Continue) before it sends the body.
    pub fn expects_leave(&self) -> bool {
        matches!(&self.kind, Kind::Passed(ask, _) if ask.upload.is_some_and(|upload| upload.bytes % 3 == 1))
    }

    /// The number of bytes to be echoed, if the protocol changes.
    pub fn tunnel_bytes(&self) -> Option<usize> {
        match &self.kind {
            Kind::Passed(ask, _) if ask.is_tunnel => Some(ask.tunnel_bytes),
            _ => None,
        }
    }

    pub fn status(&self) -> u16 {
        match (&self.kind, self.file) {
            (Kind::Passed(ask, _), _) => ask.status,
            (Kind::Late, _) => 408,
            (Kind::Page(_), _) => 200,
            (_, None) => 404,
            (Kind::Part(..), _) if !staging::is_on() => 206,
            (Kind::Unchanged, _) => 304,
            _ => 200,
        }
    }

    /// Judges a response of this status after `hints` interim ones; `None` for a status that cannot be decoded here.
    pub fn judge(&self, status: Option<u16>, hints: u64) -> Result<Meaning, String> {
        let (is_answered, may_fail) = match &self.kind {
            Kind::Passed(_, expected) => (expected.is_answered, expected.may_fail),
            _ => (true, false),
        };
        match status {
            Some(status) if status == self.status() && is_answered && hints == self.hints() => Ok(Meaning::Answer),
            None | Some(502..=504) if may_fail && hints <= self.hints() => Ok(Meaning::Reason),
            _ => Err(format!("status {status:?} behind {hints} hints for {self:?}")),
        }
    }

    /// The number of interim responses that are passed on.
    fn hints(&self) -> u64 {
        if let Kind::Passed(ask, _) = &self.kind { ask.interim } else { 0 }
    }

    /// Returns true if the response may end before it is complete.
    pub fn may_break(&self) -> bool {
        matches!(&self.kind, Kind::Passed(_, Expected { may_break: true, .. }))
    }

    /// Returns true if a response with this status has a body.
    pub fn has_body(&self, status: u16) -> bool {
        self.method() != "HEAD" && !matches!(status, 204 | 304)
    }

    /// The correct body; `None` if any is accepted, or if [`Request::judge_content`] checks it.
    pub fn body<'s>(&self, site: &'s Site) -> Option<&'s [u8]> {
        if self.coded.is_some() {
            return None;
        }
        if let Kind::Passed(ask, _) = &self.kind {
            return Some(ask.sent(site));
        }
        let whole = site.sent(self.file?);
        Some(match &self.kind {
            Kind::Part(range, _) if !staging::is_on() => &whole[range.clone()],
            Kind::Head | Kind::Unchanged => &[],
            _ => whole,
        })
    }

    /// The length that the response gives, if it differs from the body's.
    pub fn said_bytes(&self) -> Option<usize> {
        if let Kind::Passed(ask, _) = &self.kind { ask.said_bytes() } else { None }
    }

    /// Returns true if trailers follow the body.
    pub fn has_trailers(&self) -> bool {
        matches!(&self.kind, Kind::Passed(ask, _) if ask.has_trailers())
    }

    pub fn body_bytes(&self, site: &Site) -> usize {
        self.body(site).map_or(0, <[u8]>::len)
    }
}
