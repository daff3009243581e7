//! Converts an upstream's response into one for our clients, in any HTTP version.

use super::{Framing, ResponseFields, UpstreamHead};
use crate::fields::FieldList;
use crate::gateway::hop::{Hop, connection};
use crate::{Length, Response, Status};

/// Bytes for the fields that are added to an upstream's fields: Via, Content-Length, Vary, Cache-Control.
pub(super) const OWN_BYTES: usize = 128;

impl UpstreamHead {
    /// Converts the head into a response for a client, with this body. Removes the fields of the upstream's connection
    /// and the fields meant for us (X-Accel-*, X-Sendfile), and adds our Via. Server and Date remain the upstream's. A
    /// 101 keeps its Upgrade, and so does a 426, which demands an upgrade and would otherwise be meaningless (RFC 9110
    /// section 15.5.22).
    ///
    /// The length comes from the framing; for HEAD and 304 it is the Content-Length. [`Response::of_length`] replaces
    /// an unknown length.
    pub fn into_response<B>(self, body: B) -> Response<B> {
        let UpstreamHead { status, framing, content_length, minor_version, fields, lists_fields, .. } = self;
        let ResponseFields { mut for_client, own, .. } = fields;
        if lists_fields {
            let hop = Hop::of(|| connection(own.iter()));
            for_client.retain(|name| hop.is_passed(name));
        }
        let mut response = Response::new(status, body);
        response.is_forwarded = true;
        // Values have no control characters: the parsers of heads refuse them.
        response.own = for_client;
        let via: &[u8] = match minor_version {
            0 => b"1.0 weir",
            2 => b"2 weir",
            _ => b"1.1 weir",
        };
        response.own.push(b"Via", via);
        // A 426 demands an upgrade.
        if status == Status::UPGRADE_REQUIRED {
            response = with_upgrade(&own, response);
        }
        match (framing, content_length) {
            (Framing::Upgraded, _) => with_upgrade(&own, response),
            (Framing::Chunked | Framing::Close | Framing::Stream, _) => response.of_length(Length::Unknown),
            // RFC 9110 section 8.6: neither 1xx nor 204 has one.
            (_, Some(length)) if !matches!(status.0, 100..=199 | 204) => response.with_length(length.bytes()),
            _ => response,
        }
    }

    /// Converts a 101 for a client whose CONNECT it answers (RFC 8441 section 5) into a 200, without the fields that
    /// only the two connections need.
    pub fn into_tunnel<B>(self, body: B) -> Response<B> {
        let response = self.into_response(body);
        let response = ["connection", "upgrade", "sec-websocket-accept"].into_iter().fold(response, Response::without);
        Response { status: Status::OK, ..response.of_length(Length::Unknown) }
    }
}

/// Adds the Upgrade among an upstream's fields, if there is one.
fn with_upgrade<B>(fields: &FieldList, mut response: Response<B>) -> Response<B> {
    let mut upgrades = fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(b"upgrade")).peekable();
    if upgrades.peek().is_some() {
        response = response.with("Connection", b"upgrade");
    }
    upgrades.fold(response, |response, (_, protocol)| response.with("Upgrade", protocol))
}
