//! What proxies before this server say of a client: X-Forwarded-For and -Proto, and Forwarded (RFC 7239).
//!
//! Anybody can send these fields. They count only on a connection of a trusted proxy, and there only as far from the right as trusted proxies
//! wrote them: what stands further left is the client's own word.

use core::net::IpAddr;

use crate::Request;
use crate::list::members;

/// What trusted proxies say of the client of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Claimed<'a> {
    /// The rightmost address that is not a trusted proxy's, or else the leftmost; canonical. `None`: they do not tell.
    pub client: Option<IpAddr>,
    /// Whether the client came over TLS.
    pub is_secure: Option<bool>,
    /// The last value that is no address.
    pub wrong: Option<&'a [u8]>,
}

/// Reads the fields of a request that a trusted proxy has sent. X-Forwarded-For decides, and Forwarded where there is none: most proxies write
/// the first, and pass on the other as it came. The scheme is that of X-Forwarded-Proto, or else of Forwarded, the first where there are several.
pub fn claimed<'a>(request: &Request<'a>, is_trusted: impl Fn(IpAddr) -> bool) -> Claimed<'a> {
    let mut claimed = Claimed::default();
    let mut has_list = false;
    for member in request.values("x-forwarded-for").flat_map(members) {
        has_list = true;
        claimed.add(Some(member), &is_trusted);
    }
    let mut proto = request.values("x-forwarded-proto").flat_map(members).next();
    for value in request.values("forwarded") {
        if !is_closed(value) {
            // A client's quote may be meant to swallow what a proxy wrote behind it.
            if !has_list {
                claimed.add(Some(value), &is_trusted);
            }
            continue;
        }
        for element in unquoted(value, b',') {
            if !has_list {
                claimed.add(parameter(element, b"for"), &is_trusted);
            }
            proto = proto.or(parameter(element, b"proto"));
        }
    }
    claimed.is_secure = proto.and_then(|proto| match proto {
        _ if proto.eq_ignore_ascii_case(b"https") => Some(true),
        _ if proto.eq_ignore_ascii_case(b"http") => Some(false),
        _ => None,
    });
    claimed
}

impl<'a> Claimed<'a> {
    /// One more address, from left to right.
    fn add(&mut self, node: Option<&'a [u8]>, is_trusted: &impl Fn(IpAddr) -> bool) {
        let address = node.and_then(address);
        if address.is_none() {
            self.wrong = node.filter(|node| !is_hidden(node)).or(self.wrong);
        }
        self.client = match address {
            // Where it was trusted, its word for the one before it counts.
            Some(address) if is_trusted(address) => self.client.or(Some(address)),
            other => other,
        };
    }
}

/// RFC 7239 section 6: an address that is not known or not told.
fn is_hidden(node: &[u8]) -> bool {
    node.eq_ignore_ascii_case(b"unknown") || node.starts_with(b"_")
}

/// With or without brackets and a port.
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

/// The value of a parameter of an element, without its quotes. A value with a quoted pair is none that is looked for here.
fn parameter<'a>(element: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let pairs = unquoted(element, b';').filter_map(|pair| {
        let at = pair.iter().position(|&byte| byte == b'=')?;
        Some((&pair[..at], &pair[at + 1..]))
    });
    let value = pairs.filter(|(of, _)| of.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()?;
    Some(value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value))
}

/// The parts between separators that are not in a quoted string; empty ones are skipped.
fn unquoted(value: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut quoting = Quoting::default();
    let parts = value.split(move |&byte| !quoting.is_within(byte) && byte == separator);
    parts.map(<[u8]>::trim_ascii).filter(|part| !part.is_empty())
}

/// Every quoted string has its end.
fn is_closed(value: &[u8]) -> bool {
    let mut quoting = Quoting::default();
    !value.iter().fold(false, |_, &byte| quoting.is_within(byte))
}

/// Whether a byte stands in a quoted string (RFC 9110 section 5.6.4).
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
