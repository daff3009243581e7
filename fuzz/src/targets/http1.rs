//! Heads of HTTP/1.1, and the meaning of their fields for a file. The input is the bytes that a client sends.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, SystemTime};

use http::gateway::{Gateway, asks_upgrade, claimed, encode_request};
use http::http1::{Chunked, Head, parse_request, parse_response};
use http::proxy_header::{PROXY_HEADER_BYTES_MAX, parse_proxy_header};
use http::{
    AcceptedCodings, BodyLength, Codings, Entity, FIELDS_MAX, Limits, PeerLength, RANGES_MAX, Reject, Verdict,
    decode_path, evaluate,
};

use crate::{LENGTHS, Reached, Target};

pub const TARGET: Target = Target {
    name: "http1",
    run,
    reaches: &[
        "a client of a proxy",
        "chunked body",
        "chunked body refused",
        "known body",
        "no path",
        "not modified",
        "part of a head",
        "path",
        "precondition failed",
        "proxy header",
        "range not satisfiable",
        "ranges",
        "refused",
        "request",
        "response",
        "too large",
        "upgrade",
    ],
    seeds,
    mutants: 20_000,
};

/// The number of beginnings of an input whose result is compared with that of the whole.
const PREFIXES: usize = 16;

/// Small limits, which an input of a few bytes exceeds.
const NARROW: Limits = Limits { head_bytes_max: 96, fields_max: 3 };

fn run(bytes: &[u8]) -> Reached {
    let mut reached = Reached::default();
    for limits in [Limits::default(), NARROW] {
        read(bytes, &limits, &mut reached);
    }
    reached.mark_if(matches!(parse_response(bytes), Ok(Some(_))), "response");
    proxy_header(bytes, &mut reached);
    reached
}

/// A header is found as soon as it is complete, and no sooner.
fn proxy_header(bytes: &[u8], reached: &mut Reached) {
    match parse_proxy_header(bytes) {
        Ok(Some(header)) => {
            assert_eq!(parse_proxy_header(&bytes[..header.bytes]), Ok(Some(header)));
            assert_eq!(parse_proxy_header(&bytes[..header.bytes - 1]), Ok(None));
            reached.mark("proxy header");
        }
        Ok(None) => assert!(bytes.len() < PROXY_HEADER_BYTES_MAX, "a header beyond its limit is waited for"),
        Err(_) => {}
    }
}

fn read(bytes: &[u8], limits: &Limits, reached: &mut Reached) {
    let answer = parse_request(bytes, limits);
    let step = (bytes.len() / PREFIXES).max(1);
    for end in (0..bytes.len()).step_by(step) {
        let early = parse_request(&bytes[..end], limits);
        assert!(early == Ok(None) || early == answer, "the answer to {end} bytes is not that to all");
    }
    match answer {
        Ok(None) => {
            assert!(bytes.len() < limits.head_bytes_max, "a head beyond its limit is waited for");
            reached.mark("part of a head");
        }
        Ok(Some(head)) => {
            reached.mark("request");
            assert!(head.bytes <= bytes.len().min(limits.head_bytes_max));
            assert!(bytes[..head.bytes].ends_with(b"\r\n\r\n"), "a head ends with its empty line");
            answer_to(&head, &bytes[head.bytes..], reached);
        }
        Err(Reject { status, .. }) => {
            assert!((400..=505).contains(&status.0));
            reached.mark("refused");
            reached.mark_if(matches!(status.0, 414 | 431), "too large");
        }
    }
}

fn answer_to(head: &Head<'_>, behind: &[u8], reached: &mut Reached) {
    let mut path = Vec::new();
    match decode_path(head.request.path, &mut path) {
        Ok(()) => {
            let is_safe = path.split(|byte| *byte == b'/').all(|part| part != b"." && part != b"..");
            assert!(is_safe && !path.starts_with(b"/") && !path.contains(&0), "{}", path.escape_ascii());
            reached.mark("path");
        }
        Err(_) => reached.mark("no path"),
    }
    pass_on(head, reached);
    for name in ["if-match", "if-none-match", "priority"] {
        head.request.values(name).for_each(|value| assert!(!value.contains(&b'\n')));
    }
    for len in [0, 1, 1000, u64::MAX] {
        conditions(head, len, reached);
    }
    match head.request.body {
        BodyLength::None => {}
        BodyLength::Known(length) => {
            assert!(length > PeerLength::ZERO);
            reached.mark("known body");
        }
        BodyLength::Unknown => chunks(behind, reached),
    }
}

/// The maximum number of fields added to those of the request: Host, the description of the client, and the framing of
/// the body.
const GATEWAY_FIELDS_MAX: usize = 9;

/// An upstream must read the same request in its head.
fn pass_on(head: &Head<'_>, reached: &mut Reached) {
    let request = head.request;
    if request.all().count() + GATEWAY_FIELDS_MAX > FIELDS_MAX {
        return;
    }
    let is_upgrade = head.minor_version >= 1 && asks_upgrade(&request);
    reached.mark_if(is_upgrade, "upgrade");
    let by_proxies = claimed(&request, |address| address.is_loopback());
    reached.mark_if(by_proxies.client.is_some(), "a client of a proxy");
    for is_trusted in [false, true] {
        let client = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let host = request.fields.host.or(Some(b"upstream"));
        let websocket_key = None;
        let gateway = Gateway {
            client,
            client_port: None,
            is_secure: false,
            is_trusted,
            claimed_client: by_proxies.client,
            host,
            version: (1, head.minor_version),
            is_upgrade,
            websocket_key,
            changes: &[],
        };
        let mut out = Vec::new();
        encode_request(&mut out, &request, &gateway, request.body);
        let limits = Limits { head_bytes_max: 2 * out.len(), fields_max: FIELDS_MAX };
        let read = parse_request(&out, &limits).expect("a request").expect("a whole head");
        assert_eq!(read.bytes, out.len());
        assert_eq!((read.request.method, read.request.body), (request.method, request.body));
        assert_eq!((read.request.path, read.request.query), (request.path, request.query));
        assert_eq!((read.request.fields.host, asks_upgrade(&read.request)), (host, is_upgrade));
    }
}

fn conditions(head: &Head<'_>, len: u64, reached: &mut Reached) {
    let last_modified = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
    let accepted = AcceptedCodings::of(&head.request);
    assert!(accepted.wanted(Codings::ALL).all(|coding| accepted.takes(coding)));
    match evaluate(&head.request, &Entity { len, etag: "\"v1\"", last_modified, now: SystemTime::now() }) {
        Verdict::Whole => {}
        Verdict::Ranges(ranges) => {
            assert!((1..=RANGES_MAX).contains(&ranges.len()));
            assert!(ranges.iter().all(|range| range.start < range.end && range.end <= len), "{ranges:?} of {len}");
            reached.mark("ranges");
        }
        Verdict::NotModified => reached.mark("not modified"),
        Verdict::PreconditionFailed => reached.mark("precondition failed"),
        Verdict::RangeNotSatisfiable => reached.mark("range not satisfiable"),
    }
}

/// A chunked body means the same, whole and a byte at a time.
fn chunks(body: &[u8], reached: &mut Reached) {
    let whole = Chunked::new().discard(body);
    let mut chunked = Chunked::new();
    let mut consumed = 0;
    let mut pieces = Ok(false);
    for byte in body.chunks(1) {
        match chunked.discard(byte) {
            Ok(progress) => {
                consumed += progress.consumed;
                pieces = Ok(progress.done);
            }
            Err(reject) => {
                pieces = Err(reject);
                break;
            }
        }
    }
    assert_eq!(whole.map(|progress| progress.done), pieces);
    assert!(whole.is_err() || whole.is_ok_and(|progress| progress.consumed == consumed && consumed <= body.len()));
    reached.mark(if whole.is_ok() { "chunked body" } else { "chunked body refused" });
}

fn seeds() -> Vec<Vec<u8>> {
    let get = |fields: &str| format!("GET /a%20b/c?q=1 HTTP/1.1\r\nHost: example.org:8080\r\n{fields}\r\n");
    let post = |fields: &str| format!("POST /a HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
    let date = "Sun, 06 Nov 1994 08:49:37 GMT";
    let agent = "User-Agent: Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0\r\nAccept: text/html,*/*;q=0.8\r\n\
                 Accept-Encoding: gzip, br\r\nReferer: http://example.org/\r\nPriority: u=1, i\r\n";
    let texts = [
        "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n".to_string(),
        "GET /old HTTP/1.0\r\nConnection: keep-alive\r\n\r\n".into(),
        "GET http://example.org/a?b HTTP/1.1\r\nHost: example.org\r\n\r\n".into(),
        "OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close, x\r\n\r\n".into(),
        "GET /later HTTP/1.2\r\nHost: [2001:db8::1]:80\r\n\r\n".into(),
        "HEAD /%2e%2e/%2f HTTP/1.1\r\nHost: a\r\n\r\n".into(),
        "GET /a HTTP/1.1\r\nHos".into(),
        "PROXY TCP6 2001:db8::7 ::1 99 80\r\nGET / HTTP/1.1\r\n".into(),
        "\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x01\x02\x03\x04\x7f\0\0\x01\x12\x67\0\x50".into(),
        get("Forwarded: for=\"[2001:db8::1]:9\";proto=https, for=127.0.0.1\r\n"),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".into(),
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".into(),
        get(agent),
        get("Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nCookie: a=b\r\nX-Forwarded-For: 192.0.2.1\r\n"),
        get("Range: bytes=0-9,20-29,-5\r\nIf-Range: \"v1\"\r\n"),
        get("Range: bytes=1000000-\r\n"),
        get("If-None-Match: W/\"v1\", \"x\"\r\n"),
        get(&format!("If-Modified-Since: {date}\r\n")),
        get(&format!("If-Unmodified-Since: {date}\r\nIf-Match: \"x\", *\r\n")),
        get("If-Match: \"other\"\r\n"),
        post("Content-Length: 5\r\nExpect: 100-continue\r\n") + "hello",
        post("Transfer-Encoding: chunked\r\n") + "5;a=\"b\"\r\nhello\r\n0\r\nT: x\r\n\r\n",
        post("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n") + "0\r\n\r\n",
        post("Transfer-Encoding: gzip, chunked\r\n"),
        post("Transfer-Encoding: chunked\r\n") + "5\r\nhello!",
        format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(100)),
        get("A: 1\r\nB: 2\r\nC: 3\r\nD: 4\r\n"),
        "GET / HTTP/1.1\nHost: a\n\n".into(),
        "GET / HTTP/1.1\r\nHost : a\r\n folded\r\n\r\n".into(),
    ];
    texts.into_iter().chain(lengths()).map(String::into_bytes).collect()
}

fn lengths() -> impl Iterator<Item = String> {
    LENGTHS.into_iter().flat_map(|length| {
        let chunk = length.parse::<u128>().map_or_else(|_| String::new(), |bytes| format!("{bytes:x}\r\nhello"));
        [
            format!("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\nhello"),
            format!("POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}"),
            format!("GET /a HTTP/1.1\r\nHost: a\r\nRange: bytes={length}-, 0-{length}, -{length}\r\n\r\n"),
            format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\nhello"),
        ]
    })
}
