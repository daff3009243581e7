//! Hop-by-hop fields of requests and responses, which apply to one connection only (RFC 9110 section 7.6.1).

use super::writer::Writer;
use crate::Request;
use crate::list::members;
use crate::name_filter::Names;

/// Hop-by-hop fields. Alt-Svc is one of them because it names another address of the same origin: a client that came
/// through us must not switch to an address of the upstream.
const HOP_BY_HOP: Names<12> = Names::new([
    "alt-svc",
    "connection",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
]);

/// Connection options that name no field, or a field that is never forwarded.
const PLAIN_OPTIONS: Names<4> = Names::new(["close", "keep-alive", "upgrade", "te"]);

/// Returns true if an option of Connection may name a field that is forwarded otherwise.
pub(crate) fn is_listed(option: &[u8]) -> bool {
    !PLAIN_OPTIONS.has(option)
}

/// Distinguishes the hop-by-hop fields of a message from its other fields.
pub(crate) struct Hop<F> {
    /// Returns the values of Connection.
    connection: F,
    /// True if Connection lists options other than [`PLAIN_OPTIONS`].
    lists_fields: bool,
}

impl<'a, I: Iterator<Item = &'a [u8]>, F: Fn() -> I> Hop<F> {
    /// Creates the filter for a message; `connection` returns the values of its Connection fields.
    pub fn of(connection: F) -> Hop<F> {
        let lists_fields = connection().flat_map(members).any(is_listed);
        Hop { connection, lists_fields }
    }

    /// Returns true if a field of this name is forwarded.
    pub fn is_passed(&self, name: &[u8]) -> bool {
        let is_listed = || (self.connection)().flat_map(members).any(|option| option.eq_ignore_ascii_case(name));
        !(is_hop_by_hop(name) || self.lists_fields && is_listed())
    }
}

/// Returns true if a field of this name applies to one connection, even if Connection does not list it.
pub(crate) fn is_hop_by_hop(name: &[u8]) -> bool {
    HOP_BY_HOP.has(name)
}

/// Returns the values of Connection among these fields.
pub(crate) fn connection<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> impl Iterator<Item = &'a [u8]> {
    fields.filter(|(name, _)| name.eq_ignore_ascii_case(b"connection")).map(|(_, value)| value)
}

/// Returns true if the name is in `known`.
pub(crate) fn is_any(name: &[u8], known: &[&str]) -> bool {
    known.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

/// The maximum number of earlier passes of a request through a Weir; a longer chain is hardly intended.
const PASSES_MAX: usize = 16;

/// Returns true if the request's Via shows so many passes through Weir that an upstream must lead back to this server
/// (RFC 9110 section 7.6.3).
pub fn is_looping(request: &Request) -> bool {
    let by = |member: &[u8]| member.split(|byte| *byte == b' ').nth(1) == Some(crate::response::SERVER.as_bytes());
    request.values("via").flat_map(members).filter(|member| by(member)).count() > PASSES_MAX
}

/// Appends our Via, after the Via of others, for a message received in this HTTP version, major and minor (RFC 9110
/// section 7.6.3).
pub(super) fn via(out: &mut impl Writer, (major, minor): (u8, u8)) {
    let version = [b'0' + major, b'.', b'0' + minor];
    // HTTP/2 and HTTP/3 have no minor version.
    let version = if major == 1 { &version[..] } else { &version[..1] };
    out.joined(b"Via", [version, crate::response::SERVER.as_bytes()].into_iter(), b" ");
}
