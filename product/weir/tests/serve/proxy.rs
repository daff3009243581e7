//! Requests that upstreams answer: every byte, with any framing, and every way in which an upstream fails.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

use crate::common::{
    Asked, Client, Server, Site, Upstream, WRITE_PATHS, answer, answer_last, content, get, wait_until, weir_under,
};
use crate::http3::Asking;
use crate::spellings::Guarded;

fn proxy(upstream: &Upstream, args: &[&str]) -> Server {
    let mut command = weir_under(&[]);
    command.args(["proxy", &upstream.address.to_string(), "--listen", "127.0.0.1:0"]).args(args);
    Server::spawn(command)
}

/// Starts a server from a file, with these keys of the proxy.
fn proxy_with(upstream: &Upstream, keys: &str) -> Server {
    let site = Site::new();
    let text = format!(
        "[[listener]]\naddress = \"127.0.0.1:0\"\n[[site]]\n[[site.proxy]]\nto = [\"{}\"]\n{keys}\n",
        upstream.address
    );
    site.write("weir.toml", text.as_bytes());
    Server::run(&site.path("weir.toml"))
}

/// As in nginx: a location of files before a program that answers everything else.
#[test]
fn files_are_an_exception_to_a_proxy_of_all_paths() {
    let upstream =
        Upstream::start(|_, socket| answer(socket, &[b"HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\nof the program"]));
    let site = Site::new();
    site.write("static/a.css", b"of the folder");
    let text = format!(
        "[[listener]]\naddress = '127.0.0.1:0'\n[[site]]\nroot = '{}'\n[[site.proxy]]\npath = '/static/*'\nserve_files = true\n\
         [[site.proxy]]\nto = ['{}']\n",
        site.served().display(),
        upstream.address
    );
    let file = site.outside("weir.toml");
    std::fs::write(&file, text).unwrap();
    let server = Server::run(&file);
    let mut client = server.connect();
    assert_eq!(client.get("/static/a.css").text(), "of the folder");
    assert_eq!(client.get("/static/none").status, 404);
    assert_eq!(client.get("/a.css").text(), "of the program");
    // The program might read this as one of its paths, so neither answers.
    assert_eq!(client.get("/static%2Fa.css").status, 400);
}

fn on_every_path(upstream: &Upstream, test: impl Fn(&Server)) {
    for path in WRITE_PATHS {
        let server = proxy(upstream, path);
        test(&server);
        server.assert_alive();
    }
}

/// Reads a response of HTTP/1.1 with its body, with any framing.
fn whole(client: &mut Client) -> (u16, Vec<u8>) {
    let (status, head) = client.head();
    if !head.contains("Transfer-Encoding: chunked") {
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        return (status, client.body(length.expect("a length").parse().expect("a number")));
    }
    let mut body = Vec::new();
    loop {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.extend(client.body(1));
        }
        let bytes = usize::from_str_radix(std::str::from_utf8(&line).unwrap().trim_end(), 16).unwrap();
        let chunk = client.body(bytes + 2);
        body.extend_from_slice(&chunk[..bytes]);
        if bytes == 0 {
            return (status, body);
        }
    }
}

/// Answers `/length/N`, `/chunked/N` and `/close/N` with N bytes.
fn of_size(asked: &Asked, socket: &mut TcpStream) -> bool {
    let mut words = asked.path().split('/').skip(1);
    let (framing, bytes) = (words.next().unwrap(), words.next().unwrap().parse().unwrap());
    let body = content(bytes);
    let head = b"HTTP/1.1 200 OK\r\n";
    match framing {
        "length" => answer(socket, &[head, format!("Content-Length: {bytes}\r\n\r\n").as_bytes(), &body]),
        "chunked" => {
            let chunks =
                body.chunks(7001).map(|chunk| [format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat());
            let chunks: Vec<u8> = chunks.flatten().collect();
            answer(socket, &[head, b"Transfer-Encoding: chunked\r\n\r\n", &chunks, b"0\r\nTrailer: x\r\n\r\n"])
        }
        _ => answer_last(socket, &[head, b"\r\n", &body]),
    }
}

#[test]
fn bodies_are_exact_however_the_upstream_frames_them() {
    let upstream = Upstream::start(of_size);
    on_every_path(&upstream, |server| {
        let mut client = server.connect();
        for bytes in [0, 1, 65_535, 65_537, 3 << 20] {
            for framing in ["length", "chunked", "close"] {
                client.send(get(&format!("/{framing}/{bytes}")));
                assert!(whole(&mut client) == (200, content(bytes)), "/{framing}/{bytes}");
            }
        }
    });
}

/// A response that is complete before it is sent has a known size, whatever its head says, and its client gets the
/// length.
#[test]
fn a_small_response_has_a_length() {
    let upstream = Upstream::start(of_size);
    let server = proxy(&upstream, &[]);
    let mut client = server.connect();
    let response = client.get("/chunked/5000");
    assert_eq!((response.status, response.field("Content-Length")), (200, Some("5000")));
}

#[test]
fn responses_without_a_body_have_none() {
    let upstream = Upstream::start(|asked, socket| match asked.path() {
        "/head" => answer(socket, &[b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"]),
        "/304" => answer(socket, &[b"HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n"]),
        _ => answer(socket, &[b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"]),
    });
    on_every_path(&upstream, |server| {
        let mut client = server.connect();
        client.send("HEAD /head HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.response_to_head().field("Content-Length"), Some("1000"));
        assert_eq!(client.get("/304").status, 304);
        // After an interim response.
        assert_eq!([client.get("/204").status, client.response().status], [103, 204]);
    });
}

/// Answers with the head that the program received.
fn echo(asked: &Asked, socket: &mut TcpStream) -> bool {
    let head = asked.head.as_bytes();
    answer(socket, &[format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", head.len()).as_bytes(), head])
}

#[test]
fn an_upstream_gets_one_spelling_of_a_target_and_a_host_in_any_case() {
    let upstream = Upstream::start(echo);
    on_every_path(&upstream, |server| {
        let mut client = server.connect();
        let head = client.get("/caf\u{e9}?\u{20ac}=%e9").text().to_string();
        assert!(head.starts_with("GET /caf%C3%A9?%E2%82%AC=%e9 HTTP/1.1\r\n"), "{head}");
        let resolved = client.get("/a/../b?c");
        assert_eq!((resolved.status, resolved.field("Location")), (308, Some("/b?c")));
        // Many programs refuse an empty Host.
        client.send("GET / HTTP/1.0\r\n\r\n");
        let head = client.response().text().to_string();
        assert!(
            head.contains(&format!("\r\nHost: {}\r\n", upstream.address)) && !head.contains("X-Forwarded-Host"),
            "{head}"
        );
    });
}

#[test]
fn a_request_that_comes_round_ends() {
    let upstream = Upstream::start(echo);
    let server = proxy(&upstream, &[]);
    for (passes, status) in [(16, 200), (17, 508)] {
        let via = vec!["1.1 weir"; passes].join(", ");
        let mut client = server.connect();
        client.send(format!("GET /a HTTP/1.1\r\nHost: a\r\nVia: {via}\r\n\r\n"));
        assert_eq!(client.response().status, status, "after {passes}");
    }
}

#[test]
fn hints_are_passed_on_to_those_who_know_them() {
    let upstream = Upstream::start(|_, socket| {
        let hints =
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\nConnection: X-A\r\nX-A: 1\r\n\r\n\
            HTTP/1.1 102 Processing\r\n\r\n";
        answer(socket, &[hints, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"])
    });
    on_every_path(&upstream, |server| {
        let mut client = server.connect();
        for _ in 0..2 {
            let hints = client.get("/");
            let fields = [hints.field("Link"), hints.field("X-A"), hints.field("Content-Length")];
            assert_eq!((hints.status, fields), (103, [Some("</a>"), None, None]));
            assert_eq!([client.response().status, client.response().status], [102, 200]);
        }
        client.send("GET / HTTP/1.0\r\n\r\n");
        assert_eq!(client.response().status, 200, "HTTP/1.0 has none");
    });
    let server = proxy(&upstream, &["--tls-self-signed"]);
    let url = format!("https://localhost:{}/", server.address.port());
    for how in ["--http1.1", "--http2"] {
        let curl = Command::new("curl").args(["-skSi", "--max-time", "60", how, &url]).output().unwrap();
        let said = String::from_utf8_lossy(&curl.stdout).into_owned();
        let statuses: Vec<&str> = said
            .lines()
            .filter(|line| line.starts_with("HTTP/"))
            .map(|line| &line[line.find(' ').unwrap() + 1..][..3])
            .collect();
        assert!(statuses == ["103", "102", "200"] && said.ends_with("hi"), "{how}: {said}");
    }
}

/// The program takes some time; in the meantime the browser loads the files that, according to the site, its pages
/// need.
#[test]
fn a_site_says_early_what_its_pages_need() {
    let link = |value: &str| format!("[[site.header]]\npath = '/p*'\nname = 'Link'\nvalue = '{value}'\n");
    let guarded = Guarded::new(&link("</s.css>; rel=preload; as=style"));
    let other = Guarded::new(&link("</next>; rel=next, </preload>; rel=\"prev\""));
    let statuses = |guarded: &Guarded, version: &str, path: &str, mode: &str| {
        let url = format!("https://localhost:{}{path}", guarded.server.address.port());
        let curl =
            Command::new("curl").args(["-skSi", "--max-time", "60", version, "-H", mode, &url]).output().unwrap();
        let said = String::from_utf8_lossy(&curl.stdout).into_owned();
        let lines = said.lines().filter(|line| line.starts_with("HTTP/"));
        let statuses: Vec<String> = lines.map(|line| line.split(' ').nth(1).unwrap().into()).collect();
        let links = said.lines().filter(|line| line.to_ascii_lowercase().starts_with("link: </s.css>")).count();
        (statuses.join(" "), links)
    };
    let navigation = "Sec-Fetch-Mode: navigate";
    for (guarded, version, path, mode, expected) in [
        (&guarded, "--http2", "/page", navigation, ("103 200", 2)),
        (&guarded, "--http1.1", "/page", navigation, ("200", 1)),
        (&guarded, "--http2", "/page", "Sec-Fetch-Mode: no-cors", ("200", 1)),
        (&guarded, "--http2", "/other", navigation, ("200", 0)),
        (&other, "--http2", "/page", navigation, ("200", 0)),
    ] {
        let (statuses, links) = statuses(guarded, version, path, mode);
        assert_eq!((&*statuses, links), expected, "{version} {path} {mode}");
    }
}

/// Answers with the length of the request's body, and whether it is the one that was sent.
fn measure(asked: &Asked, socket: &mut TcpStream) -> bool {
    let body = asked.body(socket);
    let said = format!("{} {}", body.len(), body == content(body.len()));
    answer(socket, &[format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{said}", said.len()).as_bytes()])
}

#[test]
fn request_bodies_are_passed_on_as_they_come() {
    let upstream = Upstream::start(measure);
    on_every_path(&upstream, |server| {
        let mut client = server.connect();
        for bytes in [0, 1, 65_537, 2 << 20] {
            let body = content(bytes);
            client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {bytes}\r\n\r\n"));
            client.send(&body);
            assert_eq!(client.response().text(), format!("{bytes} true"));
            client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
            for chunk in body.chunks(9000) {
                client.send([format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat());
            }
            client.send("0\r\n\r\n");
            assert_eq!(client.response().text(), format!("{bytes} true"));
        }
        client.send("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
        assert_eq!(client.head().0, 100);
        client.send(content(5));
        assert_eq!(client.response().text(), "5 true");
    });
}

/// An upstream that reads nothing holds back its client, which cannot send all of the body.
#[test]
fn a_body_that_the_upstream_does_not_read_waits_with_the_client() {
    let gate = Arc::new(Barrier::new(2));
    let opened = Arc::clone(&gate);
    let upstream = Upstream::start(move |asked, socket| {
        opened.wait();
        measure(asked, socket)
    });
    let server = proxy(&upstream, &[]);
    let mut socket = TcpStream::connect(server.address).unwrap();
    const BYTES: usize = 64 << 20;
    socket.write_all(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {BYTES}\r\n\r\n").as_bytes()).unwrap();
    socket.set_nonblocking(true).unwrap();
    let (body, mut sent) = (content(BYTES), 0);
    wait_until("the client is held back", || {
        while let Ok(bytes) = socket.write(&body[sent..]) {
            sent += bytes;
        }
        std::thread::sleep(std::time::Duration::from_millis(200));
        socket.write(&body[sent..]).map(|bytes| sent += bytes).is_err()
    });
    assert!(sent < BYTES, "all was taken");
    gate.wait();
    socket.set_nonblocking(false).unwrap();
    socket.write_all(&body[sent..]).unwrap();
    let mut said = vec![0; 4096];
    let bytes = socket.read(&mut said).unwrap();
    assert!(String::from_utf8_lossy(&said[..bytes]).ends_with(&format!("{BYTES} true")));
}

#[test]
fn an_upstream_that_fails_is_a_status_or_a_cut() {
    let big = format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "x".repeat(1 << 20));
    let wrong: Vec<(&str, Vec<u8>)> = vec![
        ("/closes", b"".into()),
        ("/half-a-head", b"HTTP/1.1 200 OK\r\nA".into()),
        ("/no-http", b"hello\r\n\r\n".into()),
        ("/two-lengths", b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab".into()),
        ("/odd-coding", b"HTTP/1.1 200 OK\r\nTransfer Encoding: chunked\r\n\r\n0\r\n\r\n".into()),
        ("/bare-lf", b"HTTP/1.1 200 OK\nContent-Length: 1\n\na".into()),
        ("/great-head", big.into()),
        ("/1xx", b"HTTP/1.1 100 Continue\r\n\r\n".repeat(100)),
    ];
    let answers = wrong.clone();
    let upstream = Upstream::start(move |asked, socket| {
        let bytes = &answers.iter().find(|(path, _)| *path == asked.path()).expect("a path of these").1;
        answer_last(socket, &[bytes])
    });
    let server = proxy(&upstream, &[]);
    let mut client = server.connect();
    for (path, _) in &wrong {
        assert_eq!(client.get(path).status, 502, "{path}");
    }
    wait_until("the reason in the log", || {
        server.stderr().iter().any(|line| line.contains(&format!("no response from upstream {}", upstream.address)))
    });
}

#[test]
fn what_was_begun_and_is_cut_has_no_clean_end() {
    let upstream = Upstream::start(|asked, socket| match asked.path() {
        "/length" => answer_last(socket, &[b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", &content(70_000)]),
        _ => {
            answer_last(socket, &[b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffff\r\n", &content(70_000)])
        }
    });
    on_every_path(&upstream, |server| {
        for path in ["/length", "/chunked"] {
            let mut client = server.connect();
            client.send(get(path));
            let all = client.rest();
            assert!(!all.ends_with(b"0\r\n\r\n") && all.len() < 75_000, "{path}: {} bytes", all.len());
            assert!(all.len() > 70_000, "{path}: {} bytes, though 70000 came of the body", all.len());
        }
    });
}

/// A client that gets nothing back may repeat a POST (RFC 9110 section 9.2.2), although it was processed.
#[test]
fn what_came_before_an_upstream_died_reaches_the_client() {
    let upstream = Upstream::start(|asked, socket| {
        asked.body(socket);
        let framing = if asked.path() == "/length" { "Content-Length: 10" } else { "Transfer-Encoding: chunked" };
        let body = if asked.path() == "/length" { "hello" } else { "5\r\nhello\r\n" };
        let fields = "Content-Type: text/plain\r\nConnection: close\r\n";
        answer_last(socket, &[format!("HTTP/1.1 200 OK\r\n{fields}{framing}\r\n\r\n{body}").as_bytes()])
    });
    on_every_path(&upstream, |server| {
        for (path, version, coding, end) in [
            ("/length", "1.1", "", "\r\n\r\nhello"),
            ("/length", "1.0", "", "\r\n\r\nhello"),
            ("/chunked", "1.1", "", "\r\n\r\n5\r\nhello\r\n"),
            ("/chunked", "1.1", "Accept-Encoding: gzip\r\n", ""),
        ] {
            for _ in 0..10 {
                let mut client = server.connect();
                client.send(format!("POST {path} HTTP/{version}\r\nHost: a\r\n{coding}Content-Length: 1\r\n\r\na"));
                let all = client.rest();
                assert!(all.starts_with(b"HTTP/1.1 200 OK\r\n"), "{path} {version}: {} bytes", all.len());
                let text = String::from_utf8_lossy(&all);
                assert!(text.ends_with(end) && !text.ends_with("0\r\n\r\n"), "{path} {version}: {text}");
            }
        }
    });
}

/// Bytes that an upstream sends after the head of a response to HEAD are not the response to the next request of any
/// client.
#[test]
fn a_body_that_should_not_be_is_nobodys_response() {
    const POISON: &str = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison";
    let upstream = Upstream::start(|asked, socket| match asked.path() {
        "/head" => {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", POISON.len());
            answer(socket, &[head.as_bytes()]);
            std::thread::sleep(std::time::Duration::from_millis(1));
            answer(socket, &[POISON.as_bytes()])
        }
        _ => answer(socket, &[b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"]),
    });
    let server = proxy(&upstream, &["--workers", "1"]);
    let mut client = server.connect();
    for _ in 0..20 {
        client.send("HEAD /head HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.response_to_head().status, 200);
        assert_eq!(client.get("/").text(), "ok");
    }
}

/// Names are resolved in the sandbox. Earlier only a name server was queried.
#[test]
fn an_upstream_has_a_name() {
    let upstream = Upstream::start(of_size);
    let site = Site::new();
    let text = format!(
        "[[listener]]\naddress = \"127.0.0.1:0\"\n[[site]]\n[[site.proxy]]\nto = [\"localhost:{}\"]\n",
        upstream.address.port()
    );
    site.write("weir.toml", text.as_bytes());
    let server = Server::run(&site.path("weir.toml"));
    assert_eq!(server.connect().get("/length/100").status, 200);
}

#[test]
fn an_upstream_that_is_not_there_is_502() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = weir_under(&[]);
    command.args(["proxy", &listener.local_addr().unwrap().to_string(), "--listen", "127.0.0.1:0"]);
    drop(listener);
    let server = Server::spawn(command);
    assert_eq!(server.connect().get("/").status, 502);
}

/// An upstream that closes its connections without notice fails no request.
#[test]
fn a_connection_that_the_upstream_has_closed_is_not_the_clients_trouble() {
    let upstream =
        Upstream::start(|_, socket| answer_last(socket, &[b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"]));
    let server = proxy(&upstream, &[]);
    let mut client = server.connect();
    assert!((0..50).all(|_| client.get("/").text() == "ok"));
    assert_eq!(upstream.asked().len(), 50, "no request was asked twice");
}

#[test]
fn connections_to_upstreams_are_used_again() {
    let upstream = Upstream::start(|_, socket| answer(socket, &[b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"]));
    let server = proxy(&upstream, &["--workers", "1"]);
    let mut client = server.connect();
    assert!((0..20).all(|_| client.get("/").text() == "ok"));
    assert!(upstream.asked().iter().all(|asked| asked.connection == 0));
    // Requests sent together are answered in turn.
    client.send(get("/1") + &get("/2") + &get("/3"));
    assert!((0..3).all(|_| client.response().text() == "ok"));
    let paths: Vec<String> = upstream.asked()[20..].iter().map(|asked| asked.path().to_string()).collect();
    assert_eq!(paths, ["/1", "/2", "/3"]);
}

/// A client that leaves causes the upstream no further work.
#[test]
fn the_upstream_learns_that_the_client_has_left() {
    let ended = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&ended);
    let upstream = Upstream::start(move |asked, socket| {
        if asked.path() == "/begun" {
            answer(socket, &[b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nx"]);
        }
        seen.fetch_add(usize::from(!matches!(socket.read(&mut [0]), Ok(1))), Ordering::SeqCst);
        false
    });
    on_every_path(&upstream, |server| {
        let before = ended.load(Ordering::SeqCst);
        for path in ["/begun", "/not-begun"] {
            let mut client = server.connect();
            let asked = upstream.asked().len();
            client.send(get(path));
            wait_until("the upstream is asked", || upstream.asked().len() > asked);
            client.reset();
        }
        wait_until("both connections end", || ended.load(Ordering::SeqCst) == before + 2);
    });
}

#[test]
fn a_connection_that_changes_its_protocol_is_a_tunnel() {
    let upstream = Upstream::start(|asked, socket| {
        assert_eq!(asked.field("Upgrade"), Some("websocket"));
        answer(
            socket,
            &[b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nhello"],
        );
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = socket.read(&mut bytes) {
            let _ = socket.write_all(&bytes[..count]);
        }
        socket.shutdown(Shutdown::Both).is_err()
    });
    on_every_path(&upstream, |server| {
        let mut client = server.connect();
        client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
        assert_eq!((client.head().0, client.body(5)), (101, b"hello".into()));
        for round in 1..200 {
            client.send(content(round * 31));
            assert!(client.body(round * 31) == content(round * 31), "round {round}");
        }
        client.finish();
    });
}

/// Beyond the limit requests wait, and all are answered.
#[test]
fn no_more_requests_are_under_way_than_may_be() {
    let (under_way, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (now, max) = (Arc::clone(&under_way), Arc::clone(&most));
    let upstream = Upstream::start(move |_, socket| {
        max.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        std::thread::sleep(std::time::Duration::from_millis(5));
        now.fetch_sub(1, Ordering::SeqCst);
        answer(socket, &[b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"])
    });
    let server = proxy_with(&upstream, "max_concurrent_requests = 2");
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| assert_eq!(server.connect().get("/").text(), "ok"));
        }
    });
    assert!(most.load(Ordering::SeqCst) <= 2);
}

/// A size larger than all sockets in between can hold.
const LARGE: usize = 16 << 20;
const PACED: &str = "[uplink]\nrate = \"1gbit\"\nshaping = \"paced\"";
const OFF: &str = "[uplink]\nshaping = \"off\"\n[server]\nworkers = 1";

/// The only place of an upstream is free once it has sent everything, however slowly its clients read; each byte then
/// comes from a file.
#[test]
fn a_client_that_does_not_read_does_not_hold_the_upstream() {
    for order in [PACED, OFF] {
        let upstream = Upstream::start(of_size);
        let server = proxy_with(&upstream, &format!("max_concurrent_requests = 1\n{order}"));
        for framing in ["length", "chunked", "close"] {
            let mut slow: Vec<Client> = (0..3).map(|_| server.connect()).collect();
            slow.iter_mut().for_each(|client| client.send(get(&format!("/{framing}/{LARGE}"))));
            assert_eq!(server.connect().get("/length/100").body, content(100));
            for client in &mut slow {
                assert!(whole(client) == (200, content(LARGE)), "/{framing}");
            }
        }
        server.assert_alive();
    }
}

/// If there is no room on disk, a response holds its upstream until its client has received it.
#[test]
fn what_cannot_be_spooled_waits_and_is_whole() {
    let missing = "[server]\nspool_folder = \"/none-at-all\"";
    for (keys, says) in
        [("max_temp_file_size = \"0\"", ""), ("max_temp_file_size = \"1MB\"", ""), (missing, "cannot spool a response")]
    {
        let upstream = Upstream::start(of_size);
        let server = proxy_with(&upstream, &format!("max_concurrent_requests = 1\n{keys}"));
        let mut slow = server.connect();
        slow.send(get(&format!("/chunked/{LARGE}")));
        wait_until("the large one is asked for", || upstream.asked().len() == 1);
        let mut other = server.connect();
        other.send(get("/length/100"));
        assert!(whole(&mut slow) == (200, content(LARGE)), "{keys}");
        assert_eq!(whole(&mut other), (200, content(100)));
        let said = server.stderr().concat();
        assert!(said.contains(says), "{said}");
        server.assert_alive();
    }
}

/// Requests that take long at the upstream wait for short ones once both are known; the first class goes first.
#[test]
fn those_that_wait_are_taken_by_class_and_by_what_their_routes_take() {
    let (gate, at_gate) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let (opened, reached) = (Arc::clone(&gate), Arc::clone(&at_gate));
    let upstream = Upstream::start(move |asked, socket| {
        match asked.path() {
            "/gate" => {
                reached.wait();
                opened.wait();
            }
            "/slow" | "/first" => std::thread::sleep(std::time::Duration::from_millis(20)),
            _ => {}
        }
        answer(socket, &[b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"])
    });
    let classes = "[[class]]\nname = \"first\"\n[[class.rule]]\npath = \"/first\"\n\
                   [[class]]\nname = \"rest\"\npriority = 1\n[[class.rule]]\npath = \"/rest\"";
    let server = proxy_with(&upstream, &format!("max_concurrent_requests = 1\n{classes}"));
    let mut teaching = server.connect();
    for path in ["/slow", "/quick", "/first"].repeat(8) {
        assert_eq!(teaching.get(path).text(), "ok");
    }
    let mut waiting: Vec<Client> = Vec::new();
    for path in ["/gate", "/slow", "/slow", "/quick", "/quick", "/first"] {
        let mut client = server.connect();
        client.send(get(path));
        waiting.push(client);
        if path == "/gate" {
            at_gate.wait();
        }
        // Answered by this server, so all requests before it have been read.
        let mut last = server.connect();
        last.send("TRACE / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(last.response().status, 405);
    }
    gate.wait();
    waiting.iter_mut().for_each(|client| assert_eq!(whole(client).0, 200));
    let asked: Vec<String> = upstream.asked().iter().skip(25).map(|asked| asked.path().to_string()).collect();
    assert_eq!(asked, ["/first", "/quick", "/quick", "/slow", "/slow"]);
}

/// An upstream whose paths name files, in this folder and elsewhere.
fn naming(folder: String) -> Upstream {
    Upstream::start(move |asked, socket| {
        let field = match asked.path() {
            "/accel" => "X-Accel-Redirect: /a%20b.pdf".to_string(),
            "/sendfile" => format!("X-Sendfile: {folder}/a b.pdf"),
            "/large" => "X-Accel-Redirect: /large".into(),
            "/link" => "X-Accel-Redirect: /out".into(),
            "/dots" => "X-Accel-Redirect: /../secret".into(),
            "/outside" => format!("X-Sendfile: {folder}/../secret"),
            "/elsewhere" => "X-Sendfile: /etc/passwd".into(),
            "/folder" => "X-Accel-Redirect: /".into(),
            _ => "X-Accel-Redirect: /none".into(),
        };
        let head = format!("HTTP/1.1 200 OK\r\n{field}\r\nContent-Disposition: attachment\r\nContent-Type: a/b\r\n");
        let body = if asked.head.starts_with("HEAD") { &b""[..] } else { b"no" };
        answer(socket, &[head.as_bytes(), b"Content-Length: 2\r\n\r\n", body])
    })
}

/// A file that the upstream names is sent like any file, but no file outside the folder.
#[test]
fn files_that_upstreams_name_are_sent_from_their_folder() {
    let files = Site::new();
    let large = content(3 << 20);
    for (name, bytes) in [("private/a b.pdf", &content(5000)[..]), ("private/large", &large), ("secret", b"secret")] {
        files.write(name, bytes);
    }
    files.link("../secret", "private/out");
    let folder = files.path("private");
    let upstream = naming(folder.display().to_string());
    for order in [PACED, OFF] {
        let server = proxy_with(&upstream, &format!("accel_root = {folder:?}\n{order}"));
        let mut client = server.connect();
        for path in ["/accel", "/sendfile"] {
            let response = client.get(path);
            assert!(response.status == 200 && response.body == content(5000), "{path}");
            let fields = ["Content-Type", "Content-Disposition", "Content-Length"].map(|name| response.field(name));
            assert_eq!(fields, [Some("a/b"), Some("attachment"), Some("5000")]);
            assert!(response.field("ETag").is_some() && response.field("X-Accel-Redirect").is_none());
        }
        client.send("GET /large HTTP/1.1\r\nHost: a\r\nRange: bytes=1000000-1000999\r\n\r\n");
        let part = client.response();
        assert!(part.status == 206 && part.body == large[1_000_000..1_001_000]);
        assert!(client.get("/large").body == large);
        client.send("HEAD /large HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.response_to_head().field("Content-Length"), Some("3145728"));
        for path in ["/link", "/dots", "/outside", "/elsewhere", "/folder", "/none"] {
            let response = client.get(path);
            assert!(response.status == 404 && !response.text().contains("secret"), "{path}: {}", response.status);
        }
        let line = "cannot read the file that its upstream names for /link: no such file";
        wait_until("a line about the file", || server.stderr().concat().contains(line));
        server.assert_alive();
    }
    let connections = upstream.asked().iter().map(|asked| asked.connection).max();
    assert_eq!(connections, Some(3), "all share one, until a HEAD is answered with a length");
}

/// Without a folder, a response with such a field is like any other.
#[test]
fn a_response_that_names_a_file_has_a_length() {
    let server = proxy(&naming("/nowhere".into()), &[]);
    let mut client = server.connect();
    for _ in 0..2 {
        assert_eq!(client.get("/accel").text(), "no");
    }
}

#[test]
fn an_upstream_that_says_nothing_is_504() {
    let upstream = Upstream::start(|_, socket| socket.read(&mut [0]).is_err());
    let server = proxy_with(&upstream, "read_timeout = \"1s\"");
    assert_eq!(server.connect().get("/").status, 504);
}

/// The body of a request over HTTP/2, and its response, are larger than every window.
#[test]
fn curl_uploads_and_downloads_over_http2() {
    let upstream =
        Upstream::start(
            |asked, socket| {
                if asked.head.starts_with("POST") { measure(asked, socket) } else { of_size(asked, socket) }
            },
        );
    let site = Site::with(&[("up", &content(3 << 20))]);
    for (flags, scheme, how) in
        [(&[][..], "http", "--http2-prior-knowledge"), (&["--tls-self-signed"][..], "https", "--http2")]
    {
        let server = proxy(&upstream, flags);
        let curl = |args: &[&str], path: &str| {
            let url = format!("{scheme}://localhost:{}{path}", server.address.port());
            let output =
                Command::new("curl").args(["-skS", "--max-time", "60", how]).args(args).arg(&url).output().unwrap();
            assert!(output.status.success(), "{path}: {}", String::from_utf8_lossy(&output.stderr));
            output.stdout
        };
        for framing in ["length", "chunked", "close"] {
            assert!(curl(&[], &format!("/{framing}/{}", 3 << 20)) == content(3 << 20), "{framing}");
        }
        let body = format!("@{}", site.path("up").display());
        assert_eq!(curl(&["--data-binary", &body], "/"), b"3145728 true");
        assert_eq!(curl(&["--data-binary", &body, "-H", "Transfer-Encoding: chunked"], "/"), b"3145728 true");
    }
}

#[test]
fn bodies_pass_both_ways_over_http3() {
    let upstream =
        Upstream::start(
            |asked, socket| {
                if asked.head.starts_with("POST") { measure(asked, socket) } else { of_size(asked, socket) }
            },
        );
    let server = proxy(&upstream, &["--tls-self-signed"]);
    let mut asking = Asking::to(&server);
    for framing in ["length", "chunked", "close"] {
        let response = asking.get(&format!("/{framing}/1000000"));
        assert!(response.field(":status") == Some("200") && response.body == content(1_000_000), "{framing}");
    }
    for bytes in [0, 5, 1_000_000] {
        assert_eq!(asking.post("/", &content(bytes)).body, format!("{bytes} true").as_bytes());
    }
}

/// A malformed body is refused, and a later answer of the upstream reaches no client.
#[test]
fn a_request_that_turns_out_wrong_is_refused_once() {
    let gate = Arc::new(Barrier::new(2));
    let opened = Arc::clone(&gate);
    let upstream = Upstream::start(move |asked, socket| {
        if asked.head.starts_with("POST") {
            opened.wait();
        }
        answer_last(socket, &[b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"])
    });
    on_every_path(&upstream, |server| {
        let (mut client, asked) = (server.connect(), upstream.asked().len());
        // Enough bytes for the beginning to be passed on.
        let chunk = format!("{:x}\r\n{}\r\n", 70_000, "x".repeat(70_000));
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}"));
        wait_until("the upstream is asked", || upstream.asked().len() > asked);
        client.send("x\r\n");
        assert_eq!(client.response().status, 400);
        gate.wait();
        client.assert_end();
        assert_eq!(server.connect().get("/none").status, 200, "it goes on");
    });
}
