//! For tests of other crates: a connection of HTTP/1.1 without its socket.

pub use crate::connection::http1::{Event, Http1, Late};
