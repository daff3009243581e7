//! Converts an upstream's response into one for our clients, in any HTTP version.

use super::{Framing, UpstreamHead};
use crate::gateway::hop::{Hop, is_any};
use crate::{Length, Response, Status};

impl UpstreamHead {
    /// Converts the head into a response for a client, with this body. Removes the fields of the upstream's connection
    /// and those meant for us (X-Accel-*, X-Sendfile), and adds our Via. Server and Date stay the upstream's. A 101
    /// keeps its Upgrade.
    ///
    /// The length is that of the framing; for HEAD and 304 it is the Content-Length. [`Response::of_length`] replaces
    /// an unknown length.
    pub fn into_response<B>(self, body: B) -> Response<B> {
        let mut response = Response::new(self.status, body);
        response.is_forwarded = true;
        let hop = Hop::of(|| self.list.iter());
        for (name, value) in self.fields().filter(|(name, _)| hop.is_passed(name) && !is_written(name)) {
            response.own.push_clean(name, value);
        }
        let via: &[u8] = match self.minor_version {
            0 => b"1.0 weir",
            2 => b"2 weir",
            _ => b"1.1 weir",
        };
        response = response.with("Via", via);
        match (self.framing, self.content_length) {
            (Framing::Upgraded, _) => self.with_upgrade(response),
            (Framing::Chunked | Framing::Close | Framing::Stream, _) => response.of_length(Length::Unknown),
            // RFC 9110 section 8.6: neither 1xx nor 204 has one.
            (_, Some(length)) if !matches!(self.status.0, 100..=199 | 204) => response.with_length(length.bytes()),
            _ => response,
        }
    }

    /// Converts a 101 for a client whose CONNECT it answers (RFC 8441 section 5): 200, without the fields that the two
    /// connections alone need.
    pub fn into_tunnel<B>(self, body: B) -> Response<B> {
        let response = self.into_response(body);
        let response = ["connection", "upgrade", "sec-websocket-accept"].into_iter().fold(response, Response::without);
        Response { status: Status::OK, ..response.of_length(Length::Unknown) }
    }

    fn with_upgrade<B>(&self, response: Response<B>) -> Response<B> {
        let response = response.with("Connection", b"upgrade");
        self.values("upgrade").fold(response, |response, protocol| response.with("Upgrade", protocol))
    }
}

/// Returns true for fields that we write ourselves, or that are meant for us.
fn is_written(name: &[u8]) -> bool {
    is_any(name, &["content-length"]) || is_for_us(name)
}

/// Returns true for fields that are meant for us and not for a client.
pub(crate) fn is_for_us(name: &[u8]) -> bool {
    let start = name.get(.."x-accel-".len()).unwrap_or_default();
    is_any(name, &["x-sendfile"]) || start.eq_ignore_ascii_case(b"x-accel-")
}
