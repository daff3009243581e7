//! Scripts behind FastCGI: which files run, what their responder receives, and how a faulty one affects clients.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use crate::common::{Client, PATIENCE, Response, Server, Site, SlowDisk, wait_until};

const BEGIN_REQUEST: u8 = 1;
const END_REQUEST: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const STDERR: u8 = 7;

/// A request that a responder has received.
#[derive(Debug, Clone, Default)]
struct Asked {
    variables: BTreeMap<String, String>,
    body: Vec<u8>,
    keeps_connection: bool,
    /// The number of the connection on which it arrived, from 0.
    connection: usize,
}

/// A FastCGI responder, which answers as a test specifies.
struct Responder {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

/// A record, with this many bytes of padding.
fn record(kind: u8, content: &[u8], padding: u8) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    [&[1, kind, 0, 1, length[0], length[1], padding, 0][..], content, &vec![0xAA; padding.into()]].concat()
}

fn output(text: &str) -> Vec<u8> {
    record(STDOUT, text.as_bytes(), 5)
}

fn end() -> Vec<u8> {
    record(END_REQUEST, &[0; 8], 0)
}

impl Responder {
    /// Starts a responder. `answer` returns the records of an answer; the connection ends after them unless it must be
    /// kept.
    fn start(answer: impl Fn(&Asked) -> Vec<u8> + Send + Sync + 'static) -> Responder {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (seen, answer) = (Arc::clone(&asked), Arc::new(answer));
        std::thread::spawn(move || {
            for (connection, socket) in listener.incoming().enumerate() {
                let (seen, answer, mut socket) = (Arc::clone(&seen), Arc::clone(&answer), socket.unwrap());
                socket.set_read_timeout(Some(PATIENCE)).unwrap();
                std::thread::spawn(move || {
                    while let Some(asked) = receive(&mut socket, connection) {
                        seen.lock().unwrap().push(asked.clone());
                        let sent = socket.write_all(&answer(&asked));
                        let closes = !asked.keeps_connection || asked.variables["QUERY_STRING"] == "close";
                        if sent.is_err() || closes {
                            let _ = socket.shutdown(Shutdown::Both);
                            return;
                        }
                    }
                });
            }
        });
        Responder { address, asked }
    }

    fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    fn last(&self) -> Asked {
        self.asked().pop().expect("a request")
    }
}

/// Reads a complete request; `None` if the connection ends.
fn receive(socket: &mut TcpStream, connection: usize) -> Option<Asked> {
    let (mut asked, mut params) = (Asked { connection, ..Asked::default() }, Vec::new());
    loop {
        let mut header = [0; 8];
        socket.read_exact(&mut header).ok()?;
        let mut content = vec![0; usize::from(u16::from_be_bytes([header[4], header[5]])) + usize::from(header[6])];
        socket.read_exact(&mut content).ok()?;
        match header[1] {
            BEGIN_REQUEST => asked.keeps_connection = content[2] == 1,
            PARAMS => params.extend(content),
            STDIN if content.is_empty() => break,
            STDIN => asked.body.extend(content),
            other => panic!("a record of type {other}"),
        }
    }
    let mut rest = &params[..];
    while !rest.is_empty() {
        let [name, value] = [(); 2].map(|()| length(&mut rest));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        asked.variables.insert(text(&rest[..name]), text(&rest[name..name + value]));
        rest = &rest[name + value..];
    }
    Some(asked)
}

fn length(rest: &mut &[u8]) -> usize {
    let (length, taken) = match rest[0] {
        short @ ..=127 => (usize::from(short), 1),
        _ => ((u32::from_be_bytes([rest[0], rest[1], rest[2], rest[3]]) & 0x7fff_ffff) as usize, 4),
    };
    *rest = &rest[taken..];
    length
}

fn serve(site: &Site, responder: &Responder, keys: &str) -> Server {
    let (root, file, to) = (site.served(), site.outside("weir.toml"), responder.address);
    let text = format!("[[listener]]\naddress = '127.0.0.1:0'\n[[site]]\nroot = '{}'\n{keys}", root.display());
    std::fs::write(&file, text.replace("RESPONDER", &to.to_string())).unwrap();
    Server::run(&file)
}

fn ask(client: &mut Client, line: &str, rest: &str) -> Response {
    client.send(format!("{line} HTTP/1.1\r\nHost: a.test:81\r\n{rest}"));
    client.response()
}

const FASTCGI: &str = "fastcgi = 'RESPONDER'\nindex = ['index.php', 'index.html']\n";

/// A responder that returns the script that it was given.
fn telling() -> Responder {
    Responder::start(|asked| {
        let name = &asked.variables["SCRIPT_NAME"];
        let text = format!("Content-Type: text/plain\r\n\r\n{name}|{}", asked.variables["PATH_INFO"]);
        [output(&text), end()].concat()
    })
}

fn scripts() -> Site {
    Site::with(&[
        ("index.php", b"<?php"),
        ("a.php", b"<?php"),
        ("d/index.php", b"<?php"),
        ("d/x y.php", b"<?php"),
        ("plain.txt", b"text"),
        ("upload.jpg", b"<?php system('id');"),
        ("old.PHP", b"<?php secret"),
        ("old.phtml", b"<?php secret"),
        ("page.html", b"page"),
    ])
}

#[test]
fn scripts_run_with_what_follows_them_in_the_path() {
    let (site, responder) = (scripts(), telling());
    let server = serve(&site, &responder, FASTCGI);
    let mut client = server.connect();
    for (path, ran) in [
        ("/", "/index.php|"),
        ("/a.php", "/a.php|"),
        ("/a.php?x=/upload.jpg", "/a.php|"),
        ("/a.php/b/c%20d", "/a.php|/b/c d"),
        ("/a.php/", "/a.php|/"),
        ("/a.php/upload.jpg/x.php", "/a.php|/upload.jpg/x.php"),
        ("/a.php/dav/a%5Cb%09c%7F%2Fd%252F", "/a.php|/dav/a\\b\tc\u{7f}/d%2F"),
        ("/a.php/100%", "/a.php|/100%"),
        ("/d/", "/d/index.php|"),
        ("/d/x%20y.php", "/d/x y.php|"),
        ("/%61.php", "/a.php|"),
    ] {
        let response = client.get(path);
        assert_eq!((response.status, response.text()), (200, ran), "{path}");
    }
}

/// PHP alone would run `/upload.jpg` for `/upload.jpg/x.php`.
#[test]
fn only_scripts_run_and_their_source_is_never_sent() {
    let (site, responder) = (scripts(), telling());
    std::fs::write(site.outside("out.php"), "<?php").unwrap();
    site.link(site.outside("out.php"), "out.php");
    site.write("uploads/evil.php", b"<?php secret");
    let server = serve(&site, &responder, &format!("{FASTCGI}fastcgi_except = ['/uploads/*']\n"));
    let mut client = server.connect();
    for path in [
        "/upload.jpg/x.php",
        "/upload.jpg%2Fx.php",
        "/upload.jpg%00.php",
        "/upload.jpg/.php",
        "/none.php",
        "/none.php/a",
        "/d.php/a.php",
        "/plain.txt/a.php/b",
        "/upload.jpg%5Cx.php",
        "/upload.jpg/%5C/x.php/y",
        "/none.php/a%5Cb",
        "/a.php/a%00b",
        "/a.php/b%2F..%2Fc",
        "/out.php",
    ] {
        let response = client.get(path);
        assert!([404, 400].contains(&response.status), "{path}: {}", response.status);
        if response.status == 400 {
            client = server.connect();
        }
    }
    for path in ["/old.PHP", "/old.phtml", "/uploads/evil.php", "/uploads/evil.php/x", "/uploads/%65vil.php"] {
        let response = client.get(path);
        assert!(response.status == 403 && !response.text().contains("secret"), "{path}");
    }
    assert_eq!(client.get("/upload.jpg").text(), "<?php system('id');", "a file, and no script");
    assert_eq!((client.get("/plain.txt").text(), client.get("/page.html").text()), ("text", "page"));
    assert_eq!(ask(&mut client, "POST /plain.txt", "Content-Length: 0\r\n\r\n").status, 405);
    assert_eq!(responder.asked().len(), 0);
}

/// A folder accepts the methods of its index: WebDAV requests folders, with or without their slash.
#[test]
fn every_method_is_led_to_the_slash_of_a_folder() {
    let (site, responder) = (scripts(), telling());
    let server = serve(&site, &responder, FASTCGI);
    let mut client = server.connect();
    for method in ["POST", "PUT", "PROPFIND", "GET"] {
        let response = ask(&mut client, &format!("{method} /d?a=b"), "Content-Length: 0\r\n\r\n");
        assert_eq!((response.status, response.field("Location")), (308, Some("/d/?a=b")), "{method}");
    }
    assert_eq!(responder.asked().len(), 0);
}

#[test]
fn a_front_controller_answers_what_leads_nowhere() {
    let (site, responder) = (scripts(), telling());
    let server = serve(&site, &responder, &format!("{FASTCGI}fallback = '/index.php'\n"));
    let mut client = server.connect();
    for line in
        ["GET /2026/11/a-post/", "POST /wp-json/x", "GET /missing.png", "DELETE /none.php/a", "GET /upload.jpg/x.php"]
    {
        let response = ask(&mut client, line, "Content-Length: 0\r\n\r\n");
        assert_eq!((response.status, response.text()), (200, "/index.php|"), "{line}");
    }
    let said = responder.last().variables;
    assert_eq!(said["REQUEST_URI"], "/upload.jpg/x.php");
    assert_eq!(said["SCRIPT_FILENAME"], site.path("index.php").to_str().unwrap());
    assert_eq!((client.get("/a.php").text(), client.get("/plain.txt").text()), ("/a.php|", "text"));
}

#[test]
fn a_responder_is_told_of_the_request_and_has_its_body() {
    let site = scripts();
    let responder = Responder::start(|asked| {
        let text = format!("Status: 201 Created\r\nX-A: b\r\n\r\n{} bytes", asked.body.len());
        [output(&text), end()].concat()
    });
    let server = serve(&site, &responder, FASTCGI);
    let mut client = server.connect();
    for bytes in [0, 5, 70_000, 300_000] {
        let body: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
        let fields = "Content-Type: x/y\r\nProxy: evil\r\nX-Forwarded-For: 1.2.3.4\r\nCookie: a=1";
        client.send(format!(
            "POST /a.php/i?q HTTP/1.1\r\nHost: a.test:81\r\n{fields}\r\nContent-Length: {bytes}\r\n\r\n"
        ));
        client.send(&body);
        let response = client.response();
        assert_eq!((response.status, response.text()), (201, format!("{bytes} bytes").as_str()));
        assert_eq!(response.field("X-A"), Some("b"));
        let asked = responder.last();
        assert!(asked.body == body && !asked.keeps_connection);
        let said = |name: &str| asked.variables.get(name).map(String::as_str);
        for (name, value) in [
            ("SCRIPT_FILENAME", site.path("a.php").to_str().unwrap()),
            ("DOCUMENT_ROOT", site.served().to_str().unwrap()),
            ("PATH_INFO", "/i"),
            ("QUERY_STRING", "q"),
            ("REQUEST_METHOD", "POST"),
            ("SERVER_NAME", "a.test"),
            ("SERVER_PORT", "81"),
            ("REMOTE_ADDR", "127.0.0.1"),
            ("SERVER_PROTOCOL", "HTTP/1.1"),
            ("CONTENT_TYPE", "x/y"),
            ("HTTP_COOKIE", "a=1"),
            ("REDIRECT_STATUS", "200"),
        ] {
            assert_eq!(said(name), Some(value), "{name}");
        }
        assert_eq!((said("HTTP_PROXY"), said("HTTP_X_FORWARDED_FOR"), said("HTTPS")), (None, None, None));
    }
}

#[test]
fn a_body_has_a_length_that_comes_first() {
    let responder = Responder::start(|asked| {
        let said: usize = asked.variables["CONTENT_LENGTH"].parse().unwrap_or(0);
        assert_eq!(said, asked.body.len());
        [output(&format!("\r\n{said} bytes")), end()].concat()
    });
    let site = scripts();
    let server = serve(&site, &responder, FASTCGI);
    let mut client = server.connect();
    // WebDAV clients and webhooks send chunks.
    for (parts, bytes) in [(0, 1), (3, 1), (2, 70_000), (1, 1_000_000)] {
        let part = format!("{bytes:x}\r\n{}\r\n", "x".repeat(bytes));
        let body = format!("Transfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n", part.repeat(parts));
        assert_eq!(ask(&mut client, "POST /a.php", &body).text(), format!("{} bytes", parts * bytes));
    }
    let large = format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{}\r\n0\r\n\r\n", 2 << 20, "x".repeat(2 << 20));
    assert_eq!(ask(&mut server.connect(), "POST /a.php", &large).status, 411);
    client.send("POST /a.php HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    assert_eq!(client.head().0, 100);
    client.send("abc");
    assert_eq!(client.response().text(), "3 bytes");
}

/// The faulty answer that a query selects.
fn wrong(asked: &Asked) -> Vec<u8> {
    match asked.variables["QUERY_STRING"].as_str() {
        "nothing" => Vec::new(),
        "half-head" => output("X-A: b\r\n"),
        "end-in-head" => [output("X-A: b\r\n"), end()].concat(),
        "end-alone" => end(),
        "malformed" => [output("Content Length: 1\r\n\r\nx"), end()].concat(),
        "status" => [output("Status: many\r\n\r\nx"), end()].concat(),
        "interim" => [output("Status: 100 Continue\r\n\r\n"), end()].concat(),
        "long-head" => {
            [output(&format!("X-A: {}\r\n", "x".repeat(60_000))), output(&"y".repeat(60_000)), end()].concat()
        }
        "http" => b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx".to_vec(),
        "overloaded" => record(END_REQUEST, &[0, 0, 0, 0, 2, 0, 0, 0], 0),
        "short" => [output("Content-Length: 10\r\n\r\nshort"), end()].concat(),
        "dies" => output("\r\nhalf of it"),
        "errors" => {
            let error = record(STDERR, "PHP message: a warning\nand more \x1b[31m".repeat(1000).as_bytes(), 7);
            [error.repeat(20), output("A: b\r\n"), error, output("\r\nfine"), end()].concat()
        }
        _ => [output("Location: /x\r\n\r\n"), end()].concat(),
    }
}

#[test]
fn a_wrong_answer_is_502_or_cut_and_hurts_nobody_else() {
    let site = scripts();
    let responder = Responder::start(wrong);
    let server = serve(&site, &responder, FASTCGI);
    let mut client = server.connect();
    for wrong in [
        "nothing",
        "half-head",
        "end-in-head",
        "end-alone",
        "malformed",
        "status",
        "interim",
        "long-head",
        "http",
        "overloaded",
    ] {
        assert_eq!(client.get(&format!("/a.php?{wrong}")).status, 502, "{wrong}");
    }
    let located = client.get("/a.php?ok");
    assert_eq!((located.status, located.field("Location")), (302, Some("/x")), "a place without a status");
    let noisy = client.get("/a.php?errors");
    assert_eq!((noisy.status, noisy.text()), (200, "fine"));
    for cut in ["short", "dies"] {
        let mut client = server.connect();
        client.send(format!("GET /a.php?{cut} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let rest = String::from_utf8(client.rest()).unwrap();
        let is_whole = rest.contains("\r\n0\r\n\r\n") || rest.contains("Content-Length: 5\r\n");
        assert!(
            !is_whole && (rest.contains("half of it") || rest.contains("short") || rest.contains(" 502 ")),
            "{rest}"
        );
    }
    assert_eq!(client.get("/plain.txt").text(), "text");
    let said = || server.stderr().iter().filter(|line| line.contains("says: PHP message: a warning and more")).count();
    wait_until("a line in the error log", || said() > 0);
    let (said, log) = (said(), server.stderr());
    assert!(said == 1 && log.iter().all(|line| line.len() < 2_000 && !line.contains('\x1b')), "{log:#?}");
}

/// A script that counts characters sends more bytes than it announces.
#[test]
fn a_body_longer_than_its_length_ends_there() {
    let site = scripts();
    let responder = Responder::start(|asked| {
        let body = "\u{e9}".repeat(3000);
        let length = &asked.variables["QUERY_STRING"];
        [output(&format!("Content-Type: text/plain\r\nContent-Length: {length}\r\n\r\n{body}")), end()].concat()
    });
    let table = "index = ['index.php']\n[[site.proxy]]\nto = ['fastcgi://RESPONDER']\nfastcgi_keep_conn = true\n";
    let server = serve(&site, &responder, table);
    let mut client = server.connect();
    for length in [3000, 5998, 6000, 2] {
        let response = client.get(&format!("/a.php?{length}"));
        assert_eq!((response.status, response.text().len()), (200, length), "{length}");
    }
    wait_until("a line in the error log", || {
        server.stderr().iter().any(|line| line.contains("than its Content-Length"))
    });
}

#[test]
fn connections_are_kept_where_asked_and_one_that_closed_is_replaced() {
    let site = scripts();
    let responder = Responder::start(|asked| {
        let query = asked.variables["QUERY_STRING"].as_str();
        match (asked.variables["REQUEST_METHOD"].as_str(), query) {
            ("HEAD", "length") => [output("Content-Length: 5\r\n\r\n"), end()].concat(),
            ("HEAD", "body") => [output("\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"), end()].concat(),
            _ => [output(&format!("\r\n{}", asked.connection)), end()].concat(),
        }
    });
    let table = "index = ['index.php']\n[[site.proxy]]\nto = ['fastcgi://RESPONDER']\nfastcgi_keep_conn = true\n";
    let server = serve(&site, &responder, table);
    let mut client = server.connect();
    let on: Vec<String> = (0..3).map(|_| client.get("/a.php").text().to_string()).collect();
    assert_eq!(on, ["0", "0", "0"]);
    assert!(responder.asked().iter().all(|asked| asked.keeps_connection));
    // A record marks the end of the answer to a HEAD, whatever its head announces and its program sends.
    for query in ["", "?length", "?body"] {
        client.send(format!("HEAD /a.php{query} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(client.response_to_head().status, 200, "{query}");
        assert_eq!(client.get("/a.php").text(), "0", "{query}");
    }
    // A connection that its responder has closed is not reused, or the request is repeated on another.
    let on: Vec<String> = (0..3).map(|_| client.get("/a.php?close").text().to_string()).collect();
    assert!(on.windows(2).all(|two| two[0] != two[1]), "{on:?}");
    // Without the flag each request has its own connection.
    let plain = serve(&site, &responder, FASTCGI);
    let mut client = plain.connect();
    let before = responder.asked().len();
    assert_ne!(client.get("/a.php").text(), client.get("/a.php").text());
    assert_eq!(responder.asked().len(), before + 2);
}

#[test]
fn over_http2_a_script_has_its_body_too() {
    let site = scripts();
    let responder = Responder::start(|asked| {
        [output(&format!("\r\n{} {}", asked.variables["SERVER_PROTOCOL"], asked.body.len())), end()].concat()
    });
    let server = serve(&site, &responder, FASTCGI);
    let url = format!("http://{}/a.php", server.address);
    std::fs::write(site.outside("body"), "x".repeat(200_000)).unwrap();
    assert_eq!(curl(&site, &url), "HTTP/2.0 200000");
}

/// The body waits with its client while a thread looks up the script.
#[test]
fn a_script_on_a_slow_disk_has_the_whole_body() {
    let site = scripts();
    // The files are always looked up by another thread.
    let Some(_disk) = SlowDisk::mount(&site, std::time::Duration::ZERO) else { return };
    let responder = Responder::start(|asked| {
        let (name, bytes) = (&asked.variables["SCRIPT_NAME"], asked.body.len());
        [output(&format!("\r\n{name} {bytes} {}", asked.variables["SERVER_PROTOCOL"])), end()].concat()
    });
    let server = serve(&site, &responder, FASTCGI);
    let mut client = server.connect();
    for bytes in [0, 3, 300_000] {
        client.send(format!("POST /cold-disk/file.php/i HTTP/1.1\r\nHost: a\r\nContent-Length: {bytes}\r\n\r\n"));
        client.send(vec![b'x'; bytes]);
        assert_eq!(client.response().text(), format!("/cold-disk/file.php {bytes} HTTP/1.1"));
        assert_eq!(client.get("/cold-disk/file.php").text(), "/cold-disk/file.php 0 HTTP/1.1");
    }
    client.send("POST /cold-disk/file.php HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    assert_eq!(client.head().0, 100);
    client.send("abc");
    assert_eq!(client.response().text(), "/cold-disk/file.php 3 HTTP/1.1");
    std::fs::write(site.outside("body"), "x".repeat(200_000)).unwrap();
    let url = format!("http://{}/cold-disk/file.php", server.address);
    assert_eq!(curl(&site, &url), "/cold-disk/file.php 200000 HTTP/2.0");
    // A client that leaves in the meantime is removed.
    client.send("POST /cold-disk/file.php HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nx");
    client.reset();
    assert_eq!(server.connect().get("/plain.txt").text(), "text");
}

/// Posts the body of a site over HTTP/2.
fn curl(site: &Site, url: &str) -> String {
    let body = format!("@{}", site.outside("body").display());
    let said = std::process::Command::new("curl")
        .args(["-s", "--max-time", "60", "--http2-prior-knowledge", "--data-binary", &body, url])
        .output()
        .expect("curl");
    String::from_utf8_lossy(&said.stdout).into_owned()
}
