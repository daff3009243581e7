//! HTTP/3 (RFC 9114) over QUIC (RFC 9000), the server's side: connections as a pure function of datagrams ([`Endpoint`], [`Session`]). No
//! socket, no thread, no clock of its own.
//!
//! It is the seam behind which quinn-proto is: no type of it is public, but in `testing`. quinn-proto would send whatever it was given,
//! in an order of its own; so it is given content only when somebody has decided that so many bytes of that response leave now
//! ([`Session::write`]), and is asked for one datagram after the other until they have left ([`Session::make`]).
//!
//! HTTP/3 is our own (`h3`), and so is its header compression (`qpack`), which does without a dynamic table: such a table costs memory of
//! each connection, and makes the streams of one connection wait for each other. A request is given as it is over
//! HTTP/2 ([`mux::Event::Request`]).

mod address;
mod bodies;
mod control;
mod counted;
mod datagrams;
mod endpoint;
mod h3;
mod intake;
mod keep_alive;
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

pub use datagrams::{Batch, Datagram, Datagrams};
pub use endpoint::{Arrival, Attempt, Endpoint, Incoming, Key, Settings, Unusable};
pub use session::{Path, Session};
pub use steering::{SOCKETS_MAX, Steering};
pub use write::Wrote;
