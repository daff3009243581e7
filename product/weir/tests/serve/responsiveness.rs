//! The objects with which `networkQuality` measures, over each protocol: their list, a large one, and bodies of any
//! length.

use std::io::Write;
use std::net::TcpStream;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::common::{
    Hosted, PATIENCE, Server, Site, Upstream, answer_last, get, in_virtual_time, on_every_path, run_to_end, weir_under,
    whole,
};
use crate::http2::{self, PREFACE};
use crate::http3::Asking;

const CONFIGURATION: &str = "/.well-known/nq";
const LARGE: &str = "/.well-known/nq/large";
const LARGE_BYTES: &str = "8589934592";
const UPLOAD: &str = "/.well-known/nq/upload";
const UPLOADED_BYTES: usize = 5_000_000;
const ON: [&str; 1] = ["--responsiveness"];
const CURL: [&str; 3] = ["-skS", "--max-time", "60"];

fn received(bytes: usize) -> String {
    format!("{{\"received_bytes\": {bytes}}}\n")
}

/// The output of curl with this standard input.
fn curl(args: &[&str], input: &[u8]) -> String {
    let mut command = Command::new("curl");
    command.args(CURL).args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut curl = command.spawn().unwrap();
    curl.stdin.take().unwrap().write_all(input).unwrap();
    String::from_utf8(curl.wait_with_output().unwrap().stdout).unwrap()
}

fn url(server: &Server, scheme: &str, path: &str) -> String {
    format!("{scheme}://localhost:{}{path}", server.address.port())
}

/// The maximum memory that the process has used.
fn peak_kib(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn it_is_off_unless_asked_for() {
    on_every_path(&Site::new(), &[], |server| {
        let mut client = server.connect();
        for path in [CONFIGURATION, LARGE, UPLOAD] {
            assert_eq!(client.get(path).status, 404, "{path}");
        }
        client.send(format!("POST {UPLOAD} HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"));
        assert_eq!(client.response().status, 405);
    });
}

#[test]
fn the_objects_are_told_by_the_host_that_was_asked() {
    let server = Server::start(&Site::new(), &ON);
    let mut client = server.connect();
    for host in ["example.org", "example.org:8080", "[::1]:80", "a_b.~c"] {
        client.send(format!("GET {CONFIGURATION} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        let response = client.response();
        assert_eq!((response.status, response.field("Cache-Control")), (200, Some("no-store")));
        let said: Value = serde_json::from_slice(&response.body).unwrap();
        assert_eq!(said["version"], 1);
        let urls: Vec<_> = said["urls"].as_object().unwrap().iter().map(|(name, url)| (name.as_str(), url)).collect();
        let want = [("small_download_url", "small"), ("large_download_url", "large"), ("upload_url", "upload")];
        assert_eq!(urls.len(), want.len(), "what HTTPS alone has: {urls:?}");
        for ((name, url), (wanted, object)) in urls.into_iter().zip(want) {
            assert_eq!((name, url), (wanted, &Value::from(format!("http://{host}/.well-known/nq/{object}"))));
        }
    }
    client.send(format!("GET {CONFIGURATION} HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
    assert_eq!(client.response().status, 400, "no host");
    for host in ["a\"b", "a/b", "a,b", "a\\u0022", "a b", "a@b"] {
        let mut client = server.connect();
        client.send(format!("GET {CONFIGURATION} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        let response = client.response();
        assert_eq!(response.status, 400, "{host}");
        assert!(!response.text().contains(host), "{}", response.text());
    }
}

/// Go's client uses only these names.
#[test]
fn over_https_the_objects_have_their_older_names_too() {
    let server = Server::start(&Site::new(), &[&ON[..], &["--tls-self-signed"]].concat());
    let over_http2 = curl(&["--http2", &url(&server, "https", CONFIGURATION)], b"");
    let over_http3 = String::from_utf8(Asking::to(&server).get(CONFIGURATION).body).unwrap();
    let port = server.address.port();
    for (said, host) in [(over_http2, format!("localhost:{port}")), (over_http3, "localhost".into())] {
        let said: Value = serde_json::from_str(&said).unwrap();
        for (name, object) in [
            ("small_https_download_url", "small"),
            ("large_https_download_url", "large"),
            ("https_upload_url", "upload"),
            ("upload_url", "upload"),
        ] {
            assert_eq!(said["urls"][name], format!("https://{host}/.well-known/nq/{object}"));
        }
    }
}

#[test]
fn downloads_are_of_a_byte_and_of_no_end() {
    on_every_path(&Site::new(), &ON, |server| {
        let mut client = server.connect();
        assert_eq!(client.get("/.well-known/nq/small").body.len(), 1);
        client.send(format!("HEAD {LARGE} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let head = client.response_to_head();
        assert_eq!((head.status, head.field("Content-Length")), (200, Some(LARGE_BYTES)));
        client.send(get(LARGE));
        let (status, head) = client.head();
        assert_eq!(status, 200);
        assert!(head.contains(&format!("Content-Length: {LARGE_BYTES}")), "{head}");
        let before_kib = peak_kib(server);
        assert!(client.body(20 << 20).iter().all(|byte| *byte == 0));
        assert!(peak_kib(server) < before_kib + (8 << 10), "{before_kib} KiB before");
        // While it lasts, other requests are answered.
        assert_eq!(server.connect().get("/.well-known/nq/small").body.len(), 1);
    });
}

#[test]
fn methods_that_an_object_does_not_answer_are_told() {
    let server = Server::start(&Site::new(), &ON);
    let mut client = server.connect();
    for (method, path, status, allow) in [
        ("GET", UPLOAD, 405, "POST, PUT, OPTIONS"),
        ("POST", LARGE, 405, "GET, HEAD, OPTIONS"),
        ("DELETE", CONFIGURATION, 405, "GET, HEAD, OPTIONS"),
        ("OPTIONS", UPLOAD, 204, "POST, PUT, OPTIONS"),
    ] {
        client.send(format!("{method} {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"));
        let response = client.response();
        assert_eq!((response.status, response.field("Allow")), (status, Some(allow)), "{method} {path}");
    }
    assert_eq!(client.get("/.well-known/nq/other").status, 404);
}

#[test]
fn uploads_are_counted_and_their_connection_goes_on() {
    let body = vec![b'x'; UPLOADED_BYTES];
    let chunk = [format!("{UPLOADED_BYTES:x}\r\n").as_bytes(), &body, b"\r\n0\r\nA: b\r\n\r\n"].concat();
    on_every_path(&Site::new(), &ON, |server| {
        let mut client = server.connect();
        let head = |field: &str| format!("POST {UPLOAD} HTTP/1.1\r\nHost: a\r\n{field}\r\n\r\n");
        client.send(head(&format!("Content-Length: {UPLOADED_BYTES}")));
        client.send(&body);
        assert_eq!(
            (client.response().text(), client.get("/.well-known/nq/small").status),
            (&*received(UPLOADED_BYTES), 200)
        );
        client.send(head("Transfer-Encoding: chunked"));
        client.send(&chunk);
        assert_eq!(client.response().text(), received(UPLOADED_BYTES));
        client.send(head("Expect: 100-continue\r\nContent-Length: 3"));
        assert_eq!(client.response().status, 100);
        client.send("abc");
        assert_eq!(client.response().text(), received(3));
        // Pipelined, the last without a body.
        client.send(get("/.well-known/nq/small") + &head("Content-Length: 2") + "ab" + &head("Content-Length: 0"));
        assert_eq!(client.response().body.len(), 1);
        assert_eq!((client.response().text(), client.response().text()), (&*received(2), &*received(0)));
    });
}

#[test]
fn uploads_on_streams_are_counted_and_logged() {
    let body = vec![b'x'; UPLOADED_BYTES];
    for path in [&["--shaping", "off"][..], &["--uplink", "100mbit"]] {
        let site = Site::new();
        let server = Server::start(&site, &[&ON[..], &["--tls-self-signed", "--access-log", "-"], path].concat());
        let url = url(&server, "https", UPLOAD);
        let before_kib = peak_kib(&server);
        for more in [&["--data-binary", "@-"][..], &["-T", "-"]] {
            assert_eq!(curl(&[&["--http2", &url], more].concat(), &body), received(UPLOADED_BYTES));
        }
        let mut asking = Asking::to(&server);
        for sent in [&body[..], b"abc", b""] {
            let response = asking.post(UPLOAD, sent);
            assert_eq!(String::from_utf8(response.body).unwrap(), received(sent.len()));
        }
        assert!(peak_kib(&server) < before_kib + (16 << 10), "{before_kib} KiB before");
        let is_logged = |method: &str, version: &str| {
            let want = format!("\"{method} {UPLOAD} HTTP/{version}\" 200 ");
            server.stdout().iter().any(|line| line.contains(&want))
        };
        crate::common::wait_until("lines of all", || {
            [("POST", "2.0"), ("PUT", "2.0"), ("POST", "3.0")]
                .iter()
                .all(|(method, version)| is_logged(method, version))
        });
    }
}

/// The body of the response to half a request over HTTP/2.
fn answer_to_half(server: &Server) -> String {
    const DATA: u8 = 0;
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // SETTINGS; HEADERS with END_HEADERS: POST, http, the path and the host, whose names are in the static table (RFC
    // 7541); DATA.
    let named = |name: u8, value: &str| [&[name, value.len() as u8], value.as_bytes()].concat();
    let fields = [&[0x83, 0x86][..], &named(4, UPLOAD), &named(1, "a")].concat();
    let frame = |kind: u8, flags: u8, id: u8, payload: &[u8]| {
        [&[0, 0, payload.len() as u8, kind, flags, 0, 0, 0, id], payload].concat()
    };
    let half = [frame(4, 0, 0, &[]), frame(1, 4, 1, &fields), frame(DATA, 0, 1, b"abc")].concat();
    stream.write_all(&[PREFACE, &half].concat()).unwrap();
    let body = std::iter::repeat_with(|| http2::frame(&mut stream)).find(|(kind, _)| *kind == DATA);
    String::from_utf8(body.unwrap().1).unwrap()
}

/// A body that stops, and one whose bytes arrive too slowly.
#[test]
fn uploads_that_do_not_go_on_are_ended() {
    if in_virtual_time(uploads_that_do_not_go_on_are_ended) {
        return;
    }
    let args = [&ON[..], &["--body-timeout", "1s", "--tls-self-signed"]].concat();
    let in_clear = Server::start(&Site::new(), &args[..3]);
    let mut client = in_clear.connect();
    client.send(format!("POST {UPLOAD} HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc"));
    assert_eq!(client.response().status, 408);
    client.assert_end();
    assert!(answer_to_half(&in_clear).starts_with("408 "));
    let server = Server::start(&Site::new(), &args);
    assert_eq!(Asking::to(&server).begin_post(UPLOAD, b"abc").field(":status"), Some("408"));
    server.assert_alive();
}

#[test]
fn it_goes_before_a_proxy_which_keeps_the_rest() {
    let upstream = Upstream::start(|_, socket| answer_last(socket, &[b"HTTP/1.1 200 OK\r\n\r\nupstream"]));
    let mut command = weir_under(&[]);
    command.args(["proxy", &upstream.address.to_string(), "--listen", "127.0.0.1:0", "--responsiveness"]);
    let server = Server::spawn(command);
    let mut client = server.connect();
    client.send(format!("PUT {UPLOAD} HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"));
    assert_eq!(client.response().text(), received(3));
    assert!(client.get(CONFIGURATION).text().contains("small_download_url"));
    client.send(get("/.well-known/other"));
    assert_eq!(client.head().0, 200);
}

#[test]
fn a_reload_switches_it() {
    let hosted = Hosted::new(&[], "");
    let mut client = hosted.server.connect();
    for (more, status) in [("", 404), ("responsiveness = true\n", 200), ("responsiveness = false\n", 404)] {
        std::fs::write(hosted.site.outside("weir.toml"), whole(&hosted.site, "") + more).unwrap();
        let output = run_to_end(&["reload", "--pid", &hosted.server.pid().to_string()]);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(client.get(CONFIGURATION).status, status, "{more}");
    }
}
