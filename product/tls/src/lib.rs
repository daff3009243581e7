//! TLS for the server: certificates, the choice by host, tickets ([`Acceptor`]), and a connection's TLS as a pure function of
//! bytes ([`Session`]); the same to other servers ([`ClientSession`]). No socket and no thread; files are read by [`read_file`] alone.
//!
//! It is the seam behind which rustls is: no type of rustls is public, but in `testing`, for tests, and for the seam of QUIC. A session
//! seals what its caller has decided to send, no sooner, so that a protocol above it, be it HTTP/1.1 or HTTP/2, keeps the order that the
//! scheduler gives.

mod acceptor;
mod client;
mod first_bytes;
mod identity;
mod records;
mod session;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;

pub use acceptor::{Acceptor, Tickets};
pub use client::{ClientSession, Connector, Roots, RootsError};
pub use first_bytes::{REFUSAL, is_plain_http, is_tls};
pub use identity::{FILE_BYTES_MAX, Identity, IdentityError, ReadFile, Validity, read_file, read_within};
pub use session::{Broken, HandedDown, RECORD_BYTES_MAX, Session};

/// A number that nobody can guess.
pub fn nonce() -> [u8; 16] {
    let mut nonce = [0; 16];
    acceptor::provider().secure_random.fill(&mut nonce).expect("the system has random numbers");
    nonce
}
