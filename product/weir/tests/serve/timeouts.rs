//! Connections past their deadline are closed, and others are not. All wait at the same time, and none for an exact
//! time. In virtual time, if there is a kernel for that, waiting takes no time.

use std::time::Duration;

use rustix::process::Signal;

use crate::common::{Client, Site, get, in_virtual_time, on_every_path_at_once, wait_until};

const TIMEOUTS: [&str; 6] = ["--header-timeout", "1s", "--body-timeout", "1s", "--idle-timeout", "1s"];

#[test]
fn slow_clients_are_let_go() {
    if in_virtual_time(slow_clients_are_let_go) {
        return;
    }
    on_every_path_at_once(&Site::with(&[("a", b"hello")]), &TIMEOUTS, |server| {
        std::thread::scope(|scope| {
            let run = |test: fn(Client)| scope.spawn(move || test(server.connect()));
            run(sends_nothing);
            run(sends_half_a_head);
            run(sends_half_a_second_head);
            run(sends_a_head_forever);
            run(idles_after_a_response);
            run(sends_half_a_body);
            run(sends_half_a_chunk);
            run(sends_a_body_forever);
            run(never_closes_after_a_refusal);
        });
    });
}

/// Half a head after a complete request is a request that has begun, not an idle connection.
#[test]
fn half_a_head_behind_a_request_is_timed_as_a_head() {
    if in_virtual_time(half_a_head_behind_a_request_is_timed_as_a_head) {
        return;
    }
    let timeouts = ["--header-timeout", "1s", "--idle-timeout", "1h"];
    on_every_path_at_once(&Site::with(&[("a", b"hello")]), &timeouts, |server| {
        let mut client = server.connect();
        client.send(get("/a") + "GET /a HTTP/1.1\r\nHos");
        assert_eq!(client.response().text(), "hello");
        assert_eq!(client.response().status, 408);
        client.assert_end();
    });
}

fn sends_nothing(mut client: Client) {
    client.assert_end();
}

fn sends_half_a_head(mut client: Client) {
    client.send("GET /a HTTP/1.1\r\nHos");
    assert_eq!(client.response().status, 408);
    client.assert_end();
}

fn sends_half_a_second_head(mut client: Client) {
    assert_eq!(client.get("/a").status, 200);
    client.send("GET /a HTTP/1.1\r\nHos");
    assert_eq!(client.response().status, 408);
    client.assert_end();
}

/// An occasional byte does not restart the timer.
fn sends_a_head_forever(mut client: Client) {
    client.send("GET /a HTTP/1.1\r\n");
    for _ in 0..25 {
        client.try_send("X: y\r\n");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(client.response().status, 408, "2.5 s of head were put up with");
}

fn idles_after_a_response(mut client: Client) {
    assert_eq!(client.get("/a").status, 200);
    client.assert_end();
}

fn sends_half_a_body(mut client: Client) {
    client.send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello");
    assert_eq!(client.response().status, 408);
    client.assert_end();
}

fn sends_half_a_chunk(mut client: Client) {
    client.send("POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe");
    assert_eq!(client.response().status, 408);
    client.assert_end();
}

/// Nor does an occasional byte of a body: earlier it did, up to 20 s for each of a million.
fn sends_a_body_forever(mut client: Client) {
    client.send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n");
    let is_refused = (0..200).any(|_| {
        client.try_send("x");
        !client.is_silent()
    });
    assert!(is_refused, "20 s of body at 10 bytes/s were put up with");
    assert_eq!(client.response().status, 408);
}

/// The server closes its side immediately, and bytes that the client continues to send do not keep the connection.
fn never_closes_after_a_refusal(mut client: Client) {
    client.send("nonsense\r\n\r\n");
    assert_eq!(client.response().status, 400);
    client.assert_end();
}

/// Slow is not idle: requests and bodies that keep arriving, and long responses, are not cut.
#[test]
fn steady_clients_are_not() {
    if in_virtual_time(steady_clients_are_not) {
        return;
    }
    const SIZE: usize = 300_000;
    let site = Site::of_sizes(&[SIZE]);
    let limits = [&TIMEOUTS[..], &["--min-request-rate", "5"]].concat();
    on_every_path_at_once(&site, &limits, |server| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut client = server.connect();
                client.send("POST /size-300000 HTTP/1.1\r\nHost: a\r\nContent-Length: 25\r\n\r\n");
                for _ in 0..25 {
                    std::thread::sleep(Duration::from_millis(100));
                    client.send("x");
                }
                assert_eq!(client.response().status, 405);
            });
            scope.spawn(|| {
                let mut client = Client::connect_narrow(server.address);
                client.send(get("/size-300000"));
                assert_eq!(client.head().0, 200);
                for _ in 0..25 {
                    std::thread::sleep(Duration::from_millis(100));
                    client.body(SIZE / 25);
                }
            });
        });
    });
}

/// A client that reads nothing is cut off, and the log states the reason.
#[test]
fn a_reader_that_takes_nothing_is_let_go() {
    if in_virtual_time(a_reader_that_takes_nothing_is_let_go) {
        return;
    }
    let patience = ["--min-send-rate-window", "1s", "--min-send-rate", "1000"];
    on_every_path_at_once(&Site::of_sizes(&[20 << 20]), &patience, |server| {
        let mut client = Client::connect_narrow(server.address);
        client.send(get(&format!("/size-{}", 20 << 20)));
        wait_until("the reader to be given up", || {
            server.stderr().iter().any(|line| line.contains("slower than --min-send-rate"))
        });
        server.assert_alive();
    });
}

/// Time in which the server was stopped does not count against clients, because the server could not receive anything.
#[test]
fn a_stopped_process_cuts_nobody_off() {
    if in_virtual_time(a_stopped_process_cuts_nobody_off) {
        return;
    }
    // Without a sandbox, which not every kernel supports and whose absence would cause a remark.
    const LIMITS: [&str; 9] = [
        "--no-sandbox",
        "--header-timeout",
        "4s",
        "--body-timeout",
        "4s",
        "--idle-timeout",
        "4s",
        "--min-send-rate-window",
        "4s",
    ];
    on_every_path_at_once(&Site::of_sizes(&[5, 20 << 20]), &LIMITS, |server| {
        let [mut idle, mut asking, mut sending] = [(); 3].map(|()| server.connect());
        let mut reading = Client::connect_narrow(server.address);
        reading.send(get(&format!("/size-{}", 20 << 20)));
        assert_eq!(reading.head().0, 200);
        sending.send("POST /size-5 HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello");
        asking.send("GET /size-5 HTTP/1.1\r\nHos");
        assert_eq!(idle.get("/size-5").status, 200);
        server.signal(Signal::STOP);
        std::thread::sleep(Duration::from_secs(6));
        server.signal(Signal::CONT);
        // Any late connection is cut off immediately.
        std::thread::sleep(Duration::from_millis(300));
        asking.send("t: a\r\n\r\n");
        assert_eq!(asking.response().status, 200);
        sending.send("hello");
        assert_eq!(sending.response().status, 405);
        assert_eq!(idle.get("/size-5").status, 200);
        reading.body(20 << 20);
        assert!(server.stderr().is_empty(), "{:?}", server.stderr());
    });
}
