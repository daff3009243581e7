//! The maximum body of a request for a program: a larger one is refused by its length or by its received bytes, over
//! every protocol.

use std::process::{Command, Stdio};

use crate::common::{Server, Upstream};
use crate::common::{Site, answer};
use crate::http3::Asking;
use crate::spellings::Guarded;

/// The maximum of the tests.
const MOST: usize = 100_000;

/// A program that answers with the number of bytes that it received.
fn counting(max_body: &str) -> (Upstream, Server, Site) {
    let upstream = Upstream::start(|asked, socket| {
        let said = asked.body(socket).len().to_string();
        answer(socket, &[format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{said}", said.len()).as_bytes()])
    });
    let site = Site::new();
    let text = format!(
        "[[listener]]\naddress = \"127.0.0.1:0\"\n[[site]]\n[[site.proxy]]\nto = [\"{}\"]\n{max_body}\n",
        upstream.address
    );
    std::fs::write(site.outside("weir.toml"), text).unwrap();
    let server = Server::run(&site.outside("weir.toml"));
    (upstream, server, site)
}

#[test]
fn a_body_up_to_the_maximum_is_passed_on_and_no_larger_one() {
    let (upstream, server, _site) = counting(&format!("max_body = {MOST}"));
    let known = |bytes: usize| format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {bytes}\r\n\r\n");
    let mut client = server.connect();
    client.send([known(MOST).into_bytes(), vec![b'x'; MOST]].concat());
    assert_eq!(client.response().text(), MOST.to_string());
    let asked = upstream.asked().len();

    // None of its bytes are requested.
    client.send(known(MOST + 1).replace("\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n"));
    let refused = client.response();
    assert_eq!(refused.status, 413, "{}", refused.head);
    assert_eq!(upstream.asked().len(), asked, "a length that is given is enough");

    let chunk = |bytes: usize| format!("{bytes:x}\r\n{}\r\n", "x".repeat(bytes));
    let chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut client = server.connect();
    client.send(format!("{chunked}{}{}0\r\n\r\n", chunk(MOST - 1), chunk(1)));
    assert_eq!(client.response().text(), MOST.to_string());
    client.send(format!("{chunked}{}", chunk(MOST)));
    client.send(chunk(1));
    let refused = client.response();
    assert_eq!(refused.status, 413, "{}", refused.head);
    client.assert_gone();
    let lines = server.stderr();
    assert!(!lines.iter().any(|line| line.contains("upstream")), "no upstream is at fault: {lines:?}");
    assert_eq!(server.connect().get("/").text(), "0");
}

/// With lengths and without, also over HTTP/2; curl sends none for input from a pipe.
#[test]
fn streams_have_the_same_maximum() {
    let guarded = Guarded::with_proxy("", &format!("max_body = {MOST}"));
    let url = format!("https://localhost:{}/", guarded.server.address.port());
    for version in ["--http1.1", "--http2"] {
        for length in [vec!["--data-binary", "@-"], vec!["-T", "-"]] {
            for (bytes, status) in [(MOST, "200"), (MOST + 1, "413"), (40 * MOST, "413")] {
                let mut curl = Command::new("curl")
                    .args(["-skS", "--max-time", "60", version, "-X", "POST", "-H", "Expect:", "-o", "/dev/null"])
                    .args(["-w", "%{http_code}"])
                    .args(&length)
                    .arg(&url)
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped())
                    .spawn()
                    .unwrap();
                let mut input = curl.stdin.take().unwrap();
                // curl may end before it has read everything.
                let writing = std::thread::spawn(move || {
                    let _ = std::io::Write::write_all(&mut input, &vec![b'x'; bytes]);
                });
                let said = curl.wait_with_output().unwrap();
                writing.join().unwrap();
                let got = String::from_utf8_lossy(&said.stdout).into_owned();
                let why = String::from_utf8_lossy(&said.stderr).into_owned();
                assert_eq!(got, status, "{version} {length:?} {bytes}: {why}");
            }
        }
    }
    let mut asking = Asking::to(&guarded.server);
    assert_eq!(asking.post("/", &vec![b'x'; MOST]).field(":status"), Some("200"));
    assert_eq!(asking.begin_post("/", &vec![b'x'; MOST + 1]).field(":status"), Some("413"));
    assert_eq!(asking.get("/").field(":status"), Some("200"));
}
