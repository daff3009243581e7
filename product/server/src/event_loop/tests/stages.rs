//! Responses that pass through stages, over each protocol. The simulation has the rest: upstreams, disks, and clients
//! of every kind.

use http::Length;
use http::http1::Chunked;
use http2::testing::{DATA, HEADERS, RST_STREAM, block, frame, request};

use super::*;
use crate::body::Stage;
use crate::logging::Unthreaded;
use crate::stages::staging::{FOLDED_BYTES, Folding, Staging, applied};

/// Sizes of files: empty, in memory, and open.
const SIZES: [usize; 4] = [0, 100, 60_000, 300_000];

fn content(size: usize) -> Vec<u8> {
    (0..size).map(|at| (at * 31 / 7) as u8).collect()
}

fn sent(size: usize) -> Vec<u8> {
    applied(vec![Box::<Folding>::default()], &content(size))
}

/// A server all of whose responses pass through a [`Folding`].
fn staged(name: &str) -> (Bench, Staging) {
    let bench = Bench::of_datagrams(name);
    for size in SIZES {
        std::fs::write(bench.folder.join(format!("f{size}")), content(size)).unwrap();
    }
    (bench, Staging::new(|_, _| vec![Box::<Folding>::default()]))
}

/// A stage that must not run.
#[derive(Debug)]
struct Idle;

impl Stage for Idle {
    fn push(&mut self, _bytes: &[u8], _out: &mut Vec<u8>) {
        panic!("there is no body");
    }

    fn flush(&mut self, _out: &mut Vec<u8>) {
        panic!("there is no body");
    }

    fn finish(&mut self, _out: &mut Vec<u8>) {
        panic!("there is no body");
    }

    fn length(&self, _of: Length) -> Length {
        Length::Unknown
    }
}

impl Bench {
    /// Runs turns until the client's connection has ended; returns what came.
    fn turn_until_end(&mut self, client: &mut Client) -> Vec<u8> {
        client.stream.set_nonblocking(true).unwrap();
        for _ in 0..1_000_000 {
            self.turn();
            match client.stream.read_to_end(&mut client.received) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
                other => {
                    other.unwrap();
                    return std::mem::take(&mut client.received);
                }
            }
        }
        panic!("it does not end: {}", client.received());
    }
}

/// Splits a response of HTTP/1.1 into its head and the rest.
fn split(response: &[u8]) -> (String, &[u8]) {
    let end = response.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
    (String::from_utf8(response[..end].to_vec()).unwrap(), &response[end..])
}

fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let (mut chunks, mut content) = (Chunked::new(), Vec::new());
    while !chunks.is_done() {
        let taken = chunks.take(rest).unwrap();
        assert!(taken.consumed > 0, "the chunks do not end");
        content.extend_from_slice(taken.data);
        rest = &rest[taken.consumed..];
    }
    assert!(rest.is_empty());
    content
}

#[test]
fn files_are_chunked_over_http1_and_ranges_are_not_served() {
    let (mut bench, _staging) = staged("stages-http1");
    for size in SIZES {
        for range in ["", "Range: bytes=0-9\r\n", "Range: bytes=9999999-\r\n", "Range: bytes=1-2,5-6\r\n"] {
            for version in [0, 1] {
                let mut client = bench.connect();
                client.send(&format!("GET /f{size} HTTP/1.{version}\r\nHost: a\r\nConnection: close\r\n{range}\r\n"));
                let came = bench.turn_until_end(&mut client);
                let (head, rest) = split(&came);
                assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("\r\nETag: W/\""), "{head}");
                for absent in ["Content-Length", "Accept-Ranges", "Content-Range"] {
                    assert!(!head.contains(absent), "{head}");
                }
                assert_eq!(head.contains("Transfer-Encoding: chunked"), version == 1, "{head}");
                let body = if version == 1 { unchunked(rest) } else { rest.to_vec() };
                assert!(body == sent(size), "{} bytes of {size}", body.len());
            }
        }
    }
}

#[test]
fn frames_and_datagrams_carry_them_too() {
    let (mut bench, _staging) = staged("stages-framed");
    let mut framed = bench.connect_http2();
    let mut asking = bench.connect_http3();
    for (nth, size) in SIZES.into_iter().enumerate() {
        let (number, path) = (1 + 2 * nth as u32, format!("/f{size}"));
        framed.send(&request(number, &path, &[("range", "bytes=0-9")]));
        bench.turn_until_came(&mut framed, |client| client.body(number).is_some());
        assert!(framed.body(number).unwrap() == sent(size), "{size}");
        let stream = asking.peer.request(&path, &[("range", "bytes=0-9")]);
        bench.turn_until_heard(&mut asking, |peer| peer.response(stream).is_whole);
        assert!(asking.peer.response(stream).body == sent(size), "{size}");
        assert_eq!(asking.peer.response(stream).field(":status"), Some("200"));
    }
}

#[test]
fn a_head_runs_no_stage_and_has_the_fields_of_a_get() {
    let (mut bench, _staging) = staged("stages-head");
    let _idle = Staging::new(|_, _| vec![Box::new(Idle)]);
    let mut client = bench.connect();
    client.send("HEAD /f300000 HTTP/1.1\r\nHost: a\r\n\r\nHEAD /f100 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let came = bench.turn_until_end(&mut client);
    let (first, rest) = split(&came);
    let (second, rest) = split(rest);
    for head in [first, second] {
        assert!(head.contains("Transfer-Encoding: chunked\r\n") && !head.contains("Content-Length"), "{head}");
    }
    assert_eq!(rest, b"");
    let mut framed = bench.connect_http2();
    let head = block(&[(":method", "HEAD"), (":scheme", "http"), (":authority", "a"), (":path", "/f300000")]);
    framed.send(&frame(HEADERS, 5, 1, &head));
    bench.turn_until_came(&mut framed, |client| client.body(1).is_some());
    assert_eq!(framed.body(1).unwrap(), b"");
}

/// A client that has the staged file hears that it is unchanged, with the same tag.
#[test]
fn a_304_has_the_tag_of_the_200() {
    let (mut bench, _staging) = staged("stages-304");
    let ask = |bench: &mut Bench, line: &str| {
        let mut client = bench.connect();
        client.send(&format!("GET /f100 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{line}\r\n"));
        let came = bench.turn_until_end(&mut client);
        let head = split(&came).0;
        let tag = head.lines().find_map(|line| line.strip_prefix("ETag: ")).expect("a tag").to_string();
        (head, tag)
    };
    let (_, tag) = ask(&mut bench, "");
    let (head, again) = ask(&mut bench, &format!("If-None-Match: {tag}\r\n"));
    assert!(head.starts_with("HTTP/1.1 304 ") && !head.contains("Accept-Ranges"), "{head}");
    assert!(tag == again && tag.starts_with("W/"));
}

/// Half of what the stage would keep.
fn part() -> Vec<u8> {
    vec![b'x'; FOLDED_BYTES / 2]
}

/// The outcome of two parts.
fn whole() -> Vec<u8> {
    [&part()[..], &part(), b"5000"].concat()
}

/// The bytes that a producer pushed leave when it pauses, although the stage would keep it; then it goes on, ends or fails.
#[test]
fn a_producer_that_pauses_flushes_the_stage() {
    let (mut bench, _staging) = staged("stages-pipe");
    for fails in [false, true] {
        let mut client = bench.connect();
        client.send("GET /pipe HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let job = bench.producing();
        for _ in 0..2 {
            assert_eq!(bench.push(job, &part()), Some(part().len()));
            bench.turn_until_body(&mut client, "x\r\n").unwrap_err();
        }
        if fails {
            bench.fail(job);
        } else {
            bench.finish(job);
        }
        let came = bench.turn_until_end(&mut client);
        assert_eq!(came.ends_with(b"0\r\n\r\n"), !fails);
        assert!(fails || unchunked(split(&came).1) == whole());
    }
}

#[test]
fn frames_of_a_stage_leave_when_its_producer_pauses() {
    let (mut bench, _staging) = staged("stages-pipe-http2");
    for fails in [false, true] {
        let mut framed = bench.connect_http2();
        framed.send(&request(1, "/pipe", &[]));
        let job = bench.producing();
        bench.push(job, &part());
        bench.turn_until_came(&mut framed, |client| client.has(DATA));
        bench.push(job, &part());
        if fails {
            bench.turn();
            bench.fail(job);
            bench.turn_until_came(&mut framed, |client| client.has(RST_STREAM));
            assert_eq!(framed.body(1), None);
        } else {
            bench.finish(job);
            bench.turn_until_came(&mut framed, |client| client.body(1).is_some());
            assert!(framed.body(1).unwrap() == whole());
        }
    }
}

#[test]
fn datagrams_of_a_stage_leave_when_its_producer_pauses() {
    let (mut bench, _staging) = staged("stages-pipe-http3");
    for fails in [false, true] {
        let mut asking = bench.connect_http3();
        let stream = asking.peer.request("/pipe", &[]);
        asking.talk(bench.worker.responder.timers.now());
        let job = bench.producing();
        bench.push(job, &part());
        bench.turn_until_heard(&mut asking, |peer| peer.response(stream).body == part());
        if fails {
            bench.fail(job);
            let came = |peer: &quic::testing::Client| peer.came(quic::testing::id(stream));
            bench.turn_until_heard(&mut asking, |peer| came(peer).reset.is_some());
        } else {
            bench.push(job, &part());
            bench.finish(job);
            bench.turn_until_heard(&mut asking, |peer| peer.response(stream).is_whole);
            assert!(asking.peer.response(stream).body == whole());
        }
    }
}

/// The log tells what was sent, which no head announced.
#[test]
fn the_log_has_the_bytes_that_were_sent() {
    let mut logged = super::logged::Logged::new("stages-logged", "srpt", |root| root);
    let _staging = Staging::new(|_, _| vec![Box::<Folding>::default()]);
    std::fs::write(logged.bench.folder.join("f300000"), content(300_000)).unwrap();
    let mut framed = logged.bench.connect_http2();
    framed.send(&request(1, "/f300000", &[]));
    logged.bench.turn_until_came(&mut framed, |client| client.body(1).is_some());
    let rows = logged.turn_until(1);
    assert_eq!((rows[0].body_bytes, rows[0].content_length), (sent(300_000).len() as u64, sent(300_000).len() as u64));
}

/// A stage that gives fewer bytes than it announces.
#[derive(Debug)]
struct Short;

impl Stage for Short {
    fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(&bytes[1..]);
    }

    fn flush(&mut self, _out: &mut Vec<u8>) {}

    fn finish(&mut self, _out: &mut Vec<u8>) {}

    fn length(&self, of: Length) -> Length {
        of
    }
}

/// Earlier the error log contained nothing about it.
#[test]
fn a_body_of_another_length_than_was_announced_is_logged() {
    let mut bench = Bench::new("stages-length", "srpt");
    std::fs::write(bench.folder.join("f"), content(60_000)).unwrap();
    let _staging = Staging::new(|_, _| vec![Box::new(Short)]);
    let (logs, mut written) = Unthreaded::new();
    bench.worker.responder.service.journal = Journal::new(logs.handle(), Arc::default(), None);
    let mut client = bench.connect();
    client.send("GET /f HTTP/1.1\r\nHost: a\r\n\r\n");
    bench.turn_until_end(&mut client);
    written.drain();
    let said = written.said();
    let line = "weir: response cut off, its body did not have the announced length, to 127.0.0.1:";
    assert!(said.len() == 1 && said[0].starts_with(line), "{said:?}");
}
