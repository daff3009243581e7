//! A request independent of the HTTP version (RFC 9110), and the rules common to all versions. Either a codec
//! ([`crate::http1`]) parses its bytes, or an engine delivers its fields one by one to a [`RequestBuilder`].

mod builder;
mod limits;
mod method;
mod owned;
pub(crate) mod section;
pub(crate) mod target;

use std::borrow::Cow;

use percent_encoding::{CONTROLS, percent_encode};

pub(crate) use builder::is_token_byte;
pub use builder::{MalformedRequest, RequestBuilder, check_field};
pub use limits::{FIELDS_MAX, Limits};
pub(crate) use method::method;
pub use method::{METHOD_BYTES_MAX, Method};
pub use owned::OwnedRequest;

use crate::codings::weighed;
use crate::fields::FieldIter;
use crate::http1::FieldLines;
use crate::list::members;
use crate::name_filter::NameFilter;
use crate::{PeerLength, Reject, Status};

/// A request that is well formed and unambiguous.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    pub method: Method,
    /// The path, still percent-encoded and without the query. It starts with `/`, or is `*` (with OPTIONS only).
    pub path: &'a [u8],
    /// The part after the first `?`.
    pub query: Option<&'a [u8]>,
    /// The whole target as sent, for the log: UTF-8 without spaces or ASCII control characters.
    pub target: &'a [u8],
    pub fields: Fields<&'a [u8]>,
    pub(crate) all: All<'a>,
    /// The names of all fields.
    pub(crate) names: NameFilter,
    pub body: BodyLength,
}

/// The fields that decide a response or go into the log, found in one pass.
///
/// If-Match and If-None-Match may be spread over several lines; the first line is stored here. Range, If-Range and the
/// dates may not: if repeated, they are stored as the empty value, which is invalid and therefore ignored.
/// Accept-Encoding may be repeated, and is then also stored as the empty value: its lines are among all fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fields<V> {
    /// The requested authority: `name[:port]`, checked.
    pub host: Option<V>,
    pub if_match: Option<V>,
    pub if_none_match: Option<V>,
    pub if_modified_since: Option<V>,
    pub if_unmodified_since: Option<V>,
    pub if_range: Option<V>,
    pub range: Option<V>,
    pub accept_encoding: Option<V>,
    pub referer: Option<V>,
    pub user_agent: Option<V>,
}

/// All fields of a request, in the form in which they are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum All<'a> {
    /// The lines as received over HTTP/1.1.
    Lines(FieldLines<'a>),
    List(FieldIter<'a>),
}

impl All<'_> {
    /// Returns the bytes of the stored form.
    pub fn bytes(&self) -> usize {
        match self {
            All::Lines(lines) => lines.0.len(),
            All::List(list) => list.0.len(),
        }
    }
}

impl<'a> Iterator for All<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            All::Lines(lines) => lines.next(),
            All::List(list) => list.next(),
        }
    }
}

/// The part of a refused request that goes into the log: bytes as received, at most [`SHOWN_BYTES_MAX`] of each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown<'a> {
    /// The method; empty if there was no request line, and `target` then holds the bytes received instead.
    pub method: Cow<'a, [u8]>,
    pub target: Cow<'a, [u8]>,
    /// The minor version of HTTP/1.
    pub minor_version: u8,
}

/// Maximum bytes of a malformed request line in the log.
pub const SHOWN_BYTES_MAX: usize = 1024;

/// A refused request from an engine, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    pub reject: Reject,
    pub shown: Shown<'static>,
}

impl Refused {
    /// Makes the refusal of a malformed request whose head is unknown or was recorded earlier.
    pub fn malformed(malformed: MalformedRequest) -> Box<Refused> {
        Refused::unseen(malformed.into())
    }

    /// Makes the refusal of a request whose head is not known.
    pub fn unseen(reject: Reject) -> Box<Refused> {
        Box::new(Refused { reject, shown: Shown::new(b"", b"", 0) })
    }
}

/// The body that follows the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyLength {
    /// No body, or an empty one.
    None,
    /// A body of this length, at least one byte.
    Known(PeerLength),
    /// A body whose length is unknown; the framing ends it.
    Unknown,
}

impl<'a> Request<'a> {
    /// Returns the name and value of every field, in order, values without surrounding space. Over HTTP/2 and HTTP/3
    /// the authority is the field `host`.
    pub fn all(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        // Pseudo-fields are stored among the others.
        self.all.filter(|(name, _)| !name.starts_with(b":"))
    }

    /// Returns the path and the query with all bytes beyond ASCII percent-encoded (RFC 3986 section 2.5), if there are
    /// any. All readers of a target interpret the encoded form in the same way, and fields such as Location may contain
    /// it.
    pub fn encoded(&self) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
        if self.target.is_ascii() {
            return None;
        }
        let encoded = |part: &[u8]| percent_encode(part, CONTROLS).collect::<String>().into_bytes();
        Some((encoded(self.path), self.query.map(encoded)))
    }

    /// Returns the same request with another path and query. The target stays, for the log.
    pub fn with_path<'b>(&self, path: &'b [u8], query: Option<&'b [u8]>) -> Request<'b>
    where
        'a: 'b,
    {
        Request { path, query, ..*self }
    }

    /// Returns a GET without a body that has the fields of this request.
    pub fn as_get<'b>(&self, path: &'b [u8], query: Option<&'b [u8]>) -> Request<'b>
    where
        'a: 'b,
    {
        Request { method: Method::Get, body: BodyLength::None, ..self.with_path(path, query) }
    }

    /// Returns true if Accept names this media type with a weight above 0 (RFC 9110 section 12.5.1).
    pub fn accepts(&self, media_type: &str) -> bool {
        let mut ranges = self.values("accept").flat_map(members).map(weighed);
        ranges.any(|(name, weight)| weight > 0 && name.eq_ignore_ascii_case(media_type.as_bytes()))
    }

    /// Returns the values of every field of this name, in order. Scans all fields: use it for fields that are not in
    /// [`Fields`] or may be repeated.
    pub fn values(&self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        let fields = self.names.may_have(name.as_bytes()).then(|| self.all());
        let named = fields.into_iter().flatten().filter(move |(of, _)| of.eq_ignore_ascii_case(name.as_bytes()));
        named.map(|(_, value)| value)
    }
}

impl Shown<'_> {
    pub fn into_owned(self) -> Shown<'static> {
        let Shown { method, target, minor_version } = self;
        Shown { method: method.into_owned().into(), target: target.into_owned().into(), minor_version }
    }
}

impl<'a> Shown<'a> {
    pub fn new(method: &'a [u8], target: &'a [u8], minor_version: u8) -> Shown<'a> {
        let [method, target] = [method, target].map(|text| Cow::Borrowed(&text[..text.len().min(SHOWN_BYTES_MAX)]));
        Shown { method, target, minor_version }
    }
}

pub(crate) const TARGET_TOO_LONG: Reject =
    Reject { status: Status::URI_TOO_LONG, reason: "request target over the limit" };
pub(crate) const METHOD_TOO_LONG: Reject = Reject { status: Status::NOT_IMPLEMENTED, reason: "method over the limit" };
/// The refusal of a head that is larger than [`Limits`] allow.
pub const HEAD_TOO_LARGE: Reject = Reject { status: Status::HEAD_TOO_LARGE, reason: "request head over the limit" };
pub(crate) const TOO_MANY_FIELDS: Reject =
    Reject { status: Status::HEAD_TOO_LARGE, reason: "more field lines than the limit" };
pub(crate) const MALFORMED_LINE: Reject = Reject::bad("malformed request line");
pub(crate) const MORE_THAN_ONE_HOST: Reject = Reject::bad("more than one host field");
pub(crate) const MALFORMED_NAME: Reject = Reject::bad("malformed field name, space before the colon, or folded line");
pub(crate) const MALFORMED_VALUE: Reject = Reject::bad("control character or bare carriage return in a field value");
