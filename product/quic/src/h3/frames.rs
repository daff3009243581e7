//! Frames (RFC 9114 section 7), out of bytes that are cut anywhere.

use super::varint;

pub const DATA: u64 = 0;
pub const HEADERS: u64 = 1;
pub const CANCEL_PUSH: u64 = 3;
pub const SETTINGS: u64 = 4;
pub const PUSH_PROMISE: u64 = 5;
pub const GOAWAY: u64 = 7;
pub const MAX_PUSH_ID: u64 = 0xd;
/// Of a request (RFC 9218 section 7.2), and of a push.
pub const PRIORITY_UPDATE: u64 = 0xf_0700;
pub const PRIORITY_UPDATE_PUSH: u64 = 0xf_0701;

/// Type and length take 8 bytes each at most.
pub const HEAD_BYTES_MAX: usize = 16;

/// Types of HTTP/2 that HTTP/3 has no use for (section 7.2.8).
pub fn is_reserved(kind: u64) -> bool {
    matches!(kind, 2 | 6 | 8 | 9)
}

/// Begins a frame.
pub fn head(kind: u64, length: u64, into: &mut Vec<u8>) {
    varint::write(kind, into);
    varint::write(length, into);
}

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// A frame of this type with a payload of so many bytes; [`Frames::keep`] keeps it, else it is skipped.
    Begin { kind: u64, length: u64 },
    /// The payload of the frame that was kept.
    Kept { kind: u64, payload: Vec<u8> },
}

/// The frames of one stream.
#[derive(Debug, Default)]
pub struct Frames {
    head: [u8; HEAD_BYTES_MAX],
    head_bytes: usize,
    /// Of the frame that was begun.
    kind: u64,
    left: u64,
    kept: Option<Vec<u8>>,
}

impl Frames {
    /// Takes some of the bytes, until a step is whole; `None`: all of them were taken. The payload of DATA is appended to `content`.
    pub fn next(&mut self, bytes: &mut &[u8], mut content: Option<&mut Vec<u8>>) -> Option<Step> {
        loop {
            if self.left > 0 {
                self.payload(bytes, content.as_deref_mut());
                if self.left > 0 {
                    return None;
                }
            }
            if let Some(payload) = self.kept.take() {
                return Some(Step::Kept { kind: self.kind, payload });
            }
            let (&byte, rest) = bytes.split_first()?;
            *bytes = rest;
            self.head[self.head_bytes] = byte;
            self.head_bytes += 1;
            if let Some((kind, length)) = self.whole_head() {
                self.head_bytes = 0;
                (self.kind, self.left) = (kind, length);
                return Some(Step::Begin { kind, length });
            }
        }
    }

    fn whole_head(&self) -> Option<(u64, u64)> {
        let head = &self.head[..self.head_bytes];
        let (kind, bytes) = varint::read(head)?;
        let (length, _) = varint::read(&head[bytes..])?;
        Some((kind, length))
    }

    fn payload(&mut self, bytes: &mut &[u8], content: Option<&mut Vec<u8>>) {
        let taken = bytes.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let (payload, rest) = bytes.split_at(taken);
        if let Some(kept) = &mut self.kept {
            kept.extend_from_slice(payload);
        } else if let (DATA, Some(content)) = (self.kind, content) {
            content.extend_from_slice(payload);
        }
        self.left -= taken as u64;
        *bytes = rest;
    }

    /// Keeps the payload of the frame that was just begun; its length has to be bounded before.
    pub fn keep(&mut self) {
        self.kept = Some(Vec::new());
    }

    /// Bytes of a payload that are kept.
    pub fn kept_bytes(&self) -> usize {
        self.kept.as_ref().map_or(0, Vec::len)
    }

    /// Nothing of a frame has come that is not whole.
    pub fn is_between(&self) -> bool {
        self.left == 0 && self.head_bytes == 0 && self.kept.is_none()
    }
}
