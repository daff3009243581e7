//! The unidirectional streams of a server (RFC 9114 section 6.2). Only GOAWAY matters to a load.

use quic::codec::{
    CANCEL_PUSH, DATA, Frames, GOAWAY, HEADERS, MAX_PUSH_ID, PUSH_PROMISE, SETTINGS, Step, is_reserved, varint,
};

use super::fault::Fault;

/// The types of streams.
const CONTROL: u64 = 0x0;
const PUSH: u64 = 0x1;
const QPACK_ENCODER: u64 = 0x2;
const QPACK_DECODER: u64 = 0x3;

/// The maximum bytes of a frame; a server's GOAWAY has at most eight.
const FRAME_BYTES_MAX: u64 = 64;

#[derive(Debug)]
pub(super) enum ServerStream {
    /// The received part of the stream's type.
    Type(Vec<u8>),
    Control(Control),
    /// A stream of QPACK, which has no content for a table without capacity.
    Qpack,
    /// A stream of an unknown type, which is ignored.
    Other,
}

#[derive(Debug, Default)]
pub(super) struct Control {
    frames: Frames,
    has_settings: bool,
    goaway: Option<u64>,
}

impl ServerStream {
    pub(super) fn new() -> ServerStream {
        ServerStream::Type(vec![])
    }

    /// Returns true for the control stream, of which a connection has only one.
    pub(super) fn is_control(&self) -> bool {
        matches!(self, ServerStream::Control(_))
    }

    /// Returns the first stream that the server will not answer, if these bytes announce it.
    pub(super) fn on_bytes(&mut self, mut input: &[u8]) -> Result<Option<u64>, Fault> {
        while let ServerStream::Type(begun) = self {
            let Some((&byte, rest)) = input.split_first() else { return Ok(None) };
            input = rest;
            begun.push(byte);
            *self = match varint::read(begun) {
                None => continue,
                Some((CONTROL, _)) => ServerStream::Control(Control::default()),
                // The client has allowed no pushes.
                Some((PUSH, _)) => return Err(Fault::ID),
                Some((QPACK_ENCODER | QPACK_DECODER, _)) => ServerStream::Qpack,
                Some(_) => ServerStream::Other,
            };
        }
        match self {
            ServerStream::Control(control) => control.on_bytes(input),
            _ => Ok(None),
        }
    }

    /// Checks that the server may end the stream.
    pub(super) fn on_end(&self) -> Result<(), Fault> {
        match self {
            ServerStream::Control(_) | ServerStream::Qpack => Err(Fault::CLOSED_CRITICAL_STREAM),
            ServerStream::Type(_) | ServerStream::Other => Ok(()),
        }
    }
}

impl Control {
    fn on_bytes(&mut self, mut input: &[u8]) -> Result<Option<u64>, Fault> {
        let mut said = None;
        while let Some(step) = self.frames.next(&mut input, None) {
            match step {
                Step::Begin { kind, length } => self.begin(kind, length)?,
                Step::Kept { payload, .. } => said = Some(self.goaway(&payload)?),
            }
        }
        Ok(said)
    }

    fn begin(&mut self, kind: u64, length: u64) -> Result<(), Fault> {
        if (kind == SETTINGS) == self.has_settings {
            return Err(if self.has_settings { Fault::FRAME_UNEXPECTED } else { Fault::MISSING_SETTINGS });
        }
        self.has_settings = true;
        match kind {
            GOAWAY if length > FRAME_BYTES_MAX => return Err(Fault::EXCESSIVE_LOAD),
            GOAWAY => self.frames.keep(),
            // No push can have been promised.
            CANCEL_PUSH => return Err(Fault::ID),
            DATA | HEADERS | PUSH_PROMISE | MAX_PUSH_ID => return Err(Fault::FRAME_UNEXPECTED),
            kind if is_reserved(kind) => return Err(Fault::FRAME_UNEXPECTED),
            _ => {}
        }
        Ok(())
    }

    fn goaway(&mut self, payload: &[u8]) -> Result<u64, Fault> {
        let (id, _) = varint::read(payload).filter(|&(_, bytes)| bytes == payload.len()).ok_or(Fault::FRAME)?;
        // The ID of a request stream, no higher than in the previous GOAWAY.
        let is_sound = id % 4 == 0 && self.goaway.is_none_or(|before| id <= before);
        self.goaway = Some(id);
        if is_sound { Ok(id) } else { Err(Fault::ID) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns everything that a stream announces, whether read byte by byte or in one piece.
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
        assert_eq!(read(b"\x00\x04\x05\x06\x50\x00\x01\x00\x07\x01\x08"), Ok(vec![8]));
        assert_eq!(read(b"\x00\x04\x00\x21\x02ab\x07\x01\x08\x07\x01\x04"), Ok(vec![8, 4]));
    }

    #[test]
    fn mistakes_are_named() {
        for (bytes, fault) in [
            (&b"\x01\x00"[..], Fault::ID),
            (b"\x00\x07\x01\x08", Fault::MISSING_SETTINGS),
            (b"\x00\x04\x00\x04\x00", Fault::FRAME_UNEXPECTED),
            (b"\x00\x04\x00\x00\x00", Fault::FRAME_UNEXPECTED),
            (b"\x00\x04\x00\x06\x00", Fault::FRAME_UNEXPECTED),
            (b"\x00\x04\x00\x03\x01\x00", Fault::ID),
            (b"\x00\x04\x00\x07\x00", Fault::FRAME),
            (b"\x00\x04\x00\x07\x02\x08\x08", Fault::FRAME),
            (b"\x00\x04\x00\x07\x01\x05", Fault::ID),
            (b"\x00\x04\x00\x07\x01\x04\x07\x01\x08", Fault::ID),
            (b"\x00\x04\x00\x07\x40\x41", Fault::EXCESSIVE_LOAD),
        ] {
            assert_eq!(read(bytes), Err(fault), "{bytes:x?}");
        }
    }

    #[test]
    fn only_streams_that_have_to_stay_may_not_end() {
        for (bytes, end) in [
            (&b""[..], Ok(())),
            (b"\x00", Err(Fault::CLOSED_CRITICAL_STREAM)),
            (b"\x02", Err(Fault::CLOSED_CRITICAL_STREAM)),
            (b"\x03\x01", Err(Fault::CLOSED_CRITICAL_STREAM)),
            (b"\x21any", Ok(())),
        ] {
            let mut stream = ServerStream::new();
            assert_eq!(stream.on_bytes(bytes), Ok(None));
            assert_eq!((stream.on_end(), stream.is_control()), (end, bytes == b"\x00"), "{bytes:x?}");
        }
    }
}
