//! HTTPS, with clients that check certificates.

mod certificates;
mod wrong;

use std::io::{Read, Write};
use std::net::Shutdown;
use std::process::Command;

use crate::common::tls::{Made, Trust};
use crate::common::{Site, WRITE_PATHS, content, get, on_every_path};

/// In the head's buffer, in memory, and a file; and around the ends of records and segments.
const SIZES: [usize; 9] = [1, 1000, 1426, 1427, 16_384, 16_385, 60_000, 70_000, 3_000_000];

fn flags<'a>(path: &[&'a str], made: &'a Made) -> Vec<&'a str> {
    path.iter().copied().chain(made.flags()).collect()
}

#[test]
fn files_of_all_sizes_arrive_on_one_connection() {
    let site = Site::of_sizes(&SIZES);
    let made = Made::new(&site, "own", &["localhost"]);
    for path in WRITE_PATHS {
        let server = crate::common::Server::start(&site, &flags(path, &made));
        for trust in [made.trust(), made.trust_1_2()] {
            let mut client = trust.connect(server.address, "localhost");
            for size in SIZES {
                let (head, body) = client.get(&format!("/size-{size}"));
                assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
                assert!(body == content(size), "{size} over {path:?}");
            }
            assert_eq!(client.stream.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
        }
        server.assert_alive();
    }
}

#[test]
fn pipelined_requests_are_answered_in_their_order() {
    let site = Site::of_sizes(&SIZES);
    let made = Made::new(&site, "own", &["localhost"]);
    on_every_path(&site, &made.flags(), |server| {
        let mut client = made.trust().connect(server.address, "localhost");
        let requests: String = SIZES.iter().map(|size| get(&format!("/size-{size}"))).collect();
        client.send(&requests.repeat(3));
        for size in [SIZES; 3].concat() {
            assert!(client.response().1 == content(size), "{size}");
        }
    });
}

#[test]
fn the_end_is_said() {
    let site = Site::of_sizes(&SIZES);
    let made = Made::new(&site, "own", &["localhost"]);
    on_every_path(&site, &made.flags(), |server| {
        for size in SIZES {
            let mut client = made.trust().connect(server.address, "localhost");
            client.send(&format!("GET /size-{size} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"));
            assert!(client.response().1 == content(size));
            client.assert_end();
        }
    });
}

/// It has sent all its requests and announced the end; the response must be sent all the same.
#[test]
fn a_client_that_ends_its_half_has_its_response() {
    let site = Site::of_sizes(&[3_000_000]);
    let made = Made::new(&site, "own", &["localhost"]);
    on_every_path(&site, &made.flags(), |server| {
        let mut client = made.trust().connect(server.address, "localhost");
        client.send(&get("/size-3000000"));
        client.stream.conn.send_close_notify();
        client.stream.flush().unwrap();
        client.stream.sock.shutdown(Shutdown::Write).unwrap();
        assert!(client.response().1 == content(3_000_000));
        client.assert_end();
    });
}

#[test]
fn the_next_connection_resumes_the_session() {
    let site = Site::of_sizes(&[1000]);
    let made = Made::new(&site, "own", &["localhost"]);
    on_every_path(&site, &made.flags(), |server| {
        for trust in [made.trust(), made.trust_1_2()] {
            for is_resumed in [false, true, true] {
                let mut client = trust.connect(server.address, "localhost");
                assert!(client.get("/size-1000").1 == content(1000));
                assert_eq!(client.is_resumed(), is_resumed);
            }
        }
    });
}

#[test]
fn a_certificate_for_development_is_made_on_request() {
    let site = Site::with(&[("a.txt", b"hello")]);
    let server = crate::common::Server::start(&site, &["--tls-self-signed"]);
    assert!(server.stdout()[0].contains(" at https://127.0.0.1:"), "{:?}", server.stdout());
    let url = format!("https://localhost:{}/a.txt", server.address.port());
    let curl =
        |args: &[&str]| Command::new("curl").args(["-sS", "--max-time", "60", &url]).args(args).output().unwrap();
    assert_eq!(curl(&["-k"]).stdout, b"hello");
    assert_eq!(curl(&["-k", "--tls-max", "1.2"]).stdout, b"hello");
    assert_eq!(curl(&[]).status.code(), Some(60), "nobody trusts it");
    crate::common::wait_until("a line about it", || {
        server.stderr().iter().any(|line| line.contains("self-signed") && line.contains("--tls-self-signed"))
    });
}

/// Another implementation reads the certificate than the one that wrote it.
#[test]
fn curl_takes_the_certificate_and_the_end() {
    let site = Site::of_sizes(&[70_000, 3_000_000]);
    let made = Made::new(&site, "own", &["localhost"]);
    on_every_path(&site, &made.flags(), |server| {
        let url = format!("https://localhost:{}/size-", server.address.port());
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--max-time", "60", "--cacert", made.cert.to_str().unwrap(), "-H", "Connection: close"]);
        let got = curl.args([format!("{url}70000"), format!("{url}3000000")]).output().unwrap();
        assert!(
            got.stdout == [content(70_000), content(3_000_000)].concat(),
            "{:?}",
            String::from_utf8_lossy(&got.stderr)
        );
    });
}

/// Bytes that arrive one by one have the same effect as all together.
#[test]
fn a_handshake_in_small_pieces_succeeds() {
    let site = Site::with(&[("a.txt", b"hello")]);
    let made = Made::new(&site, "own", &["localhost"]);
    on_every_path(&site, &made.flags(), |server| {
        let mut client = made.trust().connect(server.address, "localhost");
        while client.stream.conn.is_handshaking() {
            let mut wire = Vec::new();
            while client.stream.conn.wants_write() {
                client.stream.conn.write_tls(&mut wire).unwrap();
            }
            for piece in wire.chunks(7) {
                client.stream.sock.write_all(piece).unwrap();
            }
            if client.stream.conn.wants_read() {
                let mut received = [0; 100];
                let bytes = client.stream.sock.read(&mut received).unwrap();
                let mut received = &received[..bytes];
                while !received.is_empty() {
                    client.stream.conn.read_tls(&mut received).unwrap();
                    client.stream.conn.process_new_packets().unwrap();
                }
            }
        }
        assert_eq!(client.get("/a.txt").1, b"hello");
    });
}

#[test]
fn a_thousand_clients_resume_and_ask_at_once() {
    let site = Site::of_sizes(&[1000]);
    let made = Made::new(&site, "own", &["localhost"]);
    on_every_path(&site, &made.flags(), |server| {
        let trust: Trust = made.trust();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..125 {
                        let mut client = trust.connect(server.address, "localhost");
                        assert!(client.get("/size-1000").1 == content(1000));
                    }
                });
            }
        });
    });
}
