//! The head of a request for an upstream that speaks HTTP/2.

use super::{Gateway, content_length, fields};
use crate::fields::FieldList;
use crate::list::members;
use crate::response::SERVER;
use crate::{BodyLength, Method, Request};

/// The fields of a request in the order of HTTP/2 (RFC 9113 section 8.3.1), pseudo-fields first. An engine converts the
/// names to lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHead(FieldList);

impl RequestHead {
    /// Builds the same head that [`encode_request`](super::encode_request) writes for HTTP/1.1. `scheme` is the scheme
    /// of the connection to the upstream. `te: trailers` is forwarded if the client sent it, because gRPC requires it.
    pub fn new(request: &Request, gateway: &Gateway, body: BodyLength, scheme: &str) -> RequestHead {
        let mut list = FieldList::default();
        list.push(b":method", request.method.token());
        list.push(b":scheme", scheme.as_bytes());
        if let Some(host) = gateway.host.or(request.fields.host).filter(|host| !host.is_empty()) {
            list.push(b":authority", host);
        }
        match request.query {
            None => list.push(b":path", request.path),
            Some(query) => list.push(b":path", &[request.path, b"?", query].concat()),
        };
        fields(&mut list, request, gateway);
        if takes_trailers(request) {
            list.push(b"te", b"trailers");
        }
        if let Some(bytes) = content_length(request.method, body) {
            list.push(b"content-length", itoa::Buffer::new().format(bytes).as_bytes());
        }
        RequestHead(list)
    }

    /// Builds the head of a CONNECT that opens the WebSocket that a request over any version of HTTP asks for (RFC 8441
    /// section 5). It has no Sec-WebSocket-Key, which the stream makes superfluous.
    pub fn of_websocket(request: &Request, gateway: &Gateway, scheme: &str) -> RequestHead {
        let gateway = Gateway { websocket_key: Some(gateway.websocket_key.unwrap_or_default()), ..*gateway };
        let RequestHead(get) = RequestHead::new(request, &gateway, BodyLength::None, scheme);
        let mut list = FieldList::default();
        list.push(b":method", Method::Connect.token());
        list.push(b":protocol", b"websocket");
        for (name, value) in get.iter().filter(|(name, _)| *name != b":method") {
            list.push(name, value);
        }
        if request.values("sec-websocket-version").next().is_none() {
            list.push(b"sec-websocket-version", b"13");
        }
        RequestHead(list)
    }

    /// Builds the head of a GET of our own.
    pub fn of_get(scheme: &str, authority: &str, path: &str) -> RequestHead {
        let mut list = FieldList::default();
        for (name, value) in [(":method", "GET"), (":scheme", scheme), (":authority", authority), (":path", path)] {
            list.push(name.as_bytes(), value.as_bytes());
        }
        list.push(b"user-agent", SERVER.as_bytes());
        RequestHead(list)
    }

    /// Returns the name and value of every field, in order.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.iter()
    }

    /// Returns the bytes of the fields in memory.
    pub fn bytes(&self) -> usize {
        self.0.bytes().len()
    }
}

/// Returns true if the client accepts trailers (RFC 9110 section 10.1.4).
pub fn takes_trailers(request: &Request) -> bool {
    request.values("te").flat_map(members).any(|member| member.eq_ignore_ascii_case(b"trailers"))
}
