//! Finds where frames begin. h2 does not report the instant of a response's first byte, nor the bytes of its head.

/// The bytes of a frame before its payload (RFC 9113 section 4.1).
pub(crate) const FRAME_HEAD_BYTES: usize = 9;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const GOAWAY: u8 = 7;
pub(super) const CONTINUATION: u8 = 9;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    /// The stream; 0 for the whole connection.
    pub(crate) stream: u32,
    pub(crate) payload_bytes: u32,
}

/// Scans a stream of frames as it arrives, and skips their payloads.
#[derive(Debug, Default)]
pub(super) struct Frames {
    head: [u8; FRAME_HEAD_BYTES],
    head_bytes: usize,
    payload_left: usize,
}

impl Frame {
    pub(crate) fn parse(head: [u8; FRAME_HEAD_BYTES]) -> Frame {
        let [a, b, c, kind, _, stream @ ..] = head;
        let stream = u32::from_be_bytes(stream) & !(1 << 31);
        Frame { kind, stream, payload_bytes: u32::from_be_bytes([0, a, b, c]) }
    }
}

impl Frames {
    /// Returns the next frame whose head is complete; `None` if `input` holds no more.
    pub(super) fn poll(&mut self, input: &mut &[u8]) -> Option<Frame> {
        let skipped = self.payload_left.min(input.len());
        self.payload_left -= skipped;
        let (head, rest) = input[skipped..].split_at((FRAME_HEAD_BYTES - self.head_bytes).min(input.len() - skipped));
        self.head[self.head_bytes..][..head.len()].copy_from_slice(head);
        self.head_bytes += head.len();
        *input = rest;
        if self.head_bytes < FRAME_HEAD_BYTES {
            return None;
        }
        self.head_bytes = 0;
        let frame = Frame::parse(self.head);
        self.payload_left = frame.payload_bytes as usize;
        Some(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(kind: u8, stream: u32, payload_bytes: u32) -> Vec<u8> {
        let [_, a, b, c] = payload_bytes.to_be_bytes();
        let head = [&[a, b, c, kind, 0xff][..], &stream.to_be_bytes()].concat();
        [head, vec![7; payload_bytes as usize]].concat()
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(
            wanted in prop::collection::vec((0..10_u8, 0..1_u32 << 31, 0..40_u32), 0..8),
            mut cuts in prop::collection::vec(0..200_usize, 0..20),
        ) {
            let stream: Vec<u8> = wanted.iter().flat_map(|&(kind, id, bytes)| frame(kind, id, bytes)).collect();
            cuts.push(stream.len());
            cuts.sort_unstable();
            let (mut frames, mut seen, mut from) = (Frames::default(), vec![], 0);
            for cut in cuts {
                let cut = cut.min(stream.len());
                let mut input = &stream[from..cut];
                while let Some(Frame { kind, stream, payload_bytes }) = frames.poll(&mut input) {
                    seen.push((kind, stream, payload_bytes));
                }
                prop_assert!(input.is_empty());
                from = cut;
            }
            prop_assert_eq!(seen, wanted);
        }
    }
}
