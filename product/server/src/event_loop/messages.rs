//! Conversion of a request for its upstream, and of the response for the client.

use http::gateway::{Gateway, RequestHead, encode_request, upgrade_of};
use http::http1::Head;
use http::http1::upstream::{Framing, UpstreamHead};
use http::{BodyLength, Length, Request, Response};

use crate::body::{Body, Pipe, Trailing};
use crate::connection::Connection;
use crate::limits::Limits;
use crate::logging::SizeFrom;
use crate::net::Socket;
use crate::upload::UploadLimits;
use crate::upstream::{self, Group};

/// Returns what the gateway adds for this client's request; `head` is the HTTP/1.1 head, `websocket_key` is the key of
/// a CONNECT.
pub(super) fn gateway<'r>(
    conn: &Connection<impl Socket>,
    group: &'r Group,
    request: &'r Request,
    (head, websocket_key): (Option<&Head>, Option<&'r [u8]>),
) -> Gateway<'r> {
    let is_upgradable = websocket_key.is_some() || head.is_some_and(|head| head.minor_version > 0);
    Gateway {
        client: conn.peer.address,
        client_port: Some(conn.peer.port),
        is_secure: conn.channel.is_secure(),
        is_trusted: conn.is_trusted(),
        host: group.host.as_deref().map(str::as_bytes),
        version: conn.version(head.map_or(0, |head| head.minor_version)),
        upgrade: upgrade_of(request).filter(|_| is_upgradable && !group.is_http2()),
        websocket_key,
        changes: &[],
    }
}

/// Returns the limits for a client that sends a body. A gRPC client sends messages from time to time, and may be silent
/// for as long as its upstream.
pub(super) fn upload_limits(limits: &Limits, group: &Group, request: &Request) -> UploadLimits {
    let of_messages = UploadLimits { timeout: group.read_timeout, rate_bytes_per_s_min: 0 };
    if is_grpc(group, request) { of_messages } else { limits.upload() }
}

/// Returns true for a gRPC call, whose messages may be answered before the last of them has arrived.
pub(super) fn is_grpc(group: &Group, request: &Request) -> bool {
    group.is_http2() && request.values("content-type").any(|value| value.starts_with(b"application/grpc"))
}

/// Encodes the head of a request with this body length for its upstream.
pub(super) fn encode(group: &Group, request: &Request, gateway: &Gateway, body: BodyLength) -> upstream::Head {
    let request = &request.with_path(group.path_for(request.path), request.query);
    if group.is_http2() {
        return upstream::Head::Fields(RequestHead::new(request, gateway, body, group.scheme));
    }
    let mut lines = Vec::new();
    encode_request(&mut lines, request, gateway, body);
    lines.into()
}

/// Returns how the size of a response is known, from its framing and from whether all of it has arrived; `None` if it
/// is unknown and the scheduler estimates it.
pub(super) fn size_from(framing: Framing, is_whole: bool) -> Option<SizeFrom> {
    match framing {
        Framing::None | Framing::Length(_) => Some(SizeFrom::Length),
        Framing::Upgraded => Some(SizeFrom::Nothing),
        Framing::Chunked | Framing::Close | Framing::Stream => is_whole.then_some(SizeFrom::Buffer),
    }
}

/// Builds the response, with a body that is complete or still arriving. A complete body has a length even if its head
/// gave none, unless it is chunked for the sake of its trailers.
pub(super) fn responding(head: UpstreamHead, pipe: Option<Pipe>, trailing: Trailing, is_whole: bool) -> Response<Body> {
    let pipe = pipe.map(|pipe| pipe.trailing(trailing));
    let is_chunked = trailing == Trailing::InChunks && pipe.as_ref().is_some_and(Pipe::has_trailers);
    let is_measured =
        is_whole && !is_chunked && matches!(head.framing, Framing::Chunked | Framing::Close | Framing::Stream);
    let length = pipe.as_ref().filter(|_| is_measured).map(|pipe| Length::Known(pipe.left_bytes()));
    // On a stream, a change of protocol answers a CONNECT.
    let is_tunnel = trailing == Trailing::InFrames && head.framing == Framing::Upgraded;
    let body = pipe.map_or_else(Body::default, Body::from);
    let response = if is_tunnel { head.into_tunnel(body) } else { head.into_response(body) };
    match length {
        _ if is_chunked => response.without("Content-Length").of_length(Length::Unknown),
        Some(length) => response.of_length(length),
        None => response,
    }
}
