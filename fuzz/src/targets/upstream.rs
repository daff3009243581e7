//! Responses of an upstream over HTTP/1.1. The input is a choice of the request's method, then the bytes that the
//! upstream sends.

use std::time::UNIX_EPOCH;

use http::http1::upstream::{Framing, ResponseLimits, UpstreamBody, UpstreamFault, UpstreamHead, parse_response};
use http::http1::{Connection, encode};
use http::{HttpDate, Limits, Method};

use crate::{Input, LENGTHS, Reached, Script, Target};

pub const TARGET: Target = Target {
    name: "upstream",
    run,
    reaches: &[
        "body fault",
        "bytes behind",
        "chunked",
        "close",
        "ended early",
        "fault",
        "interim",
        "kept alive",
        "known length",
        "no body",
        "part of a head",
        "upgraded",
    ],
    seeds,
    mutants: 20_000,
};

/// The number of beginnings of an input whose result is compared with that of the whole.
const PREFIXES: usize = 16;

/// Small limits, which an input of a few bytes exceeds.
const NARROW: ResponseLimits = ResponseLimits { head: Limits { head_bytes_max: 96, fields_max: 3 }, interim_max: 1 };

/// The maximum number of fields of a head that leaves room for ours below the maximum that can be read.
const FIELDS_MAX: usize = 190;

fn run(bytes: &[u8]) -> Reached {
    let mut input = Input::new(bytes);
    let method = if input.byte() & 1 == 0 { Method::Get } else { Method::Head };
    let bytes = input.rest();
    let mut reached = Reached::default();
    for limits in [ResponseLimits::default(), NARROW] {
        exchange(bytes, method, &limits, &mut reached);
    }
    reached
}

/// Reads like an event loop: interim responses up to their limit, a final one, its body.
fn exchange(bytes: &[u8], method: Method, limits: &ResponseLimits, reached: &mut Reached) {
    let mut rest = bytes;
    for _ in 0..=limits.interim_max {
        let Some((head, consumed)) = head(rest, method, limits, reached) else { return };
        rest = &rest[consumed..];
        let (is_interim, framing) = (head.is_interim(), head.framing);
        reached.mark_if(head.is_kept_alive, "kept alive");
        passed_on(head);
        if !is_interim {
            return body(framing, rest, reached);
        }
        reached.mark("interim");
    }
}

fn head(bytes: &[u8], method: Method, limits: &ResponseLimits, reached: &mut Reached) -> Option<(UpstreamHead, usize)> {
    let answer = parse_response(bytes, method, &limits.head);
    let step = (bytes.len() / PREFIXES).max(1);
    for end in (0..bytes.len()).step_by(step) {
        let early = parse_response(&bytes[..end], method, &limits.head);
        assert!(early == Ok(None) || early == answer, "the answer to {end} bytes is not that to all");
    }
    match answer {
        Ok(None) => {
            assert!(bytes.len() < limits.head.head_bytes_max, "a head beyond its limit is waited for");
            reached.mark("part of a head");
            None
        }
        Ok(Some((head, consumed))) => {
            assert!(
                consumed <= bytes.len().min(limits.head.head_bytes_max) && bytes[..consumed].ends_with(b"\r\n\r\n")
            );
            assert!(head.fields().count() <= limits.head.fields_max);
            Some((head, consumed))
        }
        Err(UpstreamFault(reason)) => {
            assert!(!reason.is_empty());
            reached.mark("fault");
            None
        }
    }
}

/// A client must read the response that the upstream sent.
fn passed_on(head: UpstreamHead) {
    if head.fields().count() > FIELDS_MAX {
        return;
    }
    let (status, framing, is_whole) = (head.status, head.framing, head.content_length().is_some());
    let mut out = Vec::new();
    encode(&mut out, &head.into_response(()), &HttpDate::new(UNIX_EPOCH), Connection::KeepAlive, 1);
    let limits = Limits { head_bytes_max: 2 * out.len(), ..Limits::default() };
    let (read, consumed) = parse_response(&out, Method::Get, &limits).expect("a response").expect("a whole head");
    assert_eq!((read.status, consumed), (status, out.len()));
    match framing {
        Framing::Close => assert_eq!(read.framing, Framing::Chunked),
        // To HEAD.
        Framing::None if read.framing != Framing::None => assert_eq!(read.content_length().is_some(), is_whole),
        framing => assert_eq!(read.framing, framing),
    }
}

/// The result of reading a body: its bytes, how many were consumed, and whether it is complete.
type Read = (Vec<u8>, usize, bool);

/// Reads this many bytes at a time.
fn read(framing: Framing, bytes: &[u8], piece: usize) -> Result<(Read, UpstreamBody), UpstreamFault> {
    let mut body = UpstreamBody::new(framing);
    let (mut data, mut total) = (Vec::new(), 0);
    for mut rest in bytes.chunks(piece) {
        while !rest.is_empty() && !body.is_done() {
            let left = body.left_bytes();
            let taken = body.take(rest)?;
            assert!(taken.consumed > 0 && taken.data.len() <= taken.consumed && taken.is_done == body.is_done());
            assert_eq!(body.left_bytes().unwrap_or(0), left.map_or(0, |left| left - taken.consumed as u64));
            data.extend_from_slice(taken.data);
            (rest, total) = (&rest[taken.consumed..], total + taken.consumed);
        }
    }
    Ok(((data, total, body.is_done()), body))
}

/// A body gives the same result in one piece and byte by byte.
fn body(framing: Framing, bytes: &[u8], reached: &mut Reached) {
    reached.mark(match framing {
        Framing::None => "no body",
        Framing::Length(_) => "known length",
        Framing::Chunked => "chunked",
        Framing::Close | Framing::Stream => "close",
        Framing::Upgraded => "upgraded",
    });
    let whole = read(framing, bytes, bytes.len().max(1));
    let pieces = read(framing, bytes, 1);
    assert_eq!(whole.as_ref().map(|(read, _)| read), pieces.as_ref().map(|(read, _)| read));
    match whole {
        Ok(((_, consumed, is_done), mut body)) => {
            reached.mark_if(consumed < bytes.len(), "bytes behind");
            let ends_with_stream = matches!(framing, Framing::Close | Framing::Upgraded);
            assert_eq!(body.end().is_ok(), is_done || ends_with_stream);
            reached.mark_if(!is_done && !ends_with_stream, "ended early");
        }
        Err(_) => reached.mark("body fault"),
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let ok = |fields: &str, body: &str| format!("HTTP/1.1 200 OK\r\n{fields}\r\n{body}");
    let texts = [
        ok("Content-Length: 5\r\nServer: x\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n", "hello"),
        ok("Content-Length: 5, 5\r\nContent-Length: 05\r\n", "hello and more"),
        ok("Content-Length: 5\r\nContent-Length: 6\r\n", "hello"),
        ok("Content-Length: 9\r\nConnection: close, x-hop\r\nX-Hop: 1\r\n", "hello"),
        ok(
            "Transfer-Encoding: chunked\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n",
            "5;a=\"b\"\r\nhello\r\n0\r\nT: x\r\n\r\n",
        ),
        ok("Transfer-Encoding: chunked\r\n", "5\nhello\r\n0\r\n\r\n"),
        ok("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "hello"),
        ok("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"),
        ok("X-Accel-Redirect: /files/a\r\nContent-Length: 0\r\n", ""),
        ok("A: 1\r\nB: 2\r\nC: 3\r\nD: 4\r\n", "until the end"),
        ok("X : y\r\n folded\r\n", ""),
        ok("X: y\n", ""),
        "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok".into(),
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".into(),
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n\u{1}x".into(),
        "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nContent-Length: 5\r\n\r\n".into(),
        "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello".into(),
        "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".repeat(17) + "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Le".into(),
        "\r\nHTTP/1.1 200 OK\r\n\r\n".into(),
        format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(200)),
    ];
    let lengths = LENGTHS.into_iter().flat_map(|length| {
        let chunk = length.parse::<u128>().map_or_else(|_| String::new(), |bytes| format!("{bytes:x}\r\nhello"));
        [ok(&format!("Content-Length: {length}\r\n"), "hello"), ok("Transfer-Encoding: chunked\r\n", &chunk)]
    });
    let texts: Vec<String> = texts.into_iter().chain(lengths).collect();
    let of = |method: u8| texts.iter().map(move |text| Script::default().byte(method).raw(text.as_bytes()).done());
    of(0).chain(of(1)).collect()
}
