//! The rules of an intermediary (RFC 9110 section 7.6, RFC 7239): the head of a request as an upstream reads it.
//!
//! A request gets here only if it has one reading, and is written anew so that the upstream has no other: what frames the message and what
//! is true of one connection alone is ours, and a name that an upstream could take for another name is left out.

mod claimed;
mod connection_login;
mod forwarded;
pub(crate) mod hop;
mod request_head;
mod response_builder;
mod writer;

use core::net::IpAddr;

use crate::list::members;
use crate::{BodyLength, Method, Request, lines};
pub use claimed::{Claimed, claimed};
pub use connection_login::is_connection_login;
use hop::{Hop, is_any};
pub use request_head::{RequestHead, takes_trailers};
pub use response_builder::ResponseBuilder;
use writer::Writer;

/// What an intermediary adds to a request: facts of the client's connection and of the route.
#[derive(Debug, Clone, Copy)]
pub struct Gateway<'a> {
    /// The peer of the connection.
    pub client: IpAddr,
    pub client_port: Option<u16>,
    /// Whether the client came over TLS or QUIC.
    pub is_secure: bool,
    /// The peer is a proxy of ours: its Forwarded and X-Forwarded-* are kept and extended. Those of others are replaced.
    pub is_trusted: bool,
    /// In the place of the request's Host.
    pub host: Option<&'a [u8]>,
    /// The version of HTTP that the request came by, major and minor.
    pub version: (u8, u8),
    /// The protocol to change to, as [`upgrade_of`] gives it. None: Upgrade is left out.
    pub upgrade: Option<&'a [u8]>,
    /// Of CONNECT, in the place of the client's ([`crate::websocket::key`]).
    pub websocket_key: Option<&'a [u8]>,
}

/// Appends the head of `request` in HTTP/1.1 for an upstream. The target is as received, in origin form; Host is empty where neither the
/// request nor the gateway has one (RFC 9112 section 3.2). `body` frames the message: a body of known length follows as it is, one of
/// unknown length in chunks ([`crate::http1::begin_chunk`]).
///
/// CONNECT becomes the GET that has the same meaning over HTTP/1.1 (RFC 8441 section 5); it has no body.
///
/// Left out are fields of the client's connection and those that its Connection lists, Expect, and names with other characters than
/// letters, digits and `-`. Cookies are joined to one line.
pub fn encode_request(out: &mut Vec<u8>, request: &Request, gateway: &Gateway, body: BodyLength) {
    let method = if request.method == Method::Connect { Method::Get } else { request.method };
    for part in [method.token(), b" ", request.path] {
        out.extend_from_slice(part);
    }
    if let Some(query) = request.query {
        out.push(b'?');
        out.extend_from_slice(query);
    }
    out.extend_from_slice(b" HTTP/1.1\r\n");
    lines::line(out, b"Host", gateway.host.or(request.fields.host).unwrap_or_default());
    fields(out, request, gateway);
    if let Some(protocol) = gateway.upgrade {
        out.extend_from_slice(b"Connection: upgrade\r\n");
        lines::line(out, b"Upgrade", protocol);
    }
    gateway.websocket_key.into_iter().for_each(|key| websocket(out, request, key));
    frame(out, method, body);
    out.extend_from_slice(b"\r\n");
}

/// All that does not depend on the version that the upstream speaks.
fn fields(out: &mut impl Writer, request: &Request, gateway: &Gateway) {
    let hop = Hop::of(|| request.all());
    end_to_end(out, request, gateway, &hop);
    forwarded::encode(out, request, gateway, &hop);
    hop::via(out, gateway.version);
}

/// The fields that are the upstream's business too, cookies in one (RFC 9113 section 8.2.3).
fn end_to_end<'a, I: Iterator<Item = (&'a [u8], &'a [u8])>>(
    out: &mut impl Writer,
    request: &Request<'a>,
    gateway: &Gateway,
    hop: &Hop<impl Fn() -> I>,
) {
    let is_kept = |name: &[u8]| {
        let is_ours = is_ours(name) || (gateway.websocket_key.is_some() && is_any(name, &["sec-websocket-key"]));
        hop.is_passed(name) && !is_ours && !forwarded::is_ours(name, gateway.is_trusted) && is_plain(name)
    };
    let mut has_cookie = false;
    for (name, value) in request.all().filter(|(name, _)| is_kept(name)) {
        if !name.eq_ignore_ascii_case(b"cookie") {
            out.field(name, value);
        } else if !std::mem::replace(&mut has_cookie, true) {
            out.joined(b"Cookie", request.values("cookie"), b"; ");
        }
    }
}

/// What a client of HTTP/2 or HTTP/3 leaves out; the version where it does.
fn websocket(out: &mut Vec<u8>, request: &Request, key: &[u8]) {
    lines::line(out, b"Sec-WebSocket-Key", key);
    if request.values("sec-websocket-version").next().is_none() {
        lines::line(out, b"Sec-WebSocket-Version", b"13");
    }
}

/// Written anew, or answered by us (Expect).
fn is_ours(name: &[u8]) -> bool {
    is_any(name, &["host", "content-length", "expect"])
}

/// Whether no upstream takes the name for another: programs behind CGI and its heirs see `_`, `.` and others where `-` was.
fn is_plain(name: &[u8]) -> bool {
    name.iter().all(|&b| b.is_ascii_alphanumeric() || b == b'-')
}

/// RFC 9110 section 8.6: an empty body is said to be one where a body is expected.
fn frame(out: &mut Vec<u8>, method: Method, body: BodyLength) {
    match content_length(method, body) {
        Some(bytes) => lines::line(out, b"Content-Length", itoa::Buffer::new().format(bytes).as_bytes()),
        None if body == BodyLength::Unknown => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        None => {}
    }
}

fn content_length(method: Method, body: BodyLength) -> Option<u64> {
    match body {
        BodyLength::None => matches!(method, Method::Post | Method::Put | Method::Patch).then_some(0),
        BodyLength::Known(length) => Some(length.bytes()),
        BodyLength::Unknown => None,
    }
}

/// The protocol that a request of HTTP/1.1 asks to change to, by any method and with a body or without one (RFC 9110 section 7.8): the first
/// one of its Upgrade, if Connection lists that. Never another HTTP nor TLS: an upstream that spoke them would hide what follows from us. Not
/// to be asked of a request of HTTP/1.0, whose Upgrade is ignored. CONNECT asks for WebSocket.
pub fn upgrade_of<'a>(request: &Request<'a>) -> Option<&'a [u8]> {
    if request.method == Method::Connect {
        return Some(b"websocket");
    }
    let is_listed =
        request.values("connection").flat_map(members).any(|option| option.eq_ignore_ascii_case(b"upgrade"));
    if !is_listed {
        return None;
    }
    request.values("upgrade").flat_map(members).find(|protocol| is_opaque(protocol))
}

/// Whether we may pass on the bytes of this protocol unread.
fn is_opaque(protocol: &[u8]) -> bool {
    let name = protocol.split(|&b| b == b'/').next().unwrap_or_default();
    let is_token = |b: &u8| b.is_ascii_alphanumeric() || b"-./_+".contains(b);
    protocol.iter().all(is_token) && !is_any(name, &["h2", "h2c", "http", "tls"])
}
