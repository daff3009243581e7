//! A request on its way to an upstream.

use http::fastcgi::{append_stdin, length_records};
use http::gateway::RequestHead;
use http::http1::{LAST_CHUNK, begin_chunk};
use http::{BodyLength, Method};
use http2::{Source, Supply};
use units::Nanos;
use units::memory::{Account, Charge, Counted};

/// The maximum number of bytes of a request body that wait for the upstream.
pub const REQUEST_BODY_BYTES_MAX: usize = 64 << 10;
/// The same maximum for a body that arrives on a stream, whose engine keeps more of it. The next constant applies to
/// all bodies if memory is short.
pub const STREAM_BODY_BYTES_MAX: usize = 32 << 10;
pub const SCARCE_BODY_BYTES_MAX: usize = 16 << 10;
/// The maximum size of a body that must be complete before it is sent, because its length comes first.
pub const UNMEASURED_BODY_BYTES_MAX: usize = 1 << 20;

/// The head, in the form that the upstream reads.
#[derive(Debug)]
pub enum Head {
    /// Lines of HTTP/1.1.
    Lines(Vec<u8>),
    /// Fields for HTTP/2.
    Fields(RequestHead),
    /// Records of FastCGI.
    Records(Vec<u8>),
    /// FastCGI records for a request with a body of unknown length, which has to precede the body.
    Unmeasured(Vec<u8>),
}

impl From<Vec<u8>> for Head {
    fn from(lines: Vec<u8>) -> Head {
        Head::Lines(lines)
    }
}

/// The additional state of a request over HTTP/2.
#[derive(Debug)]
pub struct OfStream {
    pub head: RequestHead,
    pub has_body: bool,
    /// The head was sent.
    pub is_begun: bool,
    /// True if the end of the body was sent.
    pub is_ended: bool,
    /// True if the end is not sent before an answer, because the request opens a tunnel.
    pub holds_end: bool,
    /// True if the upstream may still report that it has not processed the request, so that the sent bytes are kept.
    pub is_refusable: bool,
    /// The memory of the head.
    _charge: Charge,
}

/// The framing of the parts of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    /// No framing: the body is delimited by a length or by its stream.
    Plain,
    Chunks,
    /// Chunks after a head of `head_bytes`, unless the body is complete before the first byte is sent. In that case its
    /// length is put into the head, because many programs cannot read a body without it.
    Undecided {
        head_bytes: usize,
    },
    /// Records of FastCGI.
    Records,
    /// FastCGI records that wait until the body is complete, because the length of the body is put between the head and
    /// the body.
    Unmeasured {
        head_bytes: usize,
        body_bytes: u64,
    },
}

/// The numbers of bytes of requests that wait, and that upstreams have taken.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    pub bytes: u64,
    pub taken_bytes: u64,
}

/// The request on its way to the upstream.
#[derive(Debug)]
pub struct Outbound {
    /// The head, except over HTTP/2, and the arrived part of the body. Begins with the first byte as long as the
    /// request may be sent again.
    pub bytes: Counted,
    /// The number of bytes of `bytes` that were sent.
    pub at: usize,
    /// True if the method may be repeated (RFC 9110 section 9.2.2) and `bytes` contains everything from the first byte
    /// on.
    pub is_repeatable: bool,
    framing: Framing,
    pub is_whole: bool,
    /// The state that only HTTP/2 needs; `None` over other protocols.
    pub of_stream: Option<Box<OfStream>>,
    /// The number of bytes that were sent and are no longer kept.
    pub forgotten_bytes: u64,
    /// True if the upstream takes no more of the request.
    pub is_refused: bool,
    /// True if a part of the request was dropped because the upstream takes no more, so that it cannot be sent again.
    pub has_dropped: bool,
    /// The time at which the last byte was sent.
    pub sent_at: Nanos,
    /// The maximum number of bytes of the body that may wait.
    pub bytes_max: usize,
    /// True if the beginning of the body is gathered before the request is passed on.
    pub is_buffered: bool,
}

impl Outbound {
    /// Creates a request whose memory is counted in `account`.
    pub fn new(head: Head, method: Method, body: BodyLength, account: &Account) -> Outbound {
        let has_body = body != BodyLength::None;
        let is_idempotent = is_idempotent(method);
        let framing = match head {
            Head::Lines(ref bytes) if body == BodyLength::Unknown => Framing::Undecided { head_bytes: bytes.len() },
            Head::Records(_) => Framing::Records,
            Head::Unmeasured(ref bytes) => Framing::Unmeasured { head_bytes: bytes.len(), body_bytes: 0 },
            Head::Lines(_) | Head::Fields(_) => Framing::Plain,
        };
        let (bytes, of_stream) = match head {
            Head::Lines(bytes) | Head::Records(bytes) | Head::Unmeasured(bytes) => (bytes, None),
            Head::Fields(head) => {
                let (is_ended, _charge) = (!has_body, Charge::new(account, head.bytes()));
                let of_stream = OfStream {
                    head,
                    has_body,
                    is_begun: false,
                    is_ended,
                    holds_end: false,
                    is_refusable: true,
                    _charge,
                };
                (Vec::new(), Some(Box::new(of_stream)))
            }
        };
        Outbound {
            bytes: Counted::of(account, bytes),
            at: 0,
            is_repeatable: is_idempotent,
            framing,
            is_whole: !has_body,
            of_stream,
            forgotten_bytes: 0,
            is_refused: false,
            has_dropped: false,
            sent_at: Nanos::ZERO,
            bytes_max: REQUEST_BODY_BYTES_MAX,
            is_buffered: true,
        }
    }

    /// Keeps the stream of the request open: it becomes a tunnel if its upstream agrees.
    pub fn open_on_stream(&mut self) {
        if let Some(of_stream) = &mut self.of_stream {
            (of_stream.has_body, of_stream.is_ended, of_stream.holds_end) = (true, false, true);
        }
    }

    /// Appends more of the body; `is_last` ends it. Bytes that the upstream does not want are dropped.
    pub fn push(&mut self, bytes: &[u8], is_last: bool) {
        // The end may be signalled twice.
        if self.is_whole {
            return;
        }
        if !self.is_refused {
            let mut into = self.bytes.edit();
            match &mut self.framing {
                Framing::Plain => into.extend_from_slice(bytes),
                Framing::Chunks => append_chunk(&mut into, bytes, is_last),
                Framing::Undecided { head_bytes } => {
                    into.extend_from_slice(bytes);
                    if is_last {
                        measure(&mut into, *head_bytes);
                        self.framing = Framing::Plain;
                    }
                }
                Framing::Records => append_stdin(&mut into, bytes, is_last),
                Framing::Unmeasured { head_bytes, body_bytes } => {
                    append_stdin(&mut into, bytes, is_last);
                    *body_bytes += bytes.len() as u64;
                    if is_last {
                        into.splice(*head_bytes..*head_bytes, length_records(*body_bytes));
                    }
                }
            }
        }
        self.has_dropped |= self.is_refused;
        self.is_whole |= is_last;
    }

    /// Returns true if the request may not be sent yet, because the length of its body is not known.
    pub fn is_unmeasured(&self) -> bool {
        matches!(self.framing, Framing::Unmeasured { .. }) && !self.is_whole
    }

    /// If that is not decided yet, decides to send the body in chunks. The bytes that have arrived become the first
    /// chunk.
    pub fn decide_framing(&mut self) {
        let Framing::Undecided { head_bytes } = self.framing else { return };
        let mut into = self.bytes.edit();
        let body = into.split_off(head_bytes);
        append_chunk(&mut into, &body, false);
        self.framing = Framing::Chunks;
    }

    /// Restarts the request from its first byte.
    pub fn rewind(&mut self) {
        (self.at, self.is_refused) = (0, false);
        if let Some(of_stream) = &mut self.of_stream {
            (of_stream.is_begun, of_stream.is_ended) = (false, !of_stream.has_body);
        }
    }

    /// Returns true if some of the sent bytes are no longer kept.
    pub fn has_forgotten(&self) -> bool {
        self.forgotten_bytes > 0
    }

    /// Returns the number of bytes that wait for the upstream, and of bytes that the upstream has taken.
    pub fn waiting(&self) -> Waiting {
        let bytes = self.bytes.len() - self.at;
        Waiting { bytes: bytes as u64, taken_bytes: self.forgotten_bytes + self.at as u64 }
    }

    /// Returns true if the upstream cannot have received any part of the request.
    pub fn is_unsent(&self) -> bool {
        let is_begun = self.of_stream.as_ref().is_some_and(|of_stream| of_stream.is_begun);
        self.at == 0 && !self.has_forgotten() && !is_begun
    }

    /// Drops the sent bytes that will not be sent again. Bytes that may be sent again are kept, unless more than
    /// `bytes_max` were sent before the end of the request arrived.
    pub fn forget_sent(&mut self) {
        self.is_repeatable &= self.is_whole || self.at < self.bytes_max;
        let is_sent = self.is_sent();
        let is_refusable = self.of_stream.as_ref().is_some_and(|of_stream| of_stream.is_refusable);
        if !self.is_repeatable && (is_sent && !is_refusable || self.at >= self.bytes_max) {
            self.forgotten_bytes += self.at as u64;
            self.bytes.edit().drain(..std::mem::take(&mut self.at));
            self.bytes.shrink();
        }
    }

    /// Begins a tunnel: the bytes that follow belong to another protocol and have no framing (RFC 9110 section 7.8),
    /// and both sides may continue to send.
    pub fn begin_tunnel(&mut self) {
        (self.is_whole, self.framing) = (false, Framing::Plain);
    }

    /// Records that the response has begun, so that the request cannot be sent again.
    pub fn on_answered(&mut self) {
        self.is_repeatable = false;
        if let Some(of_stream) = &mut self.of_stream {
            (of_stream.is_refusable, of_stream.holds_end) = (false, false);
        }
        self.forget_sent();
    }

    /// Returns true if bytes of the body, or its end, have to be sent over HTTP/2.
    pub fn has_unsent(&self) -> bool {
        let is_ended = self.of_stream.as_ref().is_none_or(|of_stream| of_stream.is_ended || of_stream.holds_end);
        !self.is_refused && (!self.is_sent() || self.is_whole && !is_ended)
    }

    /// Returns true if everything that has arrived was sent, and more will come.
    pub fn waits_for_client(&self) -> bool {
        self.is_sent() && !self.is_whole
    }

    /// Returns true if everything available was sent.
    pub fn is_sent(&self) -> bool {
        self.at == self.bytes.len()
    }
}

/// The body as a source of frames.
impl Source for Outbound {
    fn peek(&mut self, into: &mut Vec<u8>, bytes_max: usize) -> Supply {
        let rest = &self.bytes[self.at..];
        let part = &rest[..rest.len().min(bytes_max)];
        into.extend_from_slice(part);
        match part.len() == rest.len() {
            true if self.is_whole => Supply::End,
            true => Supply::Later,
            false => Supply::More,
        }
    }

    fn advance(&mut self, bytes: usize) {
        self.at += bytes;
    }
}

/// Puts the length of a complete body into its head, in place of the line that announces chunks.
fn measure(request: &mut Vec<u8>, head_bytes: usize) {
    match request[..head_bytes].windows(IN_CHUNKS.len()).position(|line| line == IN_CHUNKS) {
        Some(at) => {
            let length = format!("\r\nContent-Length: {}\r\n", request.len() - head_bytes);
            request.splice(at..at + IN_CHUNKS.len(), length.into_bytes());
        }
        None => {
            let body = request.split_off(head_bytes);
            append_chunk(request, &body, true);
        }
    }
}

/// The line that announces chunks in the head of a body of unknown length ([`http::gateway`]).
const IN_CHUNKS: &[u8] = b"\r\nTransfer-Encoding: chunked\r\n";

/// Appends a part of a body in chunks.
fn append_chunk(into: &mut Vec<u8>, bytes: &[u8], is_last: bool) {
    if !bytes.is_empty() {
        begin_chunk(into, bytes.len());
        into.extend_from_slice(bytes);
        into.extend_from_slice(b"\r\n");
    }
    into.extend_from_slice(if is_last { LAST_CHUNK } else { b"" });
}

/// Returns true if sending the method twice has the same effect as sending it once (RFC 9110 section 9.2.2). Returns
/// false if that is unknown for the method.
fn is_idempotent(method: Method) -> bool {
    use Method::{Delete, Get, Head, Options, Propfind, Put, Query, Report, Search, Trace};
    matches!(method, Get | Head | Options | Trace | Put | Delete | Propfind | Report | Search | Query)
}
