//! Decodes a chunked body (RFC 9112 section 7.1) of a request or of an upstream's response as it arrives. It can also
//! discard an unwanted request body, so that the connection can be kept.
//!
//! The decoder is strict for the same reason as the head's parser: two servers disagree about the end of the body if
//! they differ on a lone CR or LF, a space after the size, or a size that overflows. Everything but the data is
//! limited, since endless framing costs the sender nothing. The caller limits the data.

use crate::{PeerLength, Reject, Status};

/// Maximum bytes of extensions of one chunk; for an upstream's response, padding included.
const EXTENSION_BYTES_MAX: u32 = 1024;
/// The bytes of data that allow one more byte of extensions in a request body, beyond the [`EXTENSION_BYTES_MAX`] that
/// each body may have. A limit per chunk is not enough, because chunks may be one byte long; a fixed limit per body
/// would end uploads that sign each chunk, as clients of S3 do.
const DATA_BYTES_PER_EXTENSION_BYTE: u64 = 16;
/// Maximum bytes of the trailer section.
const TRAILER_BYTES_MAX: u32 = 8 << 10;
/// The maximum number of digits of a chunk size, leading zeros included: as many as a `u64` has.
const SIZE_DIGITS_MAX: u8 = 16;

const TOO_LONG: Reject = Reject::bad("a chunk of 2^63 bytes or more");

/// The decoder of a chunked body.
#[derive(Debug, Clone)]
pub struct Chunked {
    state: State,
    /// Bytes of extensions of the chunk so far.
    extension_bytes: u32,
    /// Bytes of extensions of all chunks so far.
    extension_bytes_total: u64,
    data_bytes: u64,
    trailer_bytes: u32,
    /// True if the body is an upstream's, so that chunk sizes may be padded with spaces.
    is_padded: bool,
}

/// The progress of a call to [`Chunked::discard`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that belong to the body: all bytes given, unless the body ended among them.
    pub consumed: usize,
    /// The body has ended; the next request follows.
    pub done: bool,
}

/// The result of a call to [`Chunked::take`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken<'b> {
    /// Bytes consumed, data and framing.
    pub consumed: usize,
    /// The data in the consumed bytes; may be empty.
    pub data: &'b [u8],
    /// The body has ended; what follows is not part of it.
    pub is_done: bool,
}

/// The kind of the next byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The size line: a digit, or after at least one digit, the byte that ends the size.
    Size {
        bytes: u64,
        digits: u8,
    },
    /// Space after the size: before a semicolon, which a recipient MUST tolerate (section 7.1.1), or padding.
    Space {
        bytes: u64,
    },
    Extension {
        bytes: u64,
    },
    SizeLf {
        bytes: u64,
    },
    /// Data; at least one byte is left.
    Data {
        bytes: u64,
    },
    DataCr,
    DataLf,
    /// The first byte of a trailer line, or the CR of the empty line that ends the body.
    TrailerStart,
    Trailer,
    TrailerLf,
    EndLf,
    Done,
}

const SIZE: State = State::Size { bytes: 0, digits: 0 };

impl Default for Chunked {
    fn default() -> Chunked {
        Chunked::new()
    }
}

impl Chunked {
    pub fn new() -> Chunked {
        Chunked {
            state: SIZE,
            extension_bytes: 0,
            extension_bytes_total: 0,
            data_bytes: 0,
            trailer_bytes: 0,
            is_padded: false,
        }
    }

    /// Creates the decoder for an upstream's response. Spaces and tabs may follow a chunk size, as written by Apache
    /// 1.3 and its contemporaries: no reader takes them for part of the size or of the data.
    pub fn of_upstream() -> Chunked {
        Chunked { is_padded: true, ..Chunked::new() }
    }

    /// Consumes the next bytes of the body; the result does not depend on how the bytes are split. Consumes nothing
    /// after the end.
    pub fn discard(&mut self, buf: &[u8]) -> Result<Progress, Reject> {
        let mut consumed = 0;
        while self.state != State::Done && consumed < buf.len() {
            consumed += self.take(&buf[consumed..])?.consumed;
        }
        Ok(Progress { consumed, done: self.state == State::Done })
    }

    /// Consumes bytes up to the first of these ends: of a chunk, of `buf`, of the part before the trailer section, or
    /// of the body. Call it with the rest until all bytes are consumed or the body is done.
    pub fn take<'b>(&mut self, buf: &'b [u8]) -> Result<Taken<'b>, Reject> {
        let mut at = 0;
        while self.state != State::Done && at < buf.len() {
            if let State::Data { bytes } = self.state {
                let taken = bytes.min((buf.len() - at) as u64);
                self.state = if taken == bytes { State::DataCr } else { State::Data { bytes: bytes - taken } };
                self.data_bytes = self.data_bytes.saturating_add(taken);
                let end = at + taken as usize;
                return Ok(Taken { consumed: end, data: &buf[at..end], is_done: false });
            }
            let had_chunks = matches!(self.state, State::SizeLf { .. });
            self.state = self.step(buf[at])?;
            at += 1;
            if had_chunks && self.is_in_trailers() {
                break;
            }
        }
        Ok(Taken { consumed: at, data: &[], is_done: self.state == State::Done })
    }

    /// Returns true if the next bytes belong to the trailer section (RFC 9112 section 7.1.2), or to the empty line
    /// behind it.
    pub fn is_in_trailers(&self) -> bool {
        matches!(self.state, State::TrailerStart | State::Trailer | State::TrailerLf | State::EndLf)
    }

    /// Returns true if the body has ended.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Consumes a byte that is not data.
    fn step(&mut self, b: u8) -> Result<State, Reject> {
        match (self.state, b) {
            (State::Size { bytes, digits }, _) => size(bytes, digits, b),
            (State::Space { bytes }, b' ' | b'\t') => self.extension(bytes).map(|_| State::Space { bytes }),
            (State::Space { bytes }, b';') => self.extension(bytes),
            (State::Space { bytes }, b'\r') if self.is_padded => Ok(State::SizeLf { bytes }),
            (State::Extension { bytes }, b'\r') => Ok(State::SizeLf { bytes }),
            (State::Extension { bytes }, _) if is_text(b) => self.extension(bytes),
            (State::SizeLf { bytes: 0 }, b'\n') => Ok(State::TrailerStart),
            (State::SizeLf { bytes }, b'\n') => Ok(State::Data { bytes }),
            (State::DataCr, b'\r') => Ok(State::DataLf),
            (State::DataLf, b'\n') => {
                self.extension_bytes = 0;
                Ok(SIZE)
            }
            (State::TrailerStart, b'\r') => Ok(State::EndLf),
            // A leading space would fold the line into the one before.
            (State::TrailerStart, _) if is_text(b) && b != b' ' && b != b'\t' => self.trailer(),
            (State::Trailer, b'\r') => Ok(State::TrailerLf),
            (State::Trailer, _) if is_text(b) => self.trailer(),
            (State::TrailerLf, b'\n') => Ok(State::TrailerStart),
            (State::EndLf, b'\n') => Ok(State::Done),
            _ => Err(Reject::bad("malformed chunk")),
        }
    }

    fn extension(&mut self, bytes: u64) -> Result<State, Reject> {
        self.extension_bytes += 1;
        self.extension_bytes_total = self.extension_bytes_total.saturating_add(1);
        let total_max = u64::from(EXTENSION_BYTES_MAX) + self.data_bytes / DATA_BYTES_PER_EXTENSION_BYTE;
        let is_over_total = !self.is_padded && self.extension_bytes_total > total_max;
        if self.extension_bytes > EXTENSION_BYTES_MAX || is_over_total {
            return Err(Reject { status: Status::CONTENT_TOO_LARGE, reason: "chunk extensions over the limit" });
        }
        Ok(State::Extension { bytes })
    }

    fn trailer(&mut self) -> Result<State, Reject> {
        self.trailer_bytes += 1;
        if self.trailer_bytes > TRAILER_BYTES_MAX {
            return Err(Reject { status: Status::HEAD_TOO_LARGE, reason: "trailer section over the limit" });
        }
        Ok(State::Trailer)
    }
}

/// Consumes a byte of the size, or the byte after it.
fn size(bytes: u64, digits: u8, b: u8) -> Result<State, Reject> {
    match (b, char::from(b).to_digit(16)) {
        (_, Some(digit)) if digits < SIZE_DIGITS_MAX => {
            let longer = PeerLength::new(bytes).and_then(|length| length.with_digit(16, digit)).ok_or(TOO_LONG)?;
            Ok(State::Size { bytes: longer.bytes(), digits: digits + 1 })
        }
        (b'\r', _) if digits > 0 => Ok(State::SizeLf { bytes }),
        (b';', _) if digits > 0 => Ok(State::Extension { bytes }),
        (b' ' | b'\t', _) if digits > 0 => Ok(State::Space { bytes }),
        _ => Err(Reject::bad("malformed chunk size")),
    }
}

/// Returns true for a byte allowed in a field value or an extension: any but control characters; tab is allowed.
fn is_text(b: u8) -> bool {
    b == b'\t' || !b.is_ascii_control()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the bytes consumed and whether the body is done, or the status.
    fn discard(body: &[u8]) -> Result<(usize, bool), u16> {
        let progress = Chunked::new().discard(body).map_err(|reject| reject.status.0)?;
        Ok((progress.consumed, progress.done))
    }

    const WHOLE: &[&[u8]] = &[
        b"0\r\n\r\n",
        b"5\r\nhello\r\n0\r\n\r\n",
        b"00a\r\n\r\n\r\n\r\n\r\n\r\n\r\n0\r\n\r\n",
        b"A;x=\"y z\"\r\n0123456789\r\nb ;z\r\n0123456789a\r\n000\r\n\r\n",
        b"0\r\nA: b\r\nC:d\te\r\n\r\n",
        b"0;a;b\r\n\r\n",
    ];

    #[test]
    fn bodies_end_where_they_end() {
        for body in WHOLE {
            assert_eq!(discard(body), Ok((body.len(), true)), "{}", body.escape_ascii());
            let followed = [body, &b"GET / HTTP/1.1\r\n"[..]].concat();
            assert_eq!(discard(&followed), Ok((body.len(), true)), "{}", body.escape_ascii());
        }
    }

    #[test]
    fn malformed_bodies_are_refused() {
        let cases: &[&[u8]] = &[
            b"\r\n",
            b"\n",
            b";",
            b" 5\r\n",
            b" ;a\r\n",
            b"\t;a\r\n",
            b"x\r\n",
            b"0x5\r\n",
            b"+5\r\n",
            b"-1\r\n",
            b"5\n",
            b"5\rx",
            b"5 \r\n",
            b"5 6\r\n",
            b"11111111111111111\r\n",
            b"00000000000000000\r\n",
            b"5;a\n",
            b"5;a\0\r\n",
            b"5;a\rb",
            b"1\r\nab",
            b"1\r\na\n",
            b"1\r\na\r0",
            b"1\r\na0\r\n",
            b"0\r\n\n",
            b"0\r\n\rx",
            b"0\r\n a: b\r\n",
            b"0\r\na: b\n",
            b"0\r\na: b\rc",
            b"0\r\na: b\r\n folded\r\n",
            b"0\r\na\0",
            b"0\n\r\n",
        ];
        for body in cases {
            assert_eq!(discard(body), Err(400), "{}", body.escape_ascii());
        }
    }

    #[test]
    fn what_is_not_data_is_bounded() {
        let chunk = |extension: u32| format!("1;{}\r\nx\r\n", "e".repeat(extension as usize)).into_bytes();
        assert!(discard(&chunk(EXTENSION_BYTES_MAX)).is_ok());
        assert_eq!(discard(&chunk(EXTENSION_BYTES_MAX + 1)), Err(413));
        // A byte of data for a byte of extensions: 1,024 and a sixteenth of the data are 1,092.
        assert!(discard(&[chunk(1).repeat(1092), b"0\r\n\r\n".to_vec()].concat()).is_ok());
        assert_eq!(discard(&chunk(1).repeat(1093)), Err(413));
        assert_eq!(discard(format!("1{}", " ".repeat(2000)).as_bytes()), Err(413));
        let trailer = |bytes: u32| format!("0\r\na:{}\r\n\r\n", "b".repeat(bytes as usize - 2)).into_bytes();
        assert!(discard(&trailer(TRAILER_BYTES_MAX)).is_ok());
        assert_eq!(discard(&trailer(TRAILER_BYTES_MAX + 1)), Err(431));
        assert_eq!(discard(&[&b"0\r\n"[..], &b"a\r\n".repeat(TRAILER_BYTES_MAX as usize + 1)].concat()), Err(431));
    }

    #[test]
    fn an_upload_may_sign_each_of_its_chunks() {
        let signature = "f".repeat(64);
        let chunk = [format!("10000;chunk-signature={signature}\r\n").as_bytes(), &[b'x'; 65536], b"\r\n"].concat();
        let body = [chunk.repeat(200), b"0;chunk-signature=".to_vec(), signature.into_bytes(), b"\r\n\r\n".to_vec()];
        assert_eq!(discard(&body.concat()), Ok((body.concat().len(), true)));
        // Data does not widen the limit of one chunk.
        let long = format!("1;{}\r\n", "e".repeat(EXTENSION_BYTES_MAX as usize + 1));
        assert_eq!(discard(&[&chunk[..], long.as_bytes()].concat()), Err(413));
    }

    #[test]
    fn an_upstream_may_pad_the_sizes_of_its_chunks() {
        let decode = |body: &[u8]| {
            let progress = Chunked::of_upstream().discard(body).map_err(|reject| reject.status.0)?;
            Ok((progress.consumed, progress.done))
        };
        let many = [&b"5    \t\r\nhello\r\n".repeat(10_000)[..], b"0     \r\n\r\n"].concat();
        for body in [&b"5     \r\nhello\r\n0     \r\n\r\n"[..], b"5 ;a\r\nhello\r\n0\r\n\r\n", &many] {
            assert_eq!(decode(body), Ok((body.len(), true)));
        }
        assert_eq!(discard(&many), Err(400), "of a request");
        for malformed in [&b" 5\r\n"[..], b"5 6\r\n", b"5 \n", b"5 \rx", b"5 \0\r\n", b"5\x0b\r\n"] {
            assert_eq!(decode(malformed), Err(400), "{}", malformed.escape_ascii());
        }
        let endless = [&b"5"[..], &[b' '; EXTENSION_BYTES_MAX as usize + 2]].concat();
        assert_eq!(decode(&endless), Err(413));
    }

    #[test]
    fn the_largest_chunk_is_only_counted() {
        let mut body = Chunked::new();
        body.discard(b"7fffffffffffffff\r\n").unwrap();
        assert_eq!(body.discard(b"abc"), Ok(Progress { consumed: 3, done: false }));
        assert_eq!(body.state, State::Data { bytes: PeerLength::MAX.bytes() - 3 });
        for too_long in ["8000000000000000", "fffffffffffffff0", "ffffffffffffffff"] {
            assert_eq!(discard(format!("{too_long}\r\n").as_bytes()), Err(400), "{too_long}");
        }
    }

    #[test]
    fn after_the_end_nothing_is_taken() {
        let mut body = Chunked::new();
        assert!(body.discard(b"0\r\n\r\n").unwrap().done);
        assert_eq!(body.discard(b"GET"), Ok(Progress { consumed: 0, done: true }));
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same(which in 0..WHOLE.len(), cuts in proptest::collection::vec(0..40usize, 0..6)) {
            check_splits(WHOLE[which], cuts)?;
        }

        #[test]
        fn mutated_bodies_never_panic(which in 0..WHOLE.len(), place: usize, byte: u8, cut in 0..40usize) {
            let mut body = WHOLE[which].to_vec();
            let place = place % body.len();
            body[place] = byte;
            check_splits(&body, vec![cut])?;
        }
    }

    fn check_splits(body: &[u8], mut cuts: Vec<usize>) -> Result<(), TestCaseError> {
        cuts.retain(|&cut| cut < body.len());
        cuts.extend([0, body.len()]);
        cuts.sort();
        let mut decoder = Chunked::new();
        let mut split = Ok((0, false));
        for pair in cuts.windows(2) {
            let Ok((consumed, _)) = split else { break };
            let progress = decoder.discard(&body[pair[0]..pair[1]]).map_err(|reject| reject.status.0);
            split = progress.map(|progress| (consumed + progress.consumed, progress.done));
        }
        prop_assert_eq!(split, discard(body));
        Ok(())
    }
}
