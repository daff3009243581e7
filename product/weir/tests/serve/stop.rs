//! Stopping: responses in flight are completed, and nothing new is begun.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt;

use rustix::process::Signal;

use crate::common::{Client, Server, Site, WRITE_PATHS, content, get, wait_until};

const LARGE: usize = 8 << 20;

fn site() -> Site {
    Site::of_sizes(&[10, LARGE])
}

fn begun(server: &Server) -> Client {
    let mut client = Client::connect_narrow(server.address);
    client.send(get(&format!("/size-{LARGE}")));
    assert_eq!(client.head().0, 200);
    client
}

#[test]
fn a_stopping_server_finishes_what_it_is_sending() {
    let site = site();
    for signal in [Signal::TERM, Signal::INT] {
        for path in WRITE_PATHS {
            let server = Server::start(&site, path);
            let mut slow = begun(&server);
            // A request after it is no longer begun.
            slow.send(get("/size-10"));
            let mut idle = server.connect();
            assert_eq!(idle.get("/size-10").status, 200);
            let mut silent = server.connect();
            let mut halfway = server.connect();
            halfway.send("GET /size-10 HT");
            server.signal(signal);
            idle.assert_end();
            new_connections_are_refused(&server);
            // Not even accepted yet (TCP_DEFER_ACCEPT): the kernel resets the connection at its first byte.
            silent.try_send("G");
            silent.assert_gone();
            // Its request had begun.
            halfway.send("TP/1.1\r\nHost: a\r\n\r\n");
            let response = halfway.response();
            assert_eq!((response.status, response.field("connection")), (200, Some("close")));
            halfway.assert_end();
            drop(halfway);
            server.assert_alive();
            assert!(slow.body(LARGE) == content(LARGE));
            slow.assert_end();
            // The server waits a moment for its clients to leave: one has sent bytes that were not read.
            drop(slow);
            assert_eq!(server.exit_status().code(), Some(0));
        }
    }
}

fn new_connections_are_refused(server: &Server) {
    wait_until(
        "new connections to be refused",
        || matches!(TcpStream::connect(server.address), Err(error) if error.kind() == ErrorKind::ConnectionRefused),
    );
}

#[test]
fn an_idle_server_stops_at_once() {
    let site = site();
    for path in WRITE_PATHS {
        let server = Server::start(&site, path);
        server.signal(Signal::TERM);
        assert_eq!(server.exit_status().code(), Some(0));
        assert!(server.stderr().is_empty(), "{:?}", server.stderr());
    }
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let site = site();
    for path in WRITE_PATHS {
        let server = Server::start(&site, path);
        let mut idle = server.connect();
        assert_eq!(idle.get("/size-10").status, 200);
        let _slow = begun(&server);
        server.signal(Signal::TERM);
        // Its end shows that the first has arrived.
        idle.assert_end();
        wait_until("the end at the second signal", || {
            server.signal(Signal::TERM);
            server.has_ended()
        });
        assert_eq!(server.exit_status().signal(), Some(Signal::TERM.as_raw()));
    }
}

/// A client that reads nothing does not delay a stop without limit.
#[test]
fn stopping_has_an_end() {
    let site = site();
    std::thread::scope(|scope| {
        for path in WRITE_PATHS {
            let site = &site;
            scope.spawn(move || {
                let server = Server::start(site, &[path, &["--shutdown-timeout", "200ms"]].concat());
                let _slow = begun(&server);
                server.signal(Signal::TERM);
                assert_eq!(server.exit_status().code(), Some(0));
                let begins = ["weir: waiting for 1 response, ", "weir: cut 1 response, "];
                wait_until("lines about it", || {
                    begins.iter().all(|begin| server.stderr().iter().any(|line| line.starts_with(begin)))
                });
                assert!(
                    server.stderr().last().is_some_and(|line| line.starts_with(begins[1])),
                    "{:?}",
                    server.stderr()
                );
            });
        }
    });
}
