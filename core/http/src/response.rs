//! A response as any version of HTTP means it: status, fields, body. Its bytes are the business of a codec: [`crate::http1::encode`].

use std::ops::Range;

use bytes::Bytes;

use crate::{Status, lines};

/// Server, Date and what frames the message are added by the codec. The body is the caller's own type.
#[derive(Debug)]
pub struct Response<B> {
    pub status: Status,
    /// Lines that other responses have too, made once.
    shared: Bytes,
    /// Behind them.
    own: Vec<u8>,
    pub body: B,
}

impl<B> Response<B> {
    pub fn new(status: Status, body: B) -> Response<B> {
        Response { status, shared: Bytes::new(), own: Vec::new(), body }
    }

    /// The same with the fields of what is sent, in the place of such fields before.
    pub fn of(self, shared: Bytes) -> Response<B> {
        Response { shared, ..self }
    }

    /// The same with a field more. Control characters in the value become `?`.
    pub fn with(mut self, name: &str, value: &[u8]) -> Response<B> {
        lines::field(&mut self.own, name, value);
        self
    }

    pub fn with_length(mut self, bytes: u64) -> Response<B> {
        lines::content_length(&mut self.own, bytes);
        self
    }

    /// The same with the place of its body in a whole of so many bytes.
    pub fn with_range(mut self, range: &Range<u64>, entity_bytes: u64) -> Response<B> {
        lines::content_range(&mut self.own, range, entity_bytes);
        self
    }

    /// The same with the length that no range asked for lies in (RFC 9110 section 15.5.17).
    pub fn without_range(mut self, entity_bytes: u64) -> Response<B> {
        lines::content_range_unsatisfied(&mut self.own, entity_bytes);
        self
    }

    /// Name and value of every field, in order.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let lines = self.lines().into_iter().flat_map(|lines| lines.split(|&b| b == b'\n'));
        lines.filter_map(|line| {
            let colon = line.iter().position(|&b| b == b':')?;
            Some((std::str::from_utf8(&line[..colon]).ok()?, line[colon + 1..].trim_ascii()))
        })
    }

    /// As HTTP/1.1 writes them, for its codec.
    pub(crate) fn lines(&self) -> [&[u8]; 2] {
        [&self.shared, &self.own]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_back_as_they_were_given() {
        let response = Response::new(Status::PARTIAL_CONTENT, ())
            .with("Location", b"/a: b\r\nX: y")
            .with_range(&(0..10), 100)
            .without_range(7)
            .with_length(10)
            .of(Bytes::from_static(b"A: 1\r\n"));
        let expected: [(&str, &[u8]); 5] = [
            ("A", b"1"),
            ("Location", b"/a: b??X: y"),
            ("Content-Range", b"bytes 0-9/100"),
            ("Content-Range", b"bytes */7"),
            ("Content-Length", b"10"),
        ];
        assert_eq!(response.fields().collect::<Vec<_>>(), expected);
    }
}
