//! Collects the fields of an HTTP/3 request. [`RequestBuilder`] interprets them and detects malformed ones; this module
//! reads the priority.

use http::{OwnedRequest, PeerLength, Refused, RequestBuilder};
use http2::{Priority, priority};

/// Collects the fields of one request.
#[derive(Debug)]
pub struct Fields<'a> {
    request: &'a mut RequestBuilder,
    priority: Priority,
}

/// A request whose fields are complete.
#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    pub fields: Result<Box<OwnedRequest>, Box<Refused>>,
    /// The declared length of its content.
    pub content_length: Option<PeerLength>,
    pub priority: Priority,
}

impl<'a> Fields<'a> {
    pub fn new(request: &'a mut RequestBuilder) -> Fields<'a> {
        request.begin();
        Fields { request, priority: priority::DEFAULT }
    }

    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        if name == b"priority" {
            self.priority = priority::parse(value);
        }
        self.request.push(name, value);
    }

    /// Returns the request. For a malformed one, which is an error, the caller resets the stream (H3_MESSAGE_ERROR).
    pub fn finish(self) -> Result<Request, Box<Refused>> {
        let fields = self.request.finish()?;
        Ok(Request { fields, content_length: self.request.content_length(), priority: self.priority })
    }
}

#[cfg(test)]
mod tests {
    use http::Limits;

    use super::*;

    #[test]
    fn a_request_has_its_fields() {
        let mut builder = RequestBuilder::new(Limits::default(), true);
        let mut collected = Fields::new(&mut builder);
        for (name, value) in [
            (":method", "GET"),
            (":scheme", "https"),
            (":authority", "a"),
            (":path", "/"),
            ("priority", "u=1, i"),
            ("content-length", "3"),
            ("te", "trailers"),
        ] {
            collected.push(name.as_bytes(), value.as_bytes());
        }
        let request = collected.finish().unwrap();
        let Ok(fields) = request.fields else { panic!("it is whole") };
        assert_eq!((fields.view().path, fields.view().fields.host), (&b"/"[..], Some(&b"a"[..])));
        assert_eq!(request.content_length, Some(3.into()));
        assert_eq!(request.priority, Priority { urgency: 1, is_incremental: true });
    }
}
