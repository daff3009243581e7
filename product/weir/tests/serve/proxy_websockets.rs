//! WebSocket to upstreams over HTTP/2 (RFC 8441). A second instance of the program is the HTTP/2 server, and passes each
//! WebSocket on to a server in the test.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};

use http::websocket::accept;

use crate::common::tls::Made;
use crate::common::{
    Asked, Client, Server, Site, Upstream, WRITE_PATHS, answer, content, get, run_to_end, wait_until, weir_under,
};

/// The example of RFC 6455 section 1.3.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/// Opens the WebSocket `/echo`, and refuses all others.
fn open(asked: &Asked, socket: &mut TcpStream) -> bool {
    if asked.path() != "/echo" {
        answer(socket, &[b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno"]);
        return false;
    }
    assert_eq!((asked.field("Upgrade"), asked.field("Sec-WebSocket-Version")), (Some("websocket"), Some("13")));
    let accept = accept(asked.field("Sec-WebSocket-Key").expect("a key").as_bytes());
    let head = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n";
    let chosen = b"Sec-WebSocket-Protocol: chat\r\nSec-WebSocket-Accept: ";
    answer(socket, &[head, chosen, &accept, b"\r\n\r\nhello"])
}

/// Returns each byte, and `bye` at the end.
fn echo(asked: &Asked, socket: &mut TcpStream) -> bool {
    if !open(asked, socket) {
        return false;
    }
    let mut bytes = vec![0; 64 << 10];
    while let Ok(count @ 1..) = socket.read(&mut bytes) {
        if socket.write_all(&bytes[..count]).is_err() {
            return false;
        }
    }
    let _ = socket.write_all(b"bye");
    false
}

/// Starts a server that passes requests on to this address.
fn proxy(to: &str, args: &[&str]) -> Server {
    let mut command = weir_under(&[]);
    command.args(["proxy", to, "--listen", "127.0.0.1:0"]).args(args);
    Server::spawn(command)
}

fn h2c(to: &Server, args: &[&str]) -> Server {
    proxy(&format!("h2c://{}", to.address), args)
}

fn ask(client: &mut Client, path: &str) -> (u16, String) {
    client.send(format!(
        "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: chat\r\nSec-WebSocket-Key: {KEY}\r\n\r\n"
    ));
    client.head()
}

/// Opens a WebSocket whose first bytes are `hello`.
fn opened(server: &Server) -> Client {
    let mut client = server.connect();
    let (status, head) = ask(&mut client, "/echo");
    assert_eq!(status, 101, "{head} {:?}", server.stderr());
    let head = head + "\r\n";
    let lower = head.to_lowercase();
    assert!(head.contains(&format!("Sec-WebSocket-Accept: {ACCEPT}\r\n")), "{head}");
    assert_eq!(lower.matches("sec-websocket-accept").count(), 1, "{head}");
    assert!(lower.contains("connection: upgrade\r\n") && lower.contains("upgrade: websocket\r\n"), "{head}");
    assert!(lower.contains("sec-websocket-protocol: chat\r\n"), "{head}");
    assert_eq!(client.body(5), b"hello");
    client
}

/// The last of three has HTTP/2 at both sides.
#[test]
fn a_websocket_is_a_stream_of_its_upstream() {
    let upstream = Upstream::start(echo);
    let last = proxy(&upstream.address.to_string(), &["--uplink", "off"]);
    let middle = h2c(&last, &["--uplink", "off"]);
    for path in WRITE_PATHS {
        for to in [&last, &middle] {
            let server = h2c(to, path);
            let (mut client, mut other) = (opened(&server), opened(&server));
            for round in 1..100 {
                client.send(content(round * 31));
                assert!(client.body(round * 31) == content(round * 31), "round {round}");
            }
            // More than all windows together.
            std::thread::scope(|scope| {
                let mut writing = client.writer();
                scope.spawn(move || writing.write_all(&content(3 << 20)).unwrap());
                assert!(client.body(3 << 20) == content(3 << 20));
            });
            other.send("x");
            assert_eq!(other.body(1), b"x");
            client.finish();
            assert_eq!(client.rest(), b"bye", "the end of one side is not that of the other");
            other.send("y");
            assert_eq!(other.body(1), b"y");
            server.assert_alive();
        }
    }
}

#[test]
fn a_websocket_that_is_refused_is_a_response() {
    let upstream = Upstream::start(echo);
    let last = proxy(&upstream.address.to_string(), &["--uplink", "off"]);
    let server = h2c(&last, &[]);
    let mut client = server.connect();
    for _ in 0..3 {
        let (status, head) = ask(&mut client, "/other");
        assert!(status == 403 && head.contains("Content-Length: 2"), "{head}");
        assert_eq!(client.body(2), b"no");
    }
    drop(opened(&server));
}

/// An upstream that says when its client has left, and leaves when told to.
fn held() -> (Upstream, Receiver<bool>) {
    let (left, lefts) = channel();
    let left = Mutex::new(left);
    let upstream = Upstream::start(move |asked, socket| {
        if open(asked, socket) {
            let mut byte = [0];
            let is_told = matches!(socket.read(&mut byte), Ok(1));
            let _ = left.lock().unwrap().send(is_told);
        }
        false
    });
    (upstream, lefts)
}

#[test]
fn either_side_ends_a_websocket_for_the_other() {
    let (upstream, lefts) = held();
    let last = proxy(&upstream.address.to_string(), &["--uplink", "off"]);
    let server = h2c(&last, &[]);
    opened(&server).reset();
    assert!(!lefts.recv().unwrap(), "the client has left");
    let mut client = opened(&server);
    client.send("x");
    assert!(lefts.recv().unwrap());
    assert_eq!(client.rest(), b"");
    let mut client = opened(&server);
    drop(last);
    client.assert_gone();
    server.assert_alive();
}

/// With prior knowledge there is nothing else to speak: the log names the cure.
#[test]
fn an_upstream_without_websockets_is_502_and_a_line_with_the_cure() {
    let site = Site::of_sizes(&[100]);
    let files = Server::start(&site, &["--uplink", "off"]);
    let server = h2c(&files, &[]);
    assert_eq!(server.connect().get("/size-100").body, content(100));
    let mut client = server.connect();
    assert_eq!(ask(&mut client, "/echo").0, 502);
    let cure = "it takes no WebSocket over HTTP/2 (RFC 8441): give the path a site.proxy with an upstream at http://";
    wait_until(cure, || server.stderr().iter().any(|line| line.contains(cure)));
    // Without a key, a request does not open a WebSocket.
    let mut client = server.connect();
    client.send("GET /size-100 HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!(client.response().body, content(100));
}

/// The connections of an instance that had no proxy when they began have no WebSocket, until they end.
#[test]
fn an_upstream_without_websockets_is_asked_over_http1_if_it_speaks_tls() {
    let upstream = Upstream::start(echo);
    let (site, outer) = (Site::of_sizes(&[100]), Site::new());
    let made = Made::new(&site, "a", &["localhost"]);
    let (file, root) = (site.outside("weir.toml"), site.served());
    let write = |keys: &str| {
        let text = format!(
            "[server]\nsandbox = false\n[uplink]\nshaping = 'off'\n[[listener]]\naddress = '127.0.0.1:0'\ntls = true\nhttp3 = false\n[[site]]\n\
             root = '{}'\ncert = '{}'\nkey = '{}'\n{keys}",
            root.display(),
            made.cert.display(),
            made.key.display()
        );
        std::fs::write(&file, text).unwrap();
    };
    write("");
    let files = Server::run(&file);
    let text = format!(
        "[[listener]]\naddress = '127.0.0.1:0'\n[[site]]\n[[site.proxy]]\nto = ['h2://localhost:{}']\ntls_ca = '{}'\n",
        files.address.port(),
        made.cert.display()
    );
    outer.write("weir.toml", text.as_bytes());
    let server = Server::run(&outer.path("weir.toml"));
    assert_eq!(server.connect().get("/size-100").body, content(100));
    write(&format!("[[site.proxy]]\npath = '/echo'\nto = ['{}']\n", upstream.address));
    let reloaded = run_to_end(&["reload", "--pid", &files.pid().to_string()]);
    assert!(reloaded.status.success(), "{}", String::from_utf8_lossy(&reloaded.stderr));
    let mut client = opened(&server);
    client.send(content(100_000));
    assert!(client.body(100_000) == content(100_000));
    client.finish();
    assert_eq!(client.rest(), b"bye");
    let mut other = server.connect();
    other.send(get("/size-100"));
    assert_eq!(other.response().field("Via"), Some("2 weir"), "all else stays with HTTP/2");
}
