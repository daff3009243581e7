//! The first bytes of a connection, which tell what its client speaks.

/// The type of a record that begins a handshake, and the major version, which all versions share (RFC 8446 section 5.1).
const HANDSHAKE: [u8; 2] = [0x16, 3];

/// A fatal alert, handshake_failure, as every version understands it (RFC 5246 section 7.2): for a client that speaks TLS where nobody
/// else does.
pub const REFUSAL: [u8; 7] = [0x15, 3, 1, 0, 2, 2, 40];

/// The client speaks TLS.
pub fn is_tls(received: &[u8]) -> bool {
    received.starts_with(&HANDSHAKE) || received == &HANDSHAKE[..1]
}

/// The client speaks HTTP without TLS: a method begins with a letter.
pub fn is_plain_http(received: &[u8]) -> bool {
    received.first().is_some_and(u8::is_ascii_uppercase)
}
