//! HTTP/2 (RFC 9113): a connection as a pure function of bytes, for the server ([`Session`]) and the client
//! ([`ClientSession`]). It has no socket, no thread and no clock of its own.
//!
//! This crate hides nghttp2: none of its types is public, and all unsafe code is in `ffi`. A session makes frames of a
//! response only when its caller has decided that a number of bytes of that response leave now ([`Session::write`]). So
//! the scheduler decides the order among all streams of all connections. Header blocks are made at the same time,
//! because their compression depends on the order in which they leave.
//!
//! HTTP/3 uses the rates in `floods` too.
//!
//! A request is returned as [`http::OwnedRequest`], or as the reason for its refusal ([`Event::Request`]), by the same
//! rules as for HTTP/1.1. A malformed request (RFC 9113 section 8.1.1) is returned as such
//! ([`Event::Malformed`]): its stream is reset, and the other streams continue.
//!
//! The body of a request is stored up to the stream's window if its caller wants it ([`Session::want_body`]), and
//! discarded otherwise.
//!
//! Before nghttp2 receives a byte, a walker checks the frames. Floods end the connection (`floods`), and so do frames
//! on streams that the client has ended (`streams`), because the engine forgets such streams.

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
