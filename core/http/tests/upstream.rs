//! Responses of upstreams: their heads and framing, the decoded bodies, and what our clients receive.

use std::time::UNIX_EPOCH;

use http::http1::upstream::{Framing, ResponseLimits, UpstreamBody, UpstreamFault, UpstreamHead, parse_response};
use http::http1::{self, Connection, LAST_CHUNK, Taken, begin_chunk};
use http::{FIELDS_MAX, HttpDate, Length, Limits, Method, PeerLength, Response, Status};
use proptest::prelude::*;

const LIMITS: Limits = Limits { head_bytes_max: 64 << 10, fields_max: 200 };

fn parsed(bytes: &[u8], method: Method) -> Result<Option<(UpstreamHead, usize)>, &'static str> {
    parse_response(bytes, method, &LIMITS).map_err(|fault| fault.0)
}

/// Parses a whole head of a response to GET.
fn head(text: &str) -> UpstreamHead {
    parsed(text.as_bytes(), Method::Get).unwrap().expect("a whole head").0
}

fn with(lines: &str) -> String {
    format!("HTTP/1.1 200 OK\r\n{lines}\r\n")
}

fn encoded(response: &Response<()>, minor_version: u8) -> String {
    let mut out = Vec::new();
    http1::encode(&mut out, response, &HttpDate::new(UNIX_EPOCH), Connection::KeepAlive, minor_version);
    String::from_utf8(out).unwrap()
}

#[test]
fn a_whole_head() {
    let text = "HTTP/1.1 404 Not \u{fc}bel\r\nDate: now\r\nX:  a b \t\r\nContent-Length: 5\r\nx:\r\n\r\nhello";
    let (head, consumed) = parsed(text.as_bytes(), Method::Get).unwrap().unwrap();
    assert_eq!(consumed, text.len() - 5);
    assert_eq!((head.status, head.framing, head.is_kept_alive), (Status(404), Framing::Length(5.into()), true));
    let fields: [(&[u8], &[u8]); 4] = [(b"Date", b"now"), (b"X", b"a b"), (b"x", b""), (b"Content-Length", b"5")];
    assert_eq!(head.fields().collect::<Vec<_>>(), fields);
    assert_eq!(head.values("x").collect::<Vec<_>>(), [&b"a b"[..], b""]);
    assert!(!head.is_interim());
}

/// The defaults are those that the fields of [`ResponseLimits`] document.
#[test]
fn default_limits() {
    assert_eq!(ResponseLimits::default(), ResponseLimits { head: LIMITS, interim_max: 1000 });
}

/// RFC 9112 section 6.3, and whether the connection persists.
#[test]
fn framings() {
    use Framing::*;
    for (method, status, lines, framing, is_kept_alive) in [
        (Method::Get, 200, "Content-Length: 5\r\n", Length(5.into()), true),
        (Method::Get, 200, "Content-Length: 0\r\n", Length(0.into()), true),
        (Method::Get, 200, "Content-Length: 5, 5\r\nContent-Length: 05\r\n", Length(5.into()), true),
        (Method::Get, 200, "Transfer-Encoding: Chunked\r\n", Chunked, true),
        (Method::Get, 200, "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", Chunked, false),
        (Method::Get, 200, "", Close, false),
        (Method::Get, 200, "Connection: keep-alive\r\n", Close, false),
        (Method::Get, 200, "Content-Length: 5\r\nConnection: x, CLOSE\r\n", Length(5.into()), false),
        (Method::Get, 200, "Transfer-Encoding: chunked\r\nConnection: close\r\n", Chunked, false),
        (Method::Post, 500, "Content-Length: 5\r\n", Length(5.into()), true),
        (Method::Head, 200, "", None, true),
        (Method::Head, 200, "Content-Length: 0\r\n", None, true),
        (Method::Get, 304, "Content-Length: 5\r\n", None, true),
        (Method::Get, 204, "", None, true),
        (Method::Get, 204, "Content-Length: 0\r\n", None, true),
        // The upstream may send the body it announces.
        (Method::Get, 204, "Content-Length: 5\r\n", None, false),
        (Method::Get, 204, "Transfer-Encoding: chunked\r\n", None, false),
        (Method::Get, 304, "Transfer-Encoding: chunked\r\n", None, false),
        (Method::Head, 200, "Content-Length: 5\r\n", None, false),
        (Method::Head, 200, "Transfer-Encoding: chunked\r\n", None, false),
        (Method::Get, 100, "", None, true),
        (Method::Get, 103, "Link: </a>\r\n", None, true),
        (Method::Get, 101, "Upgrade: websocket\r\nConnection: upgrade\r\n", Upgraded, false),
    ] {
        let text = format!("HTTP/1.1 {status} x\r\n{lines}\r\n");
        let head = parsed(text.as_bytes(), method).unwrap().unwrap().0;
        let is_kept = head.is_kept_alive && !head.is_end_doubtful;
        assert_eq!((head.framing, is_kept), (framing, is_kept_alive), "{method:?} {text}");
        assert_eq!(head.is_interim(), matches!(status, 100 | 103));
    }
    let old = |lines: &str| head(&format!("HTTP/1.0 200 OK\r\n{lines}\r\n"));
    assert!(!old("Content-Length: 5\r\n").is_kept_alive);
    assert!(old("Content-Length: 5\r\nConnection: Keep-Alive\r\n").is_kept_alive);
    assert!(!old("Content-Length: 5\r\nConnection: keep-alive, close\r\n").is_kept_alive);
    assert!(!old("Connection: keep-alive\r\n").is_kept_alive);
}

fn check_faults(cases: &[(String, &str)]) {
    for (text, reason) in cases {
        assert_eq!(parsed(text.as_bytes(), Method::Get), Err(*reason), "{text:?}");
    }
}

#[test]
fn framings_that_are_faults() {
    let (two, number) = ("two different content-lengths", "a content-length that is not a decimal number below 2^63");
    let other = "a transfer-encoding other than chunked";
    check_faults(&[
        (with("Content-Length: 5\r\nContent-Length: 6\r\n"), two),
        (with("Content-Length: 5, 6\r\n"), two),
        (with("Content-Length: 5,\r\n"), number),
        (with("Content-Length:\r\n"), number),
        (with("Content-Length: +5\r\n"), number),
        (with("Content-Length: 0x5\r\n"), number),
        (with("Content-Length: -1\r\n"), number),
        (with("Content-Length: 9223372036854775808\r\n"), number),
        (with("Content-Length: 18446744073709551615\r\n"), number),
        (with("Content-Length: 18446744073709551616\r\n"), number),
        (with("Content-Length: 5\r\nTransfer-Encoding: chunked\r\nContent-Length: 6\r\n"), two),
        (with("Transfer-Encoding: chunked, gzip\r\n"), other),
        (with("Transfer-Encoding: gzip, chunked\r\n"), other),
        (with("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n"), other),
        (with("Transfer-Encoding: xchunked\r\n"), other),
        (with("Transfer-Encoding:\r\n"), other),
        ("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".into(), "transfer-encoding in HTTP/1.0"),
    ]);
    assert_eq!(UpstreamFault(two).to_string(), two);
}

#[test]
fn lines_that_are_faults() {
    let (name, value) = ("a malformed field name", "a control character in a field value");
    let folded = "a folded line of a field that frames the message";
    let (bare, version) = ("a bare line feed in a response head", "not a response of HTTP/1.0 or 1.1");
    let (line, status) = ("a malformed status line", "a status outside 100 to 999");
    let start = |line: &str| format!("{line}\r\n\r\n");
    check_faults(&[
        (with("X: y\n"), bare),
        ("HTTP/1.1 200 OK\nX: y\n\n".into(), bare),
        (with("X: y\r\n\n"), bare),
        (with(" Content-Length: 1\r\n"), name),
        (with("Content-Length: 1\r\n 0\r\n"), folded),
        (with("Content-Length : 1\r\n\t0\r\n"), folded),
        (with("Transfer-Encoding: gzip,\r\n chunked\r\n"), folded),
        (with("Content-Length:\r\n 2\r\n"), folded),
        (with("Content-Length: \r\n\t2\r\n"), folded),
        (with("X: y\r\n z\r\nCONTENT-LENGTH:\r\n 2\r\n"), folded),
        (with("Transfer-Encoding:\r\n chunked\r\n"), folded),
        (with("X: y\r\n \0\r\n"), value),
        (with("X: y\n z\r\n"), bare),
        (with("X: \0\r\n"), value),
        (with("X: a\rb\r\n"), value),
        (with("\rX: y\r\n"), "a response line that does not end in carriage return, line feed"),
        (start("HTTP/1.1 099 OK"), status),
        (start("HTTP/1.1 20 OK"), line),
        (start("HTTP/1.1 2000 OK"), line),
        (start("HTTP/1.1  200 OK"), line),
        (start("HTTP/1.1 200 O\0K"), line),
        (start("HTTP/1.1 200 OK\r"), line),
        (start("HTTP/1.10 200 OK"), version),
        (start("HTTP/1.x 200 OK"), version),
        (start("HTTP/2 200 OK"), version),
        (start("\r\nHTTP/1.1 200 OK"), version),
        ("SSH-2.0-OpenSSH_9\r\n".into(), version),
        ("\x15\x03\x01\0\x02".into(), version),
    ]);
}

/// RFC 9112 sections 5.1 and 5.2, RFC 9110 section 15: every reader finds the same end of the message.
#[test]
fn heads_of_old_programs_are_read() {
    let head = |lines: &str| {
        let bytes = with(&format!("{lines}Content-Length: 2\r\n"));
        let (head, consumed) = parsed(bytes.as_bytes(), Method::Get).unwrap().unwrap();
        assert_eq!((consumed, head.framing), (bytes.len(), Framing::Length(PeerLength::from(2))), "{lines}");
        let response = head.into_response(());
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let fields: Vec<_> = response.fields().map(|(name, value)| (text(name), text(value))).collect();
        fields.into_iter().find(|(name, _)| name == "X").map(|(_, value)| value)
    };
    for (lines, value) in [
        ("X : y\r\n", "y"),
        ("X \t : y\r\n", "y"),
        ("X: y\r\n z\r\n", "y   z"),
        ("X: y\r\n\t z: 1\r\n\t\r\nY: 2\r\n", "y  \t z: 1"),
        ("X:\r\n y\r\n", "y"),
    ] {
        assert_eq!(head(lines).as_deref(), Some(value), "{lines:?}");
    }
    for (line, framing) in [
        ("Content-Length : 5\r\n", Framing::Length(PeerLength::from(5))),
        ("Transfer-Encoding : chunked\r\n", Framing::Chunked),
    ] {
        assert_eq!(parsed(with(line).as_bytes(), Method::Get).unwrap().unwrap().0.framing, framing, "{line}");
    }
    for status in [599, 600, 999] {
        let bytes = format!("HTTP/1.1 {status} \r\nContent-Length: 5\r\n\r\n");
        assert_eq!(parsed(bytes.as_bytes(), Method::Get).unwrap().unwrap().0.status, Status(status));
    }
}

/// Lines that are not fields are dropped, unless some reader could conclude another end of the message from them.
#[test]
fn lines_that_are_no_field_are_left_out() {
    for line in [
        "Z: a\x01b\r\n",
        "Z y: X: a\r\n",
        "HTTP 1/1 302:\r\n",
        "Z\r\n",
        ": y\r\n",
        "Z@y: y\r\n",
        "\u{e9}: y\r\n",
        "Z: y\r\n \x7f\r\n",
    ] {
        let head = head(&with(&format!("{line}X: y\r\n{line}Content-Length: 2\r\n")));
        let fields: Vec<_> = head.fields().collect();
        assert_eq!(fields, [(&b"X"[..], &b"y"[..]), (b"Content-Length", b"2")], "{line:?}");
    }
    for start in [
        "HTTP/1.1 404",
        "HTTP/1.1 404 ",
        "HTTP/1.1 404 a\x01b",
        "HTTP/1.1 404 \u{e9}",
        "HTTP/1.2 404 No",
        "HTTP/1.9 404",
    ] {
        assert_eq!(head(&format!("{start}\r\n\r\n")).status, Status(404), "{start:?}");
    }
    let (name, value) = ("a malformed field name", "a control character in a field value");
    check_faults(&[
        (with("Content-Length\x01: 5\r\n"), name),
        (with("Content Length: 5\r\n"), name),
        (with("@Transfer-Encoding: chunked\r\n"), name),
        (with("Transfer-Encoding\r\n"), name),
        (with("Content-Length: 5\x01\r\n"), value),
        (with("X y: z\r\n\x0b: \0\r\n"), name),
    ]);
}

#[test]
fn heads_are_bounded() {
    let endless = [&b"HTTP/1.1 200 OK\r\nX: "[..], &b"x".repeat(1 << 20)].concat();
    assert_eq!(parsed(&endless, Method::Get), Err("a response head over the limit"));
    assert_eq!(parsed(&endless[..LIMITS.head_bytes_max], Method::Get), Err("a response head over the limit"));
    assert_eq!(parsed(&endless[..LIMITS.head_bytes_max - 1], Method::Get), Ok(None));
    let of_length = |bytes: usize| with(&format!("X: {}\r\n", "x".repeat(bytes - with("X: \r\n").len())));
    assert!(parsed(of_length(LIMITS.head_bytes_max).as_bytes(), Method::Get).unwrap().is_some());
    assert!(parsed(of_length(LIMITS.head_bytes_max + 1).as_bytes(), Method::Get).is_err());
    let fields = |count: usize| with(&"X: y\r\n".repeat(count));
    let most = parsed(fields(LIMITS.fields_max).as_bytes(), Method::Get).unwrap().unwrap().0;
    assert_eq!(most.fields().count(), LIMITS.fields_max);
    let more = parsed(fields(LIMITS.fields_max + 1).as_bytes(), Method::Get);
    assert_eq!(more, Err("more response fields than the limit"));
    let options = |count: usize| with(&format!("Connection: {}\r\nConnection: x\r\n", "x,".repeat(count - 1)));
    assert!(parsed(options(64).as_bytes(), Method::Get).is_ok());
    assert_eq!(parsed(options(65).as_bytes(), Method::Get), Err("more connection options than the limit"));
    let few = Limits { fields_max: 2, ..LIMITS };
    assert!(parse_response(fields(2).as_bytes(), Method::Get, &few).is_ok());
    assert!(parse_response(fields(3).as_bytes(), Method::Get, &few).is_err());
    let beyond = Limits { fields_max: usize::MAX, ..LIMITS };
    assert!(parse_response(fields(FIELDS_MAX + 1).as_bytes(), Method::Get, &beyond).is_err());
}

/// The caller counts interim responses; each has a head of its own, and the last response is final.
#[test]
fn interim_responses_are_read_one_by_one() {
    let early = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
    let bytes = early.repeat(20) + "HTTP/1.1 204 No Content\r\n\r\n";
    let mut rest = bytes.as_bytes();
    let mut interim = 0;
    loop {
        let (head, consumed) = parsed(rest, Method::Get).unwrap().unwrap();
        rest = &rest[consumed..];
        if !head.is_interim() {
            assert_eq!(head.status, Status::NO_CONTENT);
            break;
        }
        interim += 1;
    }
    assert_eq!((interim, rest.len()), (20, 0));
}

/// A decoded body: its bytes, how many of the bytes given were consumed, and whether it is done.
type Read = (Vec<u8>, usize, bool);

fn read(framing: Framing, pieces: &[&[u8]]) -> Result<Read, &'static str> {
    let mut body = UpstreamBody::new(framing);
    let (mut data, mut total) = (Vec::new(), 0);
    for piece in pieces {
        let mut at = 0;
        while at < piece.len() {
            let Taken { consumed, data: slice, is_done } = body.take(&piece[at..]).map_err(|fault| fault.0)?;
            data.extend_from_slice(slice);
            (at, total) = (at + consumed, total + consumed);
            assert_eq!(is_done, body.is_done());
            if is_done {
                return Ok((data, total, true));
            }
            assert!(consumed > 0, "it goes on");
        }
    }
    Ok((data, total, body.is_done()))
}

#[test]
fn bodies() {
    let hello = b"hello".to_vec();
    assert_eq!(read(Framing::Length(5.into()), &[b"hel", b"lo"]), Ok((hello.clone(), 5, true)));
    assert_eq!(read(Framing::Length(7.into()), &[b"hello"]), Ok((hello.clone(), 5, false)));
    assert_eq!(read(Framing::None, &[b"x"]), Ok((vec![], 0, true)));
    assert_eq!(read(Framing::Close, &[b"hel", b"lo"]), Ok((hello.clone(), 5, false)));
    assert_eq!(read(Framing::Upgraded, &[b"hello"]), Ok((hello.clone(), 5, false)));
    let chunks = b"3;a=b\r\nhel\r\n2\r\nlo\r\n0\r\nTrailer: x\r\n\r\n";
    assert_eq!(read(Framing::Chunked, &[chunks]), Ok((hello, chunks.len(), true)));
    for (framing, left) in [
        (Framing::None, Some(0)),
        (Framing::Length(0.into()), Some(0)),
        (Framing::Length(9.into()), Some(9)),
        (Framing::Chunked, None),
        (Framing::Close, None),
    ] {
        assert_eq!(UpstreamBody::new(framing).left_bytes(), left, "{framing:?}");
        assert_eq!(UpstreamBody::new(framing).is_done(), left == Some(0), "{framing:?}");
    }
    assert!(UpstreamBody::new(Framing::Length(0.into())).take(b"").unwrap().is_done);
}

/// Bytes beyond the announced length are left over: the connection must carry no other request.
#[test]
fn bytes_behind_a_body_are_left() {
    let chunks = b"5\r\nhello\r\n0\r\n\r\n";
    for (framing, body) in
        [(Framing::Length(5.into()), &b"hello"[..]), (Framing::Chunked, chunks), (Framing::None, b"")]
    {
        let bytes = [body, b"HTTP/1.1 200 OK\r\n\r\n"].concat();
        let (_, consumed, is_done) = read(framing, &[&bytes]).unwrap();
        assert_eq!((consumed, is_done), (body.len(), true), "{framing:?}");
    }
}

#[test]
fn the_end_of_the_stream_ends_only_what_it_frames() {
    let early = Err(UpstreamFault("the connection ended before the body"));
    for (framing, bytes, expected) in [
        (Framing::None, &b""[..], Ok(())),
        (Framing::Length(5.into()), b"hello", Ok(())),
        (Framing::Length(5.into()), b"hell", early),
        (Framing::Chunked, b"", early),
        (Framing::Chunked, b"5\r\nhello\r\n", early),
        (Framing::Chunked, b"0\r\n", early),
        (Framing::Close, b"any", Ok(())),
        (Framing::Close, b"", Ok(())),
        (Framing::Upgraded, b"", Ok(())),
    ] {
        let mut body = UpstreamBody::new(framing);
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = &rest[body.take(rest).unwrap().consumed..];
        }
        assert_eq!(body.end(), expected, "{framing:?}");
        assert_eq!(body.is_done(), expected.is_ok());
        assert_eq!(body.left_bytes() == Some(0), expected.is_ok());
    }
    let mut whole = UpstreamBody::new(Framing::Chunked);
    let bytes = b"1\r\nx\r\n0\r\n\r\n";
    let data = whole.take(bytes).unwrap();
    assert_eq!((data.consumed, data.data, data.is_done), (4, &b"x"[..], false));
    assert_eq!(whole.take(&bytes[4..]).unwrap(), Taken { consumed: 5, data: b"", is_done: false });
    assert!(whole.take(&bytes[9..]).unwrap().is_done);
    assert_eq!(whole.end(), Ok(()));
}

#[test]
fn malformed_chunks_are_faults() {
    for body in
        ["x\r\n", "5\nhello", "1\r\nab\r\n", "1\r\na\n", "11111111111111111\r\n", "0x1\r\n", "-1\r\n", "0\r\n\n"]
    {
        assert!(read(Framing::Chunked, &[body.as_bytes()]).is_err(), "{body:?}");
    }
    let extension = format!("1;{}\r\nx", "e".repeat(2000));
    assert_eq!(read(Framing::Chunked, &[extension.as_bytes()]), Err("chunk extensions over the limit"));
    let trailer = format!("0\r\na:{}", "b".repeat(9000));
    assert_eq!(read(Framing::Chunked, &[trailer.as_bytes()]), Err("trailer section over the limit"));
}

#[test]
fn a_client_is_told_what_the_upstream_said_of_the_content() {
    let text = "HTTP/1.1 200 Fine\r\nserver: theirs\r\ndate: then\r\nSet-Cookie: a=1\r\nX-Accel-Redirect: /f\r\nConnection: x-hop, close\r\n\
        X-Hop: 1\r\nKeep-Alive: timeout=5\r\nProxy-Authenticate: x\r\nTrailer: T\r\nUpgrade: h2c\r\nSet-Cookie: b=2\r\n\
        Content-Length: 05\r\nX-Accel-Buffering: no\r\nX-Sendfile: /g\r\nX: \u{e9}\r\nVia: 1.1 other\r\n\r\n";
    let head = head(text);
    let expected = [
        "HTTP/1.1 200 OK",
        "server: theirs",
        "date: then",
        "Set-Cookie: a=1",
        "Set-Cookie: b=2",
        "X: \u{e9}",
        "Via: 1.1 other",
        "Via: 1.1 weir",
        "Content-Length: 5",
        "",
        "",
    ];
    assert_eq!(encoded(&head.into_response(()), 1), expected.join("\r\n"));
}

/// We must add Date if the upstream sends none (RFC 9110 section 6.6.1); Server is only the upstream's.
#[test]
fn server_and_date_are_the_upstreams() {
    for (lines, expected) in [
        ("", ["date: Thu, 01 Jan 1970 00:00:00 GMT"].as_slice()),
        ("Server: s\r\n", &["date: Thu, 01 Jan 1970 00:00:00 GMT", "Server: s"]),
        ("DATE: d\r\n", &["DATE: d"]),
        ("Date: d\r\nServer: s\r\n", &["Date: d", "Server: s"]),
    ] {
        let response = head(&with(&format!("{lines}Content-Length: 0\r\n"))).into_response(());
        let (framed, ()) = response.into_head(&HttpDate::new(UNIX_EPOCH));
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let fields: Vec<_> = framed.fields().map(|(name, value)| format!("{}: {}", text(name), text(value))).collect();
        assert_eq!(fields[..fields.len() - 2], *expected, "{lines}");
        assert_eq!(fields[fields.len() - 2..], ["Via: 1.1 weir", "Content-Length: 0"]);
        let response = head(&with(&format!("{lines}Content-Length: 0\r\n"))).into_response(());
        let text = encoded(&response, 1).to_ascii_lowercase();
        assert_eq!(text.matches("\r\ndate: ").count(), 1, "{text}");
        assert_eq!(
            text.matches("\r\nserver: ").count(),
            lines.to_ascii_lowercase().matches("server").count(),
            "{text}"
        );
    }
}

#[test]
fn lengths_for_clients() {
    for (method, status, lines, expected) in [
        (Method::Get, 200, "Content-Length: 5\r\n", "Content-Length: 5"),
        (Method::Head, 200, "Content-Length: 5\r\n", "Content-Length: 5"),
        (Method::Get, 304, "Content-Length: 5\r\n", "Content-Length: 5"),
        (Method::Head, 200, "Transfer-Encoding: chunked\r\n", ""),
        (Method::Get, 200, "Transfer-Encoding: chunked\r\n", "Transfer-Encoding: chunked"),
        (Method::Get, 200, "", "Transfer-Encoding: chunked"),
        (Method::Get, 204, "Content-Length: 0\r\n", ""),
        (Method::Get, 103, "", ""),
    ] {
        let text = format!("HTTP/1.1 {status} x\r\n{lines}\r\n");
        let head = parsed(text.as_bytes(), method).unwrap().unwrap().0;
        let said = PeerLength::from(if status == 204 { 0 } else { 5 });
        assert_eq!(head.content_length(), lines.starts_with('C').then_some(said));
        let out = encoded(&head.into_response(()), 1);
        let framing: Vec<_> =
            out.lines().filter(|line| line.starts_with("Content-L") || line.starts_with("Transfer")).collect();
        assert_eq!(framing.join("\n"), expected, "{method:?} {text}");
    }
    // The length became known, as after reading the whole body.
    let chunked = head(&with("Transfer-Encoding: chunked\r\n")).into_response(()).of_length(Length::Known(7));
    let out = encoded(&chunked, 1);
    assert!(out.contains("Content-Length: 7\r\n") && !out.contains("Transfer-Encoding"), "{out}");
}

#[test]
fn an_upgrade_is_passed_on() {
    let text = "HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade, x-hop\r\nX-Hop: 1\r\nSec-WebSocket-Accept: k\r\n\r\n";
    let out = encoded(&head(text).into_response(()), 1);
    assert!(out.starts_with("HTTP/1.1 101 Switching Protocols\r\nDate: "), "{out}");
    let rest = "Sec-WebSocket-Accept: k\r\nVia: 1.1 weir\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    assert!(out.ends_with(rest), "{out}");
}

/// A program that copies the fields of another server's response into its own announces chunked twice, but uses it
/// once.
#[test]
fn a_response_that_says_chunked_twice_is_the_last_of_its_connection() {
    for lines in
        ["Transfer-Encoding: chunked\r\ntransfer-encoding: Chunked\r\n", "Transfer-Encoding: chunked, chunked\r\n"]
    {
        let twice = head(&with(lines));
        assert_eq!((twice.framing, twice.is_kept_alive), (Framing::Chunked, false), "{lines}");
    }
}

#[test]
fn a_demand_to_upgrade_says_to_what() {
    let text = |status: u16, more: &str| format!("HTTP/1.1 {status} x\r\n{more}Content-Length: 0\r\n\r\n");
    let fields = "Upgrade: websocket\r\nConnection: upgrade\r\nX: y\r\n";
    let out = encoded(&head(&text(426, fields)).into_response(()), 1);
    assert!(out.contains("Connection: upgrade\r\nUpgrade: websocket\r\n") && out.contains("X: y\r\n"), "{out}");
    for (status, fields) in [(200, fields), (426, "X: y\r\n")] {
        let out = encoded(&head(&text(status, fields)).into_response(()), 1);
        assert!(!out.to_ascii_lowercase().contains("upgrade:") && !out.contains("Connection:"), "{out}");
    }
}

#[test]
fn via_tells_the_upstreams_version() {
    let out = encoded(&head("HTTP/1.0 200 OK\r\n\r\n").into_response(()), 1);
    assert!(out.contains("\r\nVia: 1.0 weir\r\n"), "{out}");
}

/// Heads to mutate, with bodies of all framings.
const SEEDS: &[&str] = &[
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n00\r\nT: x\r\n\r\n",
    "HTTP/1.0 200 OK\r\nServer: x\r\n\r\nhello",
    "HTTP/1.1 101 x\r\nUpgrade: a\r\nConnection: upgrade\r\n\r\nhello",
    "HTTP/1.1 103 x\r\nLink: a\r\n\r\nHTTP/1.1 204 x\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\nConnection: x, close\r\nX: y\r\n\r\nhello and more",
];

fn byte() -> impl Strategy<Value = u8> {
    prop_oneof![prop::sample::select(&b"\r\n :;,0159af\t\0\"A"[..]), any::<u8>()]
}

fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let edits = prop::collection::vec((any::<usize>(), byte(), 0..3u8), 0..3);
    (prop::sample::select(SEEDS), edits).prop_map(|(seed, edits)| {
        let mut bytes = seed.as_bytes().to_vec();
        for (place, byte, edit) in edits {
            let place = place % bytes.len();
            match edit {
                0 => bytes[place] = byte,
                1 => bytes.insert(place, byte),
                _ => drop(bytes.splice(place..=place, [])),
            }
        }
        bytes
    })
}

/// Splits the bytes at these places.
fn pieces<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).chain([0, bytes.len()]).collect();
    cuts.sort();
    cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// The result for a prefix is "more" or the result for all; the body is the same however it is split.
    #[test]
    fn any_split_gives_the_same(bytes in mutated(), cuts in prop::collection::vec(any::<usize>(), 0..6), max in 1..100usize) {
        for limits in [LIMITS, Limits { head_bytes_max: max, fields_max: 1 }] {
            let whole = parse_response(&bytes, Method::Get, &limits);
            for end in 0..bytes.len() {
                match parse_response(&bytes[..end], Method::Get, &limits) {
                    Ok(None) => prop_assert!(end < limits.head_bytes_max),
                    early => prop_assert_eq!(&early, &whole, "at {}", end),
                }
            }
        }
        let Ok(Some((head, consumed))) = parsed(&bytes, Method::Get) else { return Ok(()) };
        let body = &bytes[consumed..];
        prop_assert_eq!(read(head.framing, &pieces(body, &cuts)), read(head.framing, &[body]));
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(byte(), 0..200)) {
        let _ = parsed(&bytes, Method::Get);
        let framed = [&b"HTTP/1.1 200 OK\r\n"[..], &bytes].concat();
        if let Ok(Some((head, _))) = parsed(&framed, Method::Get) {
            encoded_or_lossy(&head.into_response(()));
        }
        let _ = read(Framing::Chunked, &[&bytes]);
    }

    /// Our chunks are read back.
    #[test]
    fn chunks_round_trip(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..50), 0..5), cuts: Vec<usize>) {
        let mut bytes = Vec::new();
        for chunk in &chunks {
            begin_chunk(&mut bytes, chunk.len());
            bytes.extend([chunk, &b"\r\n"[..]].concat());
        }
        bytes.extend_from_slice(LAST_CHUNK);
        prop_assert_eq!(read(Framing::Chunked, &pieces(&bytes, &cuts)), Ok((chunks.concat(), bytes.len(), true)));
    }

    /// A response that we write is read back unchanged when the upstream is a Weir.
    #[test]
    fn responses_round_trip(
        status in prop::sample::select(&[200, 204, 206, 299, 304, 404, 502][..]),
        length in prop::option::of(0..=PeerLength::MAX.bytes()),
        fields in prop::collection::vec(("[A-Za-z-]{1,8}", "[ -~\t]{0,12}"), 0..8),
    ) {
        let names = ["content-length", "transfer-encoding", "connection"];
        prop_assume!(!fields.iter().any(|(name, _)| names.contains(&&*name.to_ascii_lowercase())));
        let response = fields.iter().fold(Response::new(Status(status), ()), |response, (name, value)| {
            response.with(name, value.as_bytes())
        });
        let response = match length {
            _ if status == 204 => response,
            Some(bytes) => response.of_length(Length::Known(bytes)),
            None => response.of_length(Length::Unknown),
        };
        let mut out = Vec::new();
        http1::encode(&mut out, &response, &HttpDate::new(UNIX_EPOCH), Connection::KeepAlive, 1);
        let (head, consumed) = parsed(&out, Method::Get).unwrap().unwrap();
        // A 304 in chunks may be followed by one.
        let is_kept_alive = (status, length) != (304, None);
        let is_kept = head.is_kept_alive && !head.is_end_doubtful;
        prop_assert_eq!((head.status, consumed, is_kept), (Status(status), out.len(), is_kept_alive));
        let expected = match (status, length) {
            (204 | 304, _) => Framing::None,
            (_, Some(bytes)) => Framing::Length(PeerLength::new(bytes).unwrap()),
            (_, None) => Framing::Chunked,
        };
        prop_assert_eq!(head.framing, expected);
        let mut said: Vec<_> = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes().trim_ascii())).collect();
        let is_framing = |name: &[u8]| names.iter().any(|framing| name.eq_ignore_ascii_case(framing.as_bytes()));
        let mut read: Vec<_> = head.fields().skip(2).filter(|(name, _)| !is_framing(name)).collect();
        // Fields of one name are in order.
        for fields in [&mut said, &mut read] {
            fields.sort_by_key(|(name, _)| name.to_ascii_lowercase());
        }
        prop_assert_eq!(read, said);
    }
}

fn encoded_or_lossy(response: &Response<()>) {
    let mut out = Vec::new();
    http1::encode(&mut out, response, &HttpDate::new(UNIX_EPOCH), Connection::KeepAlive, 1);
    // An upstream's value cannot end a line of ours.
    let lines = String::from_utf8_lossy(&out).into_owned();
    assert!(lines.ends_with("\r\n\r\n") && lines.matches("\r\n\r\n").count() == 1, "{lines:?}");
}
