//! Listeners behind a proxy that passes bytes on after a header with the client's address.

use std::process::Command;

use crate::common::{Client, Server, Site, Upstream, answer, get, wait_until};

const V1: &[u8] = b"PROXY TCP4 192.0.2.1 10.0.0.1 4711 80\r\n";
const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x02\x0a\0\0\x01\x12\x67\0\x50";
/// A connection with which a proxy checks whether the server is alive.
const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";

/// A site behind a proxy at 127.0.0.1, with these keys of the listener, of the file and of the site.
fn server(listener: &str, file: &str, site_keys: &str) -> (Site, Server) {
    let site = Site::with(&[("a", b"hello")]);
    let certificate = rcgen::generate_simple_self_signed(vec!["a".to_string()]).unwrap();
    site.write("cert.pem", certificate.cert.pem().as_bytes());
    site.write("key.pem", certificate.signing_key.serialize_pem().as_bytes());
    let text = format!(
        "[server]\ntrusted_proxies = [\"127.0.0.1\"]\naccess_log = \"-\"\n[[listener]]\naddress = \"127.0.0.1:0\"\nproxy_protocol = true\n{listener}\n\
        {file}\n[[site]]\nroot = \"{}\"\ncert = \"cert.pem\"\nkey = \"key.pem\"\n{site_keys}\n",
        site.served().display()
    );
    site.write("weir.toml", text.as_bytes());
    let server = Server::run(&site.path("weir.toml"));
    (site, server)
}

fn client(server: &Server, header: &[u8]) -> Client {
    let mut client = server.connect();
    client.send(header);
    client
}

/// The addresses in the log.
fn remotes(server: &Server) -> Vec<String> {
    let lines = server.stdout();
    let logged = lines.iter().filter_map(|line| line.split_once(" - - ["));
    logged.map(|(remote, _)| remote.to_string()).collect()
}

#[test]
fn the_client_of_a_connection_is_told_before_its_first_byte() {
    let (_site, server) = server("", "", "");
    for (nth, (header, remote)) in
        [(V1, "192.0.2.1"), (V2, "192.0.2.2"), (LOCAL, "127.0.0.1"), (b"PROXY UNKNOWN\r\n", "127.0.0.1")]
            .into_iter()
            .enumerate()
    {
        // With the request, and byte by byte before it.
        let mut client = client(&server, &[header, get("/a").as_bytes()].concat());
        assert_eq!(client.response().text(), "hello");
        let mut client = server.connect();
        header.iter().for_each(|byte| client.send([*byte]));
        assert_eq!(client.get("/a").text(), "hello");
        wait_until("lines", || remotes(&server).len() == 2 * nth + 2);
        assert_eq!(remotes(&server)[2 * nth..], [remote, remote]);
    }
    assert_eq!(server.stderr(), [""; 0]);
}

/// A field is trusted if it comes from a trusted proxy behind another, and not if it comes from the client.
#[test]
fn fields_count_where_the_client_is_a_proxy_itself() {
    let (_site, server) = server("", "", "");
    let request = "GET /a HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 198.51.100.9\r\n\r\n";
    for (nth, (header, remote)) in [(V1, "192.0.2.1"), (LOCAL, "198.51.100.9")].into_iter().enumerate() {
        let mut client = client(&server, &[header, request.as_bytes()].concat());
        assert_eq!(client.response().text(), "hello");
        wait_until("a line", || remotes(&server).len() == nth + 1);
        assert_eq!(remotes(&server)[nth], remote);
    }
}

#[test]
fn what_brings_no_header_is_refused_with_a_line() {
    let mut others = vec![];
    for (begin, why) in [
        (get("/a").into_bytes(), "it does not send a PROXY header"),
        (b"PROXY TCP4 x\r\n".to_vec(), "a malformed PROXY header"),
        ([&V2[..14], &[0xff, 0xff]].concat(), "a PROXY header of more than 4096 bytes"),
    ] {
        let (site, server) = server("", "", "");
        let mut client = client(&server, &begin);
        client.assert_gone();
        wait_until("a line about it", || !server.stderr().is_empty());
        let said = server.stderr();
        assert!(said[0].starts_with("weir: PROXY protocol: refused 127.0.0.1:") && said[0].ends_with(why), "{said:?}");
        others.push((site, server));
    }
    let mut client = Client::connect_from("127.0.0.2:0", others[0].1.address);
    client.try_send(V1);
    client.assert_gone();
    let mut client = self::client(&others[0].1, &[V1, get("/a").as_bytes()].concat());
    assert_eq!(client.response().text(), "hello", "the next is served");
}

/// The client's limits apply.
#[test]
fn a_client_behind_the_proxy_has_so_many_connections() {
    let (_site, server) = server("", "[limits]\nclient_connections = 1", "");
    let ask = |header: &[u8]| {
        let client = client(&server, &[header, get("/a").as_bytes()].concat());
        let is_served = client.is_answered();
        (client, is_served)
    };
    let ((first, is_first_served), (_second, is_second_served)) = (ask(V1), ask(V2));
    assert!(is_first_served && is_second_served);
    assert!(!ask(V1).1);
    wait_until("a line about it", || !server.stderr().is_empty());
    assert!(server.stderr()[0].contains("the last from 192.0.2.1: one client may have 1 at once"));
    drop(first);
    wait_until("room for another", || ask(V1).1);
}

#[test]
fn curl_speaks_it_before_tls() {
    let (_site, server) = server("tls = true", "", "https_redirect = true");
    let url = format!("https://127.0.0.1:{}/a", server.address.port());
    for version in ["--http1.1", "--http2"] {
        let curl =
            Command::new("curl").args(["-sSk", "--max-time", "60", "--haproxy-protocol", version, &url]).output();
        let curl = curl.unwrap();
        assert_eq!(String::from_utf8_lossy(&curl.stdout), "hello", "{curl:?}");
    }
    assert!(server.stderr().is_empty(), "{:?}", server.stderr());
}

/// The header contains the address of the client.
#[test]
fn upstreams_are_told_of_the_client() {
    let upstream = Upstream::start(|asked, socket| {
        let said = asked.field("X-Forwarded-For").unwrap_or("-");
        answer(socket, &[format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{said}", said.len()).as_bytes()])
    });
    let (_site, server) = server("", "", &format!("[[site.proxy]]\nto = [\"{}\"]", upstream.address));
    let mut client = client(&server, &[V2, get("/").as_bytes()].concat());
    assert_eq!(client.response().text(), "192.0.2.2");
}
