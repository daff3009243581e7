//! Limits of a connection that this crate's modules and its callers share.

/// The maximum number of streams that a client may have open (RFC 9113 section 6.5.2 recommends at least 100).
pub const STREAMS_MAX: u32 = 100;
