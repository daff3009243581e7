//! Malformed requests, and mistakes that end a connection: of each a line of the access log with status 400 and the
//! reason, and one response in the metrics, over every version of HTTP.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::admin::{admin_of, ask};
use crate::common::{PATIENCE, Server, Site, wait_until, weir_under};
use crate::http2::PREFACE;
use crate::http3::Asking;

type Fields<'f> = &'f [(&'f str, &'f str)];

/// Heads over HTTP/2 and HTTP/3, the path that the log shows, and the reason.
const HEADS: [(Fields, &str, &str); 5] = [
    (&[METHOD, SCHEME, AUTHORITY], "", "pseudo-fields other than those of the method"),
    (
        &[METHOD, SCHEME, AUTHORITY, (":path", "/a"), ("Accept", "b")],
        "/a",
        "a field name that is not a token in lower case",
    ),
    (&[METHOD, SCHEME, AUTHORITY, (":path", "/b"), ("connection", "close")], "/b", "a field of a connection"),
    (
        &[METHOD, SCHEME, AUTHORITY, (":path", "/c"), ("content-length", "1"), ("content-length", "2")],
        "/c",
        "two different content-lengths",
    ),
    (&[METHOD, SCHEME, (":authority", "a@b"), (":path", "/d")], "/d", "an invalid :authority"),
];
const METHOD: (&str, &str) = (":method", "GET");
const SCHEME: (&str, &str) = (":scheme", "https");
const AUTHORITY: (&str, &str) = (":authority", "localhost");

/// The same over HTTP/1.1, where fields in upper case and of the connection are none.
const TEXTS: [(&str, &str, &str); 5] = [
    ("GET HTTP/1.1\r\nHost: a\r\n", "GET HTTP/1.1", "malformed request line"),
    ("GET /a HTTP/1.1\r\nHost: a\r\nAcc ept: b\r\n", "/a", "malformed field name"),
    ("GET /b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: x\r\n", "/b", "transfer-encoding"),
    ("POST /c HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n", "/c", "content-length"),
    ("GET /d HTTP/1.1\r\nHost: a@b\r\n", "/d", "malformed host field"),
];

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const END_STREAM_AND_HEADERS: u8 = 5;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
    [&[a, b, c, kind, flags][..], &stream.to_be_bytes(), payload].concat()
}

/// Encodes fields as literals without indexing (RFC 7541 section 6.2.2).
fn block(fields: Fields) -> Vec<u8> {
    let text = |text: &str| [&[text.len() as u8][..], text.as_bytes()].concat();
    fields.iter().flat_map(|(name, value)| [&[0][..], &text(name), &text(value)].concat()).collect()
}

fn get(stream: u32) -> Vec<u8> {
    let fields = block(&[METHOD, SCHEME, AUTHORITY, (":path", "/hello")]);
    frame(HEADERS, END_STREAM_AND_HEADERS, stream, &fields)
}

/// Sends this after a preface, and reads up to the end or a frame of this type.
fn talk(server: SocketAddr, frames: &[u8], last: u8) -> TcpStream {
    let mut stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&[PREFACE, &frame(4, 0, 0, &[]), frames].concat()).unwrap();
    while crate::http2::frame(&mut stream).0 != last {}
    stream
}

/// A server that logs in JSON and counts, its log and the address of its metrics.
struct Watched {
    server: Server,
    log: PathBuf,
    admin: SocketAddr,
}

impl Watched {
    fn start(site: &Site, words: &[&str]) -> Watched {
        let served = site.served().display().to_string();
        Watched::of(site, &[&["serve", &served, "--listen", "127.0.0.1:0"], words].concat())
    }

    /// A server by this command, with a log among the files of the site.
    fn of(site: &Site, words: &[&str]) -> Watched {
        let log = site.outside("log.json");
        let logs = ["--access-log", log.to_str().unwrap(), "--log-format", "json", "--admin", "127.0.0.1:0"];
        let mut command = weir_under(&[]);
        command.args(words).args(logs);
        let server = Server::spawn(command);
        let admin = admin_of(&server);
        Watched { server, log, admin }
    }

    /// Status, reason, path or what was received instead, and bytes of the lines, once there are this many.
    fn lines(&self, count: usize) -> Vec<(u64, String, String, u64)> {
        wait_until("lines", || read(&self.log).len() >= count);
        let lines = read(&self.log);
        assert_eq!(lines.len(), count, "{lines:?}");
        let line = |line: &Value| {
            let shown = line.get("uri").or(line.get("request")).unwrap();
            let bytes = line["head_bytes"].as_u64().unwrap() + line["body_bytes"].as_u64().unwrap();
            (
                line["status"].as_u64().unwrap(),
                line["reason"].as_str().unwrap_or_default().to_string(),
                shown.as_str().unwrap().to_string(),
                bytes,
            )
        };
        lines.iter().map(line).collect()
    }

    /// Responses of this protocol with status 4xx.
    fn counted(&self, protocol: &str) -> u64 {
        let metrics = ask(self.admin, "/metrics", "localhost").text().to_string();
        let of = |line: &&str| line.contains(&format!("protocol=\"{protocol}\"")) && line.contains("status=\"4xx\"");
        let lines = metrics.lines().filter(|line| line.starts_with("weir_http_responses_total{")).filter(of);
        lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap() as u64).sum()
    }

    fn wait_for_count(&self, protocol: &str, count: u64) {
        wait_until("the count", || self.counted(protocol) >= count);
        assert_eq!(self.counted(protocol), count, "{protocol}");
    }
}

fn read(log: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn site() -> Site {
    Site::with(&[("hello", b"hello\n")])
}

#[test]
fn over_http1_each_is_logged_and_counted() {
    let site = site();
    let watched = Watched::start(&site, &[]);
    for (text, ..) in TEXTS {
        let mut client = watched.server.connect();
        client.send(format!("{text}\r\n"));
        assert_eq!(client.response().status, 400, "{text}");
    }
    for ((status, why, shown, bytes), (_, target, reason)) in watched.lines(5).into_iter().zip(TEXTS) {
        assert!(
            status == 400 && shown == target && why.contains(reason) && bytes > 0,
            "{status} {shown} {why} {bytes}"
        );
    }
    watched.wait_for_count("HTTP/1.1", 5);
}

/// Only the metrics counted none of them without an access log.
#[test]
fn they_are_counted_without_a_log() {
    let site = site();
    let server = Server::start(&site, &["--admin", "127.0.0.1:0"]);
    let watched = Watched { admin: admin_of(&server), log: PathBuf::new(), server };
    let mut client = watched.server.connect();
    client.send(format!("{}\r\n", TEXTS[0].0));
    assert_eq!(client.response().status, 400);
    watched.wait_for_count("HTTP/1.1", 1);
    let malformed = frame(HEADERS, END_STREAM_AND_HEADERS, 1, &block(HEADS[0].0));
    drop(talk(watched.server.address, &malformed, RST_STREAM));
    watched.wait_for_count("HTTP/2.0", 1);
}

fn assert_heads(watched: &Watched, protocol: &str) {
    for ((status, why, shown, bytes), (_, path, reason)) in watched.lines(6).into_iter().zip(HEADS) {
        assert_eq!((status, &why[..], &shown[..], bytes), (400, reason, path, 0));
    }
    let lines = read(&watched.log);
    assert!(lines.iter().all(|line| line["protocol"] == protocol), "{lines:?}");
    assert!(lines[..5].iter().all(|line| line["outcome"] == "reset"), "{lines:?}");
    assert_eq!((&lines[5]["status"], &lines[5]["uri"]), (&200.into(), &"/hello".into()));
    watched.wait_for_count(protocol, 5);
}

#[test]
fn over_http2_each_is_logged_and_counted() {
    let site = site();
    let watched = Watched::start(&site, &[]);
    let mut frames: Vec<u8> = (0..)
        .zip(HEADS)
        .flat_map(|(at, (fields, ..))| frame(HEADERS, END_STREAM_AND_HEADERS, 1 + 2 * at, &block(fields)))
        .collect();
    frames.extend(get(11));
    drop(talk(watched.server.address, &frames, 0));
    assert_heads(&watched, "HTTP/2.0");
}

#[test]
fn over_http3_each_is_logged_and_counted() {
    let site = site();
    let watched = Watched::start(&site, &["--tls-self-signed"]);
    let mut asking = Asking::to(&watched.server);
    for (fields, ..) in HEADS {
        asking.is_reset(fields);
    }
    assert_eq!(asking.get("/hello").body, b"hello\n");
    assert_heads(&watched, "HTTP/3.0");
}

/// Content of another length than the head says is found when a reply is owed already.
#[test]
fn content_of_another_length_is_logged_once() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let (site, upstream) = (site(), silent.local_addr().unwrap().to_string());
    let watched = Watched::of(&site, &["proxy", &upstream, "--listen", "127.0.0.1:0"]);
    let fields = block(&[(":method", "POST"), SCHEME, AUTHORITY, (":path", "/hello"), ("content-length", "3")]);
    let post = [frame(HEADERS, 4, 1, &fields), frame(0, 1, 1, b"four")].concat();
    drop(talk(watched.server.address, &post, RST_STREAM));
    let lines = watched.lines(1);
    assert_eq!((lines[0].0, &lines[0].2[..]), (400, "/hello"), "{lines:?}");
    assert!(lines[0].1.contains("content-length"), "{lines:?}");
    watched.wait_for_count("HTTP/2.0", 1);
}

/// Whatever else a client does on the connection that it has spoilt, it is one line.
#[test]
fn a_mistake_that_ends_a_connection_is_a_line() {
    let resets = |count: u32| {
        let stream = |at: u32| [get(1 + 2 * at), frame(RST_STREAM, 0, 1 + 2 * at, &[0, 0, 0, 8])].concat();
        (0..count).flat_map(stream).collect::<Vec<u8>>()
    };
    let undecodable = frame(HEADERS, END_STREAM_AND_HEADERS, 1, &[0x80]);
    for (mistake, reason) in [
        ([undecodable, frame(PING, 0, 0, &[0; 7])].concat(), "HTTP/2 error 9"),
        (frame(PING, 0, 0, &[0; 7]).repeat(3), "HTTP/2 error 6"),
        (resets(300), "more cancelled streams"),
    ] {
        let site = site();
        let watched = Watched::start(&site, &[]);
        let mut stream = talk(watched.server.address, &mistake, GOAWAY);
        let _ = stream.read_to_end(&mut Vec::new());
        let of_connection = || read(&watched.log).into_iter().filter(|line| line.get("request").is_some());
        wait_until("a line", || of_connection().count() > 0);
        let lines: Vec<Value> = of_connection().collect();
        assert_eq!(lines.len(), 1, "{lines:?}");
        let of = |name: &str| lines[0][name].as_str().unwrap_or_default().to_string();
        assert!(of("reason").to_lowercase().contains(&reason.to_lowercase()), "{lines:?}");
        assert_eq!((&lines[0]["status"], &of("outcome")[..], &of("protocol")[..]), (&400.into(), "reset", "HTTP/2.0"));
        // A request that was cancelled has its own line.
        watched.wait_for_count("HTTP/2.0", read(&watched.log).len() as u64);
    }
}

#[test]
fn a_mistake_that_ends_a_connection_of_http3_is_a_line() {
    let site = site();
    let watched = Watched::start(&site, &["--tls-self-signed"]);
    let mut asking = Asking::to(&watched.server);
    assert_eq!(asking.get("/hello").body, b"hello\n");
    // A section that refers to a dynamic table, which is none.
    assert_eq!(asking.breaks(&[1, 3, 0, 0, 0x80]), Some(0x200));
    let (status, why, shown, bytes) = watched.lines(2).remove(1);
    assert_eq!((status, &why[..], &shown[..], bytes), (400, "a field section that cannot be decoded", "", 0));
    watched.wait_for_count("HTTP/3.0", 1);
}
