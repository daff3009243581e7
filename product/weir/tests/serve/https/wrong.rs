//! Clients that use another protocol or violate TLS: they are bounded and logged, and do not affect others.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::common::tls::Made;
use crate::common::{PATIENCE, Server, Site, content, get, on_every_path, wait_until};

fn said(server: &Server, part: &str) {
    wait_until(part, || server.stderr().iter().any(|line| line.contains(part)));
}

/// Everything that the server sends until it ends or resets the connection.
fn said_to(server: &Server, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(bytes).unwrap();
    let mut received = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(bytes) = stream.read(&mut buffer) {
        received.extend_from_slice(&buffer[..bytes]);
        if bytes == 0 {
            break;
        }
    }
    received
}

#[test]
fn http_without_tls_is_answered_in_its_own_words() {
    let site = Site::with(&[("a.txt", b"hello")]);
    let made = Made::new(&site, "own", &["localhost"]);
    on_every_path(&site, &made.flags(), |server| {
        let mut client = server.connect();
        client.send(get("/a.txt"));
        let response = client.response();
        assert!(response.status == 400 && response.text().contains("this port serves HTTPS"), "{}", response.text());
        client.assert_end();
        assert_eq!(made.trust().connect(server.address, "localhost").get("/a.txt").1, b"hello");
    });
}

#[test]
fn tls_where_none_is_spoken_is_answered_with_an_alert() {
    let site = Site::with(&[("a.txt", b"hello")]);
    let made = Made::new(&site, "own", &["localhost"]);
    on_every_path(&site, &[], |server| {
        assert_eq!(said_to(server, &made.trust().hello()), [0x15, 3, 1, 0, 2, 2, 40]);
        said(server, "the client speaks TLS and this listener does not");
        let mut client = server.connect();
        assert_eq!(client.get("/a.txt").text(), "hello");
    });
}

#[test]
fn what_is_no_tls_is_an_end_with_a_reason() {
    let site = Site::with(&[("a.txt", b"hello")]);
    let made = Made::new(&site, "own", &["localhost"]);
    let hello = made.trust().hello();
    let flipped: Vec<u8> = hello.iter().enumerate().map(|(at, byte)| if at == 70 { !byte } else { *byte }).collect();
    let garbage: [&[u8]; 5] =
        [&[0; 500], b"\x16\x03\x01\xff\xff", b"\x17\x03\x03\x00\x10garbage-garbage!", &content(5_000), &flipped];
    on_every_path(&site, &made.flags(), |server| {
        let mut kept = made.trust().connect(server.address, "localhost");
        kept.get("/a.txt");
        for bytes in garbage {
            let mut stream = TcpStream::connect(server.address).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.write_all(bytes).unwrap();
            let mut first = [0];
            // An alert, an end or a reset; the flipped hello may still be one.
            assert!(matches!(stream.read(&mut first), Ok(0) | Err(_)) || [0x15, 0x16].contains(&first[0]));
        }
        said(server, "TLS failed with 127.0.0.1:");
        assert_eq!(kept.get("/a.txt").1, b"hello");
    });
}

#[test]
fn clients_that_leave_in_the_middle_hurt_nobody() {
    let site = Site::of_sizes(&[10, 3_000_000]);
    let made = Made::new(&site, "own", &["localhost"]);
    let hello = made.trust().hello();
    on_every_path(&site, &made.flags(), |server| {
        let mut kept = made.trust().connect(server.address, "localhost");
        for cut in [1, 5, 40, hello.len() - 1, hello.len()] {
            let mut stream = TcpStream::connect(server.address).unwrap();
            stream.write_all(&hello[..cut]).unwrap();
        }
        for _ in 0..3 {
            let mut client = made.trust().connect(server.address, "localhost");
            client.send(&get("/size-3000000"));
            client.head();
            // Closed with unread bytes, it is a reset.
        }
        // Half a record, then the end.
        let mut client = made.trust().connect(server.address, "localhost");
        client.get("/size-10");
        let mut wire = Vec::new();
        client.stream.conn.writer().write_all(get("/size-10").as_bytes()).unwrap();
        client.stream.conn.write_tls(&mut wire).unwrap();
        client.stream.sock.write_all(&wire[..20]).unwrap();
        drop(client);
        assert!(kept.get("/size-10").1 == content(10));
        assert!(kept.get("/size-3000000").1 == content(3_000_000));
    });
}

#[test]
fn a_slow_handshake_ends() {
    let site = Site::with(&[("a.txt", b"hello")]);
    let made = Made::new(&site, "own", &["localhost"]);
    let server = Server::start(&site, &made.flags());
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&made.trust().hello()[..100]).unwrap();
    assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)));
    said(&server, "no handshake within 10 s");
    // After its handshake a client has the time limit of a request.
    assert_eq!(made.trust().connect(server.address, "localhost").get("/a.txt").1, b"hello");
}
