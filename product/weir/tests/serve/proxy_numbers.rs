//! Lengths near powers of two: no length from any peer ends the server, over HTTP/1.1 or HTTP/2, with or without an
//! order.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use crate::common::{Asked, Client, Server, Upstream, answer, get, weir_under};

/// Lengths near the limits, one of which overflows with any head added.
const TOO_LONG: [&str; 8] = [
    "9223372036854775808",
    "9223372036854775999",
    "18446744073709486080",
    "18446744073709551504",
    "18446744073709551600",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999",
];
const LONG: [&str; 6] =
    ["2147483647", "2147483648", "4294967296", "9007199254740993", "9223372036854710272", "9223372036854775807"];
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;

const UPLINKS: [&[&str]; 3] = [&["--uplink", "off"], &["--uplink", "10mbit"], &["--uplink", "auto"]];

fn proxy(to: &str, args: &[&str]) -> Server {
    let mut command = weir_under(&[]);
    command.args(["proxy", to, "--listen", "127.0.0.1:0"]).args(args);
    Server::spawn(command)
}

/// A response with the length from the path, and three bytes of it; the others never arrive.
fn of_length(asked: &Asked, socket: &mut TcpStream) -> bool {
    let path = asked.path()[1..].to_string();
    if path.is_empty() {
        return answer(socket, &[b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"]);
    }
    let (filler, length) = path.split_once('/').expect("two numbers");
    let filler = "x".repeat(filler.parse().expect("a number"));
    let head = format!("HTTP/1.1 200 OK\r\nX: {filler}\r\nContent-Length: {length}\r\n\r\nabc");
    answer(socket, &[head.as_bytes()])
}

#[test]
fn no_length_of_an_upstream_ends_the_server() {
    let upstream = Upstream::start(of_length);
    for uplink in UPLINKS {
        let server = proxy(&upstream.address.to_string(), uplink);
        // With a head of 60 KB other lengths overflow.
        for filler in [0, 60_000] {
            for length in TOO_LONG {
                let response = server.connect().get(&format!("/{filler}/{length}"));
                assert_eq!(response.status, 502, "{uplink:?}: {length}");
            }
            for length in LONG {
                check_begin(&server, &format!("/{filler}/{length}"), length);
            }
        }
        assert_eq!(server.connect().get("/").text(), "ok", "{uplink:?}");
        server.assert_alive();
    }
}

/// Checks that a response that ends after three bytes is sent up to there.
fn check_begin(server: &Server, path: &str, length: &str) {
    let mut client: Client = server.connect();
    client.send(get(path));
    let (status, head) = client.head();
    assert_eq!(status, 200, "{head}");
    assert!(head.contains(&format!("\r\nContent-Length: {length}")), "{head}");
    assert_eq!(client.body(3), b"abc", "{path}");
}

/// An HTTP/2 upstream whose next response has this Content-Length and three bytes of content.
fn http2_upstream(length: Arc<Mutex<String>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let (socket, length) = (socket.unwrap(), Arc::clone(&length));
            std::thread::spawn(move || drop(speak_http2(socket, &length)));
        }
    });
    address
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
    [&[a, b, c, kind, flags][..], &stream.to_be_bytes(), payload].concat()
}

fn speak_http2(mut socket: TcpStream, length: &Mutex<String>) -> std::io::Result<()> {
    socket.read_exact(&mut [0; 24])?;
    socket.write_all(&frame(SETTINGS, 0, 0, &[]))?;
    loop {
        let mut head = [0; 9];
        socket.read_exact(&mut head)?;
        let [a, b, c, kind, flags, stream @ ..] = head;
        socket.read_exact(&mut vec![0; u32::from_be_bytes([0, a, b, c]) as usize])?;
        match kind {
            SETTINGS if flags == 0 => socket.write_all(&frame(SETTINGS, 1, 0, &[]))?,
            HEADERS => {
                let stream = u32::from_be_bytes(stream);
                let length = length.lock().unwrap().clone();
                // :status 200 of HPACK's static table, and a literal with the name of its entry 28, content-length.
                let block = [&[0x88, 0x0f, 0x0d, length.len() as u8], length.as_bytes()].concat();
                socket.write_all(&frame(HEADERS, 4, stream, &block))?;
                let ends = u8::from(length == "3");
                socket.write_all(&frame(DATA, ends, stream, b"abc"))?;
            }
            _ => {}
        }
    }
}

#[test]
fn no_length_of_an_upstream_of_http2_ends_the_server() {
    let length = Arc::new(Mutex::new(String::new()));
    let upstream = http2_upstream(Arc::clone(&length));
    for uplink in UPLINKS {
        let server = proxy(&format!("h2c://{upstream}"), uplink);
        for too_long in TOO_LONG {
            *length.lock().unwrap() = too_long.into();
            assert_eq!(server.connect().get("/").status, 502, "{uplink:?}: {too_long}");
        }
        for long in LONG {
            *length.lock().unwrap() = long.into();
            check_begin(&server, "/", long);
        }
        *length.lock().unwrap() = "3".into();
        assert_eq!(server.connect().get("/").text(), "abc", "{uplink:?}");
        server.assert_alive();
    }
}

#[test]
fn no_length_of_a_client_gets_to_an_upstream_or_ends_the_server() {
    let upstream = Upstream::start(of_length);
    for uplink in UPLINKS {
        let server = proxy(&upstream.address.to_string(), uplink);
        for length in TOO_LONG {
            let mut client = server.connect();
            client.send(format!("POST /0/3 HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\nabc"));
            assert_eq!(client.response().status, 400, "{length}");
        }
        assert!(upstream.asked().iter().all(|asked| asked.path() == "/"), "{:?}", upstream.asked());
        for size in ["8000000000000000", "fffffffffffffff0", "ffffffffffffffff", "10000000000000000"] {
            let mut client = server.connect();
            client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{size}\r\nabc"));
            let came = client.rest();
            assert!(!came.starts_with(b"HTTP/1.1 2") || came.ends_with(b"ok"), "{size}: {}", came.escape_ascii());
        }
        assert_eq!(server.connect().get("/").text(), "ok", "{uplink:?}");
        server.assert_alive();
    }
}
