//! Parses a response from the bytes of its stream as they arrive. The field section is read, the body is only counted.

use quic::codec::{DATA, Frames, HEADERS, Step, decode, varint};

use super::fault::Fault;

/// The maximum bytes of a response's field section; servers send a few hundred.
const FIELDS_BYTES_MAX: u64 = 64 << 10;

#[derive(Debug, Default)]
pub(super) struct Response {
    frames: Frames,
    at: At,
    /// The bytes of the HEADERS frame being received.
    head_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum At {
    /// Before the final head, possibly after interim responses.
    #[default]
    Head,
    Body,
    /// After the trailers.
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    Head {
        status: u16,
        head_bytes: u64,
    },
    /// A count of further body bytes.
    Body(u64),
}

impl Response {
    /// Takes all bytes, and calls `take` with each event in them.
    pub(super) fn receive(&mut self, mut input: &[u8], mut take: impl FnMut(Event)) -> Result<(), Fault> {
        let mut body = vec![];
        loop {
            let step = self.frames.next(&mut input, Some(&mut body));
            if !body.is_empty() {
                take(Event::Body(body.len() as u64));
                body.clear();
            }
            match step {
                Some(Step::Begin { kind, length }) => self.begin(kind, length)?,
                Some(Step::Kept { payload, .. }) => {
                    let status = status(&payload)?;
                    // The final response follows an interim one (RFC 9110 section 15.2).
                    if status >= 200 {
                        self.at = At::Body;
                        take(Event::Head { status, head_bytes: self.head_bytes });
                    }
                }
                None => return Ok(()),
            }
        }
    }

    /// Checks that the response is complete when the server has ended the stream.
    pub(super) fn on_end(&self) -> Result<(), Fault> {
        match self.at {
            _ if !self.frames.is_between() => Err(Fault::Connection),
            At::Head => Err(Fault::Response),
            _ => Ok(()),
        }
    }

    fn begin(&mut self, kind: u64, length: u64) -> Result<(), Fault> {
        match (kind, self.at) {
            (HEADERS, At::Head | At::Body) if length > FIELDS_BYTES_MAX => return Err(Fault::Connection),
            (HEADERS, At::Head) => {
                self.head_bytes = (varint::bytes(kind) + varint::bytes(length)) as u64 + length;
                self.frames.keep();
            }
            (HEADERS, At::Body) => self.at = At::End,
            (DATA, At::Body) => {}
            (DATA | HEADERS, _) => return Err(Fault::Connection),
            _ => {}
        }
        Ok(())
    }
}

/// Reads the status from a complete field section.
fn status(section: &[u8]) -> Result<u16, Fault> {
    let (mut statuses, mut scratch) = (vec![], vec![]);
    decode(section, &mut scratch, |name, value| {
        statuses.extend((name == b":status").then(|| value.to_vec()));
        true
    })
    .map_err(|_| Fault::Connection)?;
    let [status] = &statuses[..] else { return Err(Fault::Response) };
    let is_sound = status.len() == 3 && status[0] != b'0' && status.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(status).ok().filter(|_| is_sound);
    text.and_then(|text| text.parse().ok()).ok_or(Fault::Response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Formats the events of a stream as text, with bodies joined, when the stream arrives in pieces that end at `cuts`
    /// and then ends.
    fn read(stream: &[u8], cuts: &[usize]) -> Result<String, Fault> {
        let (mut response, mut out, mut body, mut from) = (Response::default(), String::new(), 0, 0);
        for &cut in cuts.iter().chain([&stream.len()]) {
            let input = &stream[from..cut.max(from)];
            from = cut.max(from);
            response.receive(input, |event| match event {
                Event::Head { status, head_bytes } => out += &format!("{status}/{head_bytes} "),
                Event::Body(count) => body += count,
            })?;
        }
        response.on_end()?;
        Ok(format!("{out}{body}"))
    }

    /// 103; then 200 with two fields, five bytes in two frames with a frame of an unknown type between them, trailers,
    /// and another such frame.
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
            (&b""[..], Fault::Response),
            (b"\x01\x03\x00\x00\xd8", Fault::Response),
            (b"\x01\x02\x00\x00", Fault::Response),
            (b"\x01\x00", Fault::Connection),
            (b"\x01\x04\x00\x00\xd9\xd9", Fault::Response),
            (b"\x01\x07\x00\x00\x5f\x09\x0220", Fault::Response),
            (b"\x01\x03\x00\x00", Fault::Connection),
            (b"\x01\x03\x00\x00\xd9\x00\x05abc", Fault::Connection),
            (b"\x01\x03\x00\x00\xd9\x00", Fault::Connection),
            (b"\x00\x01x", Fault::Connection),
            (b"\x01\x03\x00\x00\xd9\x01\x02\x00\x00\x00\x01x", Fault::Connection),
            (b"\x01\x03\x00\x00\xd9\x01\x02\x00\x00\x01\x02\x00\x00", Fault::Connection),
            (b"\x01\x80\x02\x00\x00", Fault::Connection),
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
