//! A decoder of chunks (RFC 9112 section 7.1), written separately, because the checks must not use the codec that they
//! check.

#[derive(Debug, Default, Clone)]
pub struct Chunks {
    state: State,
    /// The part of a line that has arrived.
    line: Vec<u8>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Size,
    Data(usize),
    /// The line that ends the data of a chunk.
    DataEnd,
    Trailers,
    Done,
}

impl Chunks {
    /// Takes bytes from the front. Returns the content, and true if the body is complete.
    pub fn take(&mut self, bytes: &mut &[u8]) -> Result<(Vec<u8>, bool), String> {
        let mut data = Vec::new();
        while !bytes.is_empty() && self.state != State::Done {
            if let State::Data(left) = self.state {
                let (part, rest) = bytes.split_at(left.min(bytes.len()));
                data.extend(part);
                *bytes = rest;
                self.state = if part.len() == left { State::DataEnd } else { State::Data(left - part.len()) };
                continue;
            }
            self.line.push(bytes[0]);
            *bytes = &bytes[1..];
            if self.line.ends_with(b"\r\n") {
                let line = String::from_utf8_lossy(&self.line[..self.line.len() - 2]).into_owned();
                self.line.clear();
                self.state = self.state.after(&line)?;
            }
        }
        Ok((data, self.state == State::Done))
    }
}

impl State {
    fn after(self, line: &str) -> Result<State, String> {
        match self {
            State::Size => {
                let size = line.split(';').next().unwrap_or_default();
                let size = usize::from_str_radix(size, 16).map_err(|_| format!("a chunk of size `{line}`"))?;
                Ok(if size == 0 { State::Trailers } else { State::Data(size) })
            }
            State::DataEnd if line.is_empty() => Ok(State::Size),
            State::DataEnd => Err(format!("`{line}` behind a chunk")),
            State::Trailers if line.is_empty() => Ok(State::Done),
            _ => Ok(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_read_in_whatever_pieces_they_come() {
        let text = b"3;a=b\r\nabc\r\n2\r\nde\r\n0\r\nSum: 1\r\n\r\nnext";
        for piece in 1..text.len() {
            let (mut chunks, mut all, mut is_done) = (Chunks::default(), Vec::new(), false);
            let mut rest = Vec::new();
            for mut bytes in text.chunks(piece) {
                let (data, done) = chunks.take(&mut bytes).unwrap();
                all.extend(data);
                is_done = done;
                rest.extend(bytes);
            }
            assert_eq!((&all[..], is_done, &rest[..]), (&b"abcde"[..], true, &b"next"[..]), "{piece}");
        }
        assert!(Chunks::default().take(&mut &b"x\r\n"[..]).is_err());
        assert!(Chunks::default().take(&mut &b"1\r\nabc\r\n"[..]).is_err());
    }
}
