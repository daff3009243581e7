//! Clients behind a proxy that an operator trusts: each request belongs to its client, whatever connection carries it,
//! and no other sender is trusted.

use std::net::TcpStream;

use rustix::process::Signal;

use crate::common::{
    Asked, Client, Server, Site, Upstream, answer, content, on_every_path_at_once, wait_until, weir_under,
};
use crate::http3::Asking;

const PROXY: &[&str] = &["--trusted-proxy", "127.0.0.0/31", "--access-log", "-", "--log-format", "json"];

fn site() -> Site {
    Site::with(&[("a", b"hello"), ("b", &content(100_000))])
}

fn ask(client: &mut Client, path: &str, fields: &str) -> u16 {
    client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    client.response().status
}

/// The addresses in the log, in the order of the lines.
fn remotes(server: &Server) -> Vec<String> {
    let lines = server.stdout();
    let logged = lines.iter().filter_map(|line| line.split_once("\"remote_addr\":\""));
    logged.map(|(_, rest)| rest.split('"').next().unwrap().to_string()).collect()
}

#[test]
fn each_request_of_a_connection_is_logged_as_its_clients() {
    on_every_path_at_once(&site(), PROXY, |server| {
        let mut proxy = server.connect();
        let cases = [
            ("X-Forwarded-For: 192.0.2.1\r\n", "192.0.2.1"),
            ("X-Forwarded-For: 198.51.100.9, 192.0.2.2, 127.0.0.1\r\n", "192.0.2.2"),
            ("Forwarded: for=\"[2001:db8::1]:99\";proto=https\r\n", "2001:db8::1"),
            ("", "127.0.0.1"),
            ("X-Forwarded-For: unknown\r\n", "127.0.0.1"),
            ("X-Forwarded-For: 192.0.2.1\r\n", "192.0.2.1"),
        ];
        for (nth, (fields, expected)) in cases.into_iter().enumerate() {
            let path = if nth % 2 == 0 { "/a" } else { "/b" };
            assert_eq!(ask(&mut proxy, path, fields), 200);
            wait_until("the line", || remotes(server).len() > nth);
            assert_eq!(remotes(server)[nth], expected, "{fields}");
        }
        // From an address outside the network.
        let mut other = Client::connect_from("127.0.0.2:0", server.address);
        assert_eq!(ask(&mut other, "/a", "X-Forwarded-For: 192.0.2.1\r\n"), 200);
        wait_until("the line", || remotes(server).len() > cases.len());
        assert_eq!(remotes(server)[cases.len()], "127.0.0.2");
    });
}

#[test]
fn streams_of_one_connection_are_of_several_clients() {
    let site = site();
    let server = Server::start(&site, &[PROXY, &["--tls-self-signed"]].concat());
    let mut asking = Asking::to(&server);
    let of = ["192.0.2.1", "192.0.2.2"].map(|client| asking.ask_with("/b", &[("x-forwarded-for", client)]));
    of.into_iter().for_each(|stream| assert_eq!(asking.answer(stream).field("alt-svc"), None));
    wait_until("two lines", || remotes(&server).len() == 2);
    let mut found = remotes(&server);
    found.sort();
    assert_eq!(found, ["192.0.2.1", "192.0.2.2"]);
}

/// Each client has its own limits, and the proxy has no limit of connections.
#[test]
fn clients_behind_a_proxy_have_their_own_limits() {
    let limits = ["--client-requests", "1", "--client-connections", "1"];
    on_every_path_at_once(&site(), &[PROXY, &limits].concat(), |server| {
        let mut first = server.connect();
        let mut second = server.connect();
        let of = |client: &mut Client, nth: usize| {
            let statuses = (0..3).map(|_| ask(client, "/a", &format!("X-Forwarded-For: 192.0.2.{nth}\r\n")));
            statuses.collect::<Vec<u16>>()
        };
        for nth in 1..=5 {
            let statuses = of(if nth % 2 == 0 { &mut first } else { &mut second }, nth);
            assert_eq!(statuses[0], 200, "client {nth}");
            assert!(statuses.contains(&429), "client {nth}: {statuses:?}");
        }
    });
}

/// Columns of the table of clients: connections, or requests that a proxy passed on, and bytes.
fn account(server: &Server, client: &str) -> Option<(usize, usize)> {
    server.signal(Signal::USR2);
    server.stderr().iter().rev().find_map(|line| {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let ["weir:", of, under_way, bytes, ..] = cells[..] else { return None };
        (of == client).then(|| (under_way.parse().unwrap(), bytes.parse().unwrap()))
    })
}

/// The client counts as long as its request is in flight, however that ends.
#[test]
fn what_is_sent_counts_for_the_client_behind_the_proxy() {
    const LARGE: usize = 20 << 20;
    on_every_path_at_once(&Site::of_sizes(&[5, LARGE]), PROXY, |server| {
        let large = format!("GET /size-{LARGE} HTTP/1.1\r\nHost: a\r\n");
        let mut proxy = Client::connect_narrow(server.address);
        proxy.send(format!("{large}X-Forwarded-For: 192.0.2.7\r\n\r\n"));
        proxy.wait_for_first_byte();
        wait_until("the client in the table", || {
            account(server, "192.0.2.7").is_some_and(|(under_way, bytes)| under_way == 1 && bytes > 1000)
        });
        proxy.reset();
        let mut proxy = server.connect();
        assert_eq!(ask(&mut proxy, "/size-5", "X-Forwarded-For: 192.0.2.8\r\n"), 200);
        for client in ["192.0.2.7", "192.0.2.8"] {
            wait_until("an end", || account(server, client).is_some_and(|(under_way, _)| under_way == 0));
        }
        assert_eq!(account(server, "127.0.0.1"), None, "nothing was sent to the proxy itself");
    });
}

#[test]
fn nonsense_is_one_line() {
    let site = site();
    let server = Server::start(&site, PROXY);
    let mut proxy = server.connect();
    for _ in 0..20 {
        assert_eq!(ask(&mut proxy, "/a", "X-Forwarded-For: 192.0.2.1, \u{1f}x\r\n"), 400);
        proxy = server.connect();
        assert_eq!(ask(&mut proxy, "/a", "X-Forwarded-For: 192.0.2.1, x\"y\r\n"), 200);
    }
    wait_until("a line about it", || !server.stderr().is_empty());
    let said = server.stderr();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with("weir: X-Forwarded-For or Forwarded of 127.0.0.1:"), "{said:?}");
    assert!(said[0].ends_with(": no address: `x\"y`"), "{said:?}");
    assert!(remotes(&server).iter().all(|remote| remote == "127.0.0.1"));
}

fn echo(asked: &Asked, socket: &mut TcpStream) -> bool {
    let fields = ["X-Forwarded-For", "X-Forwarded-Proto", "Forwarded"];
    let said = fields.map(|name| asked.field(name).unwrap_or("-")).join("|");
    answer(socket, &[format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{said}", said.len()).as_bytes()])
}

/// RFC 7239: the value from a trusted proxy is kept and ours added; the values of others are dropped.
#[test]
fn upstreams_are_told_what_trusted_proxies_said() {
    let upstream = Upstream::start(echo);
    let said = "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\nForwarded: for=192.0.2.1";
    for (trusted, expected) in [
        ("127.0.0.1", "192.0.2.1, 127.0.0.1|https|for=192.0.2.1;host=a;proto=https, for=\"127.0.0.1:"),
        ("10.0.0.0/8", "127.0.0.1|http|for=\"127.0.0.1:"),
    ] {
        let mut command = weir_under(&[]);
        command.args(["proxy", &upstream.address.to_string(), "--listen", "127.0.0.1:0", "--trusted-proxy", trusted]);
        let server = Server::spawn(command);
        let mut client = server.connect();
        client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{said}\r\n\r\n"));
        let response = client.response();
        assert!(response.text().starts_with(expected), "{trusted}: {}", response.text());
    }
}

/// Otherwise a site that redirects its clients to HTTPS would redirect those of a proxy with TLS without end.
#[test]
fn a_proxy_that_speaks_tls_is_believed() {
    let site = site();
    let certificate = rcgen::generate_simple_self_signed(vec!["a".to_string()]).unwrap();
    site.write("cert.pem", certificate.cert.pem().as_bytes());
    site.write("key.pem", certificate.signing_key.serialize_pem().as_bytes());
    let text = "[server]\ntrusted_proxies = [\"127.0.0.1\"]\n[[listener]]\naddress = \"127.0.0.1:0\"\n\
        [[listener]]\naddress = \"127.0.0.1:0\"\ntls = true\n[[site]]\nroot = \".\"\ncert = \"cert.pem\"\nkey = \"key.pem\"\nhttps_redirect = true\n";
    site.write("weir.toml", text.as_bytes());
    let server = Server::run(&site.path("weir.toml"));
    let mut proxy = server.connect();
    assert_eq!(ask(&mut proxy, "/a", "X-Forwarded-For: 192.0.2.1\r\n"), 308);
    assert_eq!(ask(&mut proxy, "/a", "X-Forwarded-Proto: http\r\n"), 308);
    assert_eq!(ask(&mut proxy, "/a", "X-Forwarded-Proto: https\r\n"), 200);
    let mut other = Client::connect_from("127.0.0.2:0", server.address);
    assert_eq!(ask(&mut other, "/a", "X-Forwarded-Proto: https\r\n"), 308);
}
