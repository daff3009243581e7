//! The codec of HTTP/1.1 (RFC 9112): requests and their bodies in, heads and chunks of responses out; responses of upstreams in
//! ([`upstream`]). Heads of requests for those are [`crate::gateway`]'s.
//!
//! `httparse` finds the tokens; this module decides what they may mean. It is strict where two readings of the same
//! bytes exist, because a request that a gateway and its server read differently is how requests are smuggled
//! (RFC 9112 section 11.2): every such request gets a 4xx or 5xx ([`crate::Reject`]) and a close, never a guess.

mod answer;
mod chunked;
mod encode;
mod lines;
mod request;
pub mod upstream;

pub use answer::{Malformed, ResponseHead, parse_response};
pub use chunked::{Chunked, Progress, Taken};
pub use encode::{CHUNK_OVERHEAD_MAX, Connection, Delimiter, LAST_CHUNK, begin_chunk, encode};
pub(crate) use lines::FieldLines;
pub use request::{Head, OwnedHead, Search, parse_request, shown};
