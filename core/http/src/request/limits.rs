//! The limits of a head.

/// The maximum size of a head, for requests over any version and for responses of upstreams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the whole head in HTTP/1.1 format, its empty line included. Default 64 KiB: single sign-on has cookies
    /// of 20 KB and tokens of 60 KB. The target counts too, and has no limit of its own.
    pub head_bytes_max: usize,
    /// Number of field lines, at most [`FIELDS_MAX`]. Default 200: browsers send about 20, plus one per cookie over
    /// HTTP/2.
    pub fields_max: usize,
}

/// The maximum of any [`Limits::fields_max`]: the size of the parser's array, 32 KB of stack.
pub const FIELDS_MAX: usize = 1000;

impl Default for Limits {
    fn default() -> Limits {
        Limits { head_bytes_max: 64 << 10, fields_max: 200 }
    }
}
