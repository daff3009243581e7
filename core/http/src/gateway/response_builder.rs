//! Builds the head of an upstream's HTTP/2 response field by field; the result is the same as for HTTP/1.1.

use crate::http1::upstream::{Framing, ResponseFields, ResponseLimits, UpstreamFault, UpstreamHead, note_length};
use crate::request::check_field;
use crate::trailers::Trailers;
use crate::{Method, PeerLength, Status};

/// Collects the fields of one head, or of trailers. Anything outside the rules of RFC 9113 sections 8.2 and 8.3 is a
/// fault.
#[derive(Debug)]
pub struct ResponseBuilder {
    limits: ResponseLimits,
    status: Option<u16>,
    /// The first fault found.
    fault: Option<UpstreamFault>,
    list: ResponseFields,
    fields: usize,
    /// The size in HTTP/1.1 format.
    bytes: usize,
}

/// Bytes of an HTTP/1.1 field line in addition to its name and value.
const FIELD_REST: usize = ": \r\n".len();

const TOO_LARGE: UpstreamFault = UpstreamFault("a response head over the limit");
const WRONG_PSEUDO: UpstreamFault = UpstreamFault("a pseudo-field other than one status before all others");
const WRONG_STATUS: UpstreamFault = UpstreamFault("a status outside 100 to 999, or 101");

impl ResponseBuilder {
    pub fn new(limits: ResponseLimits) -> ResponseBuilder {
        ResponseBuilder { limits, status: None, fault: None, list: ResponseFields::default(), fields: 0, bytes: 0 }
    }

    /// Starts another head.
    pub fn begin(&mut self) {
        *self = ResponseBuilder::new(self.limits);
    }

    /// Adds a field. After a fault, or beyond a limit, nothing is stored.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        self.bytes = self.bytes.saturating_add(name.len() + value.len() + FIELD_REST);
        self.fields += 1;
        if self.bytes > self.limits.head.head_bytes_max || self.fields > self.limits.head.fields_max {
            self.fault.get_or_insert(TOO_LARGE);
        }
        if self.fault.is_some() {
            return;
        }
        match name {
            b":status" if self.fields == 1 => self.status = status(value),
            [b':', ..] => self.fault = Some(WRONG_PSEUDO),
            _ => match check(name, value) {
                None => self.list.push(name, value.trim_ascii()),
                fault => self.fault = fault,
            },
        }
    }

    /// Returns the head of a response to a request of this method. `ends_stream` means that no body follows.
    pub fn finish(&mut self, method: Method, ends_stream: bool) -> Result<UpstreamHead, UpstreamFault> {
        self.fault.map_or(Ok(()), Err)?;
        let status = self.status.take().ok_or(WRONG_STATUS)?;
        let (fields, mut said) = (std::mem::take(&mut self.list), None);
        fields.values("content-length").try_for_each(|value| note_length(&mut said, value))?;
        // RFC 9110 section 9.3.6: what follows is no body, whatever its length is said to be.
        let is_tunnel = method == Method::Connect && matches!(status, 200..=299);
        if is_tunnel {
            said = None;
        }
        let is_bare = matches!(status, 100..=199 | 204 | 304) || method == Method::Head;
        if ends_stream && !is_bare && said.is_some_and(|length| length > PeerLength::ZERO) {
            return Err(UpstreamFault::TOO_FEW);
        }
        let framing = match said {
            _ if is_tunnel => Framing::Upgraded,
            _ if is_bare || ends_stream => Framing::None,
            Some(length) => Framing::Length(length),
            None => Framing::Stream,
        };
        // An HTTP/1.1 client needs a length to see that the body is empty.
        let content_length = if is_bare || is_tunnel || !ends_stream { said } else { Some(PeerLength::ZERO) };
        Ok(UpstreamHead {
            status: Status(status),
            framing,
            is_kept_alive: true,
            is_end_doubtful: false,
            content_length,
            minor_version: 2,
            fields,
            lists_fields: false,
        })
    }

    /// Returns the fields collected as trailers; `None` if none of them is forwarded.
    pub fn finish_trailers(&mut self) -> Result<Option<Box<Trailers>>, UpstreamFault> {
        if self.status.is_some() {
            return Err(WRONG_PSEUDO);
        }
        self.fault.map_or(Ok(()), Err)?;
        Trailers::of(std::mem::take(&mut self.list).iter())
    }
}

/// Parses three digits. 101 is refused: HTTP/2 has no protocol switch (section 8.6).
fn status(value: &[u8]) -> Option<u16> {
    let status = std::str::from_utf8(value).ok()?.parse().ok()?;
    (value.len() == 3 && matches!(status, 100 | 102..=999)).then_some(status)
}

fn check(name: &[u8], value: &[u8]) -> Option<UpstreamFault> {
    if let Err(malformed) = check_field(name, value) {
        return Some(UpstreamFault(malformed.0));
    }
    let is_bad = value.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t');
    is_bad.then_some(UpstreamFault("a control character in a field value"))
}
