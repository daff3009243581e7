//! Fields of programs that are meant for the connection to the program, or that contradict the site.

use std::process::Command;

use crate::common::tls::Made;
use crate::common::{Server, Site, Upstream, answer};

const RESPONSE: &[u8] = b"HTTP/1.1 103 Early Hints\r\nAlt-Svc: h3=\":9999\"\r\nLink: </a>\r\n\r\n\
    HTTP/1.1 200 OK\r\nStrict-Transport-Security: max-age=1\r\nalt-svc: h3=\":9999\"\r\nContent-Length: 2\r\n\r\nhi";

/// Starts a server before the program, with and without TLS. Returns the heads of its responses over HTTP/1.1 and 2.
fn heads(keys: &str) -> String {
    let upstream = Upstream::start(|_, socket| answer(socket, &[RESPONSE]));
    let site = Site::new();
    let made = Made::new(&site, "own", &["localhost"]);
    let text = format!(
        "[[listener]]\naddress = '127.0.0.1:0'\ntls = true\nhttp3 = false\n[[site]]\ncert = '{}'\nkey = '{}'\n{keys}\n\
         [[site.proxy]]\nto = ['{}']\n",
        made.cert.display(),
        made.key.display(),
        upstream.address
    );
    site.write("weir.toml", text.as_bytes());
    let server = Server::run(&site.path("weir.toml"));
    let url = format!("https://localhost:{}/", server.address.port());
    let heads = ["--http1.1", "--http2"].map(|version| {
        let curl = Command::new("curl").args(["-skSi", "--max-time", "60", version, &url]).output().unwrap();
        String::from_utf8(curl.stdout).unwrap().to_lowercase()
    });
    assert!(heads.iter().all(|head| head.contains("link: </a>") && head.ends_with("hi")), "{heads:?}");
    heads.concat()
}

/// It would lead browsers to the program's own port (RFC 7838 section 3).
#[test]
fn a_program_names_no_other_address_of_the_site() {
    let heads = heads("");
    assert!(!heads.contains("9999"), "{heads}");
    assert_eq!(heads.matches("strict-transport-security: max-age=1\r\n").count(), 2, "{heads}");
}

#[test]
fn the_sites_own_hsts_is_the_only_one() {
    let heads = heads("hsts = 'max-age=60'");
    assert_eq!(heads.matches("strict-transport-security: max-age=60\r\n").count(), 2, "{heads}");
    assert_eq!(heads.matches("strict-transport-security").count(), 2, "{heads}");
}

/// RFC 9110 section 7.6.2, and RFC 9112 section 3.2.4.
#[test]
fn options_end_where_their_client_says() {
    let upstream = Upstream::start(|_, socket| answer(socket, &[b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"]));
    let site = Site::new();
    let address = upstream.address;
    let text = format!("[[listener]]\naddress = '127.0.0.1:0'\n[[site]]\n[[site.proxy]]\nto = ['{address}']\n");
    site.write("weir.toml", text.as_bytes());
    let server = Server::run(&site.path("weir.toml"));
    let mut client = server.connect();
    for (line, target, status, left) in [
        ("Max-Forwards: 0", "/", 204, None),
        ("Max-Forwards: 5", "/", 200, Some("4")),
        ("Max-Forwards: 18446744073709551615", "/", 200, Some("18446744073709551614")),
        ("Max-Forwards: x", "/", 200, Some("x")),
        ("X: 1", "http://a/", 200, None),
        ("X: 1", "http://a", 204, None),
        ("X: 1", "*", 204, None),
    ] {
        let before = upstream.asked().len();
        client.send(format!("OPTIONS {target} HTTP/1.1\r\nHost: a\r\n{line}\r\n\r\n"));
        assert_eq!(client.response().status, status, "{line} {target}");
        let asked = upstream.asked();
        assert_eq!(asked.len() - before, usize::from(status == 200), "{line} {target}");
        if status == 200 {
            assert_eq!(asked[before].field("Max-Forwards"), left, "{line}");
        }
    }
    client.send("GET / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\n\r\n");
    assert_eq!(client.response().status, 200, "the field means nothing in a GET");
}
