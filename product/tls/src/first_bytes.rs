//! Detects the protocol of a client from the first bytes of its connection.

/// The first bytes of a handshake: the record type, and the major version, which is the same in all versions (RFC 8446
/// section 5.1).
const HANDSHAKE: [u8; 2] = [0x16, 3];

/// A fatal alert (handshake_failure) in a form that every version understands (RFC 5246 section 7.2). It is sent to a
/// client that uses TLS on a port without TLS.
pub const REFUSAL: [u8; 7] = [0x15, 3, 1, 0, 2, 2, 40];

/// Returns true if the client uses TLS.
pub fn is_tls(received: &[u8]) -> bool {
    received.starts_with(&HANDSHAKE) || received == &HANDSHAKE[..1]
}

/// Returns true if the client uses HTTP without TLS. The first byte decides, because methods begin with a letter.
pub fn is_plain_http(received: &[u8]) -> bool {
    received.first().is_some_and(u8::is_ascii_uppercase)
}
