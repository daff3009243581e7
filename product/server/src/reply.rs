//! From a request to its response: which status, which fields, which bytes.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use http::{Connection, HttpDate, Method, Reject, Request, Status, Verdict, head, multipart};
use units::Nanos;

use crate::files::{Cache, Content, Entry, Find, Found, LISTING_MIME, Lookup, Missing};
use crate::transmit::Segment;

/// What follows the bytes that were appended to the output buffer, and what the log wants to know.
pub struct Reply {
    pub status: Status,
    /// Sent after the buffer: bodies too large to be held in memory.
    pub rest: VecDeque<Segment>,
    /// Bytes of body, wherever they are.
    pub body_bytes: u64,
    /// No further request is read from the connection.
    pub closes: bool,
    /// A file that could not be read: for the error log.
    pub trouble: Option<std::io::Error>,
}

/// Builds responses for one worker.
pub struct Replier {
    pub cache: Cache,
    pub date: HttpDate,
    /// Makes boundaries of multipart bodies differ.
    boundaries: u64,
}

const ALLOW: &[u8] = b"GET, HEAD, OPTIONS";
const TEXT: &[u8] = b"text/plain; charset=utf-8";

/// Bodies up to this long are copied behind the head, which is cheaper than a second piece of memory for the kernel, and lets
/// pipelined responses share a system call.
const COPIED_BYTES_MAX: u64 = 2 << 10;

/// How a response is framed: what the request said about body and connection.
#[derive(Clone, Copy)]
struct Frame {
    /// False for HEAD: the head is that of a GET, and no body follows.
    has_body: bool,
    connection: Connection,
    minor_version: u8,
}

impl Frame {
    fn of(request: &Request, is_last: bool) -> Frame {
        let closes = is_last || !request.keep_alive;
        Frame {
            has_body: request.method != Method::Head,
            connection: if closes { Connection::Close } else { Connection::KeepAlive },
            minor_version: request.minor_version,
        }
    }
}

impl Replier {
    pub fn new(cache: Cache, date: HttpDate) -> Replier {
        Replier { cache, date, boundaries: 0 }
    }

    /// Appends the head and any small body to `out`. `is_last` says that the server will close the connection anyway. What
    /// has to be found aside comes back instead, to be answered by [`Replier::reply_with`].
    pub fn reply(
        &mut self,
        request: &Request,
        is_last: bool,
        now: Nanos,
        out: &mut Vec<u8>,
    ) -> Result<Reply, Box<Find>> {
        let frame = Frame::of(request, is_last);
        match request.method {
            Method::Get | Method::Head => match self.cache.lookup(request.path, now) {
                Lookup::Done(found) => Ok(self.found(request, found, frame, out)),
                Lookup::Aside(find) => Err(find),
            },
            Method::Options => Ok(self.allow(Status::NO_CONTENT, frame, out)),
            Method::Other => Ok(self.allow(Status::METHOD_NOT_ALLOWED, frame, out)),
        }
    }

    /// The same with what was found aside.
    pub fn reply_with(
        &mut self,
        request: &Request,
        found: Result<Found, Missing>,
        is_last: bool,
        out: &mut Vec<u8>,
    ) -> Reply {
        self.found(request, found, Frame::of(request, is_last), out)
    }

    /// The answer to what is no request; the connection is closed behind it.
    pub fn reject(&self, reject: Reject, out: &mut Vec<u8>) -> Reply {
        let frame = Frame { has_body: true, connection: Connection::Close, minor_version: 1 };
        self.text(reject.status, reject.reason, &[], frame, out)
    }

    fn found(&mut self, request: &Request, found: Result<Found, Missing>, frame: Frame, out: &mut Vec<u8>) -> Reply {
        match found {
            Ok(Found::File(entry)) => self.file(request, &entry, frame, out),
            Ok(Found::Listing(page)) => self.listing(page, frame, out),
            Ok(Found::Redirect(mut location)) => {
                if let Some(query) = request.query {
                    location.push('?');
                    location.push_str(&String::from_utf8_lossy(query));
                }
                self.text(Status::MOVED_PERMANENTLY, &location, &[("Location", location.as_bytes())], frame, out)
            }
            Err(missing) => self.missing(missing, request.path, frame, out),
        }
    }

    fn missing(&self, missing: Missing, path: &[u8], frame: Frame, out: &mut Vec<u8>) -> Reply {
        match missing {
            Missing::NotFound => self.text(Status::NOT_FOUND, "nothing is here", &[], frame, out),
            Missing::Forbidden => self.text(Status::FORBIDDEN, "this may not be read", &[], frame, out),
            Missing::BadPath(reject) => {
                let frame = Frame { connection: Connection::Close, ..frame };
                self.text(reject.status, reject.reason, &[], frame, out)
            }
            Missing::Exhausted => {
                let retry = [("Retry-After", &b"1"[..])];
                self.text(Status::SERVICE_UNAVAILABLE, "too busy, please try again", &retry, frame, out)
            }
            Missing::Failed(error) => {
                let reply = self.text(Status::INTERNAL_SERVER_ERROR, "this could not be read", &[], frame, out);
                let path = String::from_utf8_lossy(path);
                Reply { trouble: Some(io::Error::new(error.kind(), format!("{path}: {error}"))), ..reply }
            }
        }
    }

    fn file(&mut self, request: &Request, entry: &Arc<Entry>, frame: Frame, out: &mut Vec<u8>) -> Reply {
        let entity = http::Entity { len: entry.len, etag: &entry.etag, last_modified: entry.last_modified };
        match http::evaluate(request, &entity) {
            Verdict::Whole => self.whole(entry, frame, out),
            Verdict::Ranges(ranges) if ranges.len() == 1 => self.range(entry, ranges[0].clone(), frame, out),
            Verdict::Ranges(ranges) => self.ranges(entry, &ranges, frame, out),
            Verdict::NotModified => {
                head::start(out, Status::NOT_MODIFIED, &self.date);
                out.extend(head::validator_fields(&entry.etag, entry.last_modified));
                self.bare(Status::NOT_MODIFIED, frame, out)
            }
            Verdict::PreconditionFailed => {
                self.text(Status::PRECONDITION_FAILED, "the file is not in the state asked for", &[], frame, out)
            }
            Verdict::RangeNotSatisfiable => {
                head::start(out, Status::RANGE_NOT_SATISFIABLE, &self.date);
                head::content_range_unsatisfied(out, entry.len);
                head::content_length(out, 0);
                self.bare(Status::RANGE_NOT_SATISFIABLE, frame, out)
            }
        }
    }

    fn whole(&self, entry: &Arc<Entry>, frame: Frame, out: &mut Vec<u8>) -> Reply {
        head::start(out, Status::OK, &self.date);
        out.extend_from_slice(&entry.fields);
        let mut reply = self.bare(Status::OK, frame, out);
        if frame.has_body {
            append(entry, 0..entry.len, out, &mut reply);
        }
        reply
    }

    fn range(&self, entry: &Arc<Entry>, range: Range<u64>, frame: Frame, out: &mut Vec<u8>) -> Reply {
        head::start(out, Status::PARTIAL_CONTENT, &self.date);
        out.extend(head::entity_fields(&entry.mime, &entry.etag, entry.last_modified));
        head::content_range(out, &range, entry.len);
        head::content_length(out, range.end - range.start);
        let mut reply = self.bare(Status::PARTIAL_CONTENT, frame, out);
        append(entry, range, out, &mut reply);
        reply
    }

    fn ranges(&mut self, entry: &Arc<Entry>, ranges: &[Range<u64>], frame: Frame, out: &mut Vec<u8>) -> Reply {
        let boundary = self.boundary(entry);
        head::start(out, Status::PARTIAL_CONTENT, &self.date);
        head::field(out, "Content-Type", multipart::content_type(&boundary).as_bytes());
        out.extend(head::validator_fields(&entry.etag, entry.last_modified));
        head::content_length(out, multipart::total_bytes(&boundary, &entry.mime, ranges, entry.len));
        let mut reply = self.bare(Status::PARTIAL_CONTENT, frame, out);
        for range in ranges {
            let mut part = Vec::new();
            multipart::part_head(&mut part, &boundary, &entry.mime, range, entry.len);
            push(Segment::Bytes(part.into()), &mut reply);
            push(Segment::File { entry: Arc::clone(entry), range: range.clone() }, &mut reply);
        }
        let mut end = Vec::new();
        multipart::closing(&mut end, &boundary);
        push(Segment::Bytes(end.into()), &mut reply);
        reply
    }

    /// Not to be guessed from the file's content: the entity tag and a count.
    fn boundary(&mut self, entry: &Entry) -> String {
        self.boundaries += 1;
        let tag: String = entry.etag.chars().filter(char::is_ascii_alphanumeric).take(40).collect();
        format!("weir{tag}x{:x}", self.boundaries)
    }

    /// 204 or 405 with the methods there are.
    fn allow(&self, status: Status, frame: Frame, out: &mut Vec<u8>) -> Reply {
        head::start(out, status, &self.date);
        head::field(out, "Allow", ALLOW);
        if status != Status::NO_CONTENT {
            head::content_length(out, 0);
        }
        self.bare(status, frame, out)
    }

    fn text(&self, status: Status, why: &str, fields: &[(&str, &[u8])], frame: Frame, out: &mut Vec<u8>) -> Reply {
        let body = format!("{} {}\n{why}\n", status.0, status.reason());
        self.page(status, TEXT, body.as_bytes(), fields, frame, out)
    }

    fn page(
        &self,
        status: Status,
        mime: &[u8],
        body: &[u8],
        fields: &[(&str, &[u8])],
        frame: Frame,
        out: &mut Vec<u8>,
    ) -> Reply {
        head::start(out, status, &self.date);
        for (name, value) in fields {
            head::field(out, name, value);
        }
        head::field(out, "Content-Type", mime);
        head::content_length(out, body.len() as u64);
        let mut reply = self.bare(status, frame, out);
        if frame.has_body {
            out.extend_from_slice(body);
            reply.body_bytes = body.len() as u64;
        }
        reply
    }

    /// A page that other responses share.
    fn listing(&self, page: Arc<Vec<u8>>, frame: Frame, out: &mut Vec<u8>) -> Reply {
        head::start(out, Status::OK, &self.date);
        head::field(out, "Content-Type", LISTING_MIME.as_bytes());
        head::content_length(out, page.len() as u64);
        let mut reply = self.bare(Status::OK, frame, out);
        if frame.has_body {
            push(Segment::Page { page, at: 0 }, &mut reply);
        }
        reply
    }

    /// Ends the head of a response that has no body yet.
    fn bare(&self, status: Status, frame: Frame, out: &mut Vec<u8>) -> Reply {
        head::end(out, frame.connection, frame.minor_version);
        let closes = frame.connection == Connection::Close;
        Reply { status, rest: VecDeque::new(), body_bytes: 0, closes, trouble: None }
    }
}

/// Puts part of a file behind the head: into the same buffer if it is small, else as a share of what all responses send.
fn append(entry: &Arc<Entry>, range: Range<u64>, out: &mut Vec<u8>, reply: &mut Reply) {
    match &entry.content {
        Content::Held(body) if range.end - range.start <= COPIED_BYTES_MAX => {
            out.extend_from_slice(&body[range.start as usize..range.end as usize]);
            reply.body_bytes += range.end - range.start;
        }
        _ => push(Segment::File { entry: Arc::clone(entry), range }, reply),
    }
}

fn push(segment: Segment, reply: &mut Reply) {
    reply.body_bytes += segment.len();
    if !segment.is_empty() {
        reply.rest.reserve_exact(1);
        reply.rest.push_back(segment);
    }
}
