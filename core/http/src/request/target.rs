//! The request target and its four forms (RFC 9112 section 3.2).
//!
//! Clients send origin-form (`/path?query`) to a server. They send absolute-form to a proxy, and a server MUST accept
//! it (section 3.2.2); its authority then replaces Host. Both schemes are accepted, since a gateway in front may have
//! terminated TLS. Asterisk-form is only for OPTIONS. Authority-form is for CONNECT, which is refused with its method.

use core::net::Ipv6Addr;

use crate::{Method, Reject};

pub(crate) struct Target<'a> {
    pub path: &'a [u8],
    pub query: Option<&'a [u8]>,
    /// The authority of an absolute-form target.
    pub host: Option<&'a [u8]>,
}

/// Parses a target. httparse has already refused spaces and ASCII control characters. UTF-8 text that curl and older
/// clients leave unencoded is kept unchanged; the rest of the server uses
/// [`Request::encoded`](crate::Request::encoded).
pub(crate) fn parse(target: &str, method: Method) -> Result<Target<'_>, Reject> {
    let bytes = target.as_bytes();
    if bytes.contains(&b'#') {
        // Fragments never leave the client (RFC 9110 section 7.1); a gateway may cut here where we would not.
        return Err(Reject::bad("fragment in the request target"));
    }
    match bytes {
        [b'/', ..] => Ok(origin(bytes, None)),
        b"*" if method == Method::Options => Ok(origin(bytes, None)),
        b"*" => Err(Reject::bad("asterisk target with a method other than options")),
        _ => absolute(bytes, method),
    }
}

/// Returns the undecoded path and query of a target that [`parse`] accepts.
pub(crate) fn origin_form(target: &[u8]) -> &[u8] {
    let Some(rest) = strip_scheme(target, b"http://").or_else(|| strip_scheme(target, b"https://")) else {
        return target;
    };
    let at = rest.iter().position(|b| matches!(b, b'/' | b'?'));
    at.map_or(b"/", |at| &rest[at..])
}

fn origin<'a>(bytes: &'a [u8], host: Option<&'a [u8]>) -> Target<'a> {
    match bytes.iter().position(|&b| b == b'?') {
        Some(mark) => Target { path: &bytes[..mark], query: Some(&bytes[mark + 1..]), host },
        None => Target { path: bytes, query: None, host },
    }
}

fn absolute(bytes: &[u8], method: Method) -> Result<Target<'_>, Reject> {
    let Some(rest) = strip_scheme(bytes, b"http://").or_else(|| strip_scheme(bytes, b"https://")) else {
        return Err(Reject::bad("request target is neither a path nor an http url"));
    };
    let end = rest.iter().position(|b| matches!(b, b'/' | b'?')).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    if authority.contains(&b'@') {
        // RFC 9110 section 4.2.4: userinfo disguises the host and leaks passwords into logs.
        return Err(Reject::bad("userinfo in the request target"));
    }
    if !is_host_port(authority) {
        return Err(Reject::bad("malformed authority in the request target"));
    }
    let target = origin(path, Some(authority));
    // An empty path is `/` (RFC 9110 section 4.2.3), but for an OPTIONS of the whole server (RFC 9112 section 3.2.4).
    let path: &[u8] = match (path, target.path) {
        (b"", _) if method == Method::Options => b"*",
        (_, b"") => b"/",
        (_, path) => path,
    };
    Ok(Target { path, ..target })
}

/// Strips a scheme, whose case is ignored (RFC 3986 section 3.1).
fn strip_scheme<'a>(bytes: &'a [u8], scheme: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = bytes.split_at_checked(scheme.len())?;
    start.eq_ignore_ascii_case(scheme).then_some(rest)
}

/// Returns true if this is `host[:port]` with a host that can name a site: letters, digits, `-._~`, or an IPv6 address
/// in brackets.
///
/// RFC 3986 also allows sub-delimiters and percent escapes. No DNS name needs them, and `a.com,b.com` or `a%2eb` can
/// make one host look like another. An empty host is refused (RFC 9110 section 4.2.1).
pub(crate) fn is_host_port(bytes: &[u8]) -> bool {
    if let Some(rest) = bytes.strip_prefix(b"[") {
        let Some(close) = rest.iter().position(|&b| b == b']') else { return false };
        let address = std::str::from_utf8(&rest[..close]).ok().and_then(|text| text.parse::<Ipv6Addr>().ok());
        return address.is_some() && is_port(&rest[close + 1..]);
    }
    let colon = bytes.iter().position(|&b| b == b':').unwrap_or(bytes.len());
    let (host, port) = bytes.split_at(colon);
    !host.is_empty() && host.iter().all(|&b| is_host_byte(b)) && is_port(port)
}

fn is_host_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~')
}

/// Returns true for the empty string, or a colon and a port; the port may be empty (RFC 3986 section 3.2.3).
fn is_port(bytes: &[u8]) -> bool {
    match bytes {
        [] | [b':'] => true,
        [b':', digits @ ..] => digits.len() <= 5 && crate::list::decimal(digits).is_some_and(|port| port <= 65_535),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(target: &str, method: Method) -> Result<(&str, Option<&str>, Option<&str>), &'static str> {
        let text = |bytes| std::str::from_utf8(bytes).unwrap();
        let target = parse(target, method).map_err(|reject| reject.reason)?;
        Ok((text(target.path), target.query.map(text), target.host.map(text)))
    }

    #[test]
    fn forms_that_are_served() {
        for (target, expected) in [
            ("/", ("/", None, None)),
            ("/?", ("/", Some(""), None)),
            ("/a?b=/?c", ("/a", Some("b=/?c"), None)),
            ("//a", ("//a", None, None)), // refused later, by decode_path
            ("/http://x", ("/http://x", None, None)),
            ("http://a.com/b?c", ("/b", Some("c"), Some("a.com"))),
            ("HTTPS://a.com:443/", ("/", None, Some("a.com:443"))),
            ("http://a.com", ("/", None, Some("a.com"))),
            ("http://a.com?q", ("/", Some("q"), Some("a.com"))),
            ("http://[::1]:80/", ("/", None, Some("[::1]:80"))),
            ("/\u{e9}?\u{20ac}", ("/\u{e9}", Some("\u{20ac}"), None)),
        ] {
            assert_eq!(parsed(target, Method::Get), Ok(expected), "{target}");
        }
        for (target, expected) in [
            ("*", ("*", None, None)),
            ("http://a.com", ("*", None, Some("a.com"))),
            ("http://a.com/", ("/", None, Some("a.com"))),
            ("http://a.com?q", ("/", Some("q"), Some("a.com"))),
        ] {
            assert_eq!(parsed(target, Method::Options), Ok(expected), "{target}");
        }
    }

    #[test]
    fn forms_that_are_refused() {
        for (target, reason) in [
            ("*", "asterisk target with a method other than options"),
            ("a.com:80", "request target is neither a path nor an http url"),
            ("a", "request target is neither a path nor an http url"),
            ("?q", "request target is neither a path nor an http url"),
            ("**", "request target is neither a path nor an http url"),
            ("ftp://a.com/", "request target is neither a path nor an http url"),
            ("http:/a", "request target is neither a path nor an http url"),
            ("file:///etc/passwd", "request target is neither a path nor an http url"),
            ("http:///a", "malformed authority in the request target"),
            ("http://", "malformed authority in the request target"),
            ("http://a.com:x/", "malformed authority in the request target"),
            ("http://a\\b/", "malformed authority in the request target"),
            ("http://u:p@a.com/", "userinfo in the request target"),
            ("http://a.com@/", "userinfo in the request target"),
            ("/a#b", "fragment in the request target"),
            ("http://a.com#b", "fragment in the request target"),
            ("http://\u{e9}/", "malformed authority in the request target"),
            ("\u{e9}", "request target is neither a path nor an http url"),
        ] {
            assert_eq!(parsed(target, Method::Get), Err(reason), "{target}");
        }
    }

    #[test]
    fn hosts() {
        for right in
            ["a", "a.com", "A-b_c.com:80", "a:", "127.0.0.1:65535", "[::1]", "[2001:db8::1]:443", "[::ffff:1.2.3.4]"]
        {
            assert!(is_host_port(right.as_bytes()), "{right}");
        }
        for wrong in [
            "",
            ":80",
            "a:b",
            "a:80:80",
            "a:65536",
            "a:000080",
            "a:-1",
            "a:+1",
            "a b",
            "a,b",
            "a/b",
            "a@b",
            "a%2eb",
            "::1",
            "[::1",
            "[]",
            "[::1]x",
            "[::1]:x",
            "[v1.a]",
            "[fe80::1%25eth0]",
            "a\u{e9}",
        ] {
            assert!(!is_host_port(wrong.as_bytes()), "{wrong}");
        }
    }
}
