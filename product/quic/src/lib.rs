//! HTTP/3 (RFC 9114) over QUIC (RFC 9000) for the server: connections as a pure function of datagrams ([`Endpoint`],
//! [`Session`]). It has no socket, no thread and no clock of its own.
//!
//! This crate hides quinn-proto: none of its types is public, except in `testing`. quinn-proto sends everything it
//! gets, in its own order. So it gets content only once the scheduler has decided that a number of bytes of that
//! response leave now ([`Session::write`]), and is then asked for one datagram after the other until they have left
//! ([`Session::make`]).
//!
//! HTTP/3 (`h3`) and its header compression (`qpack`) are implemented here. There is no dynamic table, because it would
//! cost memory per connection and make the streams of a connection wait for each other. A request is returned in the
//! same form as over HTTP/2 ([`http2::Event::Request`]).

mod bodies;
mod control;
mod counted;
mod datagrams;
mod endpoint;
mod h3;
mod intake;
mod keep_alive;
mod late_client;
mod mapped_address;
mod outbox;
mod packing;
mod qpack;
mod session;
mod steering;
mod streams;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod write;

/// Frames, integers and field sections, for clients of HTTP/3.
pub mod codec {
    pub use crate::h3::frames::*;
    pub use crate::h3::varint;
    pub use crate::qpack::{decode, encode};
}

pub use datagrams::{Batch, Datagram, Datagrams};
pub use endpoint::{Arrival, Attempt, Endpoint, Incoming, Key, Settings, Unusable};
pub use session::{Path, Session};
pub use steering::{SOCKETS_MAX, Steering};
pub use write::Wrote;
