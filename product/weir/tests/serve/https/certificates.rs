//! Certificates of several sites, new ones, and invalid ones.

use rustix::process::Signal;

use crate::common::tls::{Made, Trust};
use crate::common::{Server, Site, run_to_end, wait_until};

/// Three sites, the first the default; a listener with TLS and one without.
fn several(site: &Site) -> ([Made; 3], String) {
    let made = [("a", "a.test"), ("b", "*.b.test"), ("c", "c.test")].map(|(name, host)| Made::new(site, name, &[host]));
    for (name, text) in [("a.txt", "files of a"), ("b/a.txt", "files of b"), ("c/a.txt", "files of c")] {
        site.write(name, text.as_bytes());
    }
    let text = "\
[[listener]]\naddress = '127.0.0.1:0'\ntls = true
[[listener]]\naddress = '127.0.0.1:0'
[[site]]\nroot = 'site'\ndefault = true\nhosts = ['a.test']\ncert = 'a.pem'\nkey = 'a.key'\nhttps_redirect = true\nhsts = 'max-age=60'
[[site]]\nroot = 'site/b'\nhosts = ['*.b.test']\ncert = 'b.pem'\nkey = 'b.key'
[[site]]\nroot = 'site/c'\nhosts = ['c.test', 'x.b.test']\ncert = 'c.pem'\nkey = 'c.key'\n";
    (made, text.into())
}

fn run(site: &Site, text: &str) -> Server {
    let file = site.outside("weir.toml");
    std::fs::write(&file, text).unwrap();
    Server::run(&file)
}

fn said(server: &Server, part: &str) {
    wait_until(part, || server.stderr().iter().any(|line| line.contains(part)));
}

fn asking(host: &str) -> String {
    format!("GET /a.txt HTTP/1.1\r\nHost: {host}\r\n\r\n")
}

#[test]
fn each_host_has_its_certificate_and_its_files() {
    let site = Site::new();
    let (made, text) = several(&site);
    let server = run(&site, &text);
    for (host, at, files) in [("a.test", 0, "a"), ("y.b.test", 1, "b"), ("c.test", 2, "c")] {
        // It trusts only this certificate.
        let mut client = made[at].trust().connect(server.address, host);
        client.send(&asking(host));
        assert_eq!(client.response().1, format!("files of {files}").as_bytes());
    }
    // The site of this host has a certificate for other hosts, which is reported.
    said(&server, "c.pem` is not for x.b.test");
    let mut stranger = made[0].trust().connect(server.address, "d.test");
    assert!(stranger.stream.conn.complete_io(&mut stranger.stream.sock).is_err(), "that of a.test is not for it");
}

#[test]
fn requests_without_tls_are_redirected_and_hsts_is_for_tls_alone() {
    let site = Site::new();
    let (made, text) = several(&site);
    let server = run(&site, &text);
    let line = &server.stdout()[0];
    let plain = line.rsplit_once("http://").unwrap().1.split_once('/').unwrap().0.parse().unwrap();
    let ask = |host: &str, target: &str| {
        let mut client = crate::common::Client::connect(plain);
        client.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        client.response()
    };
    let redirected = ask("a.test:8080", "/a.txt?x=%20y");
    // The port of the file, which is 0 here.
    assert_eq!((redirected.status, redirected.field("Location")), (308, Some("https://a.test:0/a.txt?x=%20y")));
    assert_eq!(redirected.field("Strict-Transport-Security"), None);
    // A host that no URL can name gets nothing without TLS either.
    for host in ["x..y", ".x", "1.2.3.4.5"] {
        let refused = ask(host, "/a.txt");
        assert_eq!((refused.status, refused.text().contains("files of")), (400, false), "{host}");
    }
    assert_eq!(ask("c.test", "/a.txt").text(), "files of c");
    let mut client = made[0].trust().connect(server.address, "a.test");
    client.send(&asking("a.test"));
    let (head, body) = client.response();
    assert!(head.contains("\r\nStrict-Transport-Security: max-age=60\r\n") && body == b"files of a", "{head}");
}

#[test]
fn a_new_certificate_is_taken_and_a_wrong_one_is_not() {
    let site = Site::new();
    let (made, text) = several(&site);
    let server = run(&site, &text);
    let before = made[2].trust();
    let mut kept = before.connect(server.address, "c.test");
    kept.send(&asking("c.test"));
    kept.response();

    let half = std::fs::read(&made[2].cert).unwrap();
    std::fs::write(&made[2].cert, &half[..half.len() / 2]).unwrap();
    server.signal(Signal::HUP);
    said(&server, "c.pem` ends within its PEM");
    said(&server, "the earlier one stays in force");
    before.connect(server.address, "c.test").get("/");

    let new = Made::new(&site, "c", &["c.test"]);
    server.signal(Signal::HUP);
    said(&server, "3 sites are in force");
    new.trust().connect(server.address, "c.test").get("/");
    // Connections with the earlier certificate continue.
    kept.send(&asking("c.test"));
    assert_eq!(kept.response().1, b"files of c");
    // Their sessions are resumed: the keys of tickets outlast the certificate.
    let both = Trust::both(&[&made[2], &new]);
    for is_resumed in [false, true] {
        let mut client = both.connect(server.address, "c.test");
        client.get("/");
        assert_eq!(client.is_resumed(), is_resumed);
        server.signal(Signal::HUP);
    }
    server.assert_alive();
}

#[test]
fn weir_serve_reads_its_certificate_again() {
    let site = Site::with(&[("a.txt", b"hello")]);
    let old = Made::new(&site, "own", &["localhost"]);
    let server = Server::start(&site, &old.flags());
    assert_eq!(old.trust().connect(server.address, "localhost").get("/a.txt").1, b"hello");
    let new = Made::new(&site, "own", &["localhost"]);
    server.signal(Signal::HUP);
    said(&server, "in force");
    assert_eq!(new.trust().connect(server.address, "localhost").get("/a.txt").1, b"hello");
}

#[test]
fn a_certificate_that_cannot_be_used_is_named() {
    let site = Site::new();
    let (own, other) = (Made::new(&site, "own", &["localhost"]), Made::new(&site, "other", &["localhost"]));
    let key_as_cert = own.key.to_str().unwrap();
    let missing = site.outside("missing");
    for (cert, key, said) in [
        (own.cert.to_str().unwrap(), other.key.to_str().unwrap(), "does not belong to the first certificate of"),
        (key_as_cert, key_as_cert, "has no certificate; expected PEM"),
        (missing.to_str().unwrap(), key_as_cert, "cannot read `"),
    ] {
        let dir = site.served();
        let args = ["serve", dir.to_str().unwrap(), "--listen", "127.0.0.1:0", "--cert", cert, "--key", key];
        let output = run_to_end(&args);
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && err.contains(said) && err.contains(cert), "{err}");
    }
    let usage = run_to_end(&["serve", "--cert", "a"]);
    assert_eq!(usage.status.code(), Some(2), "a key belongs to it");
}

/// A failed renewal does not keep a server from starting.
#[test]
fn an_expired_certificate_is_used_and_said() {
    let site = Site::with(&[("a.txt", b"hello")]);
    let mut params = rcgen::CertificateParams::new(vec!["localhost".to_string()]).unwrap();
    params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let old = Made::of(&site, "own", params);
    let server = Server::start(&site, &old.flags());
    said(&server, "own.pem` expired");
    let mut client = old.trust().connect(server.address, "localhost");
    assert!(client.stream.conn.complete_io(&mut client.stream.sock).is_err(), "the client refuses it");
    server.assert_alive();
}
