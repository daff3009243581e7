//! What an upstream answers over HTTP/2, field by field: the same head as HTTP/1.1 would have.

use crate::fields::FieldList;
use crate::http1::upstream::{Framing, ResponseLimits, UpstreamFault, UpstreamHead, content_length};
use crate::request::check_field;
use crate::trailers::Trailers;
use crate::{Method, PeerLength, Status};

/// Collects the fields of one head, or of trailers. What RFC 9113 section 8.2 and 8.3 have no room for is a fault.
#[derive(Debug)]
pub struct ResponseBuilder {
    limits: ResponseLimits,
    status: Option<u16>,
    /// The first thing wrong.
    fault: Option<UpstreamFault>,
    list: FieldList,
    fields: usize,
    /// As HTTP/1.1 writes them.
    bytes: usize,
}

/// Of a line of HTTP/1.1, beside the name and the value.
const FIELD_REST: usize = ": \r\n".len();

const TOO_LARGE: UpstreamFault = UpstreamFault("a response head over the limit");
const WRONG_PSEUDO: UpstreamFault = UpstreamFault("a pseudo-field other than one status before all others");
const WRONG_STATUS: UpstreamFault = UpstreamFault("a status outside 100 to 999, or 101");

impl ResponseBuilder {
    pub fn new(limits: ResponseLimits) -> ResponseBuilder {
        let (status, fault, list) = (None, None, FieldList::default());
        ResponseBuilder { limits, status, fault, list, fields: 0, bytes: 0 }
    }

    /// Another head.
    pub fn begin(&mut self) {
        *self = ResponseBuilder::new(self.limits);
    }

    /// Of what is wrong or too much nothing is kept.
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
                None => drop(self.list.push(name, value.trim_ascii())),
                fault => self.fault = fault,
            },
        }
    }

    /// The head of a response to a request of this method, behind which its stream ends or goes on.
    pub fn finish(&mut self, method: Method, ends_stream: bool) -> Result<UpstreamHead, UpstreamFault> {
        self.fault.map_or(Ok(()), Err)?;
        let status = self.status.take().ok_or(WRONG_STATUS)?;
        let list = std::mem::take(&mut self.list);
        let lengths = list.iter().filter(|(name, _)| name.eq_ignore_ascii_case(b"content-length"));
        let said = content_length(lengths.map(|(_, value)| value))?;
        let is_bare = matches!(status, 100..=199 | 204 | 304) || method == Method::Head;
        if ends_stream && !is_bare && said.is_some_and(|length| length > PeerLength::ZERO) {
            return Err(UpstreamFault::TOO_FEW);
        }
        let framing = match said {
            _ if is_bare || ends_stream => Framing::None,
            Some(length) => Framing::Length(length),
            None => Framing::Stream,
        };
        // Over HTTP/1.1 its client has to be told that it is empty.
        let content_length = if is_bare || !ends_stream { said } else { Some(PeerLength::ZERO) };
        let status = Status(status);
        Ok(UpstreamHead { status, framing, is_kept_alive: true, content_length, minor_version: 2, list })
    }

    /// What was collected as trailers; `None` where nothing of it is passed on.
    pub fn finish_trailers(&mut self) -> Result<Option<Box<Trailers>>, UpstreamFault> {
        if self.status.is_some() {
            return Err(WRONG_PSEUDO);
        }
        self.fault.map_or(Ok(()), Err)?;
        Trailers::of(std::mem::take(&mut self.list).iter())
    }
}

/// Three digits; there is no change of protocol (section 8.6).
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
