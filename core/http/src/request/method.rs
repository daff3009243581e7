//! Methods (RFC 9110 section 9). They are an open set (section 16.1): a program behind this server may support any.

use super::METHOD_TOO_LONG;
use crate::Reject;

/// Maximum bytes of a method; the longest in IANA's registry has 17.
pub const METHOD_BYTES_MAX: usize = 40;

/// A request method. Names are case-sensitive. The named variants are the methods that this server or its upstream
/// connections treat specially. CONNECT always has a path and the protocol WebSocket (RFC 8441, RFC 9220); any other
/// CONNECT is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Get,
    Head,
    Options,
    Post,
    Put,
    Delete,
    Patch,
    Trace,
    Connect,
    Propfind,
    Query,
    Report,
    Search,
    Other(OtherMethod),
}

/// The token of a method that has no variant of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OtherMethod {
    bytes: [u8; METHOD_BYTES_MAX],
    length: u8,
}

const NAMED: [(Method, &str); 13] = [
    (Method::Get, "GET"),
    (Method::Head, "HEAD"),
    (Method::Options, "OPTIONS"),
    (Method::Post, "POST"),
    (Method::Put, "PUT"),
    (Method::Delete, "DELETE"),
    (Method::Patch, "PATCH"),
    (Method::Trace, "TRACE"),
    (Method::Connect, "CONNECT"),
    (Method::Propfind, "PROPFIND"),
    (Method::Query, "QUERY"),
    (Method::Report, "REPORT"),
    (Method::Search, "SEARCH"),
];

impl Method {
    /// Returns the method of a token (RFC 9110 section 5.6.2). `None` if it is longer than [`METHOD_BYTES_MAX`] bytes.
    pub fn of(token: &[u8]) -> Option<Method> {
        if let Some((method, _)) = NAMED.iter().find(|(_, name)| name.as_bytes() == token) {
            return Some(*method);
        }
        let mut bytes = [0; METHOD_BYTES_MAX];
        bytes.get_mut(..token.len())?.copy_from_slice(token);
        Some(Method::Other(OtherMethod { bytes, length: token.len() as u8 }))
    }

    pub fn token(&self) -> &[u8] {
        match self {
            Method::Other(other) => &other.bytes[..usize::from(other.length)],
            named => NAMED.iter().find(|(method, _)| method == named).map_or(b"", |(_, name)| name.as_bytes()),
        }
    }
}

/// Parses the method of a request.
pub(crate) fn method(token: &[u8]) -> Result<Method, Reject> {
    match Method::of(token) {
        // The target of a CONNECT is an authority, which only a forward proxy can serve (RFC 9112 section 3.2.3).
        Some(Method::Connect) => Err(Reject::bad("connect is for proxies")),
        Some(method) => Ok(method),
        // RFC 9112 section 3: a method longer than any that is implemented gets 501.
        None => Err(METHOD_TOO_LONG),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_is_a_method() {
        for (method, name) in NAMED {
            assert_eq!((Method::of(name.as_bytes()), method.token()), (Some(method), name.as_bytes()));
        }
        let long = "X".repeat(METHOD_BYTES_MAX);
        for token in ["LIST", "SUBSCRIBE", "M-SEARCH", "BITS_POST", "get", "a", "!#$%&'*+-.^_`|~", &long] {
            let method = Method::of(token.as_bytes()).unwrap();
            assert!(matches!(method, Method::Other(_)), "{token}");
            assert_eq!(method.token(), token.as_bytes());
        }
        assert_ne!(Method::of(b"get"), Method::of(b"GET"));
        assert_eq!(method(format!("{long}X").as_bytes()), Err(METHOD_TOO_LONG));
        assert_eq!(method(b"CONNECT").unwrap_err().status.0, 400);
    }
}
