//! FastCGI 1.0 as functions of bytes: the request of a web server to a responder such as PHP, and the responder's answer
//! as a response of HTTP/1.1, so that everything behind it reads one format.
//!
//! A connection carries one request at a time, as with php-fpm and nginx. The fields of a request become variables (RFC
//! 3875 section 4.1), except a field named Proxy, because programs take `HTTP_PROXY` for a setting of their own.

mod decode;
mod request;

pub use decode::Decoder;
pub use request::{Script, append_stdin, encode_request, length_records};

/// The version of all records.
const VERSION: u8 = 1;
/// The number of the only request on a connection.
const REQUEST_ID: u16 = 1;
const HEADER_BYTES: usize = 8;

/// The types of records.
mod kind {
    pub const BEGIN_REQUEST: u8 = 1;
    pub const END_REQUEST: u8 = 3;
    pub const PARAMS: u8 = 4;
    pub const STDIN: u8 = 5;
    pub const STDOUT: u8 = 6;
    pub const STDERR: u8 = 7;
}
