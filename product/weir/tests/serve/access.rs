//! Paths that only some clients may access, by their networks.

use crate::common::{Client, Server, Site};
use crate::http3::Asking;
use crate::spellings::{Guarded, SPELLINGS};

/// Starts a server of these files with this configuration, at this address.
fn server(site: &Site, address: &str, text: &str) -> Server {
    let text = format!(
        "{text}\n[[listener]]\naddress = \"{address}\"\n[[site]]\nroot = \"{}\"\n\
        [[site.cache]]\npath = \"*\"\ncontrol = \"public, max-age=60, s-maxage=9\"\n\
        [[site.access]]\npath = \"/lan/open/*\"\n\
        [[site.access]]\npath = \"/lan/*\"\nallow = [\"127.0.0.0/30\", \"2001:db8::/32\"]\ndeny = [\"127.0.0.2\"]\n\
        [[site.access]]\ndeny = [\"127.0.0.4/32\", \"192.0.2.0/24\"]\n",
        site.served().display()
    );
    std::fs::write(site.outside("weir.toml"), text).unwrap();
    Server::run(&site.outside("weir.toml"))
}

fn site() -> Site {
    Site::with(&[("a", b"a"), ("lan/b", b"b"), ("lan/open/c", b"c")])
}

#[test]
fn the_longest_network_of_the_first_table_decides() {
    let site = site();
    let server = server(&site, "127.0.0.1:0", "");
    for (client, path, status) in [
        ("127.0.0.1", "/lan/b", 200),
        ("127.0.0.2", "/lan/b", 403),
        ("127.0.0.5", "/lan/b", 403),
        ("127.0.0.5", "/lan/open/c", 200),
        ("127.0.0.2", "/lan/open/c", 200),
        ("127.0.0.5", "/a", 200),
        ("127.0.0.4", "/a", 403),
        ("127.0.0.4", "/none", 403),
        ("127.0.0.2", "/%6Can/b", 403),
        ("127.0.0.2", "/lan//b", 403),
        ("127.0.0.2", "//lan/b", 308),
        ("127.0.0.2", "/lan%2Fb", 400),
        ("127.0.0.2", "/x/../lan/b", 308),
    ] {
        let mut connection = Client::connect_from(&format!("{client}:0"), server.address);
        assert_eq!(connection.get(path).status, status, "{client} {path}");
    }
    let post = "POST /lan/b HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
    let mut refused = Client::connect_from("127.0.0.2:0", server.address);
    refused.send(post);
    assert_eq!(refused.response().status, 403);
}

/// Shared caches must not store a response that only some clients may have.
#[test]
fn what_only_some_get_is_private() {
    let site = site();
    let server = server(&site, "127.0.0.1:0", "");
    let control = |path: &str| {
        let response = server.connect().get(path);
        response.field("Cache-Control").map(str::to_owned)
    };
    assert_eq!(control("/lan/b").as_deref(), Some("max-age=60, private"));
    assert_eq!(control("/lan/none").as_deref(), Some("private"));
    assert_eq!(control("/a").as_deref(), Some("public, max-age=60, s-maxage=9"));
    assert_eq!(control("/lan/open/c").as_deref(), Some("public, max-age=60, s-maxage=9"));
}

/// The form of the address at an IPv6 socket: `::ffff:127.0.0.4`.
#[test]
fn a_client_of_ipv4_is_the_same_at_an_ipv6_socket() {
    let site = site();
    let server = server(&site, "[::]:0", "");
    let address = ([127, 0, 0, 1], server.address.port()).into();
    for (client, path, status) in [("127.0.0.4", "/a", 403), ("127.0.0.2", "/lan/b", 403), ("127.0.0.1", "/lan/b", 200)]
    {
        assert_eq!(Client::connect_from(&format!("{client}:0"), address).get(path).status, status, "{client} {path}");
    }
}

/// Only the fields of a trusted proxy count.
#[test]
fn the_client_that_a_trusted_proxy_names_counts() {
    let site = site();
    let server = server(&site, "127.0.0.1:0", "[server]\ntrusted_proxies = [\"127.0.0.3\"]");
    for (peer, client, path, status) in [
        ("127.0.0.3", "192.0.2.7", "/a", 403),
        ("127.0.0.3", "::ffff:192.0.2.7", "/a", 403),
        ("127.0.0.3", "198.51.100.1", "/a", 200),
        ("127.0.0.3", "198.51.100.1", "/lan/b", 403),
        ("127.0.0.3", "2001:db8::7", "/lan/b", 200),
        ("127.0.0.2", "2001:db8::7", "/lan/b", 403),
        ("127.0.0.4", "2001:db8::7", "/a", 403),
    ] {
        let mut connection = Client::connect_from(&format!("{peer}:0"), server.address);
        connection.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {client}\r\n\r\n"));
        assert_eq!(connection.response().status, status, "{client} by {peer}: {path}");
    }
}

#[test]
fn no_spelling_leads_past_access_to_a_program() {
    let guarded = Guarded::new(
        "[[site.rewrite]]\nfrom = \"/pub/*\"\nto = \"/*\"\n[[site.access]]\npath = \"/old/*\"\nallow = [\"192.0.2.1\"]",
    );
    let mut asking = Asking::to(&guarded.server);
    for path in SPELLINGS {
        for path in [path.to_string(), format!("/pub{path}")] {
            for status in guarded.statuses(&mut asking, &path) {
                assert!(matches!(status, 403 | 308 | 400), "{path}: {status}");
            }
            assert!(guarded.upstream.asked().is_empty(), "{path} reaches the program");
        }
    }
    assert_eq!(guarded.statuses(&mut asking, "/new"), [200; 3]);
}
