use std::ops::Range;
use std::time::SystemTime;

use bytes::Bytes;

use crate::fields::{FieldIter, FieldList};
use crate::{HttpDate, date, lines};

/// The fields of a file, made once for all responses that send it: Content-Type (and Content-Encoding), then ETag,
/// Last-Modified, Accept-Ranges and Vary, then Content-Length.
#[derive(Debug, Clone, Default)]
pub struct EntityFields {
    /// The field list, followed by its text.
    bytes: Bytes,
    /// Boundaries of three groups of fields in the list: type, validators, length.
    list: [u32; 4],
    /// The same boundaries in the text.
    text: [u32; 4],
}

/// The facts about a file that its fields state.
#[derive(Debug, Clone, Copy)]
pub struct Described<'a> {
    pub mime: &'a str,
    /// The content coding of its bytes (RFC 9110 section 8.4).
    pub coding: Option<&'a str>,
    pub etag: &'a str,
    /// There is no Last-Modified if it is at most 1 second after 1970: browsers would not ask for such a file for years.
    pub last_modified: SystemTime,
    pub bytes: u64,
    /// Ranges of the file are served.
    pub has_ranges: bool,
    /// The request field by which the server chooses between these bytes and others.
    pub vary: Option<&'a str>,
}

/// Fields shared between responses, with their HTTP/1.1 text, which only that codec uses.
#[derive(Debug, Clone, Default)]
pub struct Shared {
    bytes: Bytes,
    list: Range<u32>,
    text: Range<u32>,
}

impl EntityFields {
    /// Makes the fields of a file that has no coding and no other form at its address.
    pub fn new(mime: &str, etag: &str, last_modified: SystemTime, bytes: u64) -> EntityFields {
        let (coding, has_ranges, vary) = (None, true, None);
        EntityFields::of(&Described { mime, coding, etag, last_modified, bytes, has_ranges, vary })
    }

    pub fn of(file: &Described) -> EntityFields {
        let (modified, mut digits) = (HttpDate::new(file.last_modified), itoa::Buffer::new());
        let coding = file.coding.unwrap_or_default().as_bytes();
        let of_type = [("Content-Type", file.mime.as_bytes()), ("Content-Encoding", coding)];
        let ranges = file.has_ranges.then_some(("Accept-Ranges", &b"bytes"[..]));
        let vary = file.vary.map(|field| ("Vary", field.as_bytes()));
        let dated = date::is_known(file.last_modified).then_some(("Last-Modified", &modified.as_bytes()[..]));
        let tag = [("ETag", file.etag.as_bytes())];
        let validators: Vec<_> = tag.into_iter().chain(dated).chain(ranges).chain(vary).collect();
        let groups: [&[(&str, &[u8])]; 3] = [
            &of_type[..if file.coding.is_some() { 2 } else { 1 }],
            &validators,
            &[("Content-Length", digits.format(file.bytes).as_bytes())],
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

    /// Returns the fields of a 200 with the whole file.
    pub fn whole(&self) -> Shared {
        self.groups(0..3)
    }

    /// Returns the fields without the length, for a 206 with one range.
    pub fn part(&self) -> Shared {
        self.groups(0..2)
    }

    /// Returns only the validators. A 304 should not describe a body that it does not have (RFC 9110 section 15.4.5),
    /// and a 206 with several ranges has a Content-Type of its own.
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

    /// Returns the bytes of the names and values of all fields.
    pub(crate) fn field_bytes(&self) -> usize {
        // For each field the list has 8 bytes more than its name and value, and its line has 4 more.
        2 * self.text.len() - self.list.len()
    }

    pub(crate) fn text(&self) -> &[u8] {
        &self.bytes[self.text.start as usize..self.text.end as usize]
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Response, Status};

    fn of_1994() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777)
    }

    fn names(shared: Shared) -> Vec<String> {
        let response = Response::new(Status::OK, ()).of(shared);
        response.fields().map(|(name, _)| String::from_utf8(name.to_vec()).unwrap()).collect()
    }

    #[test]
    fn the_fields_of_an_entity_are_those_its_response_needs() {
        let fields = EntityFields::new("text/html", "\"5-a\"", of_1994(), 5);
        let validators = ["ETag", "Last-Modified", "Accept-Ranges"];
        assert_eq!(names(fields.validators()), validators);
        assert_eq!(names(fields.part()), [&["Content-Type"], &validators[..]].concat());
        assert_eq!(names(fields.whole()), [&["Content-Type"], &validators[..], &["Content-Length"]].concat());
        let described = Described {
            mime: "image/svg+xml",
            coding: Some("gzip"),
            etag: "\"5-a\"",
            last_modified: of_1994(),
            bytes: 5,
            has_ranges: true,
            vary: None,
        };
        let coded = EntityFields::of(&described);
        assert_eq!(names(coded.part()), [&["Content-Type", "Content-Encoding"], &validators[..]].concat());
        // A cache that updates a stored response by a 304 needs the deciding field (RFC 9110 section 15.4.5).
        let chosen = EntityFields::of(&Described { has_ranges: false, vary: Some("Accept-Encoding"), ..described });
        assert_eq!(names(chosen.validators()), ["ETag", "Last-Modified", "Vary"]);
        for seconds in [0, 1] {
            let last_modified = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            let undated = EntityFields::of(&Described { last_modified, ..described });
            assert_eq!(names(undated.validators()), ["ETag", "Accept-Ranges"]);
        }
    }

    #[test]
    fn the_text_says_the_same_as_the_fields() {
        let fields = EntityFields::new("text/x\n", "\"5-a\"", of_1994(), 5);
        for shared in [fields.whole(), fields.part(), fields.validators(), Shared::default()] {
            let mut lines = Vec::new();
            shared.iter().for_each(|(name, value)| lines::line(&mut lines, name, value));
            assert_eq!(shared.text(), lines);
            let bytes: usize = shared.iter().map(|(name, value)| name.len() + value.len()).sum();
            assert_eq!(shared.field_bytes(), bytes);
        }
    }
}
