//! Methods, and whether a connection continues or ends after a response.

use crate::common::{Site, get, on_every_path};

fn site() -> Site {
    Site::with(&[("a.txt", b"hello\n"), ("empty", b""), ("large", &[7; 300_000])])
}

/// HEAD is GET without the body: the heads are equal to the last byte except for the date.
#[test]
fn head_has_the_head_of_get() {
    let site = site();
    site.write("sub/x", b"");
    on_every_path(&site, &["--autoindex"], |server| {
        for target in ["/a.txt", "/empty", "/large", "/missing", "/sub", "/sub/", "/"] {
            let mut client = server.connect();
            let got = client.get(target);
            client.send(format!("HEAD {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
            let without_date = |head: &str| head.lines().filter(|line| !line.starts_with("Date")).collect::<String>();
            assert_eq!(without_date(&client.response_to_head().head), without_date(&got.head));
            assert_eq!(client.get("/a.txt").text(), "hello\n", "a body came after HEAD {target}");
        }
    });
}

/// Other clients get a line of text, and `Vary` informs caches of this.
#[test]
fn a_browser_gets_a_page_of_an_error() {
    on_every_path(&site(), &[], |server| {
        let mut client = server.connect();
        // The page is long enough to be compressed.
        let (page, text) = (("text/html", "Accept, Accept-Encoding"), ("text/plain", "Accept"));
        for (accept, (mime, vary)) in [("text/html,*/*;q=0.8", page), ("*/*", text), ("TEXT/HTML", page)] {
            for (request, status) in [("GET /missing", 404), ("GET /", 403), ("POST /empty", 405)] {
                client.send(format!("{request} HTTP/1.1\r\nHost: a\r\nAccept: {accept}\r\n\r\n"));
                let response = client.response();
                assert_eq!((response.status, response.field("Vary")), (status, Some(vary)), "{}", response.head);
                assert_eq!(response.field("Content-Type"), Some(&*format!("{mime}; charset=utf-8")), "{accept}");
                assert_eq!(response.text().contains("<h1>"), mime == "text/html", "{}", response.text());
            }
        }
    });
}

#[test]
fn options_and_what_is_not_allowed() {
    let cases = [
        ("OPTIONS", "/a.txt", 204, true),
        ("OPTIONS", "*", 204, true),
        ("OPTIONS", "/missing", 204, true),
        ("POST", "/a.txt", 405, true),
        ("PUT", "/a.txt", 405, true),
        ("DELETE", "/a.txt", 405, true),
        ("PATCH", "/a.txt", 405, true),
        ("TRACE", "/a.txt", 405, true),
        ("PROPFIND", "/a.txt", 405, true),
        ("BREW", "/a.txt", 405, true),
        ("M-SEARCH", "/a.txt", 405, true),
        ("get", "/a.txt", 405, true),
        (&*"X".repeat(41), "/a.txt", 501, false),
    ];
    on_every_path(&site(), &[], |server| {
        for (method, target, status, goes_on) in cases {
            let mut client = server.connect();
            client.send(format!("{method} {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
            let response = client.response();
            assert_eq!(response.status, status, "{method}");
            assert_eq!(response.field("Allow"), goes_on.then_some("GET, HEAD, OPTIONS"), "{method}");
            match goes_on {
                true => assert_eq!(client.get("/a.txt").status, 200, "{method}"),
                false => client.assert_end(),
            }
        }
    });
}

/// Which requests let the connection continue, and what the response says about it.
#[test]
fn keep_alive() {
    let cases = [
        ("HTTP/1.1\r\nHost: a", true, None),
        ("HTTP/1.1\r\nHost: a\r\nConnection: keep-alive", true, None),
        ("HTTP/1.1\r\nHost: a\r\nConnection: close", false, Some("close")),
        ("HTTP/1.1\r\nHost: a\r\nConnection: Keep-Alive, CLOSE", false, Some("close")),
        ("HTTP/1.2\r\nHost: a", true, None),
        ("HTTP/1.9\r\nHost: a\r\nConnection: close", false, Some("close")),
        ("HTTP/1.0", false, Some("close")),
        ("HTTP/1.0\r\nConnection: keep-alive", true, Some("keep-alive")),
        ("HTTP/1.0\r\nConnection: close", false, Some("close")),
    ];
    on_every_path(&site(), &[], |server| {
        for (request, goes_on, says) in cases {
            for target in ["/a.txt", "/large", "/missing"] {
                let mut client = server.connect();
                client.send(format!("GET {target} {request}\r\n\r\n"));
                assert_eq!(client.response().field("Connection"), says, "{request}");
                match goes_on {
                    true => assert_eq!(client.get("/a.txt").status, 200, "{request}"),
                    false => client.assert_end(),
                }
            }
        }
    });
}

/// A request after one that closes the connection is not answered.
#[test]
fn nothing_is_answered_behind_a_close() {
    on_every_path(&site(), &[], |server| {
        for target in ["/a.txt", "/large", "/missing"] {
            let mut client = server.connect();
            client.send(format!("GET {target} HTTP/1.0\r\n\r\n{}", get("/a.txt")));
            client.response();
            client.assert_end();
        }
    });
}

/// A client that announces the end of its requests still gets all responses, and then the end.
#[test]
fn half_closed_clients_are_answered() {
    on_every_path(&site(), &[], |server| {
        for target in ["/a.txt", "/large"] {
            let mut client = server.connect();
            client.send(get(target).repeat(2));
            client.finish();
            let first = client.response();
            assert_eq!(first.status, 200);
            assert_eq!(client.response().body, first.body);
            client.assert_end();
        }
    });
}
