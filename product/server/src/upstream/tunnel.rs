//! Another protocol in place of a body, for example WebSocket.

use http::http1::upstream::{Framing, UpstreamFault, UpstreamHead};
use http::websocket::ACCEPT_BYTES;
use units::Nanos;
use units::memory::Counted;

use super::Fault;

/// The maximum time for which a tunnel may be silent in both directions, like a common setting of HAProxy's `timeout
/// tunnel`.
const IDLE_FOR: Nanos = Nanos::from_secs(3600);

/// The tunnel of a transfer.
#[derive(Debug, Default)]
pub struct Tunnel {
    /// True if the request asks for a tunnel.
    pub is_asked: bool,
    /// The Sec-WebSocket-Accept that the 101 must have, for a WebSocket that the client opened with CONNECT.
    pub accept: Option<[u8; ACCEPT_BYTES]>,
    /// The tunnel is established.
    pub is_open: bool,
    /// True if the upstream was told that the client has ended its side.
    pub has_client_ended: bool,
    /// The WebSocket is to be opened on a stream of HTTP/2.
    pub on_stream: Option<Box<OnStream>>,
}

/// A WebSocket on a stream of HTTP/2 (RFC 8441).
#[derive(Debug)]
pub struct OnStream {
    /// The Sec-WebSocket-Accept that answers the client's key.
    pub accept: [u8; ACCEPT_BYTES],
    /// The head of the same request over HTTP/1.1, for an upstream that opens no WebSocket on a stream.
    pub lines: Counted,
}

impl Tunnel {
    /// Checks the response's change of protocol. The change must have been requested, and must come after the whole
    /// request. If the request requires a tunnel, the response must open one or be an error.
    pub fn check(&self, head: &UpstreamHead, is_request_whole: bool) -> Result<(), Fault> {
        let is_change = head.framing == Framing::Upgraded;
        let is_accepted = || match &self.accept {
            Some(accept) => head.values("sec-websocket-accept").eq([accept]),
            None => true,
        };
        Err(Fault::Wrong(UpstreamFault(match () {
            () if is_change && !self.is_asked => "an unrequested change of protocol",
            () if is_change && !is_request_whole => "a change of protocol before the end of the request",
            () if is_change && !is_accepted() => "a Sec-WebSocket-Accept that does not match the key",
            () if self.accept.is_some() && matches!(head.status.0, 200..=299) => "no change of protocol",
            () => return Ok(()),
        })))
    }

    /// The maximum time for which the upstream may be silent. In a tunnel whose client has ended its side, it is no
    /// longer than in a response.
    pub fn patience(&self, read_timeout: Nanos) -> Nanos {
        if self.is_open && !self.has_client_ended { IDLE_FOR } else { read_timeout }
    }
}
