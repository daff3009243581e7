//! Bodies that come later, from a producer in the test: `/pipe` is answered with one.

use http2::testing::{DATA, RST_STREAM, request};
use sched::JobId;

use super::*;
use crate::net::Transport;
use crate::send::Producer;

const TURNS_MAX: usize = 100_000;

impl Bench {
    /// Runs turns until the response to `/pipe` is being sent.
    pub(super) fn producing(&mut self) -> JobId {
        for _ in 0..TURNS_MAX {
            let Responder { transmitter, connections, .. } = &mut self.worker.responder;
            if let Some(job) = transmitter.produced(connections) {
                return job;
            }
            self.turn();
        }
        panic!("nobody asks for it");
    }

    fn producer(&mut self, job: JobId) -> Producer<'_, Transport> {
        let Responder { transmitter, connections, .. } = &mut self.worker.responder;
        Producer::of(transmitter, connections, job)
    }

    pub(super) fn push(&mut self, job: JobId, bytes: &[u8]) -> Option<usize> {
        let now = self.worker.responder.timers.now();
        self.producer(job).push(now, bytes)
    }

    pub(super) fn finish(&mut self, job: JobId) {
        let now = self.worker.responder.timers.now();
        self.producer(job).finish(now, None);
    }

    pub(super) fn fail(&mut self, job: JobId) {
        let now = self.worker.responder.timers.now();
        self.producer(job).fail(now);
    }

    /// Runs turns until the body ends with `end`; returns the state of the client's connection.
    pub(super) fn turn_until_body(&mut self, client: &mut Client, end: &str) -> std::io::Result<usize> {
        client.stream.set_nonblocking(true).unwrap();
        for _ in 0..TURNS_MAX {
            self.turn();
            let read = client.stream.read_to_end(&mut client.received);
            let is_open = read.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
            if !is_open || (!end.is_empty() && client.received().ends_with(end)) {
                return read;
            }
            std::thread::yield_now();
        }
        panic!("it does not come: {}", client.received());
    }
}

fn asked(bench: &Bench, request: &str) -> Client {
    let mut client = bench.connect();
    client.send(request);
    client
}

#[test]
fn a_body_is_chunked_and_the_connection_goes_on() {
    for policy in ["fair", "srpt"] {
        let mut bench = Bench::new(&format!("pipe-{policy}"), policy);
        let mut client = asked(&bench, &format!("GET /pipe HTTP/1.1\r\nHost: a\r\n\r\n{HEAD}"));
        let job = bench.producing();
        for (part, chunk) in [("hello", "\r\n\r\n5\r\nhello\r\n"), (" you", "4\r\n you\r\n")] {
            assert_eq!(bench.push(job, part.as_bytes()), Some(part.len()));
            bench.turn_until_body(&mut client, chunk).unwrap_err();
        }
        assert!(client.received().contains("Transfer-Encoding: chunked\r\n"));
        assert!(!client.received().contains("Content-Length"));
        bench.finish(job);
        bench.turn_until(&mut client, 2);
        assert!(client.received().contains("\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n"), "{}", client.received());
        assert_eq!(bench.push(job, b"more"), None);
    }
}

#[test]
fn of_http_1_0_the_end_of_the_connection_ends_it() {
    let mut bench = Bench::new("pipe-close", "srpt");
    let mut client = asked(&bench, "GET /pipe HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n");
    let job = bench.producing();
    bench.push(job, b"hello");
    bench.turn_until_body(&mut client, "Connection: close\r\n\r\nhello").unwrap_err();
    bench.finish(job);
    assert_eq!(bench.turn_until_body(&mut client, "").unwrap(), 0, "an orderly end");
    assert!(!client.received().contains("chunked"));
}

#[test]
fn a_body_that_fails_has_no_orderly_end() {
    let mut bench = Bench::new("pipe-fails", "srpt");
    for (version, error) in [(1, None), (0, Some(ErrorKind::ConnectionReset))] {
        let mut client = asked(&bench, &format!("GET /pipe HTTP/1.{version}\r\nHost: a\r\n\r\n"));
        let job = bench.producing();
        bench.push(job, b"hello");
        let end = if version == 1 { "5\r\nhello\r\n" } else { "hello" };
        bench.turn_until_body(&mut client, end).unwrap_err();
        bench.fail(job);
        let ended = bench.turn_until_body(&mut client, "");
        assert_eq!(ended.err().map(|error| error.kind()), error, "HTTP/1.{version}");
        assert!(client.received().ends_with(end), "and no last chunk");
    }
    assert!(bench.worker.responder.connections.is_empty());
}

#[test]
fn a_head_says_the_same_and_a_reader_that_leaves_is_told_of() {
    let mut bench = Bench::new("pipe-head", "srpt");
    let mut client = asked(&bench, &format!("HEAD /pipe HTTP/1.1\r\nHost: a\r\n\r\n{HEAD}"));
    bench.turn_until(&mut client, 2);
    assert!(client.received().contains("Transfer-Encoding: chunked\r\n\r\nHTTP/1.1"), "{}", client.received());
    let leaver = asked(&bench, "GET /pipe HTTP/1.1\r\nHost: a\r\n\r\n");
    let job = bench.producing();
    rustix::net::sockopt::set_socket_linger(&leaver.stream, Some(std::time::Duration::ZERO)).unwrap();
    drop(leaver);
    for _ in 0..TURNS_MAX {
        if bench.push(job, b"x").is_none() {
            assert_eq!(bench.worker.responder.connections.len(), 1, "its connection is gone");
            return;
        }
        bench.turn();
    }
    panic!("nobody tells the producer");
}

#[test]
fn frames_carry_it_and_a_failure_resets_the_stream() {
    let mut bench = Bench::new("pipe-http2", "srpt");
    let mut client = bench.connect_http2();
    client.send(&request(1, "/pipe", &[]));
    let job = bench.producing();
    bench.push(job, b"hello");
    bench.turn_until_came(&mut client, |client| client.has(DATA));
    assert_eq!(client.body(1), None, "it may go on");
    bench.finish(job);
    bench.turn_until_came(&mut client, |client| client.body(1).is_some());
    assert_eq!(client.body(1).unwrap(), b"hello");
    client.send(&request(3, "/pipe", &[]));
    let failing = bench.producing();
    bench.push(failing, b"hello");
    bench.turn();
    bench.fail(failing);
    bench.turn_until_came(&mut client, |client| client.has(RST_STREAM));
    let reset = client.came.iter().find(|frame| frame.0 == RST_STREAM).unwrap();
    assert_eq!((reset.2, &reset.3[..]), (3, &[0, 0, 0, 2][..]), "INTERNAL_ERROR (RFC 9113 section 7)");
    assert_eq!(client.body(3), None);
    client.send(&request(5, "/a", &[]));
    bench.turn_until_came(&mut client, |client| client.body(5).is_some());
}

#[test]
fn datagrams_carry_it_and_a_failure_resets_the_stream() {
    let mut bench = Bench::of_datagrams("pipe-http3");
    let mut asking = bench.connect_http3();
    for fails in [false, true] {
        let stream = asking.peer.request("/pipe", &[]);
        asking.talk(bench.worker.responder.timers.now());
        let job = bench.producing();
        assert_eq!(bench.push(job, b"hello"), Some(5));
        bench.turn_until_heard(&mut asking, |peer| peer.response(stream).body == b"hello");
        assert!(!asking.peer.response(stream).is_whole);
        if fails {
            bench.fail(job);
            let came = |peer: &quic::testing::Client| peer.came(quic::testing::id(stream));
            bench.turn_until_heard(&mut asking, |peer| came(peer).reset.is_some());
            assert_eq!(came(&asking.peer).reset, Some(0x102), "H3_INTERNAL_ERROR (RFC 9114 section 8.1)");
        } else {
            bench.finish(job);
            bench.turn_until_heard(&mut asking, |peer| peer.response(stream).is_whole);
            assert_eq!(asking.peer.response(stream).body, b"hello");
        }
    }
}

impl Bench {
    pub(super) fn turn_until_heard(
        &mut self,
        asking: &mut super::http3::Asking,
        is_enough: impl Fn(&quic::testing::Client) -> bool,
    ) {
        for _ in 0..TURNS_MAX {
            asking.talk(self.worker.responder.timers.now());
            if is_enough(&asking.peer) {
                return;
            }
            self.turn();
        }
        panic!("it does not come");
    }
}
