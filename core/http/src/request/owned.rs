use super::{All, BodyLength, Fields, Method, Request};
use crate::fields::{FieldList, Span};
use crate::name_filter::NameFilter;

/// A request that owns its memory: all fields in one allocation, and the positions of the fields that decide the
/// response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedRequest {
    pub(super) list: FieldList,
    pub(super) method: Method,
    pub(super) target: Span,
    /// The path; empty if the target has none, which means `/`.
    pub(super) path: Span,
    pub(super) query: Option<Span>,
    pub(super) fields: Fields<Span>,
    pub(super) names: NameFilter,
    pub(super) body: BodyLength,
}

impl OwnedRequest {
    pub fn view(&self) -> Request<'_> {
        let value = |span: Span| self.list.value(span);
        let path = value(self.path);
        Request {
            method: self.method,
            path: if path.is_empty() { b"/" } else { path },
            query: self.query.map(value),
            target: value(self.target),
            fields: self.fields.map(value),
            all: All::List(self.list.iter()),
            names: self.names,
            body: self.body,
        }
    }

    /// Bytes of memory that the fields take.
    pub fn memory_bytes(&self) -> usize {
        self.list.capacity()
    }

    /// Records that frames follow the head (RFC 9113 section 8.1, RFC 9114 section 4.1). Without a Content-Length, the
    /// body then has an unknown length.
    pub fn set_unended(&mut self) {
        if self.body == BodyLength::None && self.view().values("content-length").next().is_none() {
            self.body = BodyLength::Unknown;
        }
    }
}

/// The bytes of the pseudo-fields without their values, plus the length prefixes of some 16 fields.
const REST_BYTES: usize = 128;

impl From<&Request<'_>> for OwnedRequest {
    fn from(request: &Request<'_>) -> OwnedRequest {
        let host_bytes = request.fields.host.map_or(0, <[u8]>::len);
        let bytes = request.target.len() + request.all.bytes() + host_bytes + REST_BYTES;
        let mut list = FieldList::with_capacity(bytes);
        let target = list.push(b":path", request.target);
        let (path, query) = match is_of_target(request) {
            true => parts(request.target, target, request.path, request.query),
            false => (list.push(b":path", request.path), request.query.map(|query| list.push(b":query", query))),
        };
        let mut fields = Fields::default();
        for (name, value) in request.all() {
            let kept = list.push(name, value);
            fields.note(name, kept);
        }
        // The host may come from the target.
        fields.host = request.fields.host.map(|host| list.push(b":authority", host));
        let (method, names, body) = (request.method, request.names, request.body);
        OwnedRequest { list, method, target, path, query, fields, names, body }
    }
}

/// Returns true if the path and the query are parts of the target. After a rewrite ([`Request::with_path`]) they may
/// not be.
fn is_of_target(request: &Request) -> bool {
    let begin = match request.query {
        Some(query) => request.target.strip_suffix(query).and_then(|before| before.strip_suffix(b"?")),
        None => Some(request.target),
    };
    begin.is_some_and(|begin| begin.ends_with(request.path) || request.path == b"/")
}

/// Returns the positions of the path and query of a target that is stored at `span`.
pub(super) fn parts(target: &[u8], span: Span, path: &[u8], query: Option<&[u8]>) -> (Span, Option<Span>) {
    let end = target.len() - query.map_or(0, |query| query.len() + 1);
    let begin = end.saturating_sub(path.len());
    // The path of `http://a?b` (`/`) does not occur in the target.
    let path = if &target[begin..end] == path { span.part(begin..end) } else { Span::default() };
    (path, query.map(|_| span.part(end + 1..target.len())))
}

impl<V: Copy> Fields<V> {
    fn map<W>(&self, to: impl Fn(V) -> W) -> Fields<W> {
        Fields {
            host: self.host.map(&to),
            if_match: self.if_match.map(&to),
            if_none_match: self.if_none_match.map(&to),
            if_modified_since: self.if_modified_since.map(&to),
            if_unmodified_since: self.if_unmodified_since.map(&to),
            if_range: self.if_range.map(&to),
            range: self.range.map(&to),
            accept_encoding: self.accept_encoding.map(&to),
            referer: self.referer.map(&to),
            user_agent: self.user_agent.map(&to),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, http1};

    #[test]
    fn a_request_that_was_rewritten_is_kept_as_it_is() {
        for target in ["/a/b", "/a/b?c", "http://a.org?c", "http://a.org/a", "/"] {
            let bytes = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
            let head = http1::parse_request(bytes.as_bytes(), &Limits::default()).unwrap().unwrap();
            assert_eq!(OwnedRequest::from(&head.request).view().path, head.request.path, "{target}");
            for path in ["/", "/b", "/a/b", "/other/and/longer/than/the/target"] {
                for query in [None, Some(&b""[..]), Some(b"c"), Some(b"d=/other/and/longer/than/the/target")] {
                    let request = head.request.with_path(path.as_bytes(), query);
                    let owned = OwnedRequest::from(&request);
                    let view = owned.view();
                    assert_eq!((view.path, view.query), (path.as_bytes(), query), "{target}");
                    assert_eq!((view.target, view.all().count()), (target.as_bytes(), 1));
                }
            }
        }
    }
}
