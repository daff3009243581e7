//! HTTP/2 (RFC 9113): a connection as a pure function of bytes, for the server ([`Session`]) and the client
//! ([`ClientSession`]). It has no socket, no thread and no clock of its own.
//!
//! This crate hides nghttp2: none of its types is public, and all unsafe code is in `ffi`. A session makes frames of a
//! response only when its caller has decided that a number of bytes leave now, and only of that response
//! ([`Session::write`]): the order among streams, of one connection and of all, is the scheduler's. Header blocks are
//! made at the same time, since their compression depends on the order in which they leave.
//!
//! HTTP/3 uses the rates of `floods` too.
//!
//! A request is returned as [`http::OwnedRequest`], or as the reason for its refusal ([`Event::Request`]); the rules
//! are those of HTTP/1.1. A malformed request (RFC 9113 section 8.1.1) is not returned: its stream is reset, and the
//! others go on.
//!
//! The body of a request is stored up to the stream's window if its caller wants it ([`Session::want_body`]), and
//! discarded otherwise.
//!
//! Before nghttp2 sees a byte, a walker checks the frames: floods end the connection (`floods`), and so do frames on
//! streams that the client has ended (`streams`), which the engine forgets.

mod bodies;
mod client;
mod ffi;
pub mod floods;
mod framer;
mod limits;
pub mod priority;
mod responses;
mod session;
mod streams;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod walker;
mod window;

pub use bodies::{BODIES_BYTES_MAX, BODY_BYTES_MAX, BodyRead};
pub use client::{ClientSession, ClientSettings, Closed};
pub use floods::Flood;
pub use limits::STREAMS_MAX;
pub use session::{Broken, Event, PREFACE, Priority, Session, Settings, Source, Stop, Supply, Written};

/// Bytes of a frame before its payload (RFC 9113 section 4.1).
pub const FRAME_HEADER_BYTES: usize = 9;
