//! Hop-by-hop fields of requests and responses, which apply to one connection only (RFC 9110 section 7.6.1).

use super::writer::Writer;
use crate::list::members;

const HOP_BY_HOP: [&str; 11] = [
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
];

/// Connection options that name no field, or a field that is never forwarded.
const PLAIN_OPTIONS: [&str; 4] = ["close", "keep-alive", "upgrade", "te"];

/// Distinguishes the hop-by-hop fields of a message from its other fields.
pub(crate) struct Hop<F> {
    fields: F,
    /// True if Connection lists options other than [`PLAIN_OPTIONS`].
    lists_fields: bool,
}

impl<'a, I: Iterator<Item = (&'a [u8], &'a [u8])>, F: Fn() -> I> Hop<F> {
    /// Creates it for a message with these fields.
    pub fn of(fields: F) -> Hop<F> {
        let lists_fields = options(fields()).any(|option| !is_any(option, &PLAIN_OPTIONS));
        Hop { fields, lists_fields }
    }

    /// Returns true if a field of this name is forwarded.
    pub fn is_passed(&self, name: &[u8]) -> bool {
        let is_listed = || options((self.fields)()).any(|option| option.eq_ignore_ascii_case(name));
        let is_hop_by_hop = is_any(name, &HOP_BY_HOP) || (self.lists_fields && is_listed());
        !is_hop_by_hop
    }
}

/// Iterates over the options of all Connection lines.
pub(crate) fn options<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> impl Iterator<Item = &'a [u8]> {
    fields.filter(|(name, _)| name.eq_ignore_ascii_case(b"connection")).flat_map(|(_, value)| members(value))
}

/// Returns true if the name is in `known`.
pub(crate) fn is_any(name: &[u8], known: &[&str]) -> bool {
    known.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

/// Appends our Via, after those of others, for a message received in this HTTP version, major and minor (RFC 9110
/// section 7.6.3).
pub(super) fn via(out: &mut impl Writer, (major, minor): (u8, u8)) {
    // HTTP/2 and HTTP/3 have no minor version.
    let version = if major == 1 { format!("1.{minor}") } else { major.to_string() };
    out.joined(b"Via", [version.as_bytes(), crate::response::SERVER.as_bytes()].into_iter(), b" ");
}
