//! Mistakes of clients, and their consequences.

use http::{MalformedRequest, Refused};
use http2::Broken;
use http2::floods::Flood;

/// Error codes of RFC 9114 section 8.1 and RFC 9204 section 6.
pub const NO_ERROR: u64 = 0x100;
pub const INTERNAL_ERROR: u64 = 0x102;
pub const STREAM_CREATION_ERROR: u64 = 0x103;
pub const CLOSED_CRITICAL_STREAM: u64 = 0x104;
pub const FRAME_UNEXPECTED: u64 = 0x105;
pub const FRAME_ERROR: u64 = 0x106;
pub const EXCESSIVE_LOAD: u64 = 0x107;
pub const ID_ERROR: u64 = 0x108;
pub const SETTINGS_ERROR: u64 = 0x109;
pub const MISSING_SETTINGS: u64 = 0x10a;
pub const REQUEST_REJECTED: u64 = 0x10b;
pub const REQUEST_CANCELLED: u64 = 0x10c;
pub const REQUEST_INCOMPLETE: u64 = 0x10d;
pub const MESSAGE_ERROR: u64 = 0x10e;
pub const QPACK_DECOMPRESSION_FAILED: u64 = 0x200;
pub const QPACK_ENCODER_STREAM_ERROR: u64 = 0x201;
pub const QPACK_DECODER_STREAM_ERROR: u64 = 0x202;

/// A mistake that costs a stream or the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The request is refused, and its stream is reset with this code.
    Stream(u64, Box<Refused>),
    Connection(u64, &'static str),
    Flood(Flood),
}

impl Fault {
    /// Makes the fault of a malformed request (RFC 9114 section 4.1.2) whose head is unknown or was recorded earlier.
    pub fn malformed(malformed: MalformedRequest) -> Fault {
        Fault::Stream(MESSAGE_ERROR, Refused::malformed(malformed))
    }
}

impl From<Flood> for Fault {
    fn from(flood: Flood) -> Fault {
        Fault::Flood(flood)
    }
}

/// The end of a connection: the error code and the reason.
#[derive(Debug, PartialEq, Eq)]
pub struct End {
    pub code: u64,
    pub broken: Broken,
}

impl End {
    pub fn protocol(code: u64, why: &str) -> End {
        End { code, broken: Broken::Protocol(why.to_string()) }
    }
}

impl From<Flood> for End {
    fn from(flood: Flood) -> End {
        End { code: EXCESSIVE_LOAD, broken: flood.into() }
    }
}
