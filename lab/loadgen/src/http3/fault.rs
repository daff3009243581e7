//! Protocol violations of a server, by their error codes (RFC 9114 section 8.1, RFC 9204 section 6).

/// The reason why a connection or a stream cannot continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fault(pub(super) u32);

impl Fault {
    pub(super) const STREAM_CREATION: Fault = Fault(0x103);
    pub(super) const CLOSED_CRITICAL_STREAM: Fault = Fault(0x104);
    pub(super) const FRAME_UNEXPECTED: Fault = Fault(0x105);
    pub(super) const FRAME: Fault = Fault(0x106);
    pub(super) const EXCESSIVE_LOAD: Fault = Fault(0x107);
    pub(super) const ID: Fault = Fault(0x108);
    pub(super) const MISSING_SETTINGS: Fault = Fault(0x10a);
    pub(super) const MESSAGE: Fault = Fault(0x10e);
    pub(super) const QPACK_DECOMPRESSION: Fault = Fault(0x200);

    /// Returns true for a malformed response, which affects only its stream. All other faults end the connection.
    pub(super) fn is_of_stream(self) -> bool {
        self == Fault::MESSAGE
    }
}

/// Nothing is wrong.
pub(super) const NO_ERROR: u32 = 0x100;
/// The server has not processed a request.
pub(super) const REQUEST_REJECTED: u64 = 0x10b;
/// The client needs no more of a response.
pub(super) const REQUEST_CANCELLED: u32 = 0x10c;
