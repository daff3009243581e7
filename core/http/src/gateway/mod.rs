//! The rules of an intermediary (RFC 9110 section 7.6, RFC 7239): writes the head of a request for an upstream.
//!
//! Only a request with a single interpretation gets here, and it is rewritten so that the upstream cannot interpret it
//! differently. We write the fields that frame the message or describe one connection, and leave out any name that an
//! upstream could take for another name.

mod change;
mod claimed;
mod connection_login;
pub(crate) mod forwarded;
pub(crate) mod hop;
mod request_head;
mod response_builder;
mod writer;

use core::net::IpAddr;

use crate::codings::restored;
use crate::list::members;
use crate::name_filter::Names;
use crate::websocket::KEY_BYTES;
use crate::{BodyLength, Method, Request, lines};
pub use change::FieldChange;
use change::Unchanged;
pub use claimed::{Claimed, claimed};
pub use connection_login::is_connection_login;
pub use hop::is_looping;
use hop::{Hop, is_any};
pub use request_head::{RequestHead, takes_trailers};
pub use response_builder::ResponseBuilder;
use writer::Writer;

/// The properties of the client's connection and of the route that an intermediary adds to a request.
#[derive(Debug, Clone, Copy)]
pub struct Gateway<'a> {
    /// The peer address of the connection.
    pub client: IpAddr,
    pub client_port: Option<u16>,
    /// True if the client came over TLS or QUIC.
    pub is_secure: bool,
    /// True if the peer is a trusted proxy, whose Forwarded and X-Forwarded-* fields are kept and extended. Those of
    /// other peers are replaced.
    pub is_trusted: bool,
    /// The client that this proxy reports ([`claimed`]); `None` if it reports none.
    pub claimed_client: Option<IpAddr>,
    /// Replaces the request's Host.
    pub host: Option<&'a [u8]>,
    /// The HTTP version of the request, major and minor.
    pub version: (u8, u8),
    /// True if the protocols that the request offers to switch to ([`asks_upgrade`]) are passed on.
    pub is_upgrade: bool,
    /// The Sec-WebSocket-Key of a CONNECT, which replaces the client's ([`crate::websocket::key`]).
    pub websocket_key: Option<&'a [u8]>,
    /// Fields that are set or removed, from the client or from Weir.
    pub changes: &'a [FieldChange],
}

/// Appends the head of `request` in HTTP/1.1 for an upstream. The target is as received, in origin form. Host is empty
/// if neither the request nor the gateway has one (RFC 9112 section 3.2). `body` frames the message: a body of known
/// length follows unchanged, a body of unknown length in chunks ([`crate::http1::begin_chunk`]).
///
/// CONNECT becomes the GET with the same meaning over HTTP/1.1 (RFC 8441 section 5); it has no body.
///
/// Hop-by-hop fields, fields that Connection lists, Expect, and names with characters other than letters, digits and
/// `-` are left out. Cookies are joined into one line. Tags made by [`crate::weakened`] become the program's tags.
pub fn encode_request(out: &mut Vec<u8>, request: &Request, gateway: &Gateway, body: BodyLength) {
    let method = if request.method == Method::Connect { Method::Get } else { request.method };
    out.reserve(head_bytes(request));
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
    if gateway.is_upgrade {
        out.extend_from_slice(b"Connection: upgrade\r\n");
        out.joined(b"Upgrade", protocols(request), b", ");
    }
    gateway.websocket_key.into_iter().for_each(|key| websocket(out, request, key));
    frame(out, method, body);
    out.extend_from_slice(b"\r\n");
}

/// The usual number of bytes of the head for an upstream.
fn head_bytes(request: &Request) -> usize {
    // The host is repeated in three more fields.
    let host_bytes = 3 * request.fields.host.map_or(0, <[u8]>::len);
    request.path.len() + request.query.map_or(0, <[u8]>::len) + request.all.bytes() + host_bytes + ADDED_BYTES
}

/// The bytes of the request line without its target, plus those of the added fields without the host.
const ADDED_BYTES: usize = 256;

/// Appends the fields that do not depend on the upstream's HTTP version.
fn fields(out: &mut impl Writer, request: &Request, gateway: &Gateway) {
    let hop = Hop::of(|| request.values("connection"));
    let mut kept = Unchanged { out, changes: gateway.changes };
    end_to_end(&mut kept, request, gateway, &hop);
    forwarded::encode(&mut kept, request, gateway, &hop);
    hop::via(&mut kept, gateway.version);
    for change in gateway.changes {
        change.value.iter().for_each(|value| out.field(change.name.as_bytes(), value));
    }
}

/// Appends the end-to-end fields, with all cookies in one (RFC 9113 section 8.2.3).
fn end_to_end<'a, I: Iterator<Item = &'a [u8]>>(
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
        if is_any(name, &["if-match", "if-none-match"]) {
            out.field(name, &restored(value));
        } else if let Some(left) = forwards_left(request, name, value) {
            out.field(name, itoa::Buffer::new().format(left.saturating_sub(1)).as_bytes());
        } else if !name.eq_ignore_ascii_case(b"cookie") {
            out.field(name, value);
        } else if !std::mem::replace(&mut has_cookie, true) {
            let values = || request.values("cookie").filter(|value| !value.is_empty());
            if values().next().is_some() {
                out.joined(b"Cookie", values(), b"; ");
            }
        }
    }
}

/// Returns true if an OPTIONS must be answered here, because the client's Max-Forwards does not allow another server
/// (RFC 9110 section 7.6.2).
pub fn is_at_its_end(request: &Request) -> bool {
    request.values("max-forwards").any(|value| forwards_left(request, b"max-forwards", value) == Some(0))
}

/// Returns how many servers may pass an OPTIONS on, if this is the field that limits it. The field has no meaning for
/// other methods, except TRACE, which is never passed on.
fn forwards_left(request: &Request, name: &[u8], value: &[u8]) -> Option<u64> {
    let is_limit = request.method == Method::Options && name.eq_ignore_ascii_case(b"max-forwards");
    is_limit.then(|| crate::list::decimal(value)).flatten()
}

/// Appends the handshake fields that a client of HTTP/2 or HTTP/3 leaves out; the version only if it is missing.
fn websocket(out: &mut Vec<u8>, request: &Request, key: &[u8]) {
    lines::line(out, b"Sec-WebSocket-Key", key);
    if request.values("sec-websocket-version").next().is_none() {
        lines::line(out, b"Sec-WebSocket-Version", b"13");
    }
}

/// Returns true for fields that we rewrite, or act on ourselves (Expect).
fn is_ours(name: &[u8]) -> bool {
    const OURS: Names<3> = Names::new(["host", "content-length", "expect"]);
    OURS.has(name)
}

/// Returns true if no upstream can mistake the name for another one: CGI programs and their successors treat `_`, `.`
/// and other characters as `-`.
fn is_plain(name: &[u8]) -> bool {
    name.iter().all(|&b| b.is_ascii_alphanumeric() || b == b'-')
}

/// Appends the framing field. An empty body gets `Content-Length: 0` if the method expects a body (RFC 9110 section
/// 8.6).
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

/// Returns true if an HTTP/1.1 request asks to switch to another protocol (RFC 9110 section 7.8), whatever its method
/// and body: Connection lists Upgrade, which names an acceptable protocol. Do not call this for HTTP/1.0, whose Upgrade
/// is ignored.
pub fn asks_upgrade(request: &Request) -> bool {
    let mut options = request.values("connection").flat_map(members);
    let is_listed = request.method == Method::Connect || options.any(|option| option.eq_ignore_ascii_case(b"upgrade"));
    is_listed && protocols(request).next().is_some()
}

/// Returns the Sec-WebSocket-Key of a request over HTTP/1.1 that opens a WebSocket (RFC 6455 section 4.2.1).
pub fn websocket_key<'a>(request: &Request<'a>) -> Option<&'a [u8]> {
    let is_plain_get = request.method == Method::Get && request.body == BodyLength::None;
    let is_asked = is_plain_get && protocols(request).any(|protocol| protocol.eq_ignore_ascii_case(b"websocket"));
    let mut keys = request.values("sec-websocket-key").filter(|_| is_asked);
    let key = keys.next().filter(|key| key.len() == KEY_BYTES)?;
    keys.next().is_none().then_some(key)
}

/// Returns the acceptable protocols of Upgrade, in the client's order; the program accepts one of them. HTTP and TLS
/// are never accepted, because they would hide the rest of the connection from us. CONNECT asks for WebSocket.
fn protocols<'a>(request: &Request<'a>) -> impl Iterator<Item = &'a [u8]> {
    let of_connect = (request.method == Method::Connect).then_some(&b"websocket"[..]);
    let listed = of_connect.is_none().then(|| request.values("upgrade").flat_map(members));
    of_connect.into_iter().chain(listed.into_iter().flatten().filter(|protocol| is_opaque(protocol)))
}

/// Returns true if the bytes of this protocol may be forwarded unread.
fn is_opaque(protocol: &[u8]) -> bool {
    let name = protocol.split(|&b| b == b'/').next().unwrap_or_default();
    let is_token = |b: &u8| b.is_ascii_alphanumeric() || b"-./_+".contains(b);
    protocol.iter().all(is_token) && !is_any(name, &["h2", "h2c", "http", "tls"])
}
