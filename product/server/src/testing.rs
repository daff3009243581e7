//! HTTP/1.1 connection handling without a socket, for the tests of other crates.

pub use crate::connection::http1::driven::{Driven, Seen, WAYS};
