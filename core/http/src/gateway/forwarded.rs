//! Appends the address, scheme and host of the client's request: X-Forwarded-For, -Proto and -Host, and Forwarded (RFC
//! 7239).

use core::net::IpAddr;
use std::io::Write;

use super::Gateway;
use super::hop::{Hop, is_any};
use super::writer::Writer;
use crate::Request;

/// Returns true if this module writes the field, or if it describes the client and does not come from a trusted proxy.
pub(crate) fn is_ours(name: &[u8], is_trusted: bool) -> bool {
    let is_written = is_any(name, &["forwarded", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host"]);
    let is_claim = || {
        let start = name.get(.."x-forwarded-".len()).unwrap_or_default();
        start.eq_ignore_ascii_case(b"x-forwarded-") || name.eq_ignore_ascii_case(b"x-real-ip")
    };
    is_written || (!is_trusted && is_claim())
}

pub(super) fn encode<'a, I: Iterator<Item = (&'a [u8], &'a [u8])>>(
    out: &mut impl Writer,
    request: &Request<'a>,
    gateway: &Gateway,
    hop: &Hop<impl Fn() -> I>,
) {
    let client = gateway.client.to_canonical();
    let kept = |name: &'static str| {
        let is_kept = gateway.is_trusted && hop.is_passed(name.as_bytes());
        request.values(name).filter(move |value| is_kept && !value.is_empty())
    };
    let address = client.to_string();
    let of_client = std::iter::once(address.as_bytes());
    out.joined(b"X-Forwarded-For", kept("x-forwarded-for").chain(of_client), b", ");
    let proto: &[u8] = if gateway.is_secure { b"https" } else { b"http" };
    let first = kept("x-forwarded-proto").next().unwrap_or(proto);
    out.field(b"X-Forwarded-Proto", first);
    if let Some(host) = kept("x-forwarded-host").next().or(request.fields.host) {
        out.field(b"X-Forwarded-Host", host);
    }
    let element = element(client, gateway.client_port, request.fields.host, proto);
    out.joined(b"Forwarded", kept("forwarded").chain(std::iter::once(&element[..])), b", ");
}

/// Returns an element of Forwarded. Values that are not tokens, such as those with a colon, are quoted (RFC 7239
/// section 4).
fn element(client: IpAddr, port: Option<u16>, host: Option<&[u8]>, proto: &[u8]) -> Vec<u8> {
    let mut element = Vec::new();
    let written = match (client, port) {
        (IpAddr::V4(address), None) => write!(element, "for={address}"),
        (IpAddr::V4(address), Some(port)) => write!(element, "for=\"{address}:{port}\""),
        (IpAddr::V6(address), None) => write!(element, "for=\"[{address}]\""),
        (IpAddr::V6(address), Some(port)) => write!(element, "for=\"[{address}]:{port}\""),
    };
    written.expect("memory takes all");
    if let Some(host) = host {
        let quote: &[u8] = if host.contains(&b':') { b"\"" } else { b"" };
        element.extend_from_slice(&[b";host=", quote, host, quote].concat());
    }
    element.extend_from_slice(&[b";proto=", proto].concat());
    element
}
