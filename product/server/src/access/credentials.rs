//! The name and password of a request (RFC 7617).

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use http::Request;

/// The maximum length of encoded credentials. It excludes passwords of over a thousand bytes.
const ENCODED_BYTES_MAX: usize = 2048;

const SCHEME: &str = "basic";

/// A name and a password, without control characters.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub user: Vec<u8>,
    pub password: Vec<u8>,
}

impl Credentials {
    /// Returns the credentials of a request; `None` if there are none, or several.
    pub fn of(request: &Request) -> Option<Credentials> {
        let mut values = request.values("authorization");
        let value = values.next().filter(|_| values.next().is_none())?;
        let (scheme, encoded) = value.split_at_checked(SCHEME.len())?;
        let encoded = encoded.strip_prefix(b" ").filter(|_| scheme.eq_ignore_ascii_case(SCHEME.as_bytes()))?;
        let encoded = encoded.trim_ascii();
        let end = encoded.iter().rposition(|&byte| byte != b'=').map_or(0, |last| last + 1);
        let encoded = encoded.get(..end).filter(|_| encoded.len() <= ENCODED_BYTES_MAX)?;
        let decoded = STANDARD_NO_PAD.decode(encoded).ok()?;
        let colon = decoded.iter().position(|&byte| byte == b':')?;
        let has_control = decoded.iter().any(|byte| byte.is_ascii_control());
        (!has_control).then(|| Credentials { user: decoded[..colon].into(), password: decoded[colon + 1..].into() })
    }
}

/// Omits the password, which must not be logged.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({:?})", String::from_utf8_lossy(&self.user))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: &str) -> Option<(String, String)> {
        let bytes = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
        let head = http::http1::parse_request(bytes.as_bytes(), &http::Limits::default()).unwrap().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Credentials::of(&head.request).map(|credentials| (text(credentials.user), text(credentials.password)))
    }

    #[test]
    fn a_name_and_a_password_are_read_or_nothing() {
        let pair = |user: &str, password: &str| Some((user.to_string(), password.to_string()));
        for (lines, expected) in [
            ("Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n", pair("Aladdin", "open sesame")),
            ("authorization: bASIC   QTpiOmM=\r\n", pair("A", "b:c")),
            ("Authorization: Basic QTpiOmM\r\n", pair("A", "b:c")),
            ("Authorization: Basic Og==\r\n", pair("", "")),
            ("", None),
            ("Authorization: Basic QQ==\r\n", None),
            ("Authorization: Basic\r\n", None),
            ("Authorization: Basic QTpiOmM*\r\n", None),
            ("Authorization: Bearer QTpiOmM=\r\n", None),
            // NUL, a line feed: `A:b\0c`, `A:b\nc`.
            ("Authorization: Basic QTpiAGM=\r\n", None),
            ("Authorization: Basic QTpiCmM=\r\n", None),
            ("Authorization: Basic QTpiOmM=\r\nAuthorization: Basic QTpiOmM=\r\n", None),
        ] {
            assert_eq!(of(lines), expected, "{lines}");
        }
        let long = |bytes: usize| of(&format!("Authorization: Basic QTpi{}\r\n", "YWFh".repeat(bytes / 3)));
        assert!(long(1500).is_some() && long(3000).is_none() && long(40_000).is_none());
    }

    #[test]
    fn a_password_is_not_shown() {
        let credentials = Credentials { user: b"ada".into(), password: b"secret".into() };
        assert_eq!(format!("{credentials:?}"), "Credentials(\"ada\")");
    }
}
