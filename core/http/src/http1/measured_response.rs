//! The head of a response as the load generator needs it: the length of the body, and whether the connection persists.
//!
//! The measured servers are third-party ones, such as nginx. The parser is therefore lenient if that does no harm, and
//! refuses only heads that leave the end of the body in doubt.

use std::mem::MaybeUninit;

use thiserror::Error;

use crate::list::members;
use crate::{FIELDS_MAX, PeerLength};

/// The maximum bytes of a response head, far above the head of any file server.
pub const RESPONSE_HEAD_BYTES_MAX: usize = 16 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseHead {
    pub status: u16,
    /// Bytes of the head; the body follows.
    pub head_bytes: usize,
    /// Bytes of the body of a response to GET. `None` if it is chunked or ends with the connection.
    pub content_length: Option<u64>,
    /// True if the body is chunked.
    pub is_chunked: bool,
    /// True if the connection can carry another request.
    pub keep_alive: bool,
}

/// A response that cannot be parsed, with the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("malformed response: {0}")]
pub struct Malformed(pub &'static str);

/// Reads one response head from the start of `buf`. Returns `Ok(None)` if more bytes are needed.
pub fn parse_response(buf: &[u8]) -> Result<Option<ResponseHead>, Malformed> {
    let window = &buf[..buf.len().min(RESPONSE_HEAD_BYTES_MAX)];
    let mut lines = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut parsed = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    match config.parse_response_with_uninit_headers(&mut parsed, window, &mut lines) {
        Ok(httparse::Status::Complete(bytes)) => interpret(&parsed, bytes).map(Some),
        Ok(httparse::Status::Partial) if buf.len() >= RESPONSE_HEAD_BYTES_MAX => Err(Malformed("head over 16 KiB")),
        Ok(httparse::Status::Partial) => Ok(None),
        Err(_) => Err(Malformed("not an http/1 response head")),
    }
}

fn interpret(parsed: &httparse::Response, head_bytes: usize) -> Result<ResponseHead, Malformed> {
    let (Some(status), Some(version)) = (parsed.code, parsed.version) else {
        return Err(Malformed("no status line"));
    };
    let (mut content_length, mut is_chunked) = (None, false);
    let mut close = false;
    let mut stay = version >= 1;
    for line in parsed.headers.iter() {
        if line.name.eq_ignore_ascii_case("content-length") {
            let bytes = PeerLength::from_decimal(line.value)
                .ok_or(Malformed("content-length is not a decimal number below 2^63"))?
                .bytes();
            if content_length.replace(bytes).is_some_and(|other| other != bytes) {
                return Err(Malformed("two different content-lengths"));
            }
        } else if line.name.eq_ignore_ascii_case("transfer-encoding") {
            if is_chunked || !line.value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                return Err(Malformed("a transfer-encoding other than chunked"));
            }
            is_chunked = true;
        } else if line.name.eq_ignore_ascii_case("connection") {
            close |= members(line.value).any(|option| option.eq_ignore_ascii_case(b"close"));
            stay |= members(line.value).any(|option| option.eq_ignore_ascii_case(b"keep-alive"));
        }
    }
    if is_chunked && content_length.is_some() {
        return Err(Malformed("content-length and transfer-encoding"));
    }
    if matches!(status, 100..=199 | 204 | 304) {
        is_chunked = false;
        content_length = Some(0); // These never have a body, whatever their fields are (RFC 9112 section 6.3).
    }
    // A body delimited by the close of the connection prevents reuse.
    let keep_alive = stay && !close && (is_chunked || content_length.is_some());
    Ok(ResponseHead { status, head_bytes, content_length, is_chunked, keep_alive })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(head: &str) -> Result<(u16, Option<u64>, bool), &'static str> {
        let parsed = parse_response(format!("{head}body").as_bytes()).map_err(|malformed| malformed.0)?.unwrap();
        assert_eq!(parsed.head_bytes, head.len());
        Ok((parsed.status, parsed.content_length, parsed.keep_alive))
    }

    #[test]
    fn heads() {
        for (head, expected) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", (200, Some(5), true)),
            ("HTTP/1.1 200 \r\ncontent-length: 0\r\nConnection: Close\r\n\r\n", (200, Some(0), false)),
            ("HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n", (200, Some(5), false)),
            ("HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\n", (200, Some(5), true)),
            ("HTTP/1.1 200 OK\r\nServer: x\r\n\r\n", (200, None, false)),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n", (200, Some(5), true)),
            ("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", (304, Some(0), true)),
            ("HTTP/1.1 100 Continue\r\n\r\n", (100, Some(0), true)),
        ] {
            assert_eq!(parse(head), Ok(expected), "{head}");
        }
    }

    #[test]
    fn a_body_in_chunks_leaves_the_connection() {
        for (line, is_chunked, keep_alive) in [
            ("Transfer-Encoding: Chunked ", true, true),
            ("Transfer-Encoding: chunked\r\nConnection: close", true, false),
            ("Server: x", false, false),
        ] {
            let head = parse_response(format!("HTTP/1.1 200 OK\r\n{line}\r\n\r\n").as_bytes()).unwrap().unwrap();
            assert_eq!(
                (head.is_chunked, head.keep_alive, head.content_length),
                (is_chunked, keep_alive, None),
                "{line}"
            );
        }
        let none = parse_response(b"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap().unwrap();
        assert_eq!((none.is_chunked, none.content_length), (false, Some(0)));
    }

    #[test]
    fn bodies_of_doubtful_length() {
        for (line, reason) in [
            ("Content-Length: 5\r\nContent-Length: 6", "two different content-lengths"),
            ("Content-Length: -5", "content-length is not a decimal number below 2^63"),
            ("Content-Length: 5, 5", "content-length is not a decimal number below 2^63"),
            ("Transfer-Encoding: gzip, chunked", "a transfer-encoding other than chunked"),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "a transfer-encoding other than chunked"),
            ("Transfer-Encoding: chunked\r\nContent-Length: 5", "content-length and transfer-encoding"),
        ] {
            assert_eq!(parse(&format!("HTTP/1.1 200 OK\r\n{line}\r\n\r\n")), Err(reason));
        }
        assert_eq!(Malformed("no status line").to_string(), "malformed response: no status line");
        assert!(parse_response(b"SSH-2.0-OpenSSH_9\r\n").is_err());
        assert!(parse_response(&b"HTTP/1.1 200 OK\r\nA: ".repeat(1000)).is_err());
    }

    #[test]
    fn the_head_is_bounded() {
        let endless = [&b"HTTP/1.1 200 OK\r\nA: "[..], &b"a".repeat(RESPONSE_HEAD_BYTES_MAX)].concat();
        assert_eq!(parse_response(&endless), Err(Malformed("head over 16 KiB")));
        assert_eq!(parse_response(&endless[..RESPONSE_HEAD_BYTES_MAX - 1]), Ok(None));
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes: Vec<u8>) {
            let _ = parse_response(&bytes);
            let _ = parse_response(&[&b"HTTP/1.1 200 OK\r\n"[..], &bytes, b"\r\n\r\n"].concat());
        }
    }
}
