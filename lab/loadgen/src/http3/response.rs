//! A response out of the bytes of its stream as they come: its field section is read, its body only counted.

use super::fault::Fault;
use super::frames::{
    CANCEL_PUSH, DATA, Frames, GOAWAY, HEADERS, MAX_PUSH_ID, PUSH_PROMISE, Part, SETTINGS, is_of_http2,
};
use super::qpack;

/// Of the fields of a response: a server's are a few hundred.
const FIELDS_BYTES_MAX: u64 = 64 << 10;

#[derive(Debug, Default)]
pub(super) struct Response {
    frames: Frames,
    at: At,
    /// Bytes of the frame under way that are still to come.
    left_bytes: u64,
    /// What has come of a field section.
    fields: Vec<u8>,
    /// Bytes of the frame that it comes in.
    frame_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum At {
    /// Before its head, perhaps behind interim responses.
    #[default]
    Head,
    HeadFields,
    Body,
    Data,
    Trailers,
    /// Behind trailers.
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    Head {
        status: u16,
        head_bytes: u64,
    },
    /// So many more bytes of body.
    Body(u64),
}

impl Response {
    /// The next thing that `input` holds, taken off its front; `None` once it holds no more.
    pub(super) fn poll(&mut self, input: &mut &[u8]) -> Result<Option<Event>, Fault> {
        while let Some(part) = self.frames.poll(input) {
            let event = match part {
                Part::Head { kind, head_bytes, payload_bytes } => {
                    self.begin(kind, payload_bytes)?;
                    self.frame_bytes = u64::from(head_bytes) + payload_bytes;
                    self.left_bytes = payload_bytes;
                    None
                }
                Part::Payload(bytes) => {
                    self.left_bytes -= bytes.len() as u64;
                    self.take(bytes)
                }
            };
            let head = if self.left_bytes == 0 { self.end_frame()? } else { None };
            if event.is_some() || head.is_some() {
                return Ok(event.or(head));
            }
        }
        Ok(None)
    }

    /// The server has ended the stream: whether the response is whole.
    pub(super) fn on_end(&self) -> Result<(), Fault> {
        match self.at {
            _ if !self.frames.is_between() => Err(Fault::FRAME),
            At::Head => Err(Fault::MESSAGE),
            _ => Ok(()),
        }
    }

    fn begin(&mut self, kind: u64, payload_bytes: u64) -> Result<(), Fault> {
        self.at = match (kind, self.at) {
            (HEADERS, At::Head | At::Body) if payload_bytes > FIELDS_BYTES_MAX => return Err(Fault::EXCESSIVE_LOAD),
            (HEADERS, At::Head) => At::HeadFields,
            (HEADERS, At::Body) => At::Trailers,
            (DATA, At::Body) => At::Data,
            (DATA | HEADERS | CANCEL_PUSH | SETTINGS | GOAWAY | MAX_PUSH_ID, _) => return Err(Fault::FRAME_UNEXPECTED),
            // We have allowed none.
            (PUSH_PROMISE, _) => return Err(Fault::ID),
            (kind, _) if is_of_http2(kind) => return Err(Fault::FRAME_UNEXPECTED),
            (_, at) => at,
        };
        Ok(())
    }

    fn take(&mut self, bytes: &[u8]) -> Option<Event> {
        match self.at {
            At::HeadFields => self.fields.extend_from_slice(bytes),
            At::Data => return Some(Event::Body(bytes.len() as u64)),
            // Trailers, and frames of types that we do not know.
            _ => {}
        }
        None
    }

    fn end_frame(&mut self) -> Result<Option<Event>, Fault> {
        match self.at {
            At::HeadFields => {
                let status = qpack::status(&std::mem::take(&mut self.fields))?;
                // An interim response says nothing to us; the one that counts comes after it (RFC 9110 section 15.2).
                let is_interim = status < 200;
                self.at = if is_interim { At::Head } else { At::Body };
                Ok((!is_interim).then_some(Event::Head { status, head_bytes: self.frame_bytes }))
            }
            At::Data => {
                self.at = At::Body;
                Ok(None)
            }
            At::Trailers => {
                self.at = At::End;
                Ok(None)
            }
            At::Head | At::Body | At::End => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What the stream holds as text, bodies joined, when it comes in pieces that end at `cuts`, and is ended.
    fn read(stream: &[u8], cuts: &[usize]) -> Result<String, Fault> {
        let (mut response, mut out, mut body, mut from) = (Response::default(), String::new(), 0, 0);
        for &cut in cuts.iter().chain([&stream.len()]) {
            let mut input = &stream[from..cut.max(from)];
            from = cut.max(from);
            while let Some(event) = response.poll(&mut input)? {
                match event {
                    Event::Head { status, head_bytes } => out += &format!("{status}/{head_bytes} "),
                    Event::Body(count) => body += count,
                }
            }
            assert!(input.is_empty());
        }
        response.on_end()?;
        Ok(format!("{out}{body}"))
    }

    /// 103, 200 with two fields, five bytes in two frames with one of no known type between, trailers, and another.
    const WHOLE: &[u8] =
        b"\x01\x03\x00\x00\xd8\x01\x0a\x00\x00\xd9\x54\x015\x21x\x01y\x00\x02he\x40\x21\x02??\x00\x00\x00\x03llo\
        \x01\x02\x00\x00\x21\x00";

    #[test]
    fn a_response_in_one_piece() {
        assert_eq!(read(WHOLE, &[]).unwrap(), "200/12 5");
        assert_eq!(read(b"\x01\x03\x00\x00\xd9", &[]).unwrap(), "200/5 0", "without a body");
    }

    #[test]
    fn mistakes_are_named() {
        for (stream, fault) in [
            (&b""[..], Fault::MESSAGE),
            (b"\x01\x03\x00\x00\xd8", Fault::MESSAGE),
            (b"\x01\x02\x00\x00", Fault::MESSAGE),
            (b"\x01\x00", Fault::QPACK_DECOMPRESSION),
            (b"\x01\x03\x00\x00", Fault::FRAME),
            (b"\x01\x03\x00\x00\xd9\x00\x05abc", Fault::FRAME),
            (b"\x01\x03\x00\x00\xd9\x00", Fault::FRAME),
            (b"\x00\x01x", Fault::FRAME_UNEXPECTED),
            (b"\x01\x03\x00\x00\xd9\x01\x02\x00\x00\x00\x01x", Fault::FRAME_UNEXPECTED),
            (b"\x01\x03\x00\x00\xd9\x01\x02\x00\x00\x01\x02\x00\x00", Fault::FRAME_UNEXPECTED),
            (b"\x04\x00", Fault::FRAME_UNEXPECTED),
            (b"\x07\x01\x00", Fault::FRAME_UNEXPECTED),
            (b"\x08\x00", Fault::FRAME_UNEXPECTED),
            (b"\x05\x01\x00", Fault::ID),
            (b"\x01\x80\x02\x00\x00", Fault::EXCESSIVE_LOAD),
        ] {
            assert_eq!(read(stream, &[]), Err(fault), "{stream:x?}");
        }
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(mut cuts in prop::collection::vec(0..WHOLE.len(), 0..20)) {
            cuts.sort_unstable();
            prop_assert_eq!(read(WHOLE, &cuts).unwrap(), "200/12 5");
        }

        #[test]
        fn random_bytes_never_panic(stream: Vec<u8>, cut in 0..100_usize) {
            let _ = read(&stream, &[cut.min(stream.len())]);
            let _ = read(&[WHOLE, &stream].concat(), &[cut.min(WHOLE.len())]);
        }
    }
}
