use super::owned::parts;
use super::section::FieldSection;
use super::{
    Fields, HEAD_TOO_LARGE, Limits, MALFORMED_LINE, MALFORMED_VALUE, METHOD_TOO_LONG, OwnedRequest, Refused,
    SHOWN_BYTES_MAX, Shown, TARGET_TOO_LONG, TOO_MANY_FIELDS, method, target,
};
use crate::fields::{FieldList, Span};
use crate::gateway::hop::is_any;
use crate::{Method, PeerLength, Reject, Status};

/// Builds a request from its fields one by one, as HTTP/2 and HTTP/3 deliver them. If a request is malformed by their
/// rules (RFC 9113 section 8.1.1, RFC 9114 section 4.1.2), its stream is reset. Any other fault gets the response that
/// the same request would get over HTTP/1.1. Fields beyond the limits are not stored.
#[derive(Debug)]
pub struct RequestBuilder {
    limits: Limits,
    /// True if CONNECT may have a protocol (RFC 8441 section 3).
    has_tunnels: bool,
    list: FieldList,
    section: FieldSection<Span>,
    pseudo: Pseudo,
    /// The pseudo-fields are complete; no other may follow.
    has_line: bool,
    /// The cookie crumbs received so far, joined.
    cookie: Option<Vec<u8>>,
    /// The length of the content by the first Content-Length.
    said: Option<PeerLength>,
    /// Number of fields, and their size in HTTP/1.1 format.
    fields: usize,
    bytes: usize,
    /// The worst fault so far; the first of several equally bad ones.
    fault: Option<Fault>,
}

/// The pseudo-fields received so far.
#[derive(Debug, Default)]
struct Pseudo {
    method: Option<Span>,
    has_scheme: bool,
    authority: Option<Span>,
    path: Option<Span>,
    protocol: Option<Span>,
}

/// A fault of a request.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// The request's meaning is faulty; a later fault may be worse.
    Misunderstood(Reject),
    /// The request's bytes or size are faulty; nothing after them is examined.
    Refused(Reject),
    Malformed(MalformedRequest),
}

/// A request that is malformed by the rules of HTTP/2 and HTTP/3, with a phrase that gives the reason. Its stream is
/// reset; the connection and its other streams continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MalformedRequest(pub &'static str);

impl From<MalformedRequest> for Reject {
    fn from(malformed: MalformedRequest) -> Reject {
        Reject::bad(malformed.0)
    }
}

/// Initial capacity, enough for the heads of most browsers.
const LIST_BYTES: usize = 640;
/// Bytes of a request line without its method and target.
const LINE_REST: usize = "  HTTP/1.1\r\n".len();
const FIELD_REST: usize = ": \r\n".len();
const HEAD_REST: usize = "\r\n".len();
/// The separator between two cookie crumbs (RFC 9113 section 8.2.3, RFC 9114 section 4.2.1).
const BETWEEN_CRUMBS: &[u8] = b"; ";
/// Connection-specific fields, which HTTP/2 and HTTP/3 forbid (RFC 9113 section 8.2.2, RFC 9114 section 4.2).
pub(crate) const OF_CONNECTION: [&str; 5] =
    ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

impl RequestBuilder {
    /// Bytes of memory that the fields received so far take.
    pub fn memory_bytes(&self) -> usize {
        self.list.capacity() + self.cookie.as_ref().map_or(0, Vec::capacity)
    }

    /// Creates a builder for a series of requests. `has_tunnels` means that the server has announced CONNECT with a
    /// protocol to the client.
    pub fn new(limits: Limits, has_tunnels: bool) -> RequestBuilder {
        RequestBuilder {
            limits,
            has_tunnels,
            list: FieldList::default(),
            section: FieldSection::default(),
            pseudo: Pseudo::default(),
            has_line: false,
            cookie: None,
            said: None,
            fields: 0,
            bytes: 0,
            fault: None,
        }
    }

    /// Starts another request.
    pub fn begin(&mut self) {
        let list = FieldList::with_capacity(LIST_BYTES);
        *self = RequestBuilder { list, ..RequestBuilder::new(self.limits, self.has_tunnels) };
    }

    /// Adds the next field. Ignored if the request is already refused, because its answer is settled. For a malformed
    /// request, the method and path are still kept for the log.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        match self.fault {
            Some(Fault::Malformed(_)) => return self.keep_shown(name, value),
            Some(Fault::Refused(_)) => return,
            Some(Fault::Misunderstood(_)) | None => {}
        }
        let taken = match name {
            [b':', ..] => self.pseudo(name, value),
            _ => check_field(name, value).and_then(|()| self.regular(name, value)),
        };
        if let Err(malformed) = taken {
            self.fault = Some(Fault::Malformed(malformed));
        }
    }

    /// Keeps the method or the path of a malformed request for the log.
    fn keep_shown(&mut self, name: &[u8], value: &[u8]) {
        let kept = match name {
            b":method" => &mut self.pseudo.method,
            b":path" => &mut self.pseudo.path,
            _ => return,
        };
        if kept.is_none() {
            *kept = Some(self.list.push(name, &value[..value.len().min(SHOWN_BYTES_MAX)]));
        }
    }

    /// Adds a pseudo-field. Each may occur once, before all other fields; unknown ones are malformed (RFC 9113 section
    /// 8.3, RFC 9114 section 4.3).
    fn pseudo(&mut self, name: &[u8], value: &[u8]) -> Result<(), MalformedRequest> {
        if self.has_line {
            return Err(MalformedRequest("a pseudo-field behind other fields"));
        }
        if value.is_empty() || ends_line(value) {
            return Err(MalformedRequest("a pseudo-field that is empty or ends a line"));
        }
        // One byte beyond the limit is enough to refuse it.
        let kept = &value[..value.len().min(self.limits.head_bytes_max + 1)];
        let (list, pseudo) = (&mut self.list, &mut self.pseudo);
        let had = match name {
            b":method" => pseudo.method.replace(list.push(name, kept)).is_some(),
            b":scheme" if !is_scheme(value) => return Err(MalformedRequest("a malformed :scheme")),
            b":scheme" => std::mem::replace(&mut pseudo.has_scheme, true),
            b":path" => pseudo.path.replace(list.push(name, kept)).is_some(),
            b":authority" if !is_authority(value) => return Err(MalformedRequest("an invalid :authority")),
            // The authority replaces Host (RFC 9113 section 8.3.1).
            b":authority" => pseudo.authority.replace(list.push(b"host", kept)).is_some(),
            b":protocol" if self.has_tunnels => pseudo.protocol.replace(list.push(name, kept)).is_some(),
            _ => return Err(MalformedRequest("an unknown pseudo-field")),
        };
        if had { Err(MalformedRequest("a pseudo-field twice")) } else { Ok(()) }
    }

    fn regular(&mut self, name: &[u8], value: &[u8]) -> Result<(), MalformedRequest> {
        self.end_line();
        let value = trimmed(value);
        match name {
            b"te" if !value.eq_ignore_ascii_case(b"trailers") => {
                return Err(MalformedRequest("a te other than trailers"));
            }
            b"content-length" => {
                let length = PeerLength::from_decimal(value).ok_or(MalformedRequest("a malformed content-length"))?;
                if self.said.replace(length).is_some_and(|before| before != length) {
                    return Err(MalformedRequest("two different content-lengths"));
                }
            }
            // A Host equal to the authority is redundant. A different one is a second host, which no request may have.
            b"host" if self.host_of_authority().is_some_and(|host| host.eq_ignore_ascii_case(value)) => return Ok(()),
            b"cookie" => {
                self.crumb(value);
                return Ok(());
            }
            _ => {}
        }
        self.keep(name, value);
        Ok(())
    }

    fn host_of_authority(&self) -> Option<&[u8]> {
        self.pseudo.authority.map(|authority| self.list.value(authority))
    }

    /// The target of the request. A request without a path is a CONNECT, whose target is the authority (RFC 9113
    /// section 8.5).
    fn target(&self) -> Span {
        self.pseudo.path.or(self.pseudo.authority).unwrap_or_default()
    }

    fn method(&self) -> Span {
        self.pseudo.method.unwrap_or_default()
    }

    /// Ends the pseudo-fields: checks and counts the request line.
    fn end_line(&mut self) {
        if std::mem::replace(&mut self.has_line, true) {
            return;
        }
        let (method, target) = (self.list.value(self.method()), self.list.value(self.target()));
        self.bytes = method.len() + target.len() + LINE_REST;
        if self.bytes > self.limits.head_bytes_max {
            return self.refuse(if method.len() < self.limits.head_bytes_max {
                TARGET_TOO_LONG
            } else {
                METHOD_TOO_LONG
            });
        }
        let is_line = !method.is_empty() && method.iter().all(|&b| is_token_byte(b)) && is_target(target);
        if !is_line {
            return self.refuse(MALFORMED_LINE);
        }
        if let Some(authority) = self.pseudo.authority {
            match self.count(b"host", self.list.value(authority).len()) {
                Ok(()) => self.note(b"host", authority),
                Err(reject) => self.refuse(reject),
            }
        }
    }

    /// Records an answer; a malformed request stays malformed.
    fn refuse(&mut self, reject: Reject) {
        if !matches!(self.fault, Some(Fault::Malformed(_))) {
            self.fault = Some(Fault::Refused(reject));
        }
    }

    fn keep(&mut self, name: &[u8], value: &[u8]) {
        if matches!(self.fault, Some(Fault::Refused(_))) {
            return;
        }
        if let Err(reject) = self.count(name, value.len()).and_then(|()| check_value(value)) {
            return self.refuse(reject);
        }
        let kept = self.list.push(name, value);
        self.note(name, kept);
    }

    /// Appends a cookie crumb. All crumbs count as one field, also for the limits, because HTTP/2 and HTTP/3 let a
    /// client split its cookie so that each part can be compressed separately (RFC 9113 section 8.2.3, RFC 9114 section
    /// 4.2.1).
    fn crumb(&mut self, value: &[u8]) {
        if matches!(self.fault, Some(Fault::Refused(_))) {
            return;
        }
        let counted = match &self.cookie {
            None => self.count(b"cookie", value.len()),
            Some(_) => self.count_bytes(BETWEEN_CRUMBS.len() + value.len()),
        };
        if let Err(reject) = counted.and_then(|()| check_value(value)) {
            return self.refuse(reject);
        }
        match &mut self.cookie {
            None => self.cookie = Some(value.to_vec()),
            Some(crumbs) => {
                let between = if crumbs.is_empty() || value.is_empty() { b"" } else { BETWEEN_CRUMBS };
                crumbs.extend_from_slice(between);
                crumbs.extend_from_slice(value);
            }
        }
    }

    fn count(&mut self, name: &[u8], value_bytes: usize) -> Result<(), Reject> {
        if self.fields >= self.limits.fields_max.min(super::FIELDS_MAX) {
            return Err(TOO_MANY_FIELDS);
        }
        self.fields += 1;
        self.count_bytes(name.len() + value_bytes + FIELD_REST)
    }

    fn count_bytes(&mut self, bytes: usize) -> Result<(), Reject> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes.saturating_add(HEAD_REST) > self.limits.head_bytes_max { Err(HEAD_TOO_LARGE) } else { Ok(()) }
    }

    fn note(&mut self, name: &[u8], kept: Span) {
        let noted = self.section.note(name, self.list.value(kept), kept);
        if let Err(reject) = noted {
            self.fault.get_or_insert(Fault::Misunderstood(reject));
        }
    }

    /// Returns the content length that the request declares, even if the request is refused. The content must have this
    /// length.
    pub fn content_length(&self) -> Option<PeerLength> {
        self.said
    }

    /// Returns the request, or the answer that refuses it. An error is a malformed request, with the reason. Call
    /// [`RequestBuilder::begin`] before the next request.
    pub fn finish(&mut self) -> Result<Result<Box<OwnedRequest>, Box<Refused>>, Box<Refused>> {
        self.end_line();
        // No memory is kept between requests.
        let built = self.check_whole().map(|()| self.build().map(Box::new));
        let list = std::mem::take(&mut self.list);
        self.cookie = None;
        let refused = |reject, target| {
            let shown = Shown::new(list.value(self.method()), list.value(target), 1).into_owned();
            Box::new(Refused { reject, shown })
        };
        match built {
            Ok(built) => Ok(built.map_err(|reject| refused(reject, self.target()))),
            Err(malformed) => Err(refused(malformed.into(), self.pseudo.path.unwrap_or_default())),
        }
    }

    /// Checks that the pseudo-fields are exactly those that the method requires (RFC 9113 sections 8.3.1 and 8.5, RFC
    /// 8441 section 4).
    fn check_whole(&self) -> Result<(), MalformedRequest> {
        let Pseudo { method, has_scheme, authority, path, protocol } = self.pseudo;
        if let Some(Fault::Malformed(malformed)) = self.fault {
            return Err(malformed);
        }
        let Some(method) = method.map(|method| self.list.value(method)) else {
            return Err(MalformedRequest("no :method"));
        };
        let target = has_scheme && path.is_some();
        let is_whole = match (method == b"CONNECT", protocol) {
            (true, Some(_)) => target && authority.is_some(),
            (true, None) => authority.is_some() && !has_scheme && path.is_none(),
            (false, protocol) => target && protocol.is_none(),
        };
        if !is_whole {
            return Err(MalformedRequest("pseudo-fields other than those of the method"));
        }
        let path = path.map_or(&b"/"[..], |path| self.list.value(path));
        if !path.starts_with(b"/") && (path != b"*" || method != b"OPTIONS") {
            return Err(MalformedRequest("a :path that does not begin with a slash"));
        }
        // After an early refusal, the Host may not have been read.
        let has_host =
            authority.is_some() || self.section.fields.host.is_some_and(|host| !self.list.value(host).is_empty());
        if !has_host && !matches!(self.fault, Some(Fault::Refused(_))) {
            return Err(MalformedRequest("neither an :authority nor a host"));
        }
        Ok(())
    }

    /// Parses the method. A CONNECT with a protocol is not the CONNECT of a proxy (RFC 8441 section 4).
    fn method_meant(&self, token: &[u8]) -> Result<Method, Reject> {
        let Some(protocol) = self.pseudo.protocol.filter(|_| token == Method::Connect.token()) else {
            return method(token);
        };
        let is_known = self.list.value(protocol).eq_ignore_ascii_case(b"websocket");
        if is_known { Ok(Method::Connect) } else { Err(OTHER_PROTOCOL) }
    }

    /// Builds the request, checking in the same order as HTTP/1.1's parser.
    fn build(&mut self) -> Result<OwnedRequest, Reject> {
        if let Some(Fault::Refused(reject)) = self.fault {
            return Err(reject);
        }
        if self.bytes + HEAD_REST > self.limits.head_bytes_max {
            return Err(HEAD_TOO_LARGE);
        }
        let span = self.target();
        let target = self.list.value(span);
        let text = |bytes| std::str::from_utf8(bytes).map_err(|_| MALFORMED_LINE);
        let method = self.method_meant(self.list.value(self.method()))?;
        let form = target::parse(text(target)?, method)?;
        let (path, query) = parts(target, span, form.path, form.query);
        if let Some(Fault::Misunderstood(reject)) = self.fault {
            return Err(reject);
        }
        let body = self.section.body(1)?;
        let fields = Fields { host: self.section.host(1, None)?, ..self.section.fields };
        let mut names = self.section.names;
        if let Some(cookie) = self.cookie.take() {
            self.list.push(b"cookie", &cookie);
            names = names.add(b"cookie");
        }
        let list = std::mem::take(&mut self.list);
        Ok(OwnedRequest { list, method, target: span, path, query, fields, names, body })
    }
}

const OTHER_PROTOCOL: Reject =
    Reject { status: Status::NOT_IMPLEMENTED, reason: "connect with another protocol than websocket" };

/// Checks a field that follows the pseudo-fields, or a trailer, by the rules common to HTTP/2 and HTTP/3 (RFC 9113
/// section 8.2, RFC 9114 section 4.2). Whitespace around a value is not part of it (RFC 9110 section 5.5) and is
/// allowed: browser engines send some in User-Agent.
pub fn check_field(name: &[u8], value: &[u8]) -> Result<(), MalformedRequest> {
    let is_name = |&b: &u8| is_token_byte(b) && !b.is_ascii_uppercase();
    if name.is_empty() || !name.iter().all(is_name) {
        return Err(MalformedRequest("a field name that is not a token in lower case"));
    }
    if is_any(name, &OF_CONNECTION) {
        return Err(MalformedRequest("a field of a connection"));
    }
    if ends_line(value) { Err(MalformedRequest("a NUL, CR or LF in a field value")) } else { Ok(()) }
}

/// Returns true if the value contains an end of line. The loop has no early exit, so that the compiler vectorises it.
fn ends_line(value: &[u8]) -> bool {
    value.iter().fold(false, |ends, &b| ends | (b == 0) | (b == b'\r') | (b == b'\n'))
}

/// Refuses the other control characters, which HTTP/1.1's tokenizer refuses too.
fn check_value(value: &[u8]) -> Result<(), Reject> {
    let is_bad = value.iter().fold(false, |bad, &b| bad | (b < b' ' && b != b'\t') | (b == 0x7f));
    if is_bad { Err(MALFORMED_VALUE) } else { Ok(()) }
}

/// Checks a scheme (RFC 3986 section 3.1).
fn is_scheme(value: &[u8]) -> bool {
    let is_rest = |b: &u8| b.is_ascii_alphanumeric() || b"+-.".contains(b);
    value.first().is_some_and(u8::is_ascii_alphabetic) && value.iter().all(is_rest)
}

/// Checks the characters of an authority (RFC 3986 section 3.2). Userinfo is refused: no http URI may have it (RFC 9113
/// section 8.3.1).
fn is_authority(value: &[u8]) -> bool {
    value.iter().all(|b| b.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:[]%".contains(b))
}

/// Returns true for the characters of a token (RFC 9110 section 5.6.2).
pub(crate) fn is_token_byte(b: u8) -> bool {
    const IS_TOKEN: [bool; 256] = {
        let mut is_token = [false; 256];
        let mut b = 0u8;
        while b < 128 {
            is_token[b as usize] = b.is_ascii_alphanumeric();
            b += 1;
        }
        let marks = *b"!#$%&'*+-.^_`|~";
        let mut at = 0;
        while at < marks.len() {
            is_token[marks[at] as usize] = true;
            at += 1;
        }
        is_token
    };
    IS_TOKEN[usize::from(b)]
}

/// Checks that a target is UTF-8 without spaces or control characters, and not empty.
fn is_target(target: &[u8]) -> bool {
    !target.is_empty() && target.iter().all(|&b| b > b' ' && b != 0x7f) && std::str::from_utf8(target).is_ok()
}

fn trimmed(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}
