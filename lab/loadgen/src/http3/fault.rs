//! Mistakes of a server that no load can go on with, and the codes that connections and streams end with (RFC 9114 section 8.1).

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// The bytes that follow mean nothing.
    Connection,
    /// One response is malformed, and the others are not.
    Response,
}

impl Fault {
    /// H3_GENERAL_PROTOCOL_ERROR or H3_MESSAGE_ERROR.
    pub(super) fn code(self) -> u32 {
        match self {
            Fault::Connection => 0x101,
            Fault::Response => 0x10e,
        }
    }
}

/// Nothing is wrong.
pub(super) const NO_ERROR: u32 = 0x100;
/// The server has not processed a request.
pub(super) const REQUEST_REJECTED: u64 = 0x10b;
/// The client needs no more of a response.
pub(super) const REQUEST_CANCELLED: u32 = 0x10c;
