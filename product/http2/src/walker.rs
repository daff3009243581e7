//! Walks over frames before the engine receives them: their headers, and the first word of their payloads.

use crate::FRAME_HEADER_BYTES;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;
pub const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

const WORD_BYTES: usize = 4;

/// A frame (RFC 9113 section 4.1) whose payload may still be to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub length: u32,
    /// The first four bytes of the payload without the reserved bit; zeros if it has fewer.
    pub word: u32,
}

impl Frame {
    pub fn ends_stream(&self) -> bool {
        self.flags & END_STREAM != 0
    }

    /// Returns the increment, if this is a WINDOW_UPDATE of the right size.
    pub fn update(&self) -> Option<u32> {
        (self.kind == WINDOW_UPDATE && self.length as usize == WORD_BYTES).then_some(self.word)
    }
}

#[derive(Debug, Default)]
pub struct Walker {
    /// The beginning of a frame received in part.
    begun: [u8; FRAME_HEADER_BYTES + WORD_BYTES],
    have: usize,
    /// Bytes to skip, of a payload or of the preface.
    left: usize,
    /// True if the last known frame holds a part of a header block.
    is_block: bool,
    /// True if another frame of this header block must follow.
    goes_on: bool,
}

impl Walker {
    /// Creates the walker of a connection that starts with `preface_bytes` bytes before the first frame.
    pub fn new(preface_bytes: usize) -> Walker {
        Walker { left: preface_bytes, ..Walker::default() }
    }

    /// Advances until the next frame is known, or to the end of `bytes`. Returns the bytes passed and the frame.
    pub fn next(&mut self, bytes: &[u8]) -> (usize, Option<Frame>) {
        let passed = self.left.min(bytes.len());
        self.left -= passed;
        let mut at = passed;
        loop {
            let missing = self.wanted() - self.have;
            if missing == 0 {
                return (at, Some(self.frame()));
            }
            let taken = missing.min(bytes.len() - at);
            if taken == 0 {
                return (at, None);
            }
            self.begun[self.have..self.have + taken].copy_from_slice(&bytes[at..at + taken]);
            self.have += taken;
            at += taken;
        }
    }

    /// Returns true if a request may have been received in part: the header of a frame, or a header block, is
    /// incomplete.
    pub fn has_part(&self) -> bool {
        self.have > 0 || self.goes_on || (self.is_block && self.left > 0)
    }

    /// The number of bytes of a frame that must be received to identify it.
    fn wanted(&self) -> usize {
        let word_bytes = if self.have < FRAME_HEADER_BYTES { 0 } else { (self.length() as usize).min(WORD_BYTES) };
        FRAME_HEADER_BYTES + word_bytes
    }

    fn length(&self) -> u32 {
        let [a, b, c, ..] = self.begun;
        u32::from_be_bytes([0, a, b, c])
    }

    fn frame(&mut self) -> Frame {
        let length = self.length();
        let mut word = [0; WORD_BYTES];
        word[..self.have - FRAME_HEADER_BYTES].copy_from_slice(&self.begun[FRAME_HEADER_BYTES..self.have]);
        let [_, _, _, kind, flags, a, b, c, d, ..] = self.begun;
        self.left = length as usize - (self.have - FRAME_HEADER_BYTES);
        self.have = 0;
        self.is_block = matches!(kind, HEADERS | CONTINUATION);
        self.goes_on = self.is_block && flags & END_HEADERS == 0;
        let bits = |word| u32::from_be_bytes(word) & (u32::MAX >> 1);
        Frame { kind, flags, stream: bits([a, b, c, d]), length, word: bits(word) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame with a payload of `payload` bytes counting up from 1.
    fn frame(kind: u8, stream: u8, payload: u8) -> Vec<u8> {
        [&[0, 0, payload, kind, 5, 0x80, 0, 0, stream][..], &(1..=payload).collect::<Vec<u8>>()].concat()
    }

    #[test]
    fn frames_are_seen_however_they_are_cut() {
        let all =
            [vec![b'x'; 24], frame(6, 0, 8), frame(4, 0, 0), frame(8, 7, 4), frame(3, 9, 3), frame(0, 1, 200)].concat();
        let expected = [
            (6, 0, 8, 0x0102_0304),
            (4, 0, 0, 0),
            (8, 7, 4, 0x0102_0304),
            (3, 9, 3, 0x0102_0300),
            (0, 1, 200, 0x0102_0304),
        ];
        for size in [1, 2, 3, 7, 9, 13, 40, 1000] {
            let mut walker = Walker::new(24);
            let mut seen = Vec::new();
            for mut piece in all.chunks(size) {
                loop {
                    let (taken, frame) = walker.next(piece);
                    piece = &piece[taken..];
                    let Some(frame) = frame else { break };
                    assert_eq!(frame.flags, 5);
                    seen.push((frame.kind, frame.stream, frame.length, frame.word));
                }
                assert!(piece.is_empty());
            }
            assert_eq!(seen, expected, "{size}");
        }
    }

    #[test]
    fn a_header_block_is_a_part_up_to_its_last_byte_and_no_other_payload_is() {
        let part_at = |bytes: &[u8]| {
            let mut walker = Walker::new(2);
            let mut parts = Vec::new();
            for byte in bytes {
                walker.next(std::slice::from_ref(byte));
                parts.push(walker.has_part());
            }
            parts
        };
        let block = |flags, kind| [&[0, 0, 6, kind, flags, 0, 0, 0, 1][..], &[0; 6]].concat();
        let whole = [&b"xx"[..], &block(END_HEADERS, HEADERS)].concat();
        assert_eq!(part_at(&whole), [vec![false; 2], vec![true; 14], vec![false]].concat());
        let two = [&b"xx"[..], &block(0, HEADERS), &block(END_HEADERS, CONTINUATION)].concat();
        assert_eq!(part_at(&two), [vec![false; 2], vec![true; 29], vec![false]].concat());
        // Nothing is awaited of a body once its frame is known.
        let body = [&b"xx"[..], &block(0, DATA)].concat();
        assert_eq!(part_at(&body), [vec![false; 2], vec![true; 12], vec![false; 3]].concat());
    }
}
