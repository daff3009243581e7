//! Converts an upstream's response to a response for the client.

use http::http1::upstream::{Framing, UpstreamHead};
use http::{Length, Response, Status};

use crate::body::{Body, Pipe, Trailing};
use crate::logging::SizeFrom;

/// Returns the source of a response's size, given its framing and whether all of it has arrived; `None` if the size is
/// unknown and the scheduler estimates it.
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

/// Builds the response, with a body that is complete or still arriving. A complete body has a known length even if the
/// head did not give it, unless the body is chunked so that trailers can follow.
pub(super) fn responding(head: UpstreamHead, pipe: Option<Pipe>, trailing: Trailing, is_whole: bool) -> Response<Body> {
    let pipe = pipe.map(|pipe| pipe.trailing(trailing));
    let is_chunked = trailing == Trailing::InChunks && pipe.as_ref().is_some_and(Pipe::has_trailers);
    let is_measured =
        is_whole && !is_chunked && matches!(head.framing, Framing::Chunked | Framing::Close | Framing::Stream);
    let length = pipe.as_ref().filter(|_| is_measured).map(|pipe| Length::Known(pipe.left_bytes()));
    // On a stream, a change of protocol answers a CONNECT.
    let is_tunnel = trailing == Trailing::InFrames && head.framing == Framing::Upgraded;
    let body = pipe.map_or_else(Body::default, Body::from);
    let is_demand = head.status == Status::UPGRADE_REQUIRED;
    let response = if is_tunnel { head.into_tunnel(body) } else { head.into_response(body) };
    let response = match trailing {
        // Frames cannot carry the fields of a connection (RFC 9113 section 8.2.2).
        Trailing::InFrames if is_demand => ["connection", "upgrade"].into_iter().fold(response, Response::without),
        _ => response,
    };
    match length {
        _ if is_chunked => response.without("Content-Length").of_length(Length::Unknown),
        Some(length) => response.of_length(length),
        None => response,
    }
}
