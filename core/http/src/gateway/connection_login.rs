//! Connection-based logins: NTLM and Negotiate (RFC 4559) authenticate every request on a connection, against HTTP's
//! own rule (RFC 9110 section 11.6). Such a connection must serve one client only.

use crate::list::members;

const OF_CONNECTIONS: [&[u8]; 2] = [b"ntlm", b"negotiate"];

/// Returns true if a value of Authorization or WWW-Authenticate has a scheme that authenticates the connection.
pub fn is_connection_login<'v>(values: impl Iterator<Item = &'v [u8]>) -> bool {
    // A comma within a quoted string may look like a scheme; the connection then serves a single client without need.
    values.flat_map(members).any(|member| {
        let scheme = member.split(|&b| b == b' ').next().unwrap_or_default();
        OF_CONNECTIONS.iter().any(|known| scheme.eq_ignore_ascii_case(known))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_are_known_in_lists_and_in_any_case() {
        for (value, is_one) in [
            ("NTLM", true),
            ("ntlm TlRMTVNTUAAB", true),
            ("Negotiate YIIJ", true),
            ("Basic realm=\"a\", Negotiate", true),
            ("Basic bnRsbQ==", false),
            ("NTLMv2 x", false),
            ("Bearer negotiate", false),
            ("", false),
        ] {
            assert_eq!(is_connection_login([value.as_bytes()].into_iter()), is_one, "{value}");
        }
        assert!(is_connection_login([&b"Basic realm=a"[..], b"NEGOTIATE"].into_iter()));
    }
}
