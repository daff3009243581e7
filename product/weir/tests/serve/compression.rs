//! Text in the codings that clients accept, from files and from programs.

use crate::common::{Client, Response, Server, Site, Upstream, answer, weir_under};

/// The first bytes of gzip (RFC 1952 section 2.3).
const GZIP: [u8; 3] = [0x1f, 0x8b, 8];

fn page(bytes: usize) -> Vec<u8> {
    let words = ["the ", "link ", "of ", "a house ", "carries ", "<p>", "pages</p>\n"];
    (0..bytes).flat_map(|at| words[(at * 7919 + at * at / 13) % words.len()].bytes()).take(bytes).collect()
}

fn ask(client: &mut Client, target: &str, lines: &str) -> Response {
    client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{lines}\r\n"));
    client.response()
}

/// Requests a file until it is served in this coding.
fn coded(client: &mut Client, target: &str, coding: &str) -> Response {
    loop {
        let response = ask(client, target, &format!("Accept-Encoding: {coding}\r\n"));
        assert_eq!((response.status, response.field("Vary")), (200, Some("Accept-Encoding")), "{}", response.head);
        if response.field("Content-Encoding") == Some(coding) {
            return response;
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_page_is_compressed_for_clients_that_accept_it() {
    let plain = page(40_000);
    let site = Site::with(&[("a.html", &plain), ("a.bin", &plain), ("s.css", &plain), ("s.css.br", b"no brotli")]);
    let server = Server::start(&site, &[]);
    let mut client = server.connect();
    for coding in ["br", "zstd", "gzip"] {
        let response = coded(&mut client, "/a.html", coding);
        assert!(response.body.len() < plain.len() / 3, "{coding}");
        let tag = response.field("ETag").unwrap().to_string();
        let unchanged = ask(&mut client, "/a.html", &format!("Accept-Encoding: {coding}\r\nIf-None-Match: {tag}\r\n"));
        assert_eq!((unchanged.status, unchanged.field("ETag")), (304, Some(&*tag)));
    }
    assert!(coded(&mut client, "/a.html", "gzip").body.starts_with(&GZIP));
    assert!(ask(&mut client, "/a.html", "").body == plain);
    let other = ask(&mut client, "/a.bin", "Accept-Encoding: gzip\r\n");
    assert!(other.body == plain && other.field("Vary").is_none());
    assert!(coded(&mut client, "/s.css", "br").body != b"no brotli");
    let off = Server::start(&site, &["--no-compression"]);
    let response = ask(&mut off.connect(), "/a.html", "Accept-Encoding: gzip, identity;q=0\r\n");
    assert!(response.body == plain && response.field("Vary").is_none());
}

#[test]
fn responses_of_programs_are_compressed_unless_they_are_private() {
    let plain = page(200_000);
    let sent = plain.clone();
    let upstream = Upstream::start(move |_, socket| {
        let fields = format!("Content-Type: text/html\r\nETag: \"v\"\r\nContent-Length: {}", sent.len());
        answer(socket, &[format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n").as_bytes(), &sent])
    });
    let mut command = weir_under(&[]);
    command.args(["proxy", &upstream.address.to_string(), "--listen", "127.0.0.1:0"]);
    let server = Server::spawn(command);
    // The end of the connection ends the body.
    let ask = |lines: &str| {
        let mut client = server.connect();
        client.send(format!("GET / HTTP/1.0\r\nHost: a\r\nAccept-Encoding: gzip\r\n{lines}\r\n"));
        let (_, head) = client.head();
        (head, client.rest())
    };
    let (head, body) = ask("");
    assert!(head.contains("\r\nContent-Encoding: gzip\r\n") && head.contains("\r\nETag: W/\"v~weir\"\r\n"), "{head}");
    assert!(body.starts_with(&GZIP) && body.len() < plain.len() / 3);
    for secret in ["Cookie: a=b\r\n", "Authorization: Basic eDp5\r\n"] {
        let (head, body) = ask(secret);
        assert!(!head.contains("Content-Encoding") && body == plain, "{head}");
    }
    ask("If-None-Match: W/\"v~weir\"\r\n");
    let asked = upstream.asked();
    assert_eq!(asked.last().and_then(|asked| asked.field("If-None-Match")), Some("\"v\""));
}

/// A WebP picture (RFC 9649 section 2.3) in its outermost structure.
fn webp(bytes: usize) -> Vec<u8> {
    let mut picture = [&b"RIFF"[..], &(bytes as u32 - 8).to_le_bytes(), b"WEBPVP8 "].concat();
    picture.resize(bytes, 1);
    picture
}

#[test]
fn a_picture_is_sent_in_a_type_that_its_client_names() {
    let (jpeg, other) = (vec![7; 300_000], webp(100_000));
    let site = Site::with(&[("a.jpg", &jpeg), ("a.jpg.webp", &other), ("b.jpg", &jpeg), ("b.jpg.avif", &other)]);
    let server = Server::start(&site, &[]);
    let mut client = server.connect();
    let named = ask(&mut client, "/a.jpg", "Accept: image/avif,image/webp,*/*;q=0.8\r\n");
    assert_eq!((named.field("Content-Type"), named.field("Vary")), (Some("image/webp"), Some("Accept")));
    assert!(named.body == other);
    let long = format!("Accept: {}image/webp\r\n", "a/b, ".repeat(2_000));
    for lines in ["Accept: */*\r\n", "", &long] {
        let plain = ask(&mut client, "/a.jpg", lines);
        assert_eq!((plain.status, plain.field("Content-Type")), (200, Some("image/jpeg")));
        assert!(plain.body == jpeg && plain.field("Vary") == Some("Accept"));
    }
    let tag = named.field("ETag").unwrap();
    let part = ask(&mut client, "/a.jpg", &format!("Range: bytes=10-19\r\nIf-Range: {tag}\r\n"));
    assert_eq!((part.status, part.field("Content-Range")), (206, Some("bytes 10-19/100000")));
    assert!(part.body == other[10..20] && part.field("Content-Type") == Some("image/webp"));
    let wrong = ask(&mut client, "/b.jpg", "Accept: image/avif\r\n");
    assert!(wrong.body == jpeg && wrong.field("Vary").is_none(), "it is in WebP");
}
