//! Decodes the path of a request to a relative path for the file system.
//!
//! The rule is to decode once, and to refuse every path that could name a file in two ways or a file outside the root.
//! Refusing is safer than normalising: a gateway in front may apply its access rules to a spelling that differs from
//! the one that we open.
//!
//! A path is bytes, as file names are to the kernel: names in an old archive may be Latin-1.

use percent_encoding::percent_decode;

use crate::Reject;
use crate::readings::{Readings, overlong};

/// Decodes `raw` (as in [`crate::Request::path`]) into `out`, replacing its contents. The result has no leading slash,
/// a trailing slash if `raw` has one (a directory), and is empty for the root. On `Err`, `out` is empty.
pub fn decode_path(raw: &[u8], out: &mut Vec<u8>) -> Result<(), Reject> {
    out.clear();
    let Some(relative) = raw.strip_prefix(b"/") else {
        return Err(Reject::bad("path does not begin with a slash"));
    };
    // The buffer is reused, so a warm server does not allocate here.
    if relative.contains(&b'%') {
        check_escapes(relative)?;
        out.extend(percent_decode(relative));
    } else {
        out.extend_from_slice(relative);
    }
    check_decoded(out).inspect_err(|_| out.clear())
}

/// Decodes the part of a path after the script. It names no file; only the program knows its meaning. Dot segments are
/// refused, as for every program ([`Readings::of`]), and so is NUL, which ends a string in C.
pub fn decode_path_info(raw: &[u8]) -> Result<Vec<u8>, Reject> {
    Readings::of(raw)?;
    let decoded: Vec<u8> = percent_decode(raw).collect();
    if decoded.contains(&0) { Err(Reject::bad("nul in path")) } else { Ok(decoded) }
}

/// Returns true if a request can name this file: percent-encoding its name and passing it to [`decode_path`] returns
/// the name.
pub fn is_servable_name(name: &[u8]) -> bool {
    !name.is_empty() && !name.contains(&b'/') && check_decoded(name).is_ok()
}

/// Checks the escapes before decoding. Every `%` must begin an escape of two hex digits (servers disagree about `%2`,
/// `%zz` and `%u0041`), and no escape may hide a slash: `a%2Fb` is one segment to a gateway and two to a file system.
fn check_escapes(raw: &[u8]) -> Result<(), Reject> {
    for after in raw.split(|&b| b == b'%').skip(1) {
        match after {
            [b'2', b'f' | b'F', ..] => return Err(Reject::bad("encoded slash in path")),
            [high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {}
            _ => return Err(Reject::bad("percent sign without two hex digits in path")),
        }
    }
    Ok(())
}

/// Checks the path after decoding, so that no encoding of a dot or a backslash gets through.
fn check_decoded(path: &[u8]) -> Result<(), Reject> {
    check_characters(path)?;
    if has_overlong_ascii(path) {
        return Err(Reject::bad("overlong form of an ascii character in path"));
    }
    let directory = path.strip_suffix(b"/").unwrap_or(path);
    if path.is_empty() {
        return Ok(());
    }
    for segment in directory.split(|&byte| byte == b'/') {
        match segment {
            // `//` and `/` name one file twice, and `//host/` in a redirect names another server.
            b"" => return Err(Reject::bad("empty segment in path")),
            // Clients resolve dot segments before sending (RFC 3986 section 5.2.4). [`crate::resolved`] resolves them
            // for other clients.
            b"." | b".." => return Err(Reject::bad("dot segment in path")),
            _ => {}
        }
    }
    Ok(())
}

fn check_characters(path: &[u8]) -> Result<(), Reject> {
    // NUL ends a path early in C; the others forge log lines and terminal output. Bytes that are not UTF-8 are not
    // control characters to a UTF-8 reader.
    if path.utf8_chunks().any(|chunk| chunk.valid().chars().any(char::is_control)) {
        return Err(Reject::bad("control character in path"));
    }
    // A backslash is a separator on other systems and in the rules of some gateways; no file we serve needs it.
    if path.contains(&b'\\') {
        return Err(Reject::bad("backslash in path"));
    }
    Ok(())
}

/// Returns true if a lax decoder finds an ASCII character (perhaps a dot or a slash) where UTF-8 has none (RFC 3629
/// section 10).
fn has_overlong_ascii(path: &[u8]) -> bool {
    !path.is_ascii() && (0..path.len()).any(|at| overlong(&path[at..]).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
    use proptest::prelude::*;

    fn decode(raw: &[u8]) -> Result<Vec<u8>, &'static str> {
        let mut out = b"left over".to_vec();
        let result = decode_path(raw, &mut out);
        assert!(result.is_ok() || out.is_empty());
        result.map(|()| out).map_err(|reject| {
            assert_eq!(reject.status.0, 400);
            reject.reason
        })
    }

    #[test]
    fn paths_that_are_served() {
        for (raw, decoded) in [
            ("/", ""),
            ("/a", "a"),
            ("/a/", "a/"),
            ("/a/b.html", "a/b.html"),
            ("/a%20b", "a b"),
            ("/%E2%82%AC", "\u{20ac}"),
            ("/%e2%82%ac/", "\u{20ac}/"),
            ("/...", "..."),
            ("/..a/b..", "..a/b.."),
            ("/.well-known/x", ".well-known/x"),
            ("/a+b", "a+b"),
            ("/%2525", "%25"), // once, not twice
            ("/%252e%252e", "%2e%2e"),
            ("/a:b;c=d", "a:b;c=d"),
        ] {
            assert_eq!(decode(raw.as_bytes()), Ok(decoded.into()), "{raw}");
        }
    }

    #[test]
    fn bytes_that_are_no_utf8_are_served_as_they_are() {
        let cases: &[(&[u8], &[u8])] = &[
            (b"/%ff", b"\xff"),
            (b"/\xff", b"\xff"),
            (b"/caf%E9/na%EFve.txt", b"caf\xe9/na\xefve.txt"),
            (b"/%93quoted%94", b"\x93quoted\x94"),
            // A surrogate, and a character cut short.
            (b"/%ed%a0%80", b"\xed\xa0\x80"),
            (b"/%e2%82", b"\xe2\x82"),
            // Latin-1 text, in which no decoder finds an overlong form.
            (b"/%C0bas/%E0%20la", b"\xc0bas/\xe0 la"),
        ];
        for (raw, decoded) in cases {
            assert_eq!(decode(raw), Ok(decoded.to_vec()), "{}", raw.escape_ascii());
        }
    }

    #[test]
    fn names_are_servable_that_a_path_can_have() {
        for (name, is_servable) in [
            (&b"a"[..], true),
            (b"caf\xe9", true),
            (b"a?b#c%2F", true),
            (b"...", true),
            (b"", false),
            (b".", false),
            (b"..", false),
            (b"a\\b", false),
            (b"a/b", false),
            (b"a\nb", false),
            (b"\xc2\x85", false),
            (b"\xe9\n", false),
            (b"\xc0\xae", false),
        ] {
            assert_eq!(is_servable_name(name), is_servable, "{}", name.escape_ascii());
        }
    }

    /// A file of Nextcloud may have any name.
    #[test]
    fn what_follows_a_script_may_be_anything_but_a_path_elsewhere() {
        for (raw, decoded) in [
            ("/dav/a%5Cb.txt", &b"/dav/a\\b.txt"[..]),
            ("/dav/a%09%0A%7F", b"/dav/a\t\n\x7f"),
            ("/a%2Fb%252F", b"/a/b%2F"),
            ("/100%/%zz", b"/100%/%zz"),
            ("/%E9/.hidden//;x", b"/\xe9/.hidden//;x"),
            ("/", b"/"),
        ] {
            assert_eq!(decode_path_info(raw.as_bytes()), Ok(decoded.to_vec()), "{raw}");
        }
        for raw in ["", "a", "/a%00b", "/a/../b", "/a%2F..%2Fb", "/%2e%2e/"] {
            assert!(decode_path_info(raw.as_bytes()).is_err(), "{raw}");
        }
    }

    #[test]
    fn paths_that_are_refused() {
        let cases: &[(&str, &[&[u8]])] = &[
            ("path does not begin with a slash", &[b"", b"*", b"a", b"%2Fa"]),
            ("encoded slash in path", &[b"/a%2fb", b"/%2F", b"/..%2f..%2fetc"]),
            ("percent sign without two hex digits in path", &[b"/%", b"/%2", b"/%zz", b"/a%u0041", b"/%%41", b"/% 1"]),
            (
                "control character in path",
                &[b"/%00", b"/a%0d%0ab", b"/%7f", b"/a\tb", b"/%C2%85", b"/%ff%00", b"/%e9%0a"],
            ),
            ("backslash in path", &[b"/a\\b", b"/..%5c..%5C", b"/%5C", b"/%ff%5C"]),
            ("empty segment in path", &[b"//", b"//a", b"/a//b", b"/a//"]),
            (
                "dot segment in path",
                &[
                    b"/.",
                    b"/..",
                    b"/../a",
                    b"/a/..",
                    b"/a/../",
                    b"/a/./b",
                    b"/%2e%2e/a",
                    b"/.%2E/",
                    b"/%2e",
                    b"/%ff/../%ff",
                ],
            ),
        ];
        for (reason, raws) in cases {
            for raw in *raws {
                assert_eq!(decode(raw), Err(*reason), "{}", raw.escape_ascii());
            }
        }
    }

    #[test]
    fn overlong_forms_of_ascii_are_refused() {
        let cases: &[&[u8]] = &[
            b"/%c0%ae%c0%ae/",
            b"/%c0%af",
            b"/\xc0\xaf",
            b"/%c1%9c",
            b"/%c0%80",
            b"/%e0%80%ae",
            b"/%e0%81%9c",
            b"/%f0%80%80%af",
            b"/%f8%80%80%80%ae",
            b"/%fc%80%80%80%80%af",
            b"/\xe9%c0%ae",
        ];
        for raw in cases {
            assert_eq!(decode(raw), Err("overlong form of an ascii character in path"), "{}", raw.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn what_comes_out_is_safe_to_open(raw in "/([a./%\\\\]|%2[eEfF5]|%5c|%0[0-9]|%c3%a9|\\.\\./){0,12}") {
            check_safe(raw.as_bytes())?;
        }

        #[test]
        fn random_bytes_never_panic(mut raw in proptest::collection::vec(any::<u8>(), 0..40)) {
            raw.insert(0, b'/');
            check_safe(&raw)?;
        }

        /// For every name in a folder, a link to the name leads to it, and to nothing else.
        #[test]
        fn a_servable_name_is_what_its_link_leads_to(name in proptest::collection::vec(any::<u8>(), 0..12)) {
            let link = format!("/{}", percent_encode(&name, NON_ALPHANUMERIC));
            let decoded = decode(link.as_bytes());
            if is_servable_name(&name) {
                prop_assert_eq!(decoded, Ok(name));
            } else {
                prop_assert!(decoded.is_err() || name.is_empty(), "{:?}", decoded);
            }
        }

        /// A lax decoder finds the same ASCII characters in a path as the file system does.
        #[test]
        fn a_lax_decoder_finds_no_other_ascii(path in proptest::collection::vec(lax_byte(), 0..12)) {
            if is_servable_name(&path) {
                let found: Vec<u32> = lax(&path).into_iter().filter(|code| *code < 128).collect();
                let ascii: Vec<u32> = path.iter().filter(|byte| byte.is_ascii()).map(|byte| u32::from(*byte)).collect();
                prop_assert_eq!(found, ascii);
            }
        }
    }

    fn lax_byte() -> impl Strategy<Value = u8> {
        prop_oneof![
            any::<u8>(),
            Just(0x80),
            Just(0x81),
            Just(0xae),
            Just(0xaf),
            Just(0xc0),
            Just(0xe0),
            Just(0xf0),
            Just(0xf8)
        ]
    }

    /// Decodes UTF-8 as before RFC 3629, overlong forms included.
    fn lax(bytes: &[u8]) -> Vec<u32> {
        let (mut found, mut at) = (Vec::new(), 0);
        while let Some(&first) = bytes.get(at) {
            let (more, mut code) = match first {
                0xc0..=0xdf => (1, u32::from(first & 0x1f)),
                0xe0..=0xef => (2, u32::from(first & 0x0f)),
                0xf0..=0xf7 => (3, u32::from(first & 0x07)),
                0xf8..=0xfb => (4, u32::from(first & 0x03)),
                0xfc..=0xfd => (5, u32::from(first & 0x01)),
                _ => (0, u32::from(first)),
            };
            let rest = bytes.get(at + 1..=at + more).filter(|rest| rest.iter().all(|&byte| byte & 0xc0 == 0x80));
            let Some(rest) = rest else {
                at += 1;
                continue;
            };
            for byte in rest {
                code = code << 6 | u32::from(byte & 0x3f);
            }
            found.push(code);
            at += 1 + more;
        }
        found
    }

    fn check_safe(raw: &[u8]) -> Result<(), TestCaseError> {
        let Ok(path) = decode(raw) else { return Ok(()) };
        prop_assert!(!path.starts_with(b"/") && !path.windows(2).any(|pair| pair == b"//"));
        prop_assert!(!path.iter().any(|byte| byte.is_ascii_control() || *byte == b'\\'));
        prop_assert!(path.split(|byte| *byte == b'/').all(|segment| segment != b".." && segment != b"."));
        prop_assert!(path.split(|byte| *byte == b'/').rev().skip(1).all(|segment| !segment.is_empty()));
        Ok(())
    }
}
