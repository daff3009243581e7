//! Parses a request head from the bytes received so far.
//!
//! `httparse` splits the head into tokens and refuses characters that no token may contain (NUL, control characters, a
//! space before a colon, line folding, a bare CR). This module checks everything that it allows: bare LF (RFC 9112
//! section 2.2 lets a server accept it, but gateways disagree, and a smuggler needs no more), empty lines, limits.
//! `target.rs` and `section.rs` of `request` interpret the tokens, for all versions. Nothing is allocated.
//!
//! An incomplete head is parsed again at the end of each line ([`Search`]), so it is scanned at most once per line.

use std::mem::MaybeUninit;

use super::FieldLines;
use crate::request::section::FieldSection;
use crate::request::{
    All, FIELDS_MAX, HEAD_TOO_LARGE, MALFORMED_LINE, MALFORMED_NAME, MALFORMED_VALUE, METHOD_TOO_LONG, SHOWN_BYTES_MAX,
    Shown, TARGET_TOO_LONG, TOO_MANY_FIELDS, method, target,
};
use crate::{BodyLength, Fields, Limits, OwnedRequest, Reject, Request, Status};

/// A request with the properties that HTTP/1.1 adds; its head is complete, well formed and unambiguous.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head<'a> {
    /// The request. A body of unknown length is chunked and needs [`super::Chunked`].
    pub request: Request<'a>,
    /// The minor version as sent. From 2 on, the request means the same as in HTTP/1.1 (RFC 9110 section 2.5).
    pub minor_version: u8,
    /// True if the client allows the connection to persist after the response.
    pub keep_alive: bool,
    /// True if the client waits for `100 Continue` or a final status before it sends its body.
    pub expect_continue: bool,
    /// Bytes of the head, including an empty line before it: the body or the next request starts here.
    pub bytes: usize,
}

/// A [`Head`] that owns its memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedHead {
    request: OwnedRequest,
    minor_version: u8,
    keep_alive: bool,
    expect_continue: bool,
    bytes: usize,
}

impl OwnedHead {
    pub fn view(&self) -> Head<'_> {
        let OwnedHead { ref request, minor_version, keep_alive, expect_continue, bytes } = *self;
        Head { request: request.view(), minor_version, keep_alive, expect_continue, bytes }
    }

    /// Bytes of memory that the fields take.
    pub fn memory_bytes(&self) -> usize {
        self.request.memory_bytes()
    }
}

impl From<&Head<'_>> for OwnedHead {
    fn from(head: &Head<'_>) -> OwnedHead {
        let Head { ref request, minor_version, keep_alive, expect_continue, bytes } = *head;
        OwnedHead { request: request.into(), minor_version, keep_alive, expect_continue, bytes }
    }
}

impl<'a> Head<'a> {
    /// The part of the head that goes into the log if the request is refused later.
    pub fn shown(&self) -> Shown<'a> {
        let method = self.request.method.token().to_vec().into();
        Shown { method, ..Shown::new(b"", self.request.target, self.minor_version) }
    }
}

/// The part of a malformed request that goes into the log: its first line.
pub fn shown(received: &[u8]) -> Shown<'_> {
    let received = received.strip_prefix(b"\r\n").unwrap_or(received);
    let first = received.split(|b| matches!(b, b'\r' | b'\n')).next().unwrap_or_default();
    let mut words = first.split(|&b| b == b' ');
    match [(); 4].map(|()| words.next()) {
        [Some(method), Some(target), Some([b'H', b'T', b'T', b'P', b'/', b'1', b'.', digit @ b'0'..=b'9']), None]
            if !method.is_empty() && first.len() <= SHOWN_BYTES_MAX =>
        {
            Shown::new(method, target, digit - b'0')
        }
        _ => Shown::new(b"", first, 1),
    }
}

/// Parses one head from the start of `buf`. `Ok(None)` means that more bytes are needed and that `buf` is shorter than
/// `limits.head_bytes_max`.
///
/// The result for a prefix of `buf` is `Ok(None)` or the result for `buf`: it never depends on how the bytes arrived.
pub fn parse_request<'a>(buf: &'a [u8], limits: &Limits) -> Result<Option<Head<'a>>, Reject> {
    // Bytes beyond the limit are ignored; otherwise the result would depend on how many arrived together.
    let window = &buf[..buf.len().min(limits.head_bytes_max)];
    match parse_head(window, limits)? {
        None if buf.len() >= limits.head_bytes_max => Err(too_large(window)),
        request => Ok(request),
    }
}

/// The progress of the search for line ends in an incomplete head.
#[derive(Debug, Default)]
pub struct Search {
    /// Bytes searched.
    searched: usize,
    /// The end of the last whole line; 0 before the first.
    lines_end: usize,
    /// Bytes parsed so far.
    #[cfg(test)]
    looked: usize,
}

/// Bytes of an incomplete first line that are parsed: enough to recognise protocols other than HTTP, such as TLS.
const BEGINNING_BYTES: usize = 32;

impl Search {
    /// Returns the result of [`parse_request`] for the whole lines, for the first bytes while there is no whole line,
    /// or for everything at the limit. The result never depends on how the bytes arrived. Pass the same bytes each
    /// time, followed by those that arrived since, until there is a result.
    pub fn parse<'a>(&mut self, buf: &'a [u8], limits: &Limits) -> Result<Option<Head<'a>>, Reject> {
        // Most heads arrive complete.
        if self.searched == 0 {
            self.note(buf);
            if let Ok(Some(head)) = parse_request(buf, limits) {
                return Ok(Some(head));
            }
        }
        let line_end = buf[self.searched..].iter().rposition(|byte| *byte == b'\n').map(|at| self.searched + at + 1);
        let had_beginning = self.searched >= BEGINNING_BYTES;
        self.searched = buf.len();
        self.lines_end = line_end.unwrap_or(self.lines_end);
        let due = match self.lines_end {
            _ if buf.len() >= limits.head_bytes_max => buf,
            0 if !had_beginning => &buf[..buf.len().min(BEGINNING_BYTES)],
            end if line_end.is_some() => &buf[..end],
            _ => return Ok(None),
        };
        self.note(due);
        parse_request(due, limits)
    }

    #[cfg_attr(not(test), allow(unused_variables))]
    fn note(&mut self, parsed: &[u8]) {
        #[cfg(test)]
        {
            self.looked += parsed.len();
        }
    }
}

fn parse_head<'a>(window: &'a [u8], limits: &Limits) -> Result<Option<Head<'a>>, Reject> {
    // One empty line is tolerated: old clients send one after a body (RFC 9112 section 2.2). httparse would skip
    // any number, and bare line feeds too.
    let skipped = if window.starts_with(b"\r\n") { 2 } else { 0 };
    let head = &window[skipped..];
    match head.first() {
        Some(b'\n') => return Err(Reject::bad("bare line feed before the request")),
        Some(b'\r') if skipped > 0 => return Err(Reject::bad("more than one empty line before the request")),
        _ => {}
    }
    let mut lines = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut parsed = httparse::Request::new(&mut []);
    match parsed.parse_with_uninit_headers(head, &mut lines[..limits.fields_max.min(FIELDS_MAX)]) {
        Ok(httparse::Status::Complete(bytes)) => {
            let head = interpret(&parsed, &head[..bytes])?;
            Ok(Some(Head { bytes: skipped + bytes, ..head }))
        }
        Ok(httparse::Status::Partial) => Ok(None),
        Err(httparse::Error::Version) => {
            let later = parse_later_minor(&parsed, head, limits)?;
            Ok(later.map(|head| Head { bytes: skipped + head.bytes, ..head }))
        }
        Err(error) => Err(refused(error)),
    }
}

/// Parses HTTP/1.2 to 1.9: httparse has read the method and the target, but supports only 1.0 and 1.1.
fn parse_later_minor<'a>(
    line: &httparse::Request<'_, 'a>,
    head: &'a [u8],
    limits: &Limits,
) -> Result<Option<Head<'a>>, Reject> {
    let version_at = line.method.map_or(0, str::len) + line.path.map_or(0, str::len) + 2;
    let version = head.get(version_at..).unwrap_or_default();
    let Some([digit @ b'2'..=b'9', rest @ ..]) = version.strip_prefix(b"HTTP/1.") else {
        return Err(bad_version(version));
    };
    let section = match rest {
        [] | [b'\r'] => return Ok(None),
        [b'\r', b'\n', section @ ..] => section,
        _ => return Err(refused(httparse::Error::NewLine)),
    };
    let mut lines = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let (bytes, count) = match httparse::parse_headers(section, &mut lines[..limits.fields_max.min(FIELDS_MAX)]) {
        Ok(httparse::Status::Complete((bytes, lines))) => (bytes, lines.len()),
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => return Err(refused(error)),
    };
    let headers = &mut lines[..count];
    let parsed = httparse::Request { method: line.method, path: line.path, version: Some(digit - b'0'), headers };
    interpret(&parsed, &head[..head.len() - section.len() + bytes]).map(Some)
}

/// Interprets the tokens in `parsed` of a complete `head`.
fn interpret<'a>(parsed: &httparse::Request<'_, 'a>, head: &'a [u8]) -> Result<Head<'a>, Reject> {
    let (Some(method_token), Some(target), Some(minor_version)) = (parsed.method, parsed.path, parsed.version) else {
        return Err(MALFORMED_LINE);
    };
    if has_bare_lf(head) {
        return Err(Reject::bad("bare line feed in the head"));
    }
    let method = method(method_token.as_bytes())?;
    let form = target::parse(target, method)?;
    let mut section = FieldSection::default();
    for line in parsed.headers.iter() {
        section.note(line.name.as_bytes(), line.value, line.value)?;
    }
    let body = section.body(minor_version)?;
    let all = All::Lines(FieldLines(&head[method_token.len() + target.len() + REQUEST_LINE_REST..]));
    let fields = Fields { host: section.host(minor_version, form.host)?, ..section.fields };
    let (path, query, target, names) = (form.path, form.query, target.as_bytes(), section.names);
    Ok(Head {
        request: Request { method, path, query, target, fields, all, names, body },
        minor_version,
        keep_alive: section.keep_alive(minor_version),
        // RFC 9110 section 10.1.1: ignored from HTTP/1.0, and pointless without a body.
        expect_continue: section.expect_continue && minor_version >= 1 && body != BodyLength::None,
        bytes: head.len(),
    })
}

/// Bytes of the request line in addition to the method and the target.
const REQUEST_LINE_REST: usize = "  HTTP/1.1\r\n".len();

/// Returns true if a line feed lacks its carriage return. The loop has no early exit, so that the compiler compares 16
/// bytes at a time: about 10 ns for a browser's head.
fn has_bare_lf(head: &[u8]) -> bool {
    let pairs = head.iter().zip(&head[1..]);
    pairs.fold(0, |bad, (&before, &b)| bad | (u8::from(b == b'\n') & u8::from(before != b'\r'))) != 0
}

/// Returns the rejection for a head that is incomplete at the limit; it names the part that is too long.
fn too_large(window: &[u8]) -> Reject {
    let head = window.strip_prefix(b"\r\n").unwrap_or(window);
    if head.contains(&b'\n') {
        HEAD_TOO_LARGE
    } else if head.contains(&b' ') {
        TARGET_TOO_LONG
    } else {
        // RFC 9112 section 3: a method longer than any that is implemented gets 501.
        METHOD_TOO_LONG
    }
}

fn refused(error: httparse::Error) -> Reject {
    match error {
        httparse::Error::TooManyHeaders => TOO_MANY_FIELDS,
        httparse::Error::HeaderName => MALFORMED_NAME,
        httparse::Error::HeaderValue => MALFORMED_VALUE,
        httparse::Error::NewLine => Reject::bad("line does not end in carriage return, line feed"),
        httparse::Error::Token | httparse::Error::Status | httparse::Error::Version => MALFORMED_LINE,
    }
}

/// Returns the rejection of a version: 505 for another major version (such as in HTTP/2's preface), 400 for anything
/// that is not a version. One digit decides, because httparse stops there and later bytes must not change the result.
fn bad_version(version: &[u8]) -> Reject {
    match version.strip_prefix(b"HTTP/") {
        Some([b'0' | b'2'..=b'9', ..]) => {
            Reject { status: Status::VERSION_NOT_SUPPORTED, reason: "major http version other than 1" }
        }
        _ => MALFORMED_LINE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{METHOD_BYTES_MAX, Method};

    fn parse(bytes: &[u8]) -> Head<'_> {
        parse_request(bytes, &Limits::default()).unwrap().unwrap()
    }

    #[test]
    fn a_browsers_get() {
        let bytes = b"GET /a/b.html?x=1?y HTTP/1.1\r\nHost: example.com:8080\r\nUser-Agent:  curl/8 \t\r\n\
            Accept: */*\r\nIF-NONE-MATCH: \"v1\"\r\nIf-Modified-Since: x\r\nReferer: http://a/\r\nRange: bytes=0-\r\n\
            If-Range: \"r\"\r\nIf-Match: *\r\nAccept-Encoding: br\r\nIf-Unmodified-Since: y\r\n\r\nGET /next";
        let head = parse(bytes);
        let request = head.request;
        assert_eq!(request.method, Method::Get);
        assert_eq!((request.path, request.query), (&b"/a/b.html"[..], Some(&b"x=1?y"[..])));
        assert_eq!(request.target, b"/a/b.html?x=1?y");
        assert_eq!((head.minor_version, head.keep_alive), (1, true));
        assert_eq!((request.body, head.expect_continue), (BodyLength::None, false));
        assert_eq!(&bytes[head.bytes..], b"GET /next");
        let expected: Fields<&[u8]> = Fields {
            host: Some(b"example.com:8080"),
            if_match: Some(b"*"),
            if_none_match: Some(b"\"v1\""),
            if_modified_since: Some(b"x"),
            if_unmodified_since: Some(b"y"),
            if_range: Some(b"\"r\""),
            range: Some(b"bytes=0-"),
            accept_encoding: Some(b"br"),
            referer: Some(b"http://a/"),
            user_agent: Some(b"curl/8"),
        };
        assert_eq!(request.fields, expected);
    }

    #[test]
    fn values_of_a_repeated_field() {
        let fields = parse(b"GET /x HTTP/1.1\r\nHost: a\r\nX: 1\r\nx:\t2 \r\nXX: 3\r\nX:\r\n\r\nX: body").request;
        assert_eq!(fields.values("x").collect::<Vec<_>>(), [&b"1"[..], b"2", b""]);
        assert_eq!(fields.values("y").count(), 0);
        assert_eq!(fields.values("host").collect::<Vec<_>>(), [b"a"]);
    }

    /// Parses `piece` bytes at a time. Returns the result, and how many bytes were parsed for it.
    fn parse_in_pieces(bytes: &[u8], piece: usize) -> (Option<Result<usize, Reject>>, usize) {
        let (mut search, limits) = (Search::default(), Limits::default());
        for end in (piece..bytes.len()).step_by(piece).chain([bytes.len()]) {
            let parsed = search.parse(&bytes[..end], &limits);
            if let Some(parsed) = parsed.transpose() {
                return (Some(parsed.map(|head| head.bytes)), search.looked);
            }
        }
        (None, search.looked)
    }

    /// If every byte caused another scan, the cost of 15 KB in one field would grow with the square of its length.
    #[test]
    fn a_head_that_comes_byte_by_byte_is_looked_at_once_for_each_line() {
        let long = [b"\r\nGET / HTTP/1.1\r\nHost: a\r\nX: ", &[b'x'; 15_000][..], b"\r\n\r\n"].concat();
        let lines = [b"GET / HTTP/1.1\r\nHost: a\r\n", &b"x: y\r\n".repeat(60)[..], b"\r\n"].concat();
        let endless = vec![b'x'; 64 << 10];
        for (bytes, lines, is_request) in [(long, 2, true), (lines, 63, true), (endless, 1, false)] {
            let (answer, looked) = parse_in_pieces(&bytes, 1);
            assert_eq!(answer.map(|answer| answer.is_ok()), Some(is_request));
            assert!(looked <= lines * bytes.len() + BEGINNING_BYTES * BEGINNING_BYTES, "{looked} of {}", bytes.len());
        }
    }

    #[test]
    fn pieces_have_the_answer_of_the_whole() {
        let field = |lines: &str| format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
        let many = field(&"x: y\r\n".repeat(70));
        for bytes in [
            &*field("a: b\r\n"),
            &*field("a : b\r\n"),
            &*many,
            "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\nGET",
            "\r\n\r\n",
            "\n",
            "GET / HTTP/1.1\nHost: a\n\n",
            "GET / HTTP/1.1\nHost: a\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n\n",
            "GET / HTTP/1.1\n\r\n",
            "GET / HTTP/1.5\r\nHost: a\r\n\r\n",
            "GET / HTTP/2.0\r\n",
            "GET /\r\n",
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost",
            "GET / HTTP/1.1\r\nHo st",
            "\x16\x03\x01\x02",
        ] {
            let whole = parse_in_pieces(bytes.as_bytes(), bytes.len()).0;
            if bytes.ends_with('\n') {
                let parsed = parse_request(bytes.as_bytes(), &Limits::default()).transpose();
                assert_eq!(whole, parsed.map(|parsed| parsed.map(|head| head.bytes)), "{bytes:?}");
            }
            for piece in 1..=bytes.len() {
                assert_eq!(parse_in_pieces(bytes.as_bytes(), piece).0, whole, "{bytes:?} by {piece}");
            }
        }
    }

    /// The defaults are the ones that the fields of [`Limits`] document.
    #[test]
    fn default_limits() {
        let expected = Limits { head_bytes_max: 65_536, fields_max: 200 };
        assert_eq!(Limits::default(), expected);
    }

    #[test]
    fn the_log_shows_the_first_line_of_what_is_no_request() {
        let of = |bytes: &'static [u8]| {
            let Shown { method, target, minor_version } = shown(bytes);
            (method.into_owned(), target.into_owned(), minor_version)
        };
        assert_eq!(of(b"\r\nGET /x HTTP/1.0\r\nHo st: a"), (b"GET".to_vec(), b"/x".to_vec(), 0));
        for bytes in [
            &b"GET /a b HTTP/1.1\r\nHost: a"[..],
            b"GET /a HTTP/2.0",
            b"GET /a",
            b"GET",
            b" / HTTP/1.1",
            b"GET / HTTP/1.10",
            b"GET / HTTP/1.1 ",
            b"",
            b"\n",
        ] {
            let line = bytes.split(|b| matches!(b, b'\r' | b'\n')).next().unwrap();
            assert_eq!(of(bytes), (vec![], line.to_vec(), 1));
        }
        assert_eq!(of(&[b'x'; 2000]), (vec![], vec![b'x'; SHOWN_BYTES_MAX], 1));
    }

    #[test]
    fn a_head_that_is_kept_says_the_same() {
        for bytes in [
            &b"GET /a/b?c HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1\r\nrange: x\r\nX:  y \r\n\r\n"[..],
            b"POST http://b:80/c HTTP/1.0\r\nReferer: r\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\n",
            b"PUT http://b?q?r HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n",
            b"OPTIONS * HTTP/1.1\r\nHost: a\r\nUser-Agent: u\r\nIf-Match: a\r\nif-match: b\r\n\r\n",
        ] {
            let head = parse(bytes);
            let kept = OwnedHead::from(&head);
            let view = kept.view();
            assert_eq!(view.request.all().collect::<Vec<_>>(), head.request.all().collect::<Vec<_>>());
            let all = head.request.all;
            assert_eq!(Head { request: Request { all, ..view.request }, ..view }, head);
        }
    }

    #[test]
    fn one_empty_line_before_the_request_counts_as_head() {
        let head = parse(b"\r\nGET / HTTP/1.0\r\n\r\nbody");
        assert_eq!((head.bytes, head.minor_version), (20, 0));
    }

    #[test]
    fn methods() {
        for (token, expected) in [
            ("GET", Ok(Method::Get)),
            ("HEAD", Ok(Method::Head)),
            ("OPTIONS", Ok(Method::Options)),
            ("POST", Ok(Method::Post)),
            ("TRACE", Ok(Method::Trace)),
            ("CONNECT", Err(400)),
            ("PROPFIND", Ok(Method::Propfind)),
            ("LIST", Ok(Method::of(b"LIST").unwrap())),
            (&"X".repeat(METHOD_BYTES_MAX + 1), Err(501)),
        ] {
            let bytes = format!("{token} / HTTP/1.1\r\nHost: a\r\n\r\n");
            let parsed = parse_request(bytes.as_bytes(), &Limits::default());
            let method = parsed.map(|head| head.unwrap().request.method).map_err(|reject| reject.status.0);
            assert_eq!(method, expected, "{token}");
        }
    }
}
