//! Parses the responses on one connection from its bytes as they arrive. Heads are parsed, bodies are only counted.

use http::http1::{Chunked, Malformed, ResponseHead, parse_response};

/// Finds where responses begin and end.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    state: State,
    /// The beginning of an incomplete head; `parse_response` bounds it to 16 KiB and one read.
    partial: Vec<u8>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Head,
    Body {
        left_bytes: u64,
    },
    Chunked(Chunked),
    /// Any other body without a length, which ends with the connection (RFC 9112 section 6.3).
    UntilClose,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    Head(ResponseHead),
    /// A count of further body bytes.
    Body(u64),
    /// The last byte of the body has arrived.
    End,
}

impl Reader {
    /// Takes the next event from the front of `input`; `None` if `input` holds no more.
    pub(crate) fn poll(&mut self, input: &mut &[u8]) -> Result<Option<Event>, Malformed> {
        match &mut self.state {
            State::Head => self.poll_head(input),
            State::Body { left_bytes: 0 } => {
                self.state = State::Head;
                Ok(Some(Event::End))
            }
            _ if input.is_empty() => Ok(None),
            State::Body { left_bytes } => {
                let count = (*left_bytes).min(input.len() as u64);
                *left_bytes -= count;
                *input = &input[count as usize..];
                Ok(Some(Event::Body(count)))
            }
            State::Chunked(body) => {
                let event = poll_chunks(body, input)?;
                if event == Some(Event::End) {
                    self.state = State::Head;
                }
                Ok(event)
            }
            State::UntilClose => Ok(Some(Event::Body(std::mem::take(input).len() as u64))),
        }
    }

    /// Returns true if the end of the stream is also the end of a response.
    pub(crate) fn ends_with_stream(&self) -> bool {
        matches!(self.state, State::UntilClose)
    }

    fn poll_head(&mut self, input: &mut &[u8]) -> Result<Option<Event>, Malformed> {
        loop {
            let Some(head) = self.take_head(input)? else { return Ok(None) };
            // An interim response is ignored; the final one follows it (RFC 9110 section 15.2).
            if !(100..200).contains(&head.status) {
                self.state = match head.content_length {
                    Some(left_bytes) => State::Body { left_bytes },
                    None if head.is_chunked => State::Chunked(Chunked::new()),
                    None => State::UntilClose,
                };
                return Ok(Some(Event::Head(head)));
            }
        }
    }

    /// Takes a complete head from the kept bytes and the front of `input`. Keeps `input` if the head is still
    /// incomplete.
    fn take_head(&mut self, input: &mut &[u8]) -> Result<Option<ResponseHead>, Malformed> {
        if input.is_empty() {
            return Ok(None);
        }
        if self.partial.is_empty() {
            let parsed = parse_response(input)?;
            match parsed {
                Some(head) => *input = &input[head.head_bytes..],
                None => self.partial.extend_from_slice(std::mem::take(input)),
            }
            return Ok(parsed);
        }
        let kept = self.partial.len();
        self.partial.extend_from_slice(input);
        let parsed = parse_response(&self.partial)?;
        match parsed {
            Some(head) => {
                // The kept bytes were not a complete head, so the head ends within `input`.
                *input = &input[head.head_bytes - kept..];
                self.partial.clear();
            }
            None => *input = &[],
        }
        Ok(parsed)
    }
}

/// Returns body bytes without their framing, or the end of the body.
fn poll_chunks(body: &mut Chunked, input: &mut &[u8]) -> Result<Option<Event>, Malformed> {
    while !input.is_empty() {
        let taken = body.take(input).map_err(|_| Malformed("not a body in chunks"))?;
        *input = &input[taken.consumed..];
        if taken.is_done {
            return Ok(Some(Event::End));
        }
        if !taken.data.is_empty() {
            return Ok(Some(Event::Body(taken.data.len() as u64)));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Formats the responses in a stream as text, with bodies joined, when the stream arrives in pieces that end at
    /// `cuts`.
    fn read(stream: &[u8], cuts: &[usize]) -> Result<String, Malformed> {
        let (mut reader, mut out, mut body, mut from) = (Reader::default(), String::new(), 0, 0);
        for &cut in cuts.iter().chain([&stream.len()]) {
            let mut input = &stream[from..cut.max(from)];
            from = cut.max(from);
            while let Some(event) = reader.poll(&mut input)? {
                match event {
                    Event::Head(head) => out += &format!("{}/{} ", head.status, head.head_bytes),
                    Event::Body(count) => body += count,
                    Event::End => out += &format!("{}. ", std::mem::take(&mut body)),
                }
            }
            assert!(input.is_empty());
        }
        Ok(if reader.ends_with_stream() { format!("{out}{body} until close") } else { out })
    }

    const ALL: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 103 Early Hints\r\n\r\n\
        HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n\
        0\r\n\r\nHTTP/1.1 200 OK\r\n\r\nthe rest";

    const ALL_READ: &str = "200/38 5. 404/45 0. 200/47 11. 200/19 8 until close";

    #[test]
    fn responses_in_one_piece() {
        assert_eq!(read(ALL, &[]).unwrap(), ALL_READ);
    }

    #[test]
    fn a_stream_that_is_not_http_is_refused() {
        assert!(read(b"SSH-2.0-OpenSSH_9\r\n", &[]).is_err());
        assert!(read(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello", &[]).is_err());
        assert!(read(&b"HTTP/1.1 200 OK\r\nA: ".repeat(2000), &[7, 9000]).is_err());
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(mut cuts in prop::collection::vec(0..ALL.len(), 0..20)) {
            cuts.sort_unstable();
            prop_assert_eq!(read(ALL, &cuts).unwrap(), ALL_READ);
        }

        #[test]
        fn random_bytes_never_panic(stream: Vec<u8>, cut in 0..100_usize) {
            let _ = read(&stream, &[cut.min(stream.len())]);
            let _ = read(&[ALL, &stream].concat(), &[cut]);
        }
    }
}
