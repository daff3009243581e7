//! Limits of a connection that its parts, and those who use this crate, have in common.

/// Streams that a client may have open at once (RFC 9113 section 6.5.2 recommends no fewer than 100).
pub const STREAMS_MAX: u32 = 100;
