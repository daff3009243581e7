//! A request on its way to an upstream.

use http::http1::{LAST_CHUNK, begin_chunk};
use http::{BodyLength, Method};
use units::Nanos;

use crate::upload::{Upload, UploadLimits};

/// Of a request body so much waits at most until the upstream takes it.
pub const REQUEST_BODY_BYTES_MAX: usize = 64 << 10;

/// The request.
#[derive(Debug)]
pub struct Outbound {
    /// The head and what came of the body; from the first byte on, as long as it may be sent again.
    pub bytes: Vec<u8>,
    /// How many of them are sent.
    pub at: usize,
    /// The method may be repeated (RFC 9110 section 9.2.2), and no body has gone.
    pub is_repeatable: bool,
    pub is_chunked: bool,
    pub is_whole: bool,
    /// Bytes that were sent are not kept any more.
    pub has_sent: bool,
    /// The upstream takes no more of it.
    pub is_refused: bool,
    /// When the last byte of it left.
    pub sent_at: Nanos,
    /// Where its client sends on a stream; over HTTP/1.1 the connection sees to that.
    pub upload: Option<(Upload, UploadLimits)>,
    /// Something of it came since its deadline was set.
    pub has_grown: bool,
}

impl Outbound {
    pub fn new(head: Vec<u8>, method: Method, body: BodyLength) -> Outbound {
        let has_body = body != BodyLength::None;
        let is_idempotent = is_idempotent(method);
        Outbound {
            bytes: head,
            at: 0,
            is_repeatable: is_idempotent && !has_body,
            is_chunked: body == BodyLength::Unknown,
            is_whole: !has_body,
            has_sent: false,
            is_refused: false,
            sent_at: Nanos::ZERO,
            upload: None,
            has_grown: false,
        }
    }

    /// More of the body; `is_last` ends it. What an upstream does not want is dropped.
    pub fn push(&mut self, bytes: &[u8], is_last: bool) {
        // Its end may be told again.
        if self.is_whole {
            return;
        }
        self.upload.iter_mut().for_each(|(upload, _)| upload.on_bytes(bytes.len()));
        self.has_grown |= !bytes.is_empty();
        if !self.is_refused {
            if self.is_chunked && !bytes.is_empty() {
                begin_chunk(&mut self.bytes, bytes.len());
            }
            self.bytes.extend_from_slice(bytes);
            if self.is_chunked {
                let end = if bytes.is_empty() { &b""[..] } else { b"\r\n" };
                self.bytes.extend_from_slice(end);
                self.bytes.extend_from_slice(if is_last { LAST_CHUNK } else { b"" });
            }
        }
        self.is_whole |= is_last;
    }

    /// What cannot be sent again is not kept, however long the upstream lags behind its client.
    pub fn forget_sent(&mut self) {
        let is_sent = self.is_sent();
        if !self.is_repeatable && (is_sent || self.at >= REQUEST_BODY_BYTES_MAX) {
            self.has_sent |= self.at > 0;
            self.bytes.drain(..std::mem::take(&mut self.at));
            if is_sent {
                self.bytes = Vec::new();
            }
        }
    }

    /// All that came of it has left, and more is to come.
    pub fn waits_for_client(&self) -> bool {
        self.is_sent() && !self.is_whole
    }

    /// All that there is of it has left.
    pub fn is_sent(&self) -> bool {
        self.at == self.bytes.len()
    }
}

/// Asked twice, it does the same as once (RFC 9110 section 9.2.2); of others than these that is not said here.
fn is_idempotent(method: Method) -> bool {
    use Method::{Delete, Get, Head, Options, Propfind, Put, Query, Report, Search, Trace};
    matches!(method, Get | Head | Options | Trace | Put | Delete | Propfind | Report | Search | Query)
}
