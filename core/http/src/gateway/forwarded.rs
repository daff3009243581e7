//! Appends the address, scheme and host of the client's request: X-Forwarded-For, -Proto and -Host, and Forwarded (RFC
//! 7239). A program reads one of these fields, which must not contradict the values that Weir uses. So values that a
//! trusted proxy reports only in Forwarded are also put at the front of the other fields, and values that it reports in
//! the others at the front of Forwarded. In the latter case the Forwarded that came from the client, which most proxies
//! pass on unchanged, is dropped.

use core::net::IpAddr;
use core::ops::Range;
use std::io::Write;

use super::claimed::is_closed;
use super::hop::Hop;
use super::writer::Writer;
use super::{Claimed, Gateway, claimed};
use crate::Request;
use crate::name_filter::Names;
use crate::request::target::is_host_port;

/// Returns true if this module writes the field, or if it describes the client and does not come from a trusted proxy.
pub(crate) fn is_ours(name: &[u8], is_trusted: bool) -> bool {
    const WRITTEN: Names<4> = Names::new(["forwarded", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host"]);
    let is_claim = || {
        let start = name.get(.."x-forwarded-".len()).unwrap_or_default();
        start.eq_ignore_ascii_case(b"x-forwarded-") || name.eq_ignore_ascii_case(b"x-real-ip")
    };
    // Few names begin with this letter.
    let is_others = || matches!(name.first(), Some(b'x' | b'X')) && !is_trusted && is_claim();
    WRITTEN.has(name) || is_others()
}

pub(super) fn encode<'a, I: Iterator<Item = &'a [u8]>>(
    out: &mut impl Writer,
    request: &Request<'a>,
    gateway: &Gateway,
    hop: &Hop<impl Fn() -> I>,
) {
    let client = gateway.client.to_canonical();
    let kept = |name: &'static str| {
        let is_kept = gateway.is_trusted && hop.is_passed(name.as_bytes());
        let values = is_kept.then(|| request.values(name));
        values.into_iter().flatten().filter(|value| !value.is_empty())
    };
    let proto: &[u8] = if gateway.is_secure { b"https" } else { b"http" };
    let (own, address) = element(client, gateway.client_port, request.fields.host, proto);
    let has_list = kept("x-forwarded-for").next().is_some();
    let told = if gateway.is_trusted { claimed(request, |_| true) } else { Claimed::default() };
    let before = gateway.claimed_client.filter(|_| told.client.is_some() && !has_list).map(text_of);
    let of_client = before.as_deref().into_iter().chain(std::iter::once(&own[address]));
    out.joined(b"X-Forwarded-For", kept("x-forwarded-for").chain(of_client), b", ");
    let first = kept("x-forwarded-proto").next().or(scheme(&told)).unwrap_or(proto);
    out.field(b"X-Forwarded-Proto", first);
    let host = kept("x-forwarded-host").next().or(told.host);
    if let Some(host) = host.or(request.fields.host) {
        out.field(b"X-Forwarded-Host", host);
    }
    // A program would take the rest of an unclosed quote, and so our element, for a part of its text.
    let as_came = || kept("forwarded").filter(|value| !has_list && is_closed(value));
    let is_reported = gateway.claimed_client.is_some() || told.is_secure.is_some() || host.is_some();
    let reported = (is_reported && as_came().next().is_none()).then(|| {
        let (client, host) = (gateway.claimed_client.unwrap_or(client), host.filter(|host| is_host_port(host)));
        element(client.to_canonical(), None, host.or(request.fields.host), scheme(&told).unwrap_or(proto)).0
    });
    out.joined(b"Forwarded", as_came().chain(reported.as_deref()).chain(std::iter::once(&own[..])), b", ");
}

/// Returns the scheme that a trusted proxy reports.
fn scheme(told: &Claimed) -> Option<&'static [u8]> {
    told.is_secure.map(|is_secure| if is_secure { &b"https"[..] } else { b"http" })
}

fn text_of(client: IpAddr) -> Vec<u8> {
    let mut text = Vec::new();
    address(&mut text, client.to_canonical());
    text
}

/// Returns an element of Forwarded, and the position of the client's address in it. Values that are not tokens, such as
/// those with a colon, are quoted (RFC 7239 section 4).
fn element(client: IpAddr, port: Option<u16>, host: Option<&[u8]>, proto: &[u8]) -> (Vec<u8>, Range<usize>) {
    let mut element = Vec::with_capacity(ELEMENT_BYTES + host.map_or(0, <[u8]>::len));
    let quote = |is_quoted: bool| -> &[u8] { if is_quoted { b"\"" } else { b"" } };
    let (quoted, [open, close]) = (quote(client.is_ipv6() || port.is_some()), brackets(client));
    put(&mut element, &[b"for=", quoted, open]);
    let begin = element.len();
    address(&mut element, client);
    let end = element.len();
    put(&mut element, &[close]);
    if let Some(port) = port {
        put(&mut element, &[b":", itoa::Buffer::new().format(port).as_bytes()]);
    }
    put(&mut element, &[quoted]);
    if let Some(host) = host {
        let quoted = quote(host.contains(&b':'));
        put(&mut element, &[b";host=", quoted, host, quoted]);
    }
    put(&mut element, &[b";proto=", proto]);
    (element, begin..end)
}

/// The bytes of an element without its host.
const ELEMENT_BYTES: usize =
    "for=\"[ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255]:65535\";host=\"\";proto=https".len();

fn brackets(client: IpAddr) -> [&'static [u8]; 2] {
    if client.is_ipv6() { [b"[", b"]"] } else { [b"", b""] }
}

/// Appends an address. The formatter of the standard library takes ten times as long for IPv4 addresses.
fn address(out: &mut Vec<u8>, client: IpAddr) {
    match client {
        IpAddr::V4(address) => {
            for (nth, octet) in address.octets().into_iter().enumerate() {
                let dot: &[u8] = if nth > 0 { b"." } else { b"" };
                put(out, &[dot, itoa::Buffer::new().format(octet).as_bytes()]);
            }
        }
        IpAddr::V6(address) => write!(out, "{address}").expect("memory takes all"),
    }
}

fn put(out: &mut Vec<u8>, parts: &[&[u8]]) {
    parts.iter().for_each(|part| out.extend_from_slice(part));
}
