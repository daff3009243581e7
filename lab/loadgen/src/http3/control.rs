//! The unidirectional streams of a server (RFC 9114 section 6.2). Of all that it may say there, GOAWAY alone concerns us.

use super::fault::Fault;
use super::frames::{
    CANCEL_PUSH, DATA, Frames, GOAWAY, HEADERS, MAX_PUSH_ID, PUSH_PROMISE, Part, SETTINGS, Varint, is_of_http2,
    take_varint,
};

/// Types of streams.
const CONTROL: u64 = 0x0;
const PUSH: u64 = 0x1;
const QPACK_ENCODER: u64 = 0x2;
const QPACK_DECODER: u64 = 0x3;

/// Of HTTP/2, and reserved since (RFC 9114 section 11.2.2).
const HTTP2_SETTINGS: std::ops::RangeInclusive<u64> = 0x2..=0x5;

/// Bytes of a SETTINGS or GOAWAY frame; servers' are a few dozen.
const FRAME_BYTES_MAX: u64 = 4 << 10;

#[derive(Debug)]
pub(super) struct ServerStream {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// Its type has not come.
    Unknown(Varint),
    Control(Control),
    /// Of QPACK: what a table without room has to say.
    Qpack,
    /// Of a type that we do not know, and pass over.
    Other,
}

#[derive(Debug, Default)]
struct Control {
    frames: Frames,
    /// The frame under way, where it is one that we read, and what has come of it.
    kind: Option<u64>,
    payload: Vec<u8>,
    left_bytes: u64,
    has_settings: bool,
    goaway: Option<u64>,
}

impl ServerStream {
    pub(super) fn new() -> ServerStream {
        ServerStream { kind: Kind::Unknown(Varint::default()) }
    }

    /// Whether the connection has no other of this type.
    pub(super) fn is_control(&self) -> bool {
        matches!(self.kind, Kind::Control(_))
    }

    /// From which stream on the server answers nothing, where it says so now.
    pub(super) fn on_bytes(&mut self, mut input: &[u8]) -> Result<Option<u64>, Fault> {
        if let Kind::Unknown(number) = &mut self.kind {
            let Some(kind) = number.poll(&mut input) else { return Ok(None) };
            self.kind = match kind {
                CONTROL => Kind::Control(Control::default()),
                // We have allowed none.
                PUSH => return Err(Fault::ID),
                QPACK_ENCODER | QPACK_DECODER => Kind::Qpack,
                _ => Kind::Other,
            };
        }
        match &mut self.kind {
            Kind::Control(control) => control.on_bytes(input),
            _ => Ok(None),
        }
    }

    /// The server has ended it.
    pub(super) fn on_end(&self) -> Result<(), Fault> {
        match self.kind {
            Kind::Control(_) | Kind::Qpack => Err(Fault::CLOSED_CRITICAL_STREAM),
            Kind::Unknown(_) | Kind::Other => Ok(()),
        }
    }
}

impl Control {
    fn on_bytes(&mut self, mut input: &[u8]) -> Result<Option<u64>, Fault> {
        let mut goaway = None;
        while let Some(part) = self.frames.poll(&mut input) {
            match part {
                Part::Head { kind, payload_bytes, .. } => self.begin(kind, payload_bytes)?,
                Part::Payload(bytes) => {
                    self.left_bytes -= bytes.len() as u64;
                    if self.kind.is_some() {
                        self.payload.extend_from_slice(bytes);
                    }
                }
            }
            if self.left_bytes == 0
                && let Some(kind) = self.kind.take()
            {
                goaway = self.whole(kind)?.or(goaway);
            }
        }
        Ok(goaway)
    }

    fn begin(&mut self, kind: u64, payload_bytes: u64) -> Result<(), Fault> {
        if (kind == SETTINGS) == self.has_settings {
            return Err(if self.has_settings { Fault::FRAME_UNEXPECTED } else { Fault::MISSING_SETTINGS });
        }
        self.has_settings = true;
        self.left_bytes = payload_bytes;
        self.payload.clear();
        self.kind = match kind {
            SETTINGS | GOAWAY if payload_bytes > FRAME_BYTES_MAX => return Err(Fault::EXCESSIVE_LOAD),
            SETTINGS | GOAWAY => Some(kind),
            // Of a push that cannot have been promised.
            CANCEL_PUSH => return Err(Fault::ID),
            DATA | HEADERS | PUSH_PROMISE | MAX_PUSH_ID => return Err(Fault::FRAME_UNEXPECTED),
            kind if is_of_http2(kind) => return Err(Fault::FRAME_UNEXPECTED),
            _ => None,
        };
        Ok(())
    }

    fn whole(&mut self, kind: u64) -> Result<Option<u64>, Fault> {
        let mut payload = &*self.payload;
        if kind == GOAWAY {
            let id = take_varint(&mut payload).filter(|_| payload.is_empty()).ok_or(Fault::FRAME)?;
            // A request's, and no later than what was said before.
            let is_sound = id % 4 == 0 && self.goaway.is_none_or(|before| id <= before);
            self.goaway = Some(id);
            return if is_sound { Ok(self.goaway) } else { Err(Fault::ID) };
        }
        while !payload.is_empty() {
            let (id, _) = take_varint(&mut payload).zip(take_varint(&mut payload)).ok_or(Fault::FRAME)?;
            if HTTP2_SETTINGS.contains(&id) {
                return Err(Fault::SETTINGS);
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// All that a stream says, byte by byte and at once.
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
            (b"\x00\x04\x00\x0d\x01\x00", Fault::FRAME_UNEXPECTED),
            (b"\x00\x04\x00\x03\x01\x00", Fault::ID),
            (b"\x00\x04\x00\x07\x00", Fault::FRAME),
            (b"\x00\x04\x00\x07\x02\x08\x08", Fault::FRAME),
            (b"\x00\x04\x00\x07\x01\x05", Fault::ID),
            (b"\x00\x04\x00\x07\x01\x04\x07\x01\x08", Fault::ID),
            (b"\x00\x04\x01\x06", Fault::FRAME),
            (b"\x00\x04\x02\x02\x00", Fault::SETTINGS),
            (b"\x00\x04\x60\x00", Fault::EXCESSIVE_LOAD),
        ] {
            let read = if fault == Fault::EXCESSIVE_LOAD {
                ServerStream::new().on_bytes(&[bytes, &[0; 2]].concat()).map(|_| vec![])
            } else {
                read(bytes)
            };
            assert_eq!(read, Err(fault), "{bytes:x?}");
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

    proptest! {
        #[test]
        fn random_bytes_never_panic(mut bytes: Vec<u8>) {
            let _ = read(&bytes);
            bytes.splice(0..0, *b"\x00\x04\x00");
            let _ = read(&bytes);
        }
    }
}
