//! A client's request, and the correct response.

use std::ops::Range;

use super::super::application::{Ask, Expected};
use super::super::files::{ABSENT, Site};
use super::super::plan::{Plan, UpstreamPlan};
use super::super::random::Random;
use crate::stages::testing;

/// The maximum body that a client sends if it sends a few bytes at a time: the server's patience is limited.
const SLOW_UPLOAD_BYTES_MAX: usize = 100;

#[derive(Debug, Clone)]
pub struct Request {
    pub path: String,
    pub kind: Kind,
    file: Option<usize>,
}

#[derive(Debug, Clone)]
pub enum Kind {
    Get,
    Head,
    /// The bytes that exist, and the last byte requested, which may be far past the end.
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
    /// The reason why there is none.
    Reason,
}

impl Request {
    pub fn of(plan: &Plan, site: &Site, is_slow: bool, random: &mut Random) -> Request {
        if let Some(upstreams) = plan.upstreams.as_ref().filter(|_| random.once_in(2)) {
            let is_small =
                |ask: &Ask| ask.upload.is_none_or(|upload| !is_slow || upload.bytes <= SLOW_UPLOAD_BYTES_MAX);
            let ask = Ask::find(site, random, |ask| is_small(ask) && !ask.is_tunnel);
            return Request::of_ask(ask, upstreams);
        }
        Request::of_file(site, random)
    }

    pub fn of_ask(ask: Ask, upstreams: &UpstreamPlan) -> Request {
        let expected = ask.expected(upstreams);
        Request { path: ask.path(), kind: Kind::Passed(Box::new(ask), expected), file: None }
    }

    pub fn of_file(site: &Site, random: &mut Random) -> Request {
        if random.once_in(12) {
            return Request { path: format!("/none{}", random.below(ABSENT)), kind: Kind::Get, file: None };
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
        Request { path: format!("/f{file}"), kind, file: Some(file) }
    }

    /// A request that takes too long.
    pub fn late() -> Request {
        Request { path: String::new(), kind: Kind::Late, file: None }
    }

    pub fn method(&self) -> &'static str {
        match &self.kind {
            Kind::Head => "HEAD",
            Kind::Passed(ask, _) => ask.method,
            _ => "GET",
        }
    }

    /// The name and value of its extra field.
    pub fn field(&self) -> Option<(&'static str, String)> {
        match &self.kind {
            Kind::Part(range, last) => Some(("range", format!("bytes={}-{last}", range.start))),
            Kind::Unchanged => Some(("if-none-match", "*".into())),
            Kind::Get | Kind::Head | Kind::Late | Kind::Passed(..) => None,
        }
    }

    /// The body of the request, and whether its length is announced.
    pub fn upload<'s>(&self, site: &'s Site) -> Option<(&'s [u8], bool)> {
        match &self.kind {
            Kind::Passed(ask, _) => ask.upload.map(|upload| (ask.uploaded(site), !upload.is_chunked)),
            _ => None,
        }
    }

    /// Returns true if it expects 100 (Continue) before its body.
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
            (_, None) => 404,
            (Kind::Part(..), _) if !testing::is_on() => 206,
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

    /// The correct body; `None` if any will do.
    pub fn body<'s>(&self, site: &'s Site) -> Option<&'s [u8]> {
        if let Kind::Passed(ask, _) = &self.kind {
            return Some(ask.sent(site));
        }
        let whole = site.sent(self.file?);
        Some(match &self.kind {
            Kind::Part(range, _) if !testing::is_on() => &whole[range.clone()],
            Kind::Head | Kind::Unchanged => &[],
            _ => whole,
        })
    }

    /// The length that its response gives, if it is not that of the body.
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
