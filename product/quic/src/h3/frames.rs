//! Parses frames (RFC 9114 section 7) from bytes that are split anywhere.

use super::varint;

pub const DATA: u64 = 0;
pub const HEADERS: u64 = 1;
pub const CANCEL_PUSH: u64 = 3;
pub const SETTINGS: u64 = 4;
pub const PUSH_PROMISE: u64 = 5;
pub const GOAWAY: u64 = 7;
pub const MAX_PUSH_ID: u64 = 0xd;
/// The priority of a request (RFC 9218 section 7.2), then of a push.
pub const PRIORITY_UPDATE: u64 = 0xf_0700;
pub const PRIORITY_UPDATE_PUSH: u64 = 0xf_0701;

/// Maximum bytes of a frame's head: type and length take at most 8 bytes each.
pub const HEAD_BYTES_MAX: usize = 16;

/// Returns true for frame types of HTTP/2 that are reserved in HTTP/3 (section 7.2.8).
pub fn is_reserved(kind: u64) -> bool {
    matches!(kind, 2 | 6 | 8 | 9)
}

/// Appends the head of a frame.
pub fn head(kind: u64, length: u64, into: &mut Vec<u8>) {
    varint::write(kind, into);
    varint::write(length, into);
}

/// The next step of parsing.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// The start of a frame of this type with a payload of this size; [`Frames::keep`] stores the payload, otherwise it
    /// is skipped.
    Begin { kind: u64, length: u64 },
    /// The payload of a frame that was kept.
    Kept { kind: u64, payload: Vec<u8> },
}

/// The frames of one stream.
#[derive(Debug, Default)]
pub struct Frames {
    head: [u8; HEAD_BYTES_MAX],
    head_bytes: usize,
    /// The type of the current frame.
    kind: u64,
    left: u64,
    kept: Option<Vec<u8>>,
}

impl Frames {
    /// Takes bytes until a step is complete. Returns `None` if all bytes were taken. The payload of DATA is appended to
    /// `content`.
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

    /// Stores the payload of the frame that has just started; the caller must have checked its length.
    pub fn keep(&mut self) {
        self.kept = Some(Vec::new());
    }

    /// Bytes of a stored payload.
    pub fn kept_bytes(&self) -> usize {
        self.kept.as_ref().map_or(0, Vec::len)
    }

    /// Returns true between frames: no partial frame has been received.
    pub fn is_between(&self) -> bool {
        self.left == 0 && self.head_bytes == 0 && self.kept.is_none()
    }
}
