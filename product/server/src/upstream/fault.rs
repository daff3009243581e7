//! The reasons why an upstream does not answer, with the status for the client and the text for the error log.

use std::fmt;
use std::io;
use std::sync::Arc;

use http::Status;
use http::http1::upstream::UpstreamFault;

#[derive(Debug, Clone)]
pub enum Fault {
    /// No name of the upstream has an address.
    NoAddress,
    /// No connection could be made.
    Unreachable(Arc<io::Error>),
    /// The connection broke, or ended before the response did.
    Broken(Arc<io::Error>),
    Closed,
    /// The TLS connection to the upstream failed.
    Tls(String),
    /// The response is invalid.
    Wrong(UpstreamFault),
    /// The upstream reports that it has not processed the request.
    Refused,
    /// The upstream has refused the request because it was sent more concurrent requests than it accepts.
    Crowded,
    /// The upstream has left the connection after other requests, without processing this one.
    Left,
    /// The upstream has reset the stream, with this HTTP/2 error code.
    Reset(u32),
    /// The bytes that the upstream sends are not HTTP/2.
    Http2(String),
    /// No connection was made, or no byte arrived, for too long.
    TooSlow(&'static str),
    /// The maximum number of requests is already waiting for the upstream, of all clients or of this one.
    Busy,
    /// The upstream takes no WebSocket over HTTP/2.
    NoTunnels,
    /// The upstream already has the maximum number of tunnels, of all clients or of this one.
    Tunnels,
    /// The body that the client has sent is larger than allowed.
    TooLarge,
    /// The client has not announced the length of the body, which is too large to be gathered.
    Unmeasured,
    /// The memory for connections has no room for a body that has to be gathered.
    NoMemory,
    /// All upstreams of the proxy have failed their health checks.
    Down,
}

impl Fault {
    pub fn status(&self) -> Status {
        match self {
            Fault::Unreachable(_) | Fault::Broken(_) | Fault::Closed | Fault::Tls(_) | Fault::Wrong(_) => {
                Status::BAD_GATEWAY
            }
            Fault::NoTunnels
            | Fault::NoAddress
            | Fault::Refused
            | Fault::Crowded
            | Fault::Left
            | Fault::Reset(_)
            | Fault::Http2(_) => Status::BAD_GATEWAY,
            Fault::TooSlow(_) => Status::GATEWAY_TIMEOUT,
            Fault::TooLarge => Status::CONTENT_TOO_LARGE,
            Fault::Unmeasured => Status::LENGTH_REQUIRED,
            Fault::Busy | Fault::Tunnels | Fault::Down | Fault::NoMemory => Status::SERVICE_UNAVAILABLE,
        }
    }
}

impl Fault {
    /// Returns true if the upstream reports that it has not processed the request.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Fault::Refused | Fault::Crowded | Fault::Left)
    }

    /// Returns true if the client is at fault, and not the upstream.
    pub fn is_of_client(&self) -> bool {
        matches!(self, Fault::TooLarge | Fault::Unmeasured)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::NoAddress => f.write_str("its name has no address"),
            Fault::Unreachable(error) => write!(f, "cannot connect: {}", words(error)),
            Fault::Broken(error) => write!(f, "connection broken: {}", words(error)),
            Fault::Closed => f.write_str("closed before the response was complete"),
            Fault::Tls(why) => write!(f, "TLS: {why}"),
            Fault::Wrong(fault) => fault.fmt(f),
            Fault::Refused => f.write_str("refused the request"),
            Fault::Crowded => f.write_str("refused the request: it allows fewer concurrent requests"),
            Fault::Left => f.write_str("closed several connections without processing the request"),
            Fault::Reset(code) => write!(f, "reset the stream with HTTP/2 error {code} (RFC 9113 section 7)"),
            Fault::Http2(why) => write!(f, "HTTP/2: {why}"),
            Fault::TooSlow(why) => f.write_str(why),
            Fault::Busy => f.write_str("too many requests wait for it, of all clients or of this one"),
            Fault::NoTunnels => f.write_str(
                "it takes no WebSocket over HTTP/2 (RFC 8441): give the path a site.proxy with an upstream at http://",
            ),
            Fault::Tunnels => f.write_str("it has too many tunnels, of all clients or of this one"),
            Fault::TooLarge => f.write_str("the body of the request is larger than site.proxy.max_body"),
            Fault::Unmeasured => f.write_str("the body of the request is over 1 MiB and has no Content-Length"),
            Fault::NoMemory => f.write_str(
                "no memory for the body of a request without Content-Length: raise limits.memory, or send \
                    Content-Length",
            ),
            Fault::Down => f.write_str("it is down, and so are all others"),
        }
    }
}

/// Returns the error's text without its number.
fn words(error: &io::Error) -> String {
    units::plain(&error.to_string()).to_lowercase()
}
