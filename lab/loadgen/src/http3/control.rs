//! The unidirectional streams of a server (RFC 9114 section 6.2), of which GOAWAY alone matters to a load. What else a server says there
//! is for others to judge (`cargo xtask conformance`).

use quic::codec::{Frames, GOAWAY, Step, varint};

use super::fault::Fault;

/// The type of the control stream.
const CONTROL: u64 = 0x0;

/// Bytes of a GOAWAY frame: of one number.
const GOAWAY_BYTES_MAX: u64 = 8;

#[derive(Debug)]
pub(super) enum ServerStream {
    /// The received part of the stream's type.
    Type(Vec<u8>),
    Control(Frames),
    /// QPACK's, which have nothing to say of a table without room, and those of unknown types.
    Other,
}

impl ServerStream {
    pub(super) fn new() -> ServerStream {
        ServerStream::Type(vec![])
    }

    /// Returns the first stream that the server will not answer, if these bytes announce it.
    pub(super) fn on_bytes(&mut self, mut input: &[u8]) -> Result<Option<u64>, Fault> {
        while let ServerStream::Type(begun) = self {
            let Some((&byte, rest)) = input.split_first() else { return Ok(None) };
            input = rest;
            begun.push(byte);
            *self = match varint::read(begun) {
                None => continue,
                Some((CONTROL, _)) => ServerStream::Control(Frames::default()),
                Some(_) => ServerStream::Other,
            };
        }
        let ServerStream::Control(frames) = self else { return Ok(None) };
        let mut said = None;
        while let Some(step) = frames.next(&mut input, None) {
            match step {
                Step::Begin { kind: GOAWAY, length } if length > GOAWAY_BYTES_MAX => return Err(Fault::Connection),
                Step::Begin { kind: GOAWAY, .. } => frames.keep(),
                Step::Begin { .. } => {}
                Step::Kept { payload, .. } => said = Some(varint::read(&payload).ok_or(Fault::Connection)?.0),
            }
        }
        Ok(said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stream at once and byte by byte.
    fn read(bytes: &[u8]) -> Result<Vec<u64>, Fault> {
        let at_once = ServerStream::new().on_bytes(bytes);
        let mut stream = ServerStream::new();
        let said = bytes.chunks(1).map(|byte| stream.on_bytes(byte)).collect::<Result<Vec<_>, _>>();
        let said = said.map(|said| said.into_iter().flatten().collect::<Vec<_>>());
        assert_eq!(at_once, said.clone().map(|said| said.last().copied()), "{bytes:x?}");
        said
    }

    #[test]
    fn the_end_is_announced() {
        assert_eq!(read(b"\x00\x04\x00"), Ok(vec![]));
        // Settings nobody needs to know.
        assert_eq!(read(b"\x00\x04\x05\x06\x50\x00\x01\x00\x07\x01\x08"), Ok(vec![8]));
        // A frame of an unknown type, and the end drawn nearer.
        assert_eq!(read(b"\x00\x04\x00\x21\x02ab\x07\x01\x08\x07\x01\x04"), Ok(vec![8, 4]));
        // Streams of QPACK, and of an unknown type.
        assert_eq!(["\x02\x07\x01\x08", "\x21any"].map(|stream| read(stream.as_bytes())), [Ok(vec![]), Ok(vec![])]);
    }

    #[test]
    fn an_end_that_says_nothing_is_a_fault() {
        for bytes in [&b"\x00\x04\x00\x07\x00"[..], b"\x00\x04\x00\x07\x40\x41", b"\x00\x07\x01\x40"] {
            assert_eq!(read(bytes), Err(Fault::Connection), "{bytes:x?}");
        }
    }
}
