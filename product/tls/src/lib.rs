//! TLS for the server: certificates, the choice by host, tickets ([`Acceptor`]), and the TLS of a connection as a pure
//! function of bytes ([`Session`]); and the same for connections to other servers ([`ClientSession`]). It uses no
//! socket and no thread; only [`read_file`] reads files.
//!
//! This crate hides rustls: none of its types is public, except in `testing` and for the QUIC crate. A session seals
//! bytes only once its caller has decided to send them, so that the protocol above it (HTTP/1.1 or HTTP/2) keeps the
//! scheduler's order.

mod acceptor;
mod acme;
mod client;
mod first_bytes;
mod identity;
mod records;
mod server_verifier;
mod session;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;

pub use acceptor::{Acceptor, Pick, Tickets};
pub use acme::{Automatic, Request};
pub use client::{ClientSession, Connector, Roots, RootsError};
pub use first_bytes::{REFUSAL, is_plain_http, is_tls};
pub use identity::{FILE_BYTES_MAX, Identity, IdentityError, ReadFile, Validity, read_file, read_within};
pub use session::{Broken, HandedDown, RECORD_BYTES_MAX, Session};

/// Returns an unpredictable number.
pub fn nonce() -> [u8; 16] {
    let mut nonce = [0; 16];
    acceptor::provider().secure_random.fill(&mut nonce).expect("the system has random numbers");
    nonce
}
