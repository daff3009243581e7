//! HTTP/2 (RFC 9113): a connection as a pure function of bytes, the server's side ([`Session`]) and the client's ([`ClientSession`]). No socket, no
//! thread, no clock of its own.
//!
//! It is the seam behind which nghttp2 is: no type of it is public, and all that is unsafe about it is in `ffi`. A session makes frames of
//! a response when its caller has decided that so many bytes leave now, and of that response alone ([`Session::write`]): the order among
//! streams, of one connection and of all, is the scheduler's. Header blocks are made then too, since their compression depends on the order in
//! which they leave.
//!
//! The rates of `budget` are HTTP/3's too.
//!
//! A request is given as [`http::OwnedRequest`], or as what is wrong with it ([`Event::Request`]): the rules are those of HTTP/1.1. One that is
//! malformed (RFC 9113 section 8.1.1) is given as nothing: its stream is reset, and the others go on.
//!
//! The body of a request is kept up to a stream's window where its caller wants it ([`Session::want_body`]), and thrown away where not.
//!
//! Before nghttp2 sees a byte, a walker goes over the frames: floods end the connection (`budget`), and so do frames on streams that the
//! client has ended (`streams`), which the engine forgets.

mod bodies;
pub mod budget;
mod client;
mod ffi;
mod framer;
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
pub use budget::Flood;
pub use client::{ClientSession, ClientSettings, Closed};
pub use session::{Broken, Event, PREFACE, Priority, Session, Settings, Source, Stop, Supply, Written};

/// Streams that a client may have open at once (RFC 9113 section 6.5.2 asks for no fewer than 100).
pub const STREAMS_MAX: u32 = 100;

/// Bytes of a frame before its payload (RFC 9113 section 4.1).
pub const FRAME_HEADER_BYTES: usize = 9;
