//! Upstreams whose responses do not end: tunnels through reloads, and events that reach the client as they occur.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use crate::common::{
    Asked, Client, PATIENCE, Server, Site, Upstream, WRITE_PATHS, answer, answer_last, content, get, run_to_end,
    weir_under,
};

/// Accepts the requested protocol and returns each byte.
fn echo(asked: &Asked, socket: &mut TcpStream) -> bool {
    assert_eq!(asked.field("Upgrade"), Some("websocket"));
    answer(socket, &[b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"]);
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = socket.read(&mut bytes) {
        if socket.write_all(&bytes[..count]).is_err() {
            return false;
        }
    }
    false
}

/// A text message of a client: one frame with an empty mask (RFC 6455 section 5.2).
fn message(number: usize) -> Vec<u8> {
    let text = format!("message {number}");
    [&[0x81, 0x80 | text.len() as u8, 0, 0, 0, 0], text.as_bytes()].concat()
}

/// Each reload configures other upstreams, and the tunnel continues with its own.
#[test]
fn a_websocket_loses_no_message_through_reloads() {
    const MESSAGES: usize = 10_000;
    const RELOADS: usize = 10;
    let (upstream, other) = (Upstream::start(echo), Upstream::start(|_, _| false));
    let site = Site::new();
    let write = |to: &Upstream| {
        let text =
            format!("[[listener]]\naddress = \"127.0.0.1:0\"\n[[site]]\n[[site.proxy]]\nto = [\"{}\"]\n", to.address);
        site.write("weir.toml", text.as_bytes());
    };
    write(&upstream);
    let server = Server::run(&site.path("weir.toml"));
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!(client.head().0, 101);
    let expected: Vec<u8> = (0..MESSAGES).flat_map(message).collect();
    let part = expected.len() / RELOADS + 1;
    let pid = server.pid().to_string();
    for (round, part) in expected.chunks(part).enumerate() {
        // Half of them are on their way while the sites change.
        client.send(part);
        write(if round % 2 == 0 { &other } else { &upstream });
        let reloaded = run_to_end(&["reload", "--pid", &pid]);
        assert!(reloaded.status.success(), "{}", String::from_utf8_lossy(&reloaded.stderr));
        assert!(client.body(part.len()) == part, "round {round}");
    }
    client.finish();
    client.assert_end();
    server.assert_alive();
}

/// `docker exec -i` gets its output after the end of its input. The socket is full when the program ends, and each event
/// that reports room in it reports the end of the input again: the last 64 KB were once dropped.
#[test]
fn a_client_that_has_ended_its_input_gets_all_of_the_output() {
    const BYTES: usize = 1_000_000;
    let upstream = Upstream::start(|_, socket| {
        answer(socket, &[b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: tcp\r\n\r\n"]);
        assert_eq!(socket.read(&mut [0; 10]).unwrap_or(0), 0, "the end of the input");
        answer_last(socket, &[&content(BYTES)])
    });
    let site = Site::new();
    let text =
        format!("[[listener]]\naddress = \"127.0.0.1:0\"\n[[site]]\n[[site.proxy]]\nto = [\"{}\"]\n", upstream.address);
    site.write("weir.toml", text.as_bytes());
    let server = Server::run(&site.path("weir.toml"));
    for round in 0..10 {
        let mut client = Client::connect_narrow(server.address);
        client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n");
        assert_eq!(client.head().0, 101);
        client.finish();
        let mut came = Vec::new();
        while came.len() < BYTES / 2 {
            came.extend(client.body(1000));
        }
        came.extend(client.rest());
        assert!(came == content(BYTES), "round {round}: {} bytes", came.len());
    }
    server.assert_alive();
}

/// An upstream that sends an event for each message on the channel.
fn events() -> (Upstream, Sender<String>) {
    let (send, receive) = channel();
    let receive: Arc<Mutex<Receiver<String>>> = Arc::new(Mutex::new(receive));
    let upstream = Upstream::start(move |_, socket| {
        answer(socket, &[b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n\r\n"]);
        let events = receive.lock().unwrap();
        while let Ok(event) = events.recv_timeout(PATIENCE) {
            if event.is_empty() || !answer(socket, &[event.as_bytes()]) {
                return false;
            }
        }
        false
    });
    (upstream, send)
}

fn proxy(upstream: &Upstream, args: &[&str]) -> Server {
    let mut command = weir_under(&[]);
    command.args(["proxy", &upstream.address.to_string(), "--listen", "127.0.0.1:0"]).args(args);
    Server::spawn(command)
}

fn event(number: usize) -> String {
    format!("data: {number}\n\n")
}

/// Asserts that the next chunk has this text.
fn assert_chunk(client: &mut Client, text: &str) {
    let chunk = format!("{:x}\r\n{text}\r\n", text.len());
    assert_eq!(client.body(chunk.len()), chunk.as_bytes());
}

/// The next event is sent when the previous one has arrived, so events are not collected.
#[test]
fn each_event_reaches_the_client_before_the_next() {
    for path in WRITE_PATHS {
        let (upstream, send) = events();
        let server = proxy(&upstream, path);
        let mut client = server.connect();
        client.send(get("/"));
        send.send(event(0)).unwrap();
        let (status, head) = client.head();
        assert!(status == 200 && head.contains("Content-Type: text/event-stream"), "{head}");
        for number in 0..100 {
            assert_chunk(&mut client, &event(number));
            send.send(event(number + 1)).unwrap();
        }
        assert_chunk(&mut client, &event(100));
        // The upstream ends, and so does the stream.
        send.send(String::new()).unwrap();
        assert_eq!(client.body(5), b"0\r\n\r\n");
        server.assert_alive();
    }
}

#[test]
fn each_event_reaches_curl_over_tls() {
    let (upstream, send) = events();
    let server = proxy(&upstream, &["--tls-self-signed"]);
    let url = format!("https://localhost:{}/", server.address.port());
    for how in ["--http1.1", "--http2"] {
        send.send(event(0)).unwrap();
        let mut curl =
            Command::new("curl").args(["-sSkN", "--max-time", "60", how, &url]).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(curl.stdout.take().unwrap());
        for number in 0..20 {
            let mut came = String::new();
            for _ in 0..2 {
                said.read_line(&mut came).unwrap();
            }
            assert_eq!(came, event(number), "{how}");
            send.send(event(number + 1)).unwrap();
        }
        send.send(String::new()).unwrap();
        let mut rest = String::new();
        said.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, event(20), "{how}");
        assert!(curl.wait().unwrap().success());
    }
    server.assert_alive();
}
