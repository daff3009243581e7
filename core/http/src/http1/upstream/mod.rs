//! Parses HTTP/1.1 responses of upstreams: their heads, and their bodies, from which it removes the framing (RFC 9112
//! section 6).
//!
//! If an upstream's bytes have two readings, part of them could be taken for the response to another request. Such a
//! response is a fault, and its connection carries no other. Old but unambiguous syntax is accepted and rewritten for
//! the client: space before a colon (RFC 9112 section 5.1), folded lines of fields that frame nothing (5.2), chunk
//! sizes padded with spaces (7.1.1), a length together with chunks (6.3), a status above 599. Lines that are not fields
//! and frame nothing are left out. The notebook has the table (docs/notebook/proxy.md).

mod body;
mod fields;
mod head;
mod response;

use thiserror::Error;

use crate::{Limits, PeerLength, Status};

pub use body::UpstreamBody;
pub(crate) use fields::ResponseFields;
pub(crate) use fields::is_for_us;
pub(crate) use head::note_length;
pub use head::parse_response;

/// The maximum size of a response, excluding its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseLimits {
    /// Limits of each head, including those of interim responses.
    pub head: Limits,
    /// Maximum number of interim responses before the final one; the caller counts them. Default 1000: a program
    /// may report every few seconds that it still works (102).
    pub interim_max: u32,
}

impl From<Limits> for ResponseLimits {
    fn from(head: Limits) -> ResponseLimits {
        ResponseLimits { head, interim_max: 1000 }
    }
}

impl Default for ResponseLimits {
    fn default() -> ResponseLimits {
        Limits::default().into()
    }
}

/// A faulty response, as a phrase for the log. Its connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct UpstreamFault(pub &'static str);

impl UpstreamFault {
    /// A body shorter than its Content-Length on a stream that has ended.
    pub const TOO_FEW: UpstreamFault = UpstreamFault("fewer bytes than the announced length");
}

/// The way in which the end of a body is found (RFC 9112 section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// There is no body.
    None,
    /// The body has this length.
    Length(PeerLength),
    /// The last chunk.
    Chunked,
    /// The body ends with the connection.
    Close,
    /// The body ends with the HTTP/2 stream.
    Stream,
    /// The body does not end: the connection speaks another protocol from here on.
    Upgraded,
}

/// The head of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamHead {
    pub status: Status,
    pub framing: Framing,
    /// True if the connection can carry another request after the body.
    pub is_kept_alive: bool,
    /// True if the head announces a body that must not follow, but that an HTTP/1.1 upstream may send nevertheless. The
    /// end of the response is then unknown.
    pub is_end_doubtful: bool,
    /// The Content-Length, even if no body follows.
    pub(crate) content_length: Option<PeerLength>,
    /// 0 and 1 for HTTP/1.0 and 1.1, 2 for HTTP/2.
    pub(crate) minor_version: u8,
    pub(crate) fields: ResponseFields,
    /// True if Connection lists fields that are not forwarded.
    pub(crate) lists_fields: bool,
}

impl UpstreamHead {
    /// Returns true if another response to the same request follows: any 1xx but 101.
    pub fn is_interim(&self) -> bool {
        matches!(self.status.0, 100..=199) && self.framing != Framing::Upgraded
    }

    /// Returns the name and value of every field, in order, those for clients first, values without surrounding space.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields.iter()
    }

    /// Returns the values of every field of this name, in order.
    pub fn values(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        self.fields.values(name)
    }

    /// Converts the success of a CONNECT that opened a WebSocket (RFC 8441 section 5) into the 101 with the same
    /// meaning, whose Sec-WebSocket-Accept is `accept`.
    pub fn into_switch(mut self, accept: &[u8]) -> UpstreamHead {
        (self.status, self.framing) = (Status::SWITCHING_PROTOCOLS, Framing::Upgraded);
        self.fields.for_client.retain(|name| !name.eq_ignore_ascii_case(b"sec-websocket-accept"));
        self.fields.push(b"Upgrade", b"websocket");
        self.fields.push(b"Sec-WebSocket-Accept", accept);
        self
    }

    /// Returns the Content-Length, even in a response without a body: to HEAD, or 304.
    pub fn content_length(&self) -> Option<PeerLength> {
        self.content_length
    }
}
