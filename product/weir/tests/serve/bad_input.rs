//! Requests that two programs could read differently: they are refused and the connection is closed, and no later
//! request on it is answered.

use crate::common::{Site, get, on_every_path};

/// `Host` is given; the unusual part follows.
const GET: &str = "GET /a.txt HTTP/1.1\r\nHost: a\r\n";
const POST: &str = "POST /a.txt HTTP/1.1\r\nHost: a\r\n";

const HEADS: &[(&str, &str, u16)] = &[
    // Which length is the body's?
    (POST, "Content-Length: 5\r\nTransfer-Encoding: chunked", 400),
    (POST, "Transfer-Encoding: chunked\r\nContent-Length: 5", 400),
    (POST, "Content-Length: 5\r\nContent-Length: 6", 400),
    (POST, "Content-Length: 5\r\nContent-Length: 5", 400),
    (POST, "Content-Length: 5, 5", 400),
    (POST, "Content-Length: +5", 400),
    (POST, "Content-Length: -5", 400),
    (POST, "Content-Length: 0x5", 400),
    (POST, "Content-Length:", 400),
    (POST, "Content-Length: 99999999999999999999", 400),
    (POST, "Content-Length : 5", 400),
    (POST, "Transfer-Encoding : chunked", 400),
    (POST, "Transfer-Encoding: xchunked", 400),
    (POST, "Transfer-Encoding: gzip, chunked", 501),
    (POST, "Transfer-Encoding: chunked, gzip", 400),
    (POST, "Transfer-Encoding: chunked, identity", 400),
    (POST, "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", 400),
    (POST, "Transfer-Encoding:\x0bchunked", 400),
    ("POST /a.txt HTTP/1.0\r\n", "Transfer-Encoding: chunked", 400),
    // Where does a line end?
    (GET, "X: y\n", 400),
    (GET, "X: y\nZ: z", 400),
    (GET, "X: y\r\n folded", 400),
    (GET, "X: y\r\n\tfolded", 400),
    (GET, " X: y", 400),
    (GET, "X: y\rZ: z", 400),
    (GET, "X", 400),
    (GET, ": y", 400),
    (GET, "X y: z", 400),
    (GET, "X: a\0b", 400),
    (GET, "X\0: y", 400),
    (GET, "X: a\x7fb", 400),
    // Whose request is it?
    (GET, "Host: b", 400),
    ("GET /a.txt HTTP/1.1\r\n", "X: no host", 400),
    ("GET /a.txt HTTP/1.1\r\n", "Host: a b", 400),
    ("GET /a.txt HTTP/1.1\r\n", "Host: a@b", 400),
    ("GET /a.txt HTTP/1.1\r\n", "Host: a/../b", 400),
    ("GET /a.txt HTTP/1.1\r\n", "Host: a:port", 400),
    ("GET http://a@b/a.txt HTTP/1.1\r\n", "Host: a", 400),
    ("GET http:///a.txt HTTP/1.1\r\n", "Host: a", 400),
    ("GET http://a,b/a.txt HTTP/1.1\r\n", "Host: a", 400),
    ("GET http://a\\@b/a.txt HTTP/1.1\r\n", "Host: a", 400),
    ("GET http://a/a.txt HTTP/1.1\r\n", "X: no host", 400),
    ("GET ftp://a/a.txt HTTP/1.1\r\n", "Host: a", 400),
    ("GET file:///etc/passwd HTTP/1.1\r\n", "Host: a", 400),
    ("GET a:80 HTTP/1.1\r\n", "Host: a", 400),
    ("GET * HTTP/1.1\r\n", "Host: a", 400),
    ("GET a.txt HTTP/1.1\r\n", "Host: a", 400),
    ("CONNECT a:80 HTTP/1.1\r\n", "Host: a", 400),
    // Is it a request line at all?
    ("GET  /a.txt HTTP/1.1\r\n", "Host: a", 400),
    ("GET /a.txt  HTTP/1.1\r\n", "Host: a", 400),
    ("GET\t/a.txt HTTP/1.1\r\n", "Host: a", 400),
    (" GET /a.txt HTTP/1.1\r\n", "Host: a", 400),
    ("GET /a.txt\r\n", "Host: a", 400),
    ("GET /a txt HTTP/1.1\r\n", "Host: a", 400),
    ("GET /a\0txt HTTP/1.1\r\n", "Host: a", 400),
    ("GET /a.txt#b HTTP/1.1\r\n", "Host: a", 400),
    ("GET /a.txt HTTP/1.1\n", "Host: a", 400),
    ("\nGET /a.txt HTTP/1.1\r\n", "Host: a", 400),
    ("\r\n\r\nGET /a.txt HTTP/1.1\r\n", "Host: a", 400),
    ("G\"ET /a.txt HTTP/1.1\r\n", "Host: a", 400),
    ("GET /a.txt http/1.1\r\n", "Host: a", 400),
    ("GET /a.txt HTTP/2.0\r\n", "Host: a", 505),
    ("GET /a.txt HTTP/1.2\n", "Host: a", 400),
    ("PRI * HTTP/2.1\r\n", "Host: a", 505),
];

const CHUNKED_BODIES: &[&str] = &[
    "5\nhello\r\n0\r\n\r\n",
    "5\r\nhello!\r\n0\r\n\r\n",
    "5\r\nhello0\r\n\r\n",
    "+5\r\nhello\r\n0\r\n\r\n",
    "0x5\r\nhello\r\n0\r\n\r\n",
    "-1\r\nhello\r\n0\r\n\r\n",
    "\r\nhello\r\n0\r\n\r\n",
    "fffffffffffffffff\r\nhello\r\n0\r\n\r\n",
    "5;\nx\r\nhello\r\n0\r\n\r\n",
    "0\r\nX: y\n\r\n",
    "0\r\n folded\r\n\r\n",
];

fn cases() -> Vec<(String, u16)> {
    let heads = HEADS.iter().map(|(line, rest, status)| (format!("{line}{rest}\r\n\r\n"), *status));
    let chunked = |body: &&str| (format!("{POST}Transfer-Encoding: chunked\r\n\r\n{body}"), 400);
    heads.chain(CHUNKED_BODIES.iter().map(chunked)).collect()
}

#[test]
fn ambiguous_requests_are_refused_and_nothing_behind_them_is_answered() {
    on_every_path(&Site::with(&[("a.txt", b"hello\n")]), &[], |server| {
        for (request, status) in cases() {
            for before in [0, 1] {
                let mut client = server.connect();
                client.send(get("/a.txt").repeat(before) + &request + &get("/a.txt"));
                for _ in 0..before {
                    assert_eq!(client.response().text(), "hello\n");
                }
                let response = client.response();
                let said = (response.status, response.field("Connection"));
                assert_eq!(said, (status, Some("close")), "{} {}", request.escape_debug(), response.text());
                client.assert_end();
            }
        }
    });
}

/// The refusal reaches the client even while it continues to send.
#[test]
fn a_refusal_is_not_lost_to_a_reset() {
    on_every_path(&Site::with(&[("a.txt", b"hello\n")]), &[], |server| {
        for _ in 0..5 {
            let mut client = server.connect();
            client.send("GET /a.txt HTTP/1.1\nHost: a\r\n\r\n");
            client.try_send(vec![b'x'; 300_000]);
            assert_eq!(client.response().status, 400);
            client.try_send("more");
            client.assert_end();
        }
    });
}
