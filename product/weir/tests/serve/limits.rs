//! The limits of one request.

use crate::common::{Site, on_every_path};

/// The defaults of `limits.head_bytes` and `limits.head_fields`.
const HEAD_BYTES_MAX: usize = 64 << 10;
const FIELDS_MAX: usize = 200;

/// A GET with a head of exactly this many bytes.
fn head_of(bytes: usize) -> String {
    let start = "GET /a HTTP/1.1\r\nHost: a\r\nX: ";
    format!("{start}{}\r\n\r\n", "x".repeat(bytes - start.len() - 4))
}

fn target_of(bytes: usize) -> String {
    format!("GET /a?{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(bytes - 3))
}

fn fields_of(fields: usize) -> String {
    format!("GET /a HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(fields - 1))
}

#[test]
fn limits_are_exact() {
    let cases = [
        (head_of(HEAD_BYTES_MAX), 200),
        (head_of(HEAD_BYTES_MAX + 1), 431),
        (head_of(100 << 10), 431),
        (target_of(HEAD_BYTES_MAX - 30), 200),
        (target_of(HEAD_BYTES_MAX - 10), 414),
        (target_of(100 << 10), 414),
        (fields_of(FIELDS_MAX), 200),
        (fields_of(FIELDS_MAX + 1), 431),
        (fields_of(2000), 431),
        ("G".repeat(HEAD_BYTES_MAX), 501),
    ];
    on_every_path(&Site::with(&[("a", b"hello")]), &[], |server| {
        for (request, status) in &cases {
            let mut client = server.connect();
            client.try_send(request);
            let response = client.response();
            assert_eq!(response.status, *status, "{request:.40} of {} bytes", request.len());
            match status {
                200 => assert_eq!(client.get("/a").text(), "hello"),
                _ => client.assert_end(),
            }
        }
    });
}

/// In small pieces the result is the same.
#[test]
fn a_head_that_never_ends_is_refused() {
    on_every_path(&Site::with(&[("a", b"hello")]), &[], |server| {
        let mut client = server.connect();
        client.send("GET /a HTTP/1.1\r\nHost: a\r\n");
        for _ in 0..HEAD_BYTES_MAX / 100 + 1 {
            client.try_send(format!("X: {}\r\n", "y".repeat(95)));
        }
        assert_eq!(client.response().status, 431);
        client.assert_end();
    });
}
