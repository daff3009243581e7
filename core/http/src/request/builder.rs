use super::owned::parts;
use super::section::FieldSection;
use super::{
    Fields, HEAD_TOO_LARGE, Limits, MALFORMED_LINE, MALFORMED_NAME, MALFORMED_VALUE, METHOD_TOO_LONG,
    MORE_THAN_ONE_HOST, OwnedRequest, Refused, Shown, TARGET_TOO_LONG, TOO_MANY_FIELDS, method, target,
};
use crate::fields::{FieldList, Span};
use crate::{Method, Reject, Status};

/// The fields of a request, one by one, as HTTP/2 and HTTP/3 have them: pseudo-fields first, each once (RFC 9113 section 8.3), which is the
/// engine's to see to. All else is checked here, and what is too much is not kept. The answer is that to the same request over HTTP/1.1.
#[derive(Debug)]
pub struct RequestBuilder {
    limits: Limits,
    list: FieldList,
    section: FieldSection<Span>,
    method: Span,
    path: Span,
    authority: Span,
    protocol: Span,
    has_line: bool,
    fields: usize,
    /// As HTTP/1.1 writes them.
    bytes: usize,
    /// What is wrong with its bytes, and the first thing wrong with their meaning, which matters less.
    malformed: Option<Reject>,
    misunderstood: Option<Reject>,
}

/// What most heads of browsers need.
const LIST_BYTES: usize = 640;
/// Of a request line, beside the method and the target.
const LINE_REST: usize = "  HTTP/1.1\r\n".len();
const FIELD_REST: usize = ": \r\n".len();
const HEAD_REST: usize = "\r\n".len();

impl RequestBuilder {
    pub fn new(limits: Limits) -> RequestBuilder {
        RequestBuilder {
            limits,
            list: FieldList::default(),
            section: FieldSection::default(),
            method: Span::default(),
            path: Span::default(),
            authority: Span::default(),
            protocol: Span::default(),
            has_line: false,
            fields: 0,
            bytes: 0,
            malformed: None,
            misunderstood: None,
        }
    }

    /// Another request.
    pub fn begin(&mut self) {
        *self = RequestBuilder { list: FieldList::with_capacity(LIST_BYTES), ..RequestBuilder::new(self.limits) };
    }

    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        // Longer ones are refused as they are.
        let kept = &value[..value.len().min(self.limits.head_bytes_max + 1)];
        match name {
            b":method" => self.method = self.list.push(name, kept),
            b":path" if value.is_empty() => {}
            b":path" => self.path = self.list.push(name, kept),
            // It is what Host was (RFC 9113 section 8.3.1).
            b":authority" if value.is_empty() => {}
            b":authority" if self.has_authority() || self.has_line => self.misunderstood = Some(MORE_THAN_ONE_HOST),
            b":authority" => self.authority = self.list.push(b"host", trimmed(kept)),
            b":protocol" => self.protocol = self.list.push(name, kept),
            [b':', ..] => {}
            // The authority says the same; where it says something else there are two, which no request may have.
            b"host" if self.has_authority() && self.list.value(self.authority).eq_ignore_ascii_case(value) => {}
            _ => {
                self.end_line();
                self.field(name, value);
            }
        }
    }

    fn has_authority(&self) -> bool {
        self.authority != Span::default()
    }

    /// A request without a path is CONNECT, whose target is the authority (RFC 9113 section 8.5).
    fn target(&self) -> Span {
        if self.path == Span::default() { self.authority } else { self.path }
    }

    /// No pseudo-field follows.
    fn end_line(&mut self) {
        if std::mem::replace(&mut self.has_line, true) {
            return;
        }
        let (method, target) = (self.list.value(self.method), self.list.value(self.target()));
        self.bytes = method.len() + target.len() + LINE_REST;
        self.malformed = if self.bytes > self.limits.head_bytes_max {
            Some(if method.len() < self.limits.head_bytes_max { TARGET_TOO_LONG } else { METHOD_TOO_LONG })
        } else {
            let is_line = !method.is_empty() && method.iter().all(|&b| is_token_byte(b)) && is_target(target);
            (!is_line).then_some(MALFORMED_LINE)
        };
        if self.has_authority() && self.malformed.is_none() {
            let bytes = self.list.value(self.authority).len();
            let counted = self.count(b"host", bytes);
            let checked = counted.and_then(|()| check(b"host", self.list.value(self.authority)));
            match checked {
                Ok(()) => self.note(b"host", self.authority),
                Err(reject) => self.malformed = Some(reject),
            }
        }
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        if self.malformed.is_some() {
            return;
        }
        if let Err(reject) = self.count(name, value.len()).and_then(|()| check(name, value)) {
            self.malformed = Some(reject);
            return;
        }
        let kept = self.list.push(name, trimmed(value));
        self.note(name, kept);
    }

    fn count(&mut self, name: &[u8], value_bytes: usize) -> Result<(), Reject> {
        if self.fields >= self.limits.fields_max.min(super::FIELDS_MAX) {
            return Err(TOO_MANY_FIELDS);
        }
        self.fields += 1;
        self.bytes = self.bytes.saturating_add(name.len() + value_bytes + FIELD_REST);
        if self.bytes + HEAD_REST > self.limits.head_bytes_max { Err(HEAD_TOO_LARGE) } else { Ok(()) }
    }

    fn note(&mut self, name: &[u8], kept: Span) {
        let noted = self.section.note(name, self.list.value(kept), kept);
        self.misunderstood = self.misunderstood.or(noted.err());
    }

    /// The request, or why it is none. [`RequestBuilder::begin`] begins the next.
    pub fn finish(&mut self) -> Result<Box<OwnedRequest>, Box<Refused>> {
        self.end_line();
        let built = self.build().map(Box::new);
        let (method, target) = (self.method, self.target());
        // Between requests no memory is kept.
        let list = std::mem::take(&mut self.list);
        built.map_err(|reject| {
            let shown = Shown::new(list.value(method), list.value(target), 1).into_owned();
            Box::new(Refused { reject, shown })
        })
    }

    /// CONNECT with a protocol is not that of a proxy (RFC 8441 section 4); which those are that may have one is the engine's to see to.
    fn method_meant(&self, token: &str) -> Result<Method, Reject> {
        if token != Method::Connect.token() || self.protocol == Span::default() {
            return method(token);
        }
        let is_known = self.list.value(self.protocol).eq_ignore_ascii_case(b"websocket");
        if is_known { Ok(Method::Connect) } else { Err(OTHER_PROTOCOL) }
    }

    /// The order is that of HTTP/1.1's parser.
    fn build(&mut self) -> Result<OwnedRequest, Reject> {
        if let Some(reject) = self.malformed {
            return Err(reject);
        }
        if self.bytes + HEAD_REST > self.limits.head_bytes_max {
            return Err(HEAD_TOO_LARGE);
        }
        let span = self.target();
        let target = self.list.value(span);
        if target.len() > self.limits.target_bytes_max {
            return Err(TARGET_TOO_LONG);
        }
        let text = |bytes| std::str::from_utf8(bytes).map_err(|_| MALFORMED_LINE);
        let method = self.method_meant(text(self.list.value(self.method))?)?;
        let form = target::parse(text(target)?, method)?;
        let (path, query) = parts(target, span, form.path, form.query);
        let authority = form.host.map(<[u8]>::to_vec);
        if let Some(reject) = self.misunderstood {
            return Err(reject);
        }
        let body = self.section.body(1)?;
        // That of an absolute target.
        let authority = authority.map(|authority| self.list.push(b":authority", &authority));
        let fields = Fields { host: self.section.host(1, authority)?, ..self.section.fields };
        Ok(OwnedRequest { list: std::mem::take(&mut self.list), method, target: span, path, query, fields, body })
    }
}

const OTHER_PROTOCOL: Reject =
    Reject { status: Status::NOT_IMPLEMENTED, reason: "connect with another protocol than websocket" };

/// What HTTP/1.1's tokenizer sees to.
fn check(name: &[u8], value: &[u8]) -> Result<(), Reject> {
    if name.is_empty() || !name.iter().all(|&b| is_token_byte(b)) {
        return Err(MALFORMED_NAME);
    }
    // No early exit, so that the compiler makes it many bytes at a time.
    let is_bad = value.iter().fold(false, |bad, &b| bad | (b < b' ' && b != b'\t') | (b == 0x7f));
    if is_bad { Err(MALFORMED_VALUE) } else { Ok(()) }
}

/// RFC 9110 section 5.6.2.
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

/// Neither spaces nor control characters, and text at all.
fn is_target(target: &[u8]) -> bool {
    !target.is_empty() && target.iter().all(|&b| b > b' ' && b != 0x7f) && std::str::from_utf8(target).is_ok()
}

fn trimmed(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}
