//! HTTP/1.1 connections as state machines: bytes and instants in, events and bytes out. They have no socket and no
//! clock; the worker's event loop provides both, and tests simulate them.

mod answering;
mod connection;
#[cfg(any(test, feature = "testing"))]
pub mod driven;
mod passing;
mod received;
mod request_body;

pub use connection::{Event, Http1, Late, TOO_SLOW};
pub use received::Received;

#[cfg(test)]
mod tests;
