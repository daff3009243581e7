//! The response with a file, or with parts of it.

use std::ops::Range;
use std::sync::Arc;

use http::{EntityFields, Request, Response, Status, Verdict, multipart};

use super::{Handler, bare, text};
use crate::body::{Body, Piece};
use crate::files::Entry;
use crate::stages::{has_stages, staged_head};

impl Handler {
    pub(super) fn file(&mut self, request: &Request, entry: &Arc<Entry>) -> Response<Body> {
        let entity = http::Entity { len: entry.len, etag: &entry.etag, last_modified: entry.last_modified };
        let fields = &entry.fields;
        let whole = || Response::new(Status::OK, part(entry, 0..entry.len).into()).of(fields.whole());
        match http::evaluate(request, &entity) {
            Verdict::Whole => whole(),
            Verdict::Ranges(_) | Verdict::RangeNotSatisfiable if has_stages(request, &whole()) => whole(),
            Verdict::Ranges(ranges) if ranges.len() == 1 => {
                let range = ranges[0].clone();
                let response = Response::new(Status::PARTIAL_CONTENT, part(entry, range.clone()).into());
                response.of(fields.part()).with_range(&range, entry.len).with_length(range.end - range.start)
            }
            Verdict::Ranges(ranges) => self.ranges(entry, fields, &ranges),
            Verdict::NotModified if has_stages(request, &whole()) => {
                staged_head(bare(Status::NOT_MODIFIED).of(fields.validators()))
            }
            Verdict::NotModified => bare(Status::NOT_MODIFIED).of(fields.validators()),
            Verdict::PreconditionFailed => text(Status::PRECONDITION_FAILED, "the file is not in the state asked for"),
            Verdict::RangeNotSatisfiable => {
                text(Status::RANGE_NOT_SATISFIABLE, "the file is shorter than that").without_range(entry.len)
            }
        }
    }

    fn ranges(&mut self, entry: &Arc<Entry>, fields: &EntityFields, ranges: &[Range<u64>]) -> Response<Body> {
        let boundary = self.boundary(entry);
        let mut body = Body::default();
        for range in ranges {
            let mut head = Vec::new();
            multipart::part_head(&mut head, &boundary, &entry.mime, range, entry.len);
            body.push(Piece::Bytes(head));
            body.push(part(entry, range.clone()));
        }
        let mut end = Vec::new();
        multipart::closing(&mut end, &boundary);
        body.push(Piece::Bytes(end));
        let bytes = multipart::total_bytes(&boundary, &entry.mime, ranges, entry.len);
        debug_assert_eq!(bytes, body.len());
        let response = Response::new(Status::PARTIAL_CONTENT, body).of(fields.validators());
        response.with("Content-Type", multipart::content_type(&boundary).as_bytes()).with_length(bytes)
    }

    /// Returns a boundary that cannot be guessed from the file's content: the entity tag and a count.
    fn boundary(&mut self, entry: &Entry) -> String {
        self.boundaries += 1;
        let tag: String = entry.etag.chars().filter(char::is_ascii_alphanumeric).take(40).collect();
        format!("weir{tag}x{:x}", self.boundaries)
    }
}

fn part(entry: &Arc<Entry>, range: Range<u64>) -> Piece {
    Piece::File { entry: Arc::clone(entry), range }
}
