//! The client as reported by proxies in front of this server: X-Forwarded-For and -Proto, and Forwarded (RFC 7239).
//!
//! Anybody can send these fields. They count only on a connection from a trusted proxy, and only the right-hand part,
//! which trusted proxies wrote: everything further left is the client's own claim.

use core::net::IpAddr;

use super::hop::is_any;
use crate::Request;
use crate::list::members;
use crate::request::target::is_host_port;

/// The client of a request, as trusted proxies report it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Claimed<'a> {
    /// The rightmost address that does not belong to a trusted proxy, or else the leftmost address, in canonical form.
    /// `None` if the proxies report no address.
    pub client: Option<IpAddr>,
    /// True if the client used TLS; `None` if the proxies do not report it.
    pub is_secure: Option<bool>,
    /// The host that was requested from the last proxy, according to Forwarded; `None` if no proxy reports it.
    pub host: Option<&'a [u8]>,
    /// The last value that is not an address.
    pub wrong: Option<&'a [u8]>,
}

/// Reads the fields of a request sent by a trusted proxy. Forwarded counts only without X-Forwarded-For, because most
/// proxies write the latter and pass the former on as the client sent it. The scheme comes from X-Forwarded-Proto, or
/// else from Forwarded; the first of several counts. Programs make links from the host, so the last host of Forwarded
/// counts, which a client cannot claim.
pub fn claimed<'a>(request: &Request<'a>, is_trusted: impl Fn(IpAddr) -> bool) -> Claimed<'a> {
    let mut claimed = Claimed::default();
    let mut has_list = false;
    for member in request.values("x-forwarded-for").flat_map(members) {
        has_list = true;
        claimed.add(Some(member), &is_trusted);
    }
    let mut proto = request.values("x-forwarded-proto").flat_map(members).next();
    for value in request.values("forwarded").filter(|_| !has_list) {
        if !is_closed(value) {
            // An unclosed quote from the client may be meant to swallow the text that a proxy appended.
            claimed.add(Some(value), &is_trusted);
            continue;
        }
        for element in unquoted(value, b',') {
            claimed.add(parameter(element, b"for"), &is_trusted);
            proto = proto.or(parameter(element, b"proto"));
            claimed.host = parameter(element, b"host").filter(|host| is_host_port(host)).or(claimed.host);
        }
    }
    claimed.is_secure = proto.and_then(|proto| match proto {
        // Proxies such as Traefik report the scheme of a WebSocket.
        _ if is_any(proto, &["https", "wss"]) => Some(true),
        _ if is_any(proto, &["http", "ws"]) => Some(false),
        _ => None,
    });
    claimed
}

impl<'a> Claimed<'a> {
    /// Adds the next address, from left to right.
    fn add(&mut self, node: Option<&'a [u8]>, is_trusted: &impl Fn(IpAddr) -> bool) {
        let address = node.and_then(address);
        if address.is_none() {
            self.wrong = node.filter(|node| !is_hidden(node)).or(self.wrong);
        }
        self.client = match address {
            // A trusted proxy vouches for the address before it.
            Some(address) if is_trusted(address) => self.client.or(Some(address)),
            other => other,
        };
    }
}

/// Returns true for an unknown or obfuscated address (RFC 7239 section 6).
fn is_hidden(node: &[u8]) -> bool {
    node.eq_ignore_ascii_case(b"unknown") || node.starts_with(b"_")
}

/// Parses an address, with or without brackets and a port.
fn address(node: &[u8]) -> Option<IpAddr> {
    let text = str::from_utf8(node).ok()?;
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None if text.matches(':').count() == 1 => text.split_at(text.find(':')?),
        None => (text, ""),
    };
    let is_port =
        |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let is_right = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
    host.parse::<IpAddr>().ok().filter(|_| is_right).map(|address| address.to_canonical())
}

/// Returns the value of an element's parameter, without quotes. Quoted pairs are not unescaped, because the values read
/// here contain none.
fn parameter<'a>(element: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let pairs = unquoted(element, b';').filter_map(|pair| {
        let at = pair.iter().position(|&byte| byte == b'=')?;
        Some((&pair[..at], &pair[at + 1..]))
    });
    let value = pairs.filter(|(of, _)| of.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()?;
    Some(value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value))
}

/// Splits at separators outside quoted strings; skips empty parts.
fn unquoted(value: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut quoting = Quoting::default();
    let parts = value.split(move |&byte| !quoting.is_within(byte) && byte == separator);
    parts.map(<[u8]>::trim_ascii).filter(|part| !part.is_empty())
}

/// Returns true if every quoted string is terminated.
pub(super) fn is_closed(value: &[u8]) -> bool {
    let mut quoting = Quoting::default();
    !value.iter().fold(false, |_, &byte| quoting.is_within(byte))
}

/// Tracks whether a byte is inside a quoted string (RFC 9110 section 5.6.4).
#[derive(Default)]
struct Quoting {
    is_quoted: bool,
    is_escaped: bool,
}

impl Quoting {
    fn is_within(&mut self, byte: u8) -> bool {
        let was_escaped = std::mem::take(&mut self.is_escaped);
        match byte {
            b'"' if !was_escaped => self.is_quoted = !self.is_quoted,
            b'\\' if self.is_quoted && !was_escaped => self.is_escaped = true,
            _ => {}
        }
        self.is_quoted
    }
}
