//! HTTP/1.1 on byte slices: strict parsing, conditional requests, ranges, response heads. No I/O, no clock.
//!
//! `httparse` finds the tokens; this crate decides what they may mean. It is strict where two readings of the same
//! bytes exist, because a request that a gateway and its server read differently is how requests are smuggled
//! (RFC 9112 section 11.2): every such request gets a 4xx or 5xx ([`Reject`]) and a close, never a guess.
//!
//! ```
//! use std::time::{Duration, SystemTime};
//! let limits = http::Limits::default();
//! let bytes = b"GET /a%20b?q HTTP/1.1\r\nHost: example.com\r\nRange: bytes=0-9\r\n\r\n";
//! let request = http::parse_request(bytes, &limits).unwrap().expect("a whole head");
//! let mut path = String::new();
//! http::decode_path(request.path, &mut path).unwrap();
//! assert_eq!(path, "a b");
//!
//! let last_modified = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
//! let entity = http::Entity { len: 100, etag: "\"v1\"", last_modified };
//! assert_eq!(http::evaluate(&request, &entity), http::Verdict::Ranges(vec![0..10]));
//!
//! let mut out = Vec::new();
//! http::head::start(&mut out, http::Status::PARTIAL_CONTENT, &http::HttpDate::new(last_modified));
//! http::head::content_range(&mut out, &(0..10), entity.len);
//! http::head::content_length(&mut out, 10);
//! http::head::end(&mut out, http::Connection::KeepAlive, request.minor_version);
//! assert!(out.starts_with(b"HTTP/1.1 206 Partial Content\r\nServer: weir\r\nDate: Sun, 06 Nov 1994"));
//! ```

pub mod chunked;
mod conditions;
mod date;
mod field_section;
pub mod head;
mod list;
pub mod multipart;
mod path;
mod range;
mod request;
mod response;
mod status;
mod target;

pub use chunked::Chunked;
pub use conditions::{Entity, Verdict, evaluate};
pub use date::HttpDate;
pub use head::Connection;
pub use path::decode_path;
pub use range::RANGES_MAX;
pub use request::{BodyLength, FIELDS_MAX, Fields, Limits, Method, Request, parse_request};
pub use response::{Malformed, ResponseHead, parse_response};
pub use status::{Reject, Status};
