use std::time::SystemTime;

use bytes::Bytes;

use crate::{HttpDate, lines};

/// The fields of a file, made once for all responses that send it: Content-Type, then ETag, Last-Modified and Accept-Ranges, then
/// Content-Length.
#[derive(Debug, Clone)]
pub struct EntityFields {
    lines: Bytes,
    type_bytes: usize,
    length_bytes: usize,
}

impl EntityFields {
    pub fn new(mime: &str, etag: &str, last_modified: SystemTime, bytes: u64) -> EntityFields {
        let mut lines = Vec::new();
        lines::field(&mut lines, "Content-Type", mime.as_bytes());
        let type_bytes = lines.len();
        lines::field(&mut lines, "ETag", etag.as_bytes());
        lines::field(&mut lines, "Last-Modified", HttpDate::new(last_modified).as_bytes());
        lines::field(&mut lines, "Accept-Ranges", b"bytes");
        let before_length = lines.len();
        lines::content_length(&mut lines, bytes);
        EntityFields { type_bytes, length_bytes: lines.len() - before_length, lines: lines.into() }
    }

    /// For a 200 with all of it.
    pub fn whole(&self) -> Bytes {
        self.lines.clone()
    }

    /// Without the length: for a 206 with one part of it.
    pub fn part(&self) -> Bytes {
        self.lines.slice(..self.lines.len() - self.length_bytes)
    }

    /// Without its type too: for a 304, which should not describe a body it does not have (RFC 9110 section 15.4.5), and for a 206 of
    /// several parts, which has a type of its own.
    pub fn validators(&self) -> Bytes {
        self.lines.slice(self.type_bytes..self.lines.len() - self.length_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Response, Status};

    fn names(shared: Bytes) -> Vec<String> {
        Response::new(Status::OK, ()).of(shared).fields().map(|(name, _)| name.to_string()).collect()
    }

    #[test]
    fn the_fields_of_an_entity_are_those_its_response_needs() {
        let fields = EntityFields::new("text/html", "\"5-a\"", SystemTime::UNIX_EPOCH, 5);
        let validators = ["ETag", "Last-Modified", "Accept-Ranges"];
        assert_eq!(names(fields.validators()), validators);
        assert_eq!(names(fields.part()), [&["Content-Type"], &validators[..]].concat());
        assert_eq!(names(fields.whole()), [&["Content-Type"], &validators[..], &["Content-Length"]].concat());
    }
}
