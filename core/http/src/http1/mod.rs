//! The codec of HTTP/1.1 (RFC 9112): parses requests and their bodies, writes heads and chunks of responses, and parses
//! responses of upstreams ([`upstream`]). [`crate::gateway`] writes the heads of requests for upstreams.
//!
//! `httparse` splits heads into tokens; this module decides their meaning. It is strict wherever bytes have two
//! readings, because requests can be smuggled if a gateway and its server read them differently (RFC 9112 section
//! 11.2). Every such request gets a 4xx or 5xx ([`crate::Reject`]) and a close, never a guess.

mod checked_lines;
mod chunked;
mod measured_response;
mod request;
mod response_writer;
pub mod upstream;

pub(crate) use checked_lines::FieldLines;
pub use chunked::{Chunked, Progress, Taken};
pub use measured_response::{Malformed, ResponseHead, parse_response};
pub use request::{Head, OwnedHead, Search, parse_request, shown};
pub use response_writer::{CHUNK_OVERHEAD_MAX, Connection, Delimiter, LAST_CHUNK, begin_chunk, encode};
