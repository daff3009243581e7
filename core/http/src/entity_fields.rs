use std::ops::Range;
use std::time::SystemTime;

use bytes::Bytes;

use crate::fields::{FieldIter, FieldList};
use crate::{HttpDate, lines};

/// The fields of a file, made once for all responses that send it: Content-Type (and Content-Encoding), then ETag,
/// Last-Modified and Accept-Ranges, then Content-Length.
#[derive(Debug, Clone)]
pub struct EntityFields {
    /// The field list, followed by its text.
    bytes: Bytes,
    /// Boundaries of three groups of fields in the list: type, validators, length.
    list: [u32; 4],
    /// The same boundaries in the text.
    text: [u32; 4],
}

/// Fields shared between responses, with their HTTP/1.1 text, which only that codec uses.
#[derive(Debug, Clone, Default)]
pub struct Shared {
    bytes: Bytes,
    list: Range<u32>,
    text: Range<u32>,
}

impl EntityFields {
    pub fn new(mime: &str, etag: &str, last_modified: SystemTime, bytes: u64) -> EntityFields {
        EntityFields::coded(mime, None, etag, last_modified, bytes)
    }

    /// The fields of a file that is stored in a content coding (RFC 9110 section 8.4).
    pub fn coded(mime: &str, coding: Option<&str>, etag: &str, last_modified: SystemTime, bytes: u64) -> EntityFields {
        let (date, mut digits) = (HttpDate::new(last_modified), itoa::Buffer::new());
        let of_type = [("Content-Type", mime.as_bytes()), ("Content-Encoding", coding.unwrap_or_default().as_bytes())];
        let groups: [&[(&str, &[u8])]; 3] = [
            &of_type[..if coding.is_some() { 2 } else { 1 }],
            &[("ETag", etag.as_bytes()), ("Last-Modified", date.as_bytes()), ("Accept-Ranges", b"bytes")],
            &[("Content-Length", digits.format(bytes).as_bytes())],
        ];
        let (mut fields, mut lines) = (FieldList::default(), Vec::new());
        let (mut list, mut text) = ([0; 4], [0; 4]);
        for (nth, group) in groups.into_iter().enumerate() {
            for (name, value) in group {
                fields.push_clean(name.as_bytes(), value);
                lines::field(&mut lines, name, value);
            }
            (list[nth + 1], text[nth + 1]) = (fields.bytes().len() as u32, lines.len() as u32);
        }
        let text = text.map(|at| list[3] + at);
        EntityFields { bytes: [fields.bytes(), &lines].concat().into(), list, text }
    }

    /// The fields of a 200 with the whole file.
    pub fn whole(&self) -> Shared {
        self.groups(0..3)
    }

    /// The fields without the length, for a 206 with one range.
    pub fn part(&self) -> Shared {
        self.groups(0..2)
    }

    /// The validators alone. A 304 should not describe a body that it does not have (RFC 9110 section 15.4.5), and a
    /// 206 with several ranges has a type of its own.
    pub fn validators(&self) -> Shared {
        self.groups(1..2)
    }

    fn groups(&self, groups: Range<usize>) -> Shared {
        let of = |places: &[u32; 4]| places[groups.start]..places[groups.end];
        Shared { bytes: self.bytes.clone(), list: of(&self.list), text: of(&self.text) }
    }
}

impl Shared {
    pub(crate) fn iter(&self) -> FieldIter<'_> {
        FieldIter(&self.bytes[self.list.start as usize..self.list.end as usize])
    }

    pub(crate) fn text(&self) -> &[u8] {
        &self.bytes[self.text.start as usize..self.text.end as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Response, Status};

    fn names(shared: Shared) -> Vec<String> {
        let response = Response::new(Status::OK, ()).of(shared);
        response.fields().map(|(name, _)| String::from_utf8(name.to_vec()).unwrap()).collect()
    }

    #[test]
    fn the_fields_of_an_entity_are_those_its_response_needs() {
        let fields = EntityFields::new("text/html", "\"5-a\"", SystemTime::UNIX_EPOCH, 5);
        let validators = ["ETag", "Last-Modified", "Accept-Ranges"];
        assert_eq!(names(fields.validators()), validators);
        assert_eq!(names(fields.part()), [&["Content-Type"], &validators[..]].concat());
        assert_eq!(names(fields.whole()), [&["Content-Type"], &validators[..], &["Content-Length"]].concat());
        let coded = EntityFields::coded("image/svg+xml", Some("gzip"), "\"5-a\"", SystemTime::UNIX_EPOCH, 5);
        assert_eq!(names(coded.part()), [&["Content-Type", "Content-Encoding"], &validators[..]].concat());
    }

    #[test]
    fn the_text_says_the_same_as_the_fields() {
        let fields = EntityFields::new("text/x\n", "\"5-a\"", SystemTime::UNIX_EPOCH, 5);
        for shared in [fields.whole(), fields.part(), fields.validators(), Shared::default()] {
            let mut lines = Vec::new();
            shared.iter().for_each(|(name, value)| lines::line(&mut lines, name, value));
            assert_eq!(shared.text(), lines);
        }
    }
}
