//! Memory that clients can make the server hold.

use std::fs;

use crate::common::{Client, Server, Upstream, answer, content, wait_until, weir_under};
use crate::http3::Asking;

const BODY_BYTES: usize = 60_000;
/// The maximum number of streams that a client may have open.
const STREAMS: u32 = 100;
const CONNECTIONS: usize = 10;
/// A limit of which connections may hold 14 MB; all responses together may hold 60 MB.
const MEMORY: [&str; 2] = ["--memory", "32MiB"];
const GROWTH_KB_MAX: u64 = 24_000;
/// The number of checks, after which the number of requests is compared.
const LOOKS: usize = 100;

/// A row of /proc/PID/status (proc(5)), in KB.
fn kilobytes(server: &Server, row: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let value = status.lines().find_map(|line| line.strip_prefix(row)).expect("the row is there");
    value.trim().strip_suffix(" kB").expect("KB").parse().expect("a number")
}

/// A client of HTTP/2 whose streams have no window (RFC 9113 section 6.5.2), and which requests as many responses as it
/// may.
fn stalled_http2(server: &Server) -> Client {
    let mut said = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\0".to_vec();
    for at in 0..STREAMS {
        // HEADERS that end the block and the stream: GET, http, / and the host `a` (RFC 7541 appendix A).
        said.extend([&b"\0\0\x06\x01\x05"[..], &(2 * at + 1).to_be_bytes(), b"\x82\x86\x84\x41\x01a"].concat());
    }
    let mut client = server.connect();
    client.send(said);
    client
}

/// Makes clients request more from an upstream than the server may hold, and checks that the server does not hold it.
fn check<C>(args: &[&str], stall: impl Fn(&Server) -> C) {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {BODY_BYTES}\r\n\r\n");
    let upstream = Upstream::start(move |_, socket| answer(socket, &[head.as_bytes(), &content(BODY_BYTES)]));
    let mut command = weir_under(&[]);
    command.args(["proxy", &upstream.address.to_string(), "--listen", "127.0.0.1:0", "--workers", "1"]);
    let server = Server::spawn({
        command.args(MEMORY).args(args);
        command
    });
    let before = kilobytes(&server, "VmRSS:");
    let _stalled: Vec<C> = (0..CONNECTIONS).map(|_| stall(&server)).collect();
    let mut asked = Vec::new();
    wait_until("an end of requests to the upstream", || {
        asked.push(upstream.asked().len());
        asked.len() > LOOKS && asked[asked.len() - 1] > 0 && asked[asked.len() - 1] == asked[asked.len() - 1 - LOOKS]
    });
    let grown = kilobytes(&server, "VmHWM:") - before;
    assert!(grown <= GROWTH_KB_MAX, "{grown} KB for {} responses", asked[asked.len() - 1]);
    server.assert_alive();
}

/// Earlier a response that began with its whole body was counted as 1 KB.
#[test]
fn proxied_responses_that_nobody_reads_are_bounded_over_http2() {
    check(&["--uplink", "off"], stalled_http2);
    check(&["--uplink", "10mbit"], stalled_http2);
}

#[test]
fn proxied_responses_that_nobody_reads_are_bounded_over_http3() {
    check(&["--uplink", "off", "--tls-self-signed"], |server| Asking::stalled(server, STREAMS));
}
