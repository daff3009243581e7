//! Compression dictionaries (RFC 9842): the dictionary that a client announces, and the content of an offer.
//!
//! The fields are structured ones (RFC 9651). A client that sends anything else in them is treated as having no
//! dictionary, because a response that it cannot decode is worse than a longer one.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::Request;

/// The SHA-256 of a dictionary.
pub type Digest = [u8; 32];

/// The characters of a digest in base64.
const DIGEST_CHARACTERS: usize = 44;
/// The maximum length in bytes of a path whose responses are offered as dictionaries. Each offer sends the pattern made
/// from the path.
const PATH_BYTES_MAX: usize = 256;

/// Returns the digest of the dictionary that the client has; `None` if the request does not name exactly one.
pub fn available_dictionary(request: &Request) -> Option<Digest> {
    let mut values = request.values("available-dictionary");
    let value = values.next().filter(|_| values.next().is_none())?;
    let text = value.trim_ascii().strip_prefix(b":")?.strip_suffix(b":")?;
    let mut digest = Digest::default();
    // Longer text is not decoded at all.
    let is_whole = text.len() == DIGEST_CHARACTERS && STANDARD.decode_slice(text, &mut digest).ok()? == digest.len();
    is_whole.then_some(digest)
}

/// Returns the value of Available-Dictionary for this digest.
pub fn available_dictionary_value(digest: &Digest) -> String {
    let mut text = [0; DIGEST_CHARACTERS];
    let written = STANDARD.encode_slice(digest, &mut text).expect("a digest has this many characters");
    format!(":{}:", String::from_utf8_lossy(&text[..written]))
}

/// Returns true if the page that makes the request may see the response in any case, because the request comes from the
/// address bar or from a page of the same origin. For other pages the length of a response could reveal what it has in
/// common with a dictionary (RFC 9842 section 9.3).
pub fn is_of_same_origin(request: &Request) -> bool {
    let mut values = request.values("sec-fetch-site");
    let value = values.next().filter(|_| values.next().is_none());
    value.is_some_and(|value| value == b"none" || value == b"same-origin")
}

/// Returns a pattern of URLs (URL Pattern, without regular expressions) that matches this path, with `*` in place of
/// the bytes in the range `any`. `None` for a path that a pattern would have to escape.
pub fn pattern(path: &[u8], any: Option<std::ops::Range<usize>>) -> Option<String> {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&',;=@".contains(byte);
    if path.len() > PATH_BYTES_MAX || !path.starts_with(b"/") || !path.iter().all(is_plain) {
        return None;
    }
    let path = std::str::from_utf8(path).ok()?;
    let Some(any) = any else { return Some(path.into()) };
    Some(format!("{}*{}", path.get(..any.start)?, path.get(any.end..)?))
}

/// Returns the value of Use-As-Dictionary for requests that match a pattern made by [`pattern`] and whose destination
/// is of this kind.
pub fn use_as_dictionary(pattern: &str, destination: &str) -> String {
    format!("match=\"{pattern}\", match-dest=(\"{destination}\")")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Limits;
    use crate::http1::parse_request;

    fn with<T>(lines: &[String], of: impl Fn(&Request) -> T) -> T {
        let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
        let bytes = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
        of(&parse_request(bytes.as_bytes(), &Limits::default()).unwrap().unwrap().request)
    }

    fn announced(values: &[&str]) -> Option<Digest> {
        let lines: Vec<String> = values.iter().map(|value| format!("Available-Dictionary: {value}")).collect();
        with(&lines, available_dictionary)
    }

    #[test]
    fn a_digest_is_read_and_nothing_else() {
        let zeros = "A".repeat(43) + "=";
        assert_eq!(announced(&[&format!(":{zeros}:")]), Some([0; 32]));
        let value = ":pZGm1Av0IEBKARczz7exkNYsZb8LzaMrV7J32a2fFG4=:";
        let digest = announced(&[value]).unwrap();
        assert_eq!((&digest[..3], &*available_dictionary_value(&digest)), (&[0xa5, 0x91, 0xa6][..], value));
        let twice = format!(":{zeros}:");
        assert_eq!(announced(&[&twice, &twice]), None, "which one?");
        for wrong in [
            "",
            ":",
            "::",
            &zeros,
            &format!(":{zeros}"),
            &format!(":{zeros}:, :{zeros}:"),
            &format!(":{}:", "A".repeat(44)),
            &format!(":{}:", "A".repeat(43)),
            &format!(":{}==:", "A".repeat(42)),
            &format!(":{}B=:", "A".repeat(42)),
            &format!(":{}-=:", "A".repeat(42)),
            &format!(":{} =:", "A".repeat(42)),
            &format!(":{}:", "A".repeat(10_000)),
            &format!("\"{zeros}\""),
        ] {
            assert_eq!(announced(&[wrong]), None, "{wrong}");
        }
    }

    #[test]
    fn only_the_address_bar_and_the_same_origin_count() {
        let is = |values: &[&str]| {
            let lines: Vec<String> = values.iter().map(|value| format!("Sec-Fetch-Site: {value}")).collect();
            with(&lines, is_of_same_origin)
        };
        assert!(is(&["none"]) && is(&["same-origin"]));
        for wrong in [&[][..], &["cross-site"], &["same-site"], &["NONE"], &["none, none"], &["none", "none"], &[""]] {
            assert!(!is(wrong), "{wrong:?}");
        }
    }

    #[test]
    fn patterns_are_paths_that_need_no_escape() {
        assert_eq!(pattern(b"/docs/a%20b.html", None).unwrap(), "/docs/a%20b.html");
        assert_eq!(pattern(b"/app.3f9a8b7c.js", Some(5..13)).unwrap(), "/app.*.js");
        for wrong in [&b"a"[..], b"", b"/a*", b"/a:b", b"/{a}", b"/(a)", b"/a+", b"/a?b", b"/a\"", b"/a\\", b"/a b"] {
            assert_eq!(pattern(wrong, None), None, "{}", wrong.escape_ascii());
        }
        assert_eq!(pattern(&[b"/", &[b'a'; 256][..]].concat(), None), None, "it is sent with each response");
        assert_eq!(use_as_dictionary("/a*", "document"), "match=\"/a*\", match-dest=(\"document\")");
    }

    proptest! {
        #[test]
        fn any_field_is_read_or_refused(value in "[ -~\t]{0,100}") {
            announced(&[&value]);
        }

        #[test]
        fn every_digest_comes_back(digest in any::<Digest>()) {
            prop_assert_eq!(announced(&[&format!(":{}:", STANDARD.encode(digest))]), Some(digest));
        }
    }
}
