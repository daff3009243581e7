//! What an upstream answers over HTTP/1.1: heads of responses, and their bodies out of their framing (RFC 9112 section 6).
//!
//! Where two readings of an upstream's bytes exist, what follows could be taken for the response to another request, so the response is a fault
//! and its connection carries no other. What old programs write and nobody reads in two ways is taken, and written anew for the client: space
//! before a colon (RFC 9112 section 5.1), folded lines of fields that frame nothing (5.2), chunk sizes padded with spaces (7.1.1), a status
//! beyond 599. The notebook has the table (docs/notebook/proxy.md).

mod body;
mod head;
mod response;

use thiserror::Error;

use crate::fields::FieldList;
use crate::{Limits, PeerLength, Status};

pub use body::UpstreamBody;
pub(crate) use head::content_length;
pub use head::parse_response;
pub(crate) use response::is_for_us;

/// The greatest response that is taken, its body aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseLimits {
    /// Of each head, an interim response's too.
    pub head: Limits,
    /// Interim responses before the final one, which the caller counts. Default 16.
    pub interim_max: u32,
}

impl From<Limits> for ResponseLimits {
    fn from(head: Limits) -> ResponseLimits {
        ResponseLimits { head, interim_max: 16 }
    }
}

impl Default for ResponseLimits {
    fn default() -> ResponseLimits {
        Limits::default().into()
    }
}

/// What is wrong with a response: a phrase for the log. Its connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct UpstreamFault(pub &'static str);

impl UpstreamFault {
    /// Of a body on a stream, which ends by itself.
    pub const TOO_FEW: UpstreamFault = UpstreamFault("fewer bytes than the length that was said");
}

/// What ends a body (RFC 9112 section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// There is none.
    None,
    /// Its length.
    Length(PeerLength),
    /// The last of its chunks.
    Chunked,
    /// The end of the connection.
    Close,
    /// That of its stream, of HTTP/2.
    Stream,
    /// The connection speaks another protocol from here on.
    Upgraded,
}

/// The head of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamHead {
    pub status: Status,
    pub framing: Framing,
    /// Whether the connection can carry another request after the body.
    pub is_kept_alive: bool,
    /// As said, also where no body follows.
    pub(crate) content_length: Option<PeerLength>,
    /// 0 and 1 for HTTP/1.0 and 1.1, 2 for HTTP/2.
    pub(crate) minor_version: u8,
    pub(crate) list: FieldList,
}

impl UpstreamHead {
    /// Whether another response to the same request follows: 1xx without 101.
    pub fn is_interim(&self) -> bool {
        matches!(self.status.0, 100..=199) && self.framing != Framing::Upgraded
    }

    /// Name and value of every field, in order, values without surrounding space.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.list.iter()
    }

    /// The values of every field of this name, in order.
    pub fn values(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        self.fields().filter(move |(of, _)| of.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| value)
    }

    /// The length of the body as Content-Length says, also in a response without one: to HEAD, or 304.
    pub fn content_length(&self) -> Option<PeerLength> {
        self.content_length
    }
}
