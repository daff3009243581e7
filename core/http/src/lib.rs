//! HTTP on byte slices: the meaning of requests and responses, conditional requests, ranges, the rules of an
//! intermediary, and a strict HTTP/1.1 codec.
//! It does no I/O and reads no clock.
//!
//! ```
//! use std::time::{Duration, SystemTime};
//! use http::http1;
//! let bytes = b"GET /a%20b?q HTTP/1.1\r\nHost: example.com\r\nRange: bytes=0-9\r\n\r\n";
//! let head = http1::parse_request(bytes, &http::Limits::default()).unwrap().expect("a whole head");
//! let mut path = Vec::new();
//! http::decode_path(head.request.path, &mut path).unwrap();
//! assert_eq!(path, b"a b");
//!
//! let last_modified = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
//! let entity = http::Entity { len: 100, etag: "\"v1\"", last_modified, now: SystemTime::now() };
//! assert_eq!(http::evaluate(&head.request, &entity), http::Verdict::Ranges(vec![0..10]));
//!
//! let fields = http::EntityFields::new("text/plain", "\"v1\"", last_modified, 100);
//! let response = http::Response::new(http::Status::PARTIAL_CONTENT, &b"0123456789"[..]);
//! let response = response.of(fields.part()).with_range(&(0..10), 100).with_length(10);
//! let mut out = Vec::new();
//! http1::encode(&mut out, &response, &http::HttpDate::new(last_modified), http1::Connection::KeepAlive, head.minor_version);
//! assert!(out.starts_with(b"HTTP/1.1 206 Partial Content\r\nServer: weir\r\nDate: Sun, 06 Nov 1994"));
//! ```

mod codings;
mod conditions;
mod date;
mod dictionaries;
mod entity_fields;
pub mod fastcgi;
mod fields;
pub mod gateway;
pub mod http1;
mod images;
mod lines;
mod list;
pub mod multipart;
mod name_filter;
mod path;
mod peer_length;
pub mod proxy_header;
mod range;
mod readings;
mod request;
mod response;
mod status;
mod trailers;
pub mod websocket;

pub use codings::{AcceptedCodings, Coding, Codings, tag_asked_with, weakened};
pub use conditions::{Entity, Verdict, evaluate, listed_tags, required_tags};
pub use date::HttpDate;
pub use dictionaries::{
    Digest, available_dictionary, available_dictionary_value, is_of_same_origin, pattern, use_as_dictionary,
};
pub use entity_fields::{Described, EntityFields, Shared};
pub use images::{AcceptedImages, ImageType};
pub use path::{decode_path, decode_path_info, is_servable_name};
pub use peer_length::PeerLength;
pub use range::RANGES_MAX;
pub use readings::{Readings, merge_slashes, resolved, strip_prefix};
pub use request::{
    BodyLength, FIELDS_MAX, Fields, HEAD_TOO_LARGE, Limits, METHOD_BYTES_MAX, MalformedRequest, Method, OwnedRequest,
    Refused, Request, RequestBuilder, SHOWN_BYTES_MAX, Shown, check_field,
};
pub use response::{Length, Response, ResponseHead};
pub use status::{Reject, Status};
pub use trailers::{TRAILERS_BYTES_MAX, Trailers};
