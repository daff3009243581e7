//! Every rule for refusing a request, one line each: the bytes, the status, the reason.
//!
//! The table includes the reason so that a line cannot pass for a wrong reason. The rules are justified where they are
//! implemented.

use http::http1::parse_request;
use http::{BodyLength, Limits, PeerLength};

/// Returns the status and reason of the refusal, if any.
fn refusal(bytes: &[u8], limits: &Limits) -> Option<(u16, &'static str)> {
    parse_request(bytes, limits).err().map(|reject| (reject.status.0, reject.reason))
}

fn check(bytes: impl AsRef<[u8]>, status: u16, reason: &'static str) {
    let bytes = bytes.as_ref();
    assert_eq!(refusal(bytes, &Limits::default()), Some((status, reason)), "{}", bytes.escape_ascii());
}

/// Returns a GET in HTTP/1.1 with Host and these lines.
fn with(lines: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n\r\n")
}

#[test]
fn request_lines() {
    let reason = "malformed request line";
    for line in [
        "GET  / HTTP/1.1",
        "GET /  HTTP/1.1",
        " GET / HTTP/1.1",
        "GET\t/ HTTP/1.1",
        "GET /\tHTTP/1.1",
        "GET / a HTTP/1.1",
        "GET /",
        "GET",
        "GET / ",
        "GET / http/1.1",
        "GET / HTTPS/1.1",
        "GET / HTTP/",
        "GET / HTTP 1.1",
        "G\"T / HTTP/1.1",
        "GET /a\0b HTTP/1.1",
        "GET /a\x7fb HTTP/1.1",
        "GET /a\x01b HTTP/1.1",
        "GET /\ra HTTP/1.1",
    ] {
        check(format!("{line}\r\nHost: a\r\n\r\n"), 400, reason);
    }
    check(b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n", 400, reason);
    check(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, reason); // TLS
    let reason = "line does not end in carriage return, line feed";
    check("GET / HTTP/1.1 \r\nHost: a\r\n\r\n", 400, reason);
    check("GET / HTTP/1.10\r\nHost: a\r\n\r\n", 400, reason);
    check("GET / HTTP/1.1\rHost: a\r\n\r\n", 400, reason);
}

#[test]
fn versions() {
    let reason = "major http version other than 1";
    check("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, reason);
    for version in ["0.9", "2", "2.0", "3.0", "9.9"] {
        check(format!("GET / HTTP/{version}\r\nHost: a\r\n\r\n"), 505, reason);
    }
    for version in ["1", "1x1", "1.", "1.x", "1,1", "1/1"] {
        check(format!("GET / HTTP/{version}\r\nHost: a\r\n\r\n"), 400, "malformed request line");
    }
}

/// An unknown minor version belongs to the same major version and is read by the rules of HTTP/1.1.
#[test]
fn later_minor_versions() {
    for minor in 2..=9 {
        let get = |lines: &str| format!("GET /x?y HTTP/1.{minor}\r\n{lines}\r\n\r\n");
        let bytes = get("Host: a\r\nRange: bytes=0-1\r\nX: 1") + "GET /next";
        let head = parse_request(bytes.as_bytes(), &Limits::default()).unwrap().unwrap();
        let request = head.request;
        assert_eq!((request.path, request.target), (&b"/x"[..], &b"/x?y"[..]));
        assert_eq!((head.minor_version, head.keep_alive), (minor, true));
        assert_eq!(request.fields.range, Some(&b"bytes=0-1"[..]));
        assert_eq!(request.values("x").collect::<Vec<_>>(), [b"1"]);
        assert_eq!(&bytes[head.bytes..], "GET /next");

        check(get("X: no host"), 400, "no host field");
        check(get("Host: a\nX: y"), 400, "bare line feed in the head");
        check(get(" Host: a"), 400, "malformed field name, space before the colon, or folded line");
        check(get("Host: a\r\nX: \0"), 400, "control character or bare carriage return in a field value");
        let line_end = "line does not end in carriage return, line feed";
        check(format!("GET / HTTP/1.{minor}\nHost: a\r\n\r\n"), 400, line_end);
        check(format!("GET / HTTP/1.{minor}0\r\nHost: a\r\n\r\n"), 400, line_end);
        check(format!("GET / HTTP/1.{minor} \r\nHost: a\r\n\r\n"), 400, line_end);
        check(get(&("Host: a".to_owned() + &"\r\nA: b".repeat(200))), 431, "more field lines than the limit");
    }
    let posted = b"\r\nPOST / HTTP/1.2\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n0";
    let head = parse_request(posted, &Limits::default()).unwrap().unwrap();
    assert_eq!((head.request.body, head.expect_continue), (BodyLength::Unknown, true));
    assert_eq!(head.bytes, posted.len() - 1);
}

#[test]
fn methods() {
    for method in ["get", "LIST", "M-SEARCH", "BITS_POST", "BREW", "GETT"] {
        let bytes = format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n");
        let request = parse_request(bytes.as_bytes(), &Limits::default()).unwrap().unwrap().request;
        assert_eq!(request.method.token(), method.as_bytes());
    }
    check(format!("{} / HTTP/1.1\r\nHost: a\r\n\r\n", "X".repeat(41)), 501, "method over the limit");
    for method in ["A(B)", "\"GET\"", "GET,", "G\u{e9}T"] {
        check(format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n"), 400, "malformed request line");
    }
    check("CONNECT a.com:443 HTTP/1.1\r\nHost: a.com:443\r\n\r\n", 400, "connect is for proxies");
}

#[test]
fn targets() {
    for (target, reason) in [
        ("/a#b", "fragment in the request target"),
        ("a.com:80", "request target is neither a path nor an http url"),
        ("ftp://a/", "request target is neither a path nor an http url"),
        ("*", "asterisk target with a method other than options"),
        ("http://u@a/", "userinfo in the request target"),
        ("http:///", "malformed authority in the request target"),
        ("http://a:b/", "malformed authority in the request target"),
        ("http://a,b/", "malformed authority in the request target"),
    ] {
        check(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"), 400, reason);
    }
    // An absolute target does not excuse Host.
    check("GET http://a/ HTTP/1.1\r\n\r\n", 400, "no host field");
    check("GET http://a/ HTTP/1.1\r\nHost: a b\r\n\r\n", 400, "malformed host field");
}

#[test]
fn the_authority_of_an_absolute_target_replaces_host() {
    let bytes = b"GET http://a.com:80/x HTTP/1.1\r\nHost: b.com\r\n\r\n";
    let request = parse_request(bytes, &Limits::default()).unwrap().unwrap().request;
    assert_eq!(request.fields.host, Some(&b"a.com:80"[..]));
    assert_eq!((request.path, request.target), (&b"/x"[..], &b"http://a.com:80/x"[..]));
}

/// A proxy searches for each option among all fields.
#[test]
fn connection_options_are_bounded() {
    let options = |count: usize| with(&format!("Connection: {}\r\nConnection: x", "x,".repeat(count - 1)));
    assert!(parse_request(options(64).as_bytes(), &Limits::default()).is_ok());
    check(options(65), 431, "more connection options than the limit");
}

#[test]
fn line_ends() {
    let reason = "bare line feed in the head";
    check("GET / HTTP/1.1\nHost: a\r\n\r\n", 400, reason);
    check("GET / HTTP/1.1\r\nHost: a\n\r\n", 400, reason);
    check("GET / HTTP/1.1\r\nHost: a\r\n\n", 400, reason);
    check("GET / HTTP/1.1\r\nHost: a\r\nX:\n\r\n", 400, reason);
    check("GET / HTTP/1.1\r\nHost: a\nContent-Length: 5\r\n\r\n", 400, reason);
    check("GET / HTTP/1.1\n\n", 400, reason);
    check("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400, "bare line feed before the request");
    check("\r\n\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400, "bare line feed before the request");
    check("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400, "more than one empty line before the request");
    check("\rGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400, "line does not end in carriage return, line feed");
    check(with("\rX: y"), 400, "line does not end in carriage return, line feed");
}

#[test]
fn field_lines() {
    let reason = "malformed field name, space before the colon, or folded line";
    for line in [
        "X : y",
        "X\t: y",
        " X: y",
        "\tfolded",
        "X: y\r\n folded",
        ": y",
        "X",
        "X y: z",
        "X\0: y",
        "X(: y",
        "\u{e9}: y",
    ] {
        check(with(line), 400, reason);
    }
    check("GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400, reason);
    let reason = "control character or bare carriage return in a field value";
    for line in ["X: a\0b", "X: \0", "X: a\x01b", "X: a\x7fb", "X: a\rb", "X: a\r\rb", "X:\ra", "X: \x0b"] {
        check(with(line), 400, reason);
    }
}

#[test]
fn values_may_hold_tabs_and_bytes_outside_ascii() {
    assert_eq!(refusal(b"GET / HTTP/1.1\r\nHost: a\r\nX: a\tb\xff\xc3\xa9\r\n\r\n", &Limits::default()), None);
}

#[test]
fn hosts() {
    check("GET / HTTP/1.1\r\n\r\n", 400, "no host field");
    for minor in [0, 1] {
        let get = |lines: &str| format!("GET / HTTP/1.{minor}\r\n{lines}\r\n\r\n");
        check(get("Host: a\r\nHost: a"), 400, "more than one host field");
        check(get("Host: a\r\nhOST: b"), 400, "more than one host field");
        for host in ["", "a b", "a/b", "a@b", "a,b", "a:b", "a:99999", "http://a", "[::1", "::1", "a\u{e9}"] {
            check(get(&format!("Host: {host}")), 400, "malformed host field");
        }
    }
    assert_eq!(refusal(b"GET / HTTP/1.0\r\n\r\n", &Limits::default()), None);
}

#[test]
fn body_lengths() {
    let reason = "content-length is not one decimal number below 2^63";
    for value in [
        "",
        "+5",
        "-5",
        "5 5",
        "5,5",
        "5, 5",
        "0x5",
        "5a",
        "9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        "\u{661}",
        "5;a",
        "1e3",
        "5.",
    ] {
        check(with(&format!("Content-Length: {value}")), 400, reason);
    }
    check(with("Content-Length: 5\r\nContent-Length: 6"), 400, reason);
    check(with("Content-Length: 5\r\ncontent-length: 5"), 400, reason);
    check(with("Content-Length: 5\r\nContent-Length: 5\r\nContent-Length: 5"), 400, reason);

    let reason = "both transfer-encoding and content-length";
    check(with("Content-Length: 5\r\nTransfer-Encoding: chunked"), 400, reason);
    check(with("Transfer-Encoding: chunked\r\nContent-Length: 0"), 400, reason);
    check(with("Transfer-Encoding: identity\r\nContent-Length: 5"), 400, reason);

    check("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "transfer-encoding in http/1.0");
    check(with("Transfer-Encoding : chunked"), 400, "malformed field name, space before the colon, or folded line");
}

#[test]
fn transfer_codings() {
    // A final chunked delimits the body; the encodings before it are unknown to us.
    let reason = "transfer-encoding other than chunked";
    for value in ["gzip, chunked", "gzip,, Chunked", "a, b, chunked"] {
        check(with(&format!("Transfer-Encoding: {value}")), 501, reason);
    }
    // Without a final chunked the end of the body is unknown (RFC 9112 section 6.3: 400).
    let reason = "transfer-encoding that does not end in one chunked";
    for value in [
        "",
        "gzip",
        "identity",
        "chunked, gzip",
        "chunked, chunked",
        "chunked, gzip, chunked",
        "chunked,",
        ", chunked",
        "xchunked",
        "gzip, chunkedx",
        "chunked;a",
        "\"chunked\"",
        "chun ked",
    ] {
        check(with(&format!("Transfer-Encoding: {value}")), 400, reason);
    }
    check(with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"), 400, reason);
    check(with("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity"), 400, reason);
    check(with("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked"), 400, reason);
}

#[test]
fn expectations() {
    for value in ["", "200-ok", "100-continue, x", "100-continued"] {
        check(with(&format!("Expect: {value}")), 417, "expectation other than 100-continue");
    }
    let waits = |version: &str, lines: &str| {
        let bytes = format!("POST / HTTP/{version}\r\nHost: a\r\nExpect: 100-Continue\r\n{lines}\r\n");
        parse_request(bytes.as_bytes(), &Limits::default()).unwrap().unwrap().expect_continue
    };
    assert!(waits("1.1", "Content-Length: 5\r\n"));
    assert!(waits("1.1", "Transfer-Encoding: chunked\r\n"));
    assert!(!waits("1.0", "Content-Length: 5\r\n"));
    assert!(!waits("1.1", ""));
}

#[test]
fn a_body_is_announced() {
    let bytes = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9223372036854775807\r\n\r\n";
    let request = parse_request(bytes, &Limits::default()).unwrap().unwrap().request;
    assert_eq!(request.body, BodyLength::Known(PeerLength::MAX));
}

mod limits {
    use super::*;

    const LIMITS: Limits = Limits { head_bytes_max: 100, fields_max: 3 };

    /// Returns a head of exactly this many bytes.
    fn head_of(bytes: usize) -> Vec<u8> {
        let start = "GET / HTTP/1.1\r\nHost: a\r\nX: ";
        format!("{start}{}\r\n\r\n", "x".repeat(bytes - start.len() - 4)).into_bytes()
    }

    #[test]
    fn the_head() {
        assert_eq!(refusal(&head_of(100), &LIMITS), None);
        let too_large = Some((431, "request head over the limit"));
        assert_eq!(refusal(&head_of(101), &LIMITS), too_large);
        // A buffer of exactly the limit that does not hold a whole head never will.
        assert_eq!(refusal(&head_of(101)[..100], &LIMITS), too_large);
        assert_eq!(parse_request(&head_of(101)[..99], &LIMITS), Ok(None));
        // Errors beyond the limit do not matter.
        assert_eq!(refusal(&[&head_of(200)[..150], b"\0\0"].concat(), &LIMITS), too_large);
        // Bytes after a head within the limit do not count.
        assert_eq!(refusal(&[head_of(90), head_of(100)].concat(), &LIMITS), None);
    }

    #[test]
    fn the_target() {
        let get = |bytes: usize| format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(bytes - 1)).into_bytes();
        let too_long = Some((414, "request target over the limit"));
        assert_eq!(refusal(&get(70), &LIMITS), None);
        assert_eq!(refusal(&get(80), &LIMITS), Some((431, "request head over the limit")));
        assert_eq!(refusal(&get(200), &LIMITS), too_long);
        assert_eq!(refusal(&get(200)[..100], &LIMITS), too_long);
        assert_eq!(refusal(&[b"\r\n", &get(200)[..]].concat(), &LIMITS), too_long);
        assert_eq!(refusal(&get(60_000), &Limits::default()), None);
    }

    #[test]
    fn the_method() {
        assert_eq!(refusal(&[b'G'; 100], &LIMITS), Some((501, "method over the limit")));
    }

    #[test]
    fn the_fields() {
        let get =
            |count: usize| format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "A:b\r\n".repeat(count - 1)).into_bytes();
        let too_many = Some((431, "more field lines than the limit"));
        assert_eq!(refusal(&get(3), &LIMITS), None);
        assert_eq!(refusal(&get(4), &LIMITS), too_many);
        let wide = Limits { fields_max: usize::MAX, ..Limits::default() };
        assert_eq!(refusal(&get(http::FIELDS_MAX), &wide), None);
        assert_eq!(refusal(&get(http::FIELDS_MAX + 1), &wide), too_many);
    }

    #[test]
    fn the_defaults_bound_an_endless_head() {
        let endless = [&b"GET / HTTP/1.1\r\nHost: a\r\nX: "[..], &b"x".repeat(1 << 20)].concat();
        assert_eq!(refusal(&endless, &Limits::default()), Some((431, "request head over the limit")));
    }
}
