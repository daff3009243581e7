//! From the path of a request to a relative path that can be given to the file system.
//!
//! The rule: decode once, and refuse everything that could name a file in two ways or a file outside the root.
//! Refusing beats normalising: a gateway in front may apply its access rules to another spelling than we open.

use percent_encoding::percent_decode;

use crate::Reject;

/// Decodes `raw` (as in [`crate::Request::path`]) into `out`, replacing what was there: no leading slash, one trailing
/// slash if `raw` has one (a directory), `""` for the root. On `Err`, `out` is empty.
pub fn decode_path(raw: &[u8], out: &mut String) -> Result<(), Reject> {
    out.clear();
    let Some(relative) = raw.strip_prefix(b"/") else {
        return Err(Reject::bad("path does not begin with a slash"));
    };
    // The String's buffer is reused, so that a warm server does not allocate here.
    let mut bytes = std::mem::take(out).into_bytes();
    if relative.contains(&b'%') {
        check_escapes(relative)?;
        bytes.extend(percent_decode(relative));
    } else {
        bytes.extend_from_slice(relative);
    }
    let decoded = String::from_utf8(bytes).map_err(|_| Reject::bad("path is not utf-8"))?;
    check_segments(&decoded)?;
    *out = decoded;
    Ok(())
}

/// Before decoding: every `%` begins an escape of two hex digits (`%2`, `%zz` and `%u0041` mean different things to
/// different servers), and none hides a slash, since `a%2Fb` is one segment to a gateway and two to a file system.
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

/// After decoding, so that no encoding of a dot or a backslash escapes.
fn check_segments(path: &str) -> Result<(), Reject> {
    check_characters(path)?;
    let directory = path.strip_suffix('/').unwrap_or(path);
    if path.is_empty() {
        return Ok(());
    }
    for segment in directory.split('/') {
        match segment {
            // `//` and `/` name one file twice, and `//host/` in a redirect names another server.
            "" => return Err(Reject::bad("empty segment in path")),
            // Clients resolve dot segments before sending (RFC 3986 section 5.2.4); only an attack leaves them.
            "." | ".." => return Err(Reject::bad("dot segment in path")),
            _ => {}
        }
    }
    Ok(())
}

fn check_characters(path: &str) -> Result<(), Reject> {
    // NUL ends a path early in C; the others forge log lines and terminal output.
    if path.chars().any(char::is_control) {
        return Err(Reject::bad("control character in path"));
    }
    // A separator elsewhere, and to the rules of some gateways: no file we serve needs it.
    if path.contains('\\') {
        return Err(Reject::bad("backslash in path"));
    }
    Ok(())
}

/// The path by which rules choose who answers, where that is another server, which gets `raw` as it came. Decoded as [`decode_path`] does, with
/// its leading slash, and with less refused: a segment may be empty, an encoded slash stays `%2F` and separates nothing, and what is no UTF-8 is
/// replaced. Dot segments are refused, behind encoded slashes too: the other server may resolve them, past the rule that chose it.
pub fn decode_route(raw: &[u8]) -> Result<String, Reject> {
    if !raw.starts_with(b"/") {
        return Err(Reject::bad("path does not begin with a slash"));
    }
    let mut bytes = Vec::with_capacity(raw.len());
    let mut parts = raw.split(|&byte| byte == b'%');
    bytes.extend(parts.next().into_iter().flatten());
    for after in parts {
        match after {
            [b'2', b'f' | b'F', rest @ ..] => {
                bytes.extend(b"%2F");
                bytes.extend(rest);
            }
            [high, low, rest @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                bytes.extend(percent_decode(&[b'%', *high, *low]));
                bytes.extend(rest);
            }
            _ => return Err(Reject::bad("percent sign without two hex digits in path")),
        }
    }
    let path = String::from_utf8_lossy(&bytes).into_owned();
    check_characters(&path)?;
    if path.split('/').flat_map(|segment| segment.split("%2F")).any(|segment| matches!(segment, "." | "..")) {
        return Err(Reject::bad("dot segment in path"));
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(raw: &[u8]) -> Result<String, &'static str> {
        let mut out = String::from("left over");
        let result = decode_path(raw, &mut out);
        assert!(result.is_ok() || out.is_empty());
        result.map(|()| out).map_err(|reject| {
            assert_eq!(reject.status.0, 400);
            reject.reason
        })
    }

    #[test]
    fn routes_are_chosen_by_what_no_server_reads_otherwise() {
        for (raw, decoded) in [
            ("/", Ok("/")),
            ("/a%20b/", Ok("/a b/")),
            ("//a//b", Ok("//a//b")),
            ("/projects/a%2fb%2Fc", Ok("/projects/a%2Fb%2Fc")),
            ("/%252e%252e/%252F", Ok("/%2e%2e/%2F")),
            ("/%FCber", Ok("/\u{fffd}ber")),
            ("/..%2Fa", Err("dot segment in path")),
            ("/a%2f%2e%2E", Err("dot segment in path")),
            ("/a/%2e/b", Err("dot segment in path")),
            ("/a/..", Err("dot segment in path")),
            ("/%00", Err("control character in path")),
            ("/..%5c", Err("backslash in path")),
            ("/%zz", Err("percent sign without two hex digits in path")),
            ("/a%2", Err("percent sign without two hex digits in path")),
            ("*", Err("path does not begin with a slash")),
        ] {
            let found = decode_route(raw.as_bytes()).map_err(|reject| reject.reason);
            assert_eq!(found.as_deref().map_err(|reason| *reason), decoded, "{raw}");
        }
    }

    proptest! {
        /// What is served is a route too, and the same.
        #[test]
        fn whatever_is_served_is_a_route(raw in "/[a-c./%2-5eEF]{0,12}") {
            if let Ok(path) = decode(raw.as_bytes()) {
                prop_assert_eq!(decode_route(raw.as_bytes()).unwrap(), format!("/{path}"));
            }
        }
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
            assert_eq!(decode(raw.as_bytes()), Ok(decoded.to_owned()), "{raw}");
        }
    }

    #[test]
    fn paths_that_are_refused() {
        let cases: &[(&str, &[&[u8]])] = &[
            ("path does not begin with a slash", &[b"", b"*", b"a", b"%2Fa"]),
            ("encoded slash in path", &[b"/a%2fb", b"/%2F", b"/..%2f..%2fetc"]),
            ("percent sign without two hex digits in path", &[b"/%", b"/%2", b"/%zz", b"/a%u0041", b"/%%41", b"/% 1"]),
            ("control character in path", &[b"/%00", b"/a%0d%0ab", b"/%7f", b"/a\tb", b"/%C2%85"]),
            ("backslash in path", &[b"/a\\b", b"/..%5c..%5C", b"/%5C"]),
            ("empty segment in path", &[b"//", b"//a", b"/a//b", b"/a//"]),
            (
                "dot segment in path",
                &[b"/.", b"/..", b"/../a", b"/a/..", b"/a/../", b"/a/./b", b"/%2e%2e/a", b"/.%2E/", b"/%2e"],
            ),
            // Overlong forms of `.` and `/`, and a surrogate.
            ("path is not utf-8", &[b"/%ff", b"/%c0%ae%c0%ae/", b"/%c0%af", b"/\xff", b"/%ed%a0%80"]),
        ];
        for (reason, raws) in cases {
            for raw in *raws {
                assert_eq!(decode(raw), Err(*reason), "{}", raw.escape_ascii());
            }
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
    }

    fn check_safe(raw: &[u8]) -> Result<(), TestCaseError> {
        let Ok(path) = decode(raw) else { return Ok(()) };
        prop_assert!(!path.starts_with('/') && !path.contains("//") && !path.contains('\0') && !path.contains('\\'));
        prop_assert!(path.split('/').all(|segment| segment != ".." && segment != "."));
        prop_assert!(path.split('/').rev().skip(1).all(|segment| !segment.is_empty()));
        Ok(())
    }
}
