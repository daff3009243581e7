//! HTTP/2 messages: heads of requests for upstreams, heads of their responses, and trailers.

use std::net::{IpAddr, Ipv4Addr};

use http::gateway::{Gateway, RequestHead, ResponseBuilder, takes_trailers};
use http::http1::upstream::{Framing, ResponseLimits, UpstreamBody, UpstreamFault, UpstreamHead};
use http::http1::{Chunked, parse_request};
use http::{BodyLength, Limits, Method, Status, TRAILERS_BYTES_MAX, Trailers};

const GATEWAY: Gateway = Gateway {
    client: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7)),
    client_port: None,
    is_secure: true,
    is_trusted: false,
    claimed_client: None,
    host: None,
    version: (2, 0),
    is_upgrade: false,
    websocket_key: None,
    changes: &[],
};

fn text(fields: impl Iterator<Item = (impl AsRef<[u8]>, impl AsRef<[u8]>)>) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    fields.map(|(name, value)| format!("{}: {}", text(name.as_ref()), text(value.as_ref()))).collect()
}

fn head(bytes: &str, gateway: &Gateway, body: BodyLength) -> Vec<String> {
    let head = parse_request(bytes.as_bytes(), &Limits::default()).unwrap().expect("a whole head");
    text(RequestHead::new(&head.request, gateway, body, "http").fields())
}

#[test]
fn a_request_is_what_it_is_over_http_1_1() {
    let bytes = "POST /a?b HTTP/1.1\r\nHost: a.com\r\nTE: gzip, Trailers\r\nConnection: te, x-hop\r\nX-Hop: 1\r\n\
                 Cookie: a=b\r\nX: y\r\nCookie: c=d\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n";
    let expected = [
        ":method: POST",
        ":scheme: http",
        ":authority: a.com",
        ":path: /a?b",
        "Cookie: a=b; c=d",
        "X: y",
        "X-Forwarded-For: 192.0.2.7",
        "X-Forwarded-Proto: https",
        "X-Forwarded-Host: a.com",
        "Forwarded: for=192.0.2.7;host=a.com;proto=https",
        "Via: 2 weir",
        "te: trailers",
    ];
    assert_eq!(head(bytes, &GATEWAY, BodyLength::Unknown), expected);
    let other = Gateway { host: Some(b"app"), ..GATEWAY };
    let lines = head("POST / HTTP/1.1\r\nHost: a\r\nTE: trailer\r\n\r\n", &other, BodyLength::None);
    assert_eq!(lines[2..4], [":authority: app", ":path: /"]);
    assert_eq!(lines.last().map(String::as_str), Some("content-length: 0"));
    assert!(!lines.iter().any(|line| line.starts_with("te")));
}

#[test]
fn trailers_are_asked_for_by_te() {
    for (value, takes) in [("trailers", true), ("deflate;q=0.5, TRAILERS", true), ("gzip", false), ("trailers2", false)]
    {
        let bytes = format!("GET / HTTP/1.1\r\nHost: a\r\nTE: {value}\r\n\r\n");
        let head = parse_request(bytes.as_bytes(), &Limits::default()).unwrap().expect("a whole head");
        assert_eq!(takes_trailers(&head.request), takes, "{value}");
    }
}

fn built(
    fields: &[(&str, &str)],
    method: Method,
    ends_stream: bool,
    limits: ResponseLimits,
) -> Result<UpstreamHead, UpstreamFault> {
    let mut builder = ResponseBuilder::new(limits);
    builder.begin();
    fields.iter().for_each(|(name, value)| builder.push(name.as_bytes(), value.as_bytes()));
    builder.finish(method, ends_stream)
}

#[test]
fn a_response_is_framed_by_its_stream_or_its_length() {
    for (fields, method, ends_stream, framing) in [
        (&[(":status", "200")][..], Method::Get, false, Framing::Stream),
        (&[(":status", "200"), ("content-length", "5")], Method::Get, false, Framing::Length(5.into())),
        (&[(":status", "200"), ("content-length", "5")], Method::Head, true, Framing::None),
        (&[(":status", "200")], Method::Get, true, Framing::None),
        (&[(":status", "204")], Method::Get, false, Framing::None),
        (&[(":status", "304")], Method::Get, true, Framing::None),
        (&[(":status", "103")], Method::Get, false, Framing::None),
    ] {
        let head = built(fields, method, ends_stream, ResponseLimits::default()).unwrap();
        assert_eq!(head.framing, framing, "{fields:?}");
        assert_eq!(head.is_interim(), head.status == Status(103));
    }
    let fields = [(":status", "200"), ("server", "x"), ("x-accel-redirect", "/a"), ("grpc-status", "5")];
    let response = built(&fields, Method::Get, true, ResponseLimits::default()).unwrap().into_response(());
    // Over HTTP/1.1, nothing else would show that the body is empty.
    assert_eq!(text(response.fields()), ["server: x", "grpc-status: 5", "Via: 2 weir", "Content-Length: 0"]);
}

#[test]
fn a_response_that_is_none_is_a_fault() {
    let fault = |fields: &[(&str, &str)]| built(fields, Method::Get, false, ResponseLimits::default()).unwrap_err().0;
    for status in ["", "99", "101", "1000", "2e2", "0200"] {
        assert!(fault(&[(":status", status)]).starts_with("a status outside"), "{status}");
    }
    assert!(fault(&[]).starts_with("a status outside"));
    assert_eq!(
        fault(&[(":status", "200"), ("content-length", "x")]),
        "a content-length that is not a decimal number below 2^63"
    );
    for wrong in [(":status", "200"), (":path", "/")] {
        assert!(fault(&[(":status", "200"), ("a", "b"), wrong]).starts_with("a pseudo-field"), "{wrong:?}");
    }
    for name in ["", "A", "a b"] {
        assert_eq!(
            fault(&[(":status", "200"), (name, "b")]),
            "a field name that is not a token in lower case",
            "{name}"
        );
    }
    for name in ["connection", "transfer-encoding", "upgrade"] {
        assert_eq!(fault(&[(":status", "200"), (name, "b")]), "a field of a connection", "{name}");
    }
    assert_eq!(fault(&[(":status", "200"), ("a", "b\r\nc: d")]), "a NUL, CR or LF in a field value");
    assert_eq!(fault(&[(":status", "200"), ("a", "b\u{1}")]), "a control character in a field value");
    for length in ["9223372036854775808", "18446744073709551615", "18446744073709551616"] {
        let wrong = "a content-length that is not a decimal number below 2^63";
        assert_eq!(fault(&[(":status", "200"), ("content-length", length)]), wrong, "{length}");
    }
    let limits = Limits { head_bytes_max: 30, fields_max: 3 }.into();
    let sized = |fields: &[(&str, &str)]| built(fields, Method::Get, false, limits).map(|head| head.status.0);
    assert_eq!(sized(&[(":status", "200"), ("a", "b")]), Ok(200));
    let too_large = Err(UpstreamFault("a response head over the limit"));
    assert_eq!(sized(&[(":status", "200"), ("a", "bbbbbbbbbbbbbbbbbbbb")]), too_large);
    assert_eq!(sized(&[(":status", "200"), ("a", ""), ("b", ""), ("c", "")]), too_large);
}

#[test]
fn trailers_have_no_pseudo_field() {
    let mut builder = ResponseBuilder::new(ResponseLimits::default());
    builder.begin();
    builder.push(b"grpc-status", b"0");
    assert_eq!(text(builder.finish_trailers().unwrap().unwrap().fields()), ["grpc-status: 0"]);
    builder.begin();
    builder.push(b":status", b"200");
    assert!(builder.finish_trailers().is_err());
}

fn trailers(fields: &[(&str, &str)]) -> Result<Vec<String>, UpstreamFault> {
    let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    Ok(Trailers::of(fields)?.map_or_else(Vec::new, |trailers| text(trailers.fields())))
}

#[test]
fn what_means_something_in_a_head_is_no_trailer() {
    let given = [
        ("grpc-status", "0"),
        ("Content-Length", "5"),
        ("transfer-encoding", "chunked"),
        ("connection", "x-hop"),
        ("x-hop", "1"),
        ("host", "a"),
        ("set-cookie", "a=b"),
        ("x-sendfile", "/etc/passwd"),
        ("x-accel-redirect", "/a"),
        ("a b", "c"),
        ("", "c"),
        (":status", "200"),
        ("Sum", "a\r\nb"),
    ];
    assert_eq!(trailers(&given), Ok(vec!["grpc-status: 0".into(), "Sum: a??b".into()]));
    assert_eq!(trailers(&given[1..3]), Ok(Vec::new()));
    let long = "x".repeat(TRAILERS_BYTES_MAX);
    assert_eq!(trailers(&[("a", &long)]), Err(UpstreamFault("trailers over the limit")));
}

/// Trailers of a chunked body, however it is split.
#[test]
fn trailers_of_http_1_1_are_kept() {
    let bytes = b"5;a=b\r\nhello\r\n0;c\r\nSum:  1 \r\nno field\r\nHost: a\r\nGrpc-Status: 0\r\n\r\n";
    for size in 1..bytes.len() {
        let mut body = UpstreamBody::new(Framing::Chunked);
        let mut data = Vec::new();
        for mut piece in bytes.chunks(size) {
            while !piece.is_empty() {
                let taken = body.take(piece).unwrap();
                data.extend_from_slice(taken.data);
                piece = &piece[taken.consumed..];
            }
        }
        assert!(body.is_done() && data == b"hello", "{size}");
        let trailers = body.trailers().unwrap().expect("there are some");
        assert_eq!(text(trailers.fields()), ["Sum: 1", "Grpc-Status: 0"]);
        assert_eq!(body.trailers(), Ok(None), "once");
        let mut out = Vec::new();
        trailers.encode(&mut out);
        assert_eq!(out, b"0\r\nSum: 1\r\nGrpc-Status: 0\r\n\r\n");
        assert_eq!(Chunked::new().discard(&out).map(|progress| progress.done), Ok(true));
    }
    let mut none = UpstreamBody::new(Framing::Chunked);
    let mut rest = &b"0\r\n\r\n"[..];
    while !rest.is_empty() {
        rest = &rest[none.take(rest).unwrap().consumed..];
    }
    assert_eq!((none.is_done(), none.trailers()), (true, Ok(None)));
}
