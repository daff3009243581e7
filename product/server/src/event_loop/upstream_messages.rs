//! Conversion of a request for its upstream, and of the response for the client.

use std::net::IpAddr;

use http::fastcgi::{self, Script};
use http::gateway::{Gateway, RequestHead, encode_request, upgrade_of};
use http::http1::upstream::{Framing, UpstreamHead};
use http::{BodyLength, Length, Request, Response};

use crate::body::{Body, Pipe, Trailing};
use crate::connection::Connection;
use crate::limits::Limits;
use crate::logging::SizeFrom;
use crate::net::Socket;
use crate::upload::UploadLimits;
use crate::upstream::{self, Group, Run, Scripts};

/// Returns what the gateway adds for this client's request, of this minor version of HTTP/1; `websocket_key` is the key
/// of a CONNECT.
pub(super) fn gateway<'r>(
    conn: &Connection<impl Socket>,
    group: &'r Group,
    request: &'r Request,
    (minor_version, websocket_key): (u8, Option<&'r [u8]>),
) -> Gateway<'r> {
    let may_upgrade = websocket_key.is_some() || minor_version > 0;
    let is_upgradable = may_upgrade && !group.is_http2() && group.scripts.is_none();
    let host = group.host.as_ref().or_else(|| request.fields.host.is_none().then_some(&group.authority));
    Gateway {
        client: conn.peer.address,
        client_port: Some(conn.peer.port),
        is_secure: conn.channel.is_secure(),
        is_trusted: conn.is_trusted(),
        host: host.map(String::as_bytes),
        version: conn.version(minor_version),
        upgrade: upgrade_of(request).filter(|_| is_upgradable),
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

/// Encodes the head of a request with this body length for its upstreams, which may run a script for it. `client` is the
/// client's address, and whether it uses TLS.
pub(super) fn encode(
    (group, run): (&Group, Option<&Run>),
    request: &Request,
    gateway: &Gateway,
    client: (IpAddr, bool),
    body: BodyLength,
) -> upstream::Head {
    if let Some((run, scripts)) = run.zip(group.scripts.as_ref()) {
        return encode_script((scripts, run), request, gateway, client, body);
    }
    let request = &request.with_path(group.path_for(request.path), request.query);
    if group.is_http2() {
        return upstream::Head::Fields(RequestHead::new(request, gateway, body, group.scheme));
    }
    let mut lines = Vec::new();
    encode_request(&mut lines, request, gateway, body);
    lines.into()
}

/// Encodes a request for the responder that runs this script.
fn encode_script(
    (scripts, run): (&Scripts, &Run),
    request: &Request,
    gateway: &Gateway,
    (client, is_secure): (IpAddr, bool),
    body: BodyLength,
) -> upstream::Head {
    let script = Script {
        root: &scripts.root,
        name: &run.name,
        path_info: &run.path_info,
        client,
        client_port: gateway.client_port.filter(|_| client == gateway.client),
        is_trusted: gateway.is_trusted,
        is_secure,
        version: gateway.version,
        keeps_connection: scripts.keeps_connections,
        changes: gateway.changes,
    };
    let mut records = Vec::new();
    fastcgi::encode_request(&mut records, request, &script, body);
    if body == BodyLength::Unknown { upstream::Head::Unmeasured(records) } else { upstream::Head::Records(records) }
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

/// The length of the body that this framing announces.
pub(super) fn announced(framing: Framing) -> Option<u64> {
    if let Framing::Length(bytes) = framing { Some(bytes.bytes()) } else { None }
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
