//! Variable-length integers (RFC 9000 section 16) and the frames of a stream (RFC 9114 section 7), out of its bytes as they come.

pub(super) const DATA: u64 = 0x0;
pub(super) const HEADERS: u64 = 0x1;
pub(super) const CANCEL_PUSH: u64 = 0x3;
pub(super) const SETTINGS: u64 = 0x4;
pub(super) const PUSH_PROMISE: u64 = 0x5;
pub(super) const GOAWAY: u64 = 0x7;
pub(super) const MAX_PUSH_ID: u64 = 0xd;

/// Of HTTP/2 and reserved since (RFC 9114 section 11.2.1): PRIORITY, PING, WINDOW_UPDATE, CONTINUATION.
const HTTP2: [u64; 4] = [0x2, 0x6, 0x8, 0x9];

/// Whether no peer may send a frame of this type on any stream.
pub(super) fn is_of_http2(kind: u64) -> bool {
    HTTP2.contains(&kind)
}

/// Appends a number of up to 62 bits.
pub(super) fn put_varint(number: u64, out: &mut Vec<u8>) {
    match number {
        0..0x40 => out.push(number as u8),
        0x40..0x4000 => out.extend((number as u16 | 0x4000).to_be_bytes()),
        0x4000..0x4000_0000 => out.extend((number as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend((number | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

/// Takes a whole number off the front of `input`; `None` where it does not hold one.
pub(super) fn take_varint(input: &mut &[u8]) -> Option<u64> {
    let mut varint = Varint::default();
    varint.poll(input)
}

/// A number whose bytes may come one by one.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Varint {
    value: u64,
    /// Bytes taken, and bytes to come.
    taken: u8,
    left: u8,
}

impl Varint {
    /// Takes bytes off the front of `input`; the number, once it is whole, and the next call begins another.
    pub(super) fn poll(&mut self, input: &mut &[u8]) -> Option<u64> {
        while let [first, rest @ ..] = *input {
            *input = rest;
            if self.taken == 0 {
                self.left = (1 << (first >> 6)) - 1;
                self.value = u64::from(first & 0x3f);
            } else {
                self.left -= 1;
                self.value = self.value << 8 | u64::from(*first);
            }
            self.taken += 1;
            if self.left == 0 {
                return Some(std::mem::take(self).value);
            }
        }
        None
    }

    /// Bytes taken of a number that is not whole.
    pub(super) fn taken(self) -> u8 {
        self.taken
    }
}

/// Finds where frames begin and end.
#[derive(Debug, Default)]
pub(super) struct Frames {
    state: State,
    number: Varint,
    head_bytes: u8,
}

#[derive(Debug, Clone, Copy, Default)]
enum State {
    #[default]
    Kind,
    Length {
        kind: u64,
    },
    Payload {
        left_bytes: u64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part<'a> {
    /// A frame begins: its type, the bytes of type and length, and of what follows.
    Head { kind: u64, head_bytes: u8, payload_bytes: u64 },
    /// More of its payload; never empty.
    Payload(&'a [u8]),
}

impl Frames {
    /// The next thing that `input` holds, taken off its front; `None` once it holds no more.
    pub(super) fn poll<'a>(&mut self, input: &mut &'a [u8]) -> Option<Part<'a>> {
        loop {
            match self.state {
                State::Payload { left_bytes: 0 } => self.state = State::Kind,
                _ if input.is_empty() => return None,
                State::Kind => {
                    let kind = self.number(input)?;
                    self.state = State::Length { kind };
                }
                State::Length { kind } => {
                    let payload_bytes = self.number(input)?;
                    self.state = State::Payload { left_bytes: payload_bytes };
                    return Some(Part::Head { kind, head_bytes: std::mem::take(&mut self.head_bytes), payload_bytes });
                }
                State::Payload { left_bytes } => {
                    let count = left_bytes.min(input.len() as u64) as usize;
                    let (payload, rest) = input.split_at(count);
                    *input = rest;
                    self.state = State::Payload { left_bytes: left_bytes - count as u64 };
                    return Some(Part::Payload(payload));
                }
            }
        }
    }

    /// Whether the stream may end here.
    pub(super) fn is_between(&self) -> bool {
        matches!(self.state, State::Kind | State::Payload { left_bytes: 0 }) && self.number.taken() == 0
    }

    fn number(&mut self, input: &mut &[u8]) -> Option<u64> {
        let before = input.len();
        let number = self.number.poll(input);
        self.head_bytes += (before - input.len()) as u8;
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The examples of RFC 9000, appendix A.1.
    #[test]
    fn numbers_are_read_and_written() {
        for (number, bytes) in [
            (151_288_809_941_952_652, &[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..]),
            (494_878_333, &[0x9d, 0x7f, 0x3e, 0x7d]),
            (15_293, &[0x7b, 0xbd]),
            (37, &[0x25]),
        ] {
            let mut out = vec![];
            put_varint(number, &mut out);
            assert_eq!(out, bytes);
            assert_eq!(take_varint(&mut &*out), Some(number));
            assert_eq!(take_varint(&mut &bytes[..bytes.len() - 1]), None);
        }
        assert_eq!(take_varint(&mut &[0x40, 0x25][..]), Some(37), "longer than it had to be");
    }

    /// What the stream holds as text when it comes in pieces that end at `cuts`.
    fn read(stream: &[u8], cuts: &[usize]) -> (String, bool) {
        let (mut frames, mut out, mut payload, mut from) = (Frames::default(), String::new(), 0, 0);
        for &cut in cuts.iter().chain([&stream.len()]) {
            let mut input = &stream[from..cut.max(from)];
            from = cut.max(from);
            while let Some(part) = frames.poll(&mut input) {
                match part {
                    Part::Head { kind, head_bytes, payload_bytes } => {
                        out += &format!("{payload} {kind:x}/{head_bytes}/{payload_bytes}: ");
                        payload = 0;
                    }
                    Part::Payload(bytes) => payload += bytes.len(),
                }
            }
            assert!(input.is_empty());
        }
        (format!("{out}{payload}"), frames.is_between())
    }

    const STREAM: &[u8] = b"\x01\x00\x00\x03abc\x00\x40\x02de\x7b\xbd\x01f\x00\x05gh";
    const READ: &str = "0 1/2/0: 0 0/2/3: 3 0/3/2: 2 3bbd/3/1: 1 0/2/5: 2";

    #[test]
    fn a_stream_may_end_between_frames_alone() {
        let ends: Vec<usize> = (0..=STREAM.len()).filter(|&end| read(&STREAM[..end], &[]).1).collect();
        assert_eq!(ends, [0, 2, 7, 12, 16]);
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(mut cuts in prop::collection::vec(0..STREAM.len(), 0..20)) {
            cuts.sort_unstable();
            prop_assert_eq!(read(STREAM, &cuts), (READ.to_owned(), false));
        }

        #[test]
        fn random_bytes_never_panic(stream: Vec<u8>, cut in 0..100_usize) {
            let whole = read(&stream, &[]);
            prop_assert_eq!(read(&stream, &[cut.min(stream.len())]), whole);
        }
    }
}
