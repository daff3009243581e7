//! Writes heads of HTTP/1.1 responses (RFC 9112 section 4) into a `Vec<u8>` that the caller reuses, and the framing of
//! chunks.

use std::io::Write;

use crate::status::with_statuses;
use crate::{HttpDate, Response, Status, lines};

/// The state of the connection after this response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connection {
    KeepAlive,
    Close,
}

/// The end of a response body (RFC 9112 section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delimiter {
    /// The length given in the head.
    Length,
    /// The last chunk.
    LastChunk,
    /// The end of the connection: HTTP/1.0 has no chunks.
    Close,
}

impl Delimiter {
    /// Returns the delimiter of a response to a request of HTTP/1.`minor_version`.
    pub fn of<B>(response: &Response<B>, minor_version: u8) -> Delimiter {
        match (response.is_length_unknown, minor_version) {
            (false, _) => Delimiter::Length,
            (true, 0) => Delimiter::Close,
            (true, _) => Delimiter::LastChunk,
        }
    }
}

/// The end of a chunked body (RFC 9112 section 7.1), without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// The maximum bytes of a chunk's framing: the size line and the final CRLF. The content must be less than 4 GiB.
pub const CHUNK_OVERHEAD_MAX: usize = 8 + 2 + 2;

/// Appends the size line of a chunk of `bytes`, at least one, because an empty chunk is [`LAST_CHUNK`]. CRLF must
/// follow the content.
pub fn begin_chunk(out: &mut Vec<u8>, bytes: usize) {
    debug_assert!(bytes > 0, "an empty chunk is the last");
    write!(out, "{bytes:x}\r\n").expect("memory takes all");
}

/// Appends the head of a response to a request of HTTP/1.`minor_version`: status line, Server, Date, its fields, and
/// Connection if it differs from the default of the request's version. The version in the status line is ours, not the
/// request's (RFC 9110 section 6.2). A body of [`Delimiter::Close`] needs [`Connection::Close`].
pub fn encode<B>(
    out: &mut Vec<u8>,
    response: &Response<B>,
    date: &HttpDate,
    connection: Connection,
    minor_version: u8,
) {
    match start(response.status) {
        _ if response.is_forwarded => forwarded_start(out, response, date),
        Some(start) => [start.as_bytes(), date.as_bytes(), b"\r\n"].iter().for_each(|part| out.extend_from_slice(part)),
        None => {
            status_line(out, response.status);
            out.extend_from_slice(b"Server: weir\r\n");
            lines::line(out, b"Date", date.as_bytes());
        }
    }
    out.extend_from_slice(response.shared.text());
    response.own.iter().for_each(|(name, value)| lines::line(out, name, value));
    if Delimiter::of(response, minor_version) == Delimiter::LastChunk {
        out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
    }
    out.extend_from_slice(match connection {
        Connection::Close => b"Connection: close\r\n\r\n",
        Connection::KeepAlive if minor_version == 0 => b"Connection: keep-alive\r\n\r\n",
        Connection::KeepAlive => b"\r\n",
    });
}

fn status_line(out: &mut Vec<u8>, status: Status) {
    if let Some(start) = start(status) {
        return out.extend_from_slice(start.as_bytes().strip_suffix(OWN).expect("each start ends so"));
    }
    for part in [b"HTTP/1.1 ", &status.digits()[..], b" ", status.reason().as_bytes(), b"\r\n"] {
        out.extend_from_slice(part);
    }
}

/// Starts a forwarded response. Server is among its fields or absent; Date is added if missing (RFC 9110 section
/// 6.6.1).
fn forwarded_start<B>(out: &mut Vec<u8>, response: &Response<B>, date: &HttpDate) {
    status_line(out, response.status);
    if !response.has_date() {
        lines::line(out, b"Date", date.as_bytes());
    }
}

/// The Server field, and the Date field up to its value.
const OWN: &[u8] = b"Server: weir\r\nDate: ";

macro_rules! starts {
    ($($name:ident $code:literal $reason:literal)*) => {
        /// Returns the status line, Server, and Date up to its value; `None` for a status not in the table. The text is
        /// precomputed, because constant costs dominate small responses and one copy is cheaper than four.
        fn start(status: Status) -> Option<&'static str> {
            match status.0 {
                $($code => Some(concat!("HTTP/1.1 ", $code, " ", $reason, "\r\nServer: weir\r\nDate: ")),)*
                _ => None,
            }
        }
    };
}

with_statuses!(starts);

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::http1::Chunked;
    use crate::{EntityFields, Length};

    const RFC_DATE: Duration = Duration::from_secs(784_111_777);

    fn encoded(response: &Response<()>, connection: Connection, minor_version: u8) -> String {
        let mut out = Vec::new();
        encode(&mut out, response, &HttpDate::new(UNIX_EPOCH + RFC_DATE), connection, minor_version);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_whole_head() {
        let entity = EntityFields::new("text/html", "\"5-a\"", UNIX_EPOCH + RFC_DATE, 1024);
        let response = Response::new(Status::OK, ()).of(entity.whole()).with("X", b"y");
        let lines = [
            "HTTP/1.1 200 OK",
            "Server: weir",
            "Date: Sun, 06 Nov 1994 08:49:37 GMT",
            "Content-Type: text/html",
            "ETag: \"5-a\"",
            "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT",
            "Accept-Ranges: bytes",
            "Content-Length: 1024",
            "X: y",
            "",
            "",
        ];
        assert_eq!(encoded(&response, Connection::KeepAlive, 1), lines.join("\r\n"));
    }

    #[test]
    fn connection_is_said_only_where_it_is_not_the_default() {
        for (connection, minor_version, line) in [
            (Connection::KeepAlive, 1, ""),
            (Connection::KeepAlive, 0, "Connection: keep-alive\r\n"),
            (Connection::Close, 1, "Connection: close\r\n"),
            (Connection::Close, 0, "Connection: close\r\n"),
        ] {
            let head = encoded(&Response::new(Status::NOT_FOUND, ()), connection, minor_version);
            let start = "HTTP/1.1 404 Not Found\r\nServer: weir\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
            assert_eq!(head, format!("{start}{line}\r\n"));
        }
    }

    #[test]
    fn a_body_of_unknown_length_is_chunked_but_for_http_1_0() {
        let response = Response::new(Status::OK, ()).of_length(Length::Unknown);
        for (minor_version, delimiter, line) in [
            (1, Delimiter::LastChunk, "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"),
            (0, Delimiter::Close, "GMT\r\nConnection: close\r\n\r\n"),
        ] {
            assert_eq!(Delimiter::of(&response, minor_version), delimiter);
            let head = encoded(&response, Connection::Close, minor_version);
            assert!(head.ends_with(line), "{head}");
        }
        let known = Response::new(Status::OK, ()).of_length(Length::Known(5));
        assert_eq!([0, 1].map(|minor_version| Delimiter::of(&known, minor_version)), [Delimiter::Length; 2]);
    }

    /// The decoder of request chunks can read our chunks.
    #[test]
    fn chunks_are_read_as_chunks() {
        let mut out = Vec::new();
        for bytes in [1, 15, 16, 70_000] {
            let begin = out.len();
            begin_chunk(&mut out, bytes);
            out.extend(vec![b'x'; bytes]);
            out.extend_from_slice(b"\r\n");
            assert!(out.len() - begin - bytes <= CHUNK_OVERHEAD_MAX);
        }
        out.extend_from_slice(LAST_CHUNK);
        let progress = Chunked::new().discard(&out).unwrap();
        assert!(progress.done && progress.consumed == out.len());
        assert!(out.starts_with(b"1\r\nx\r\nf\r\n"));
    }

    #[test]
    fn an_unlisted_status_has_no_phrase() {
        let head = encoded(&Response::new(Status(299), ()), Connection::KeepAlive, 1);
        assert_eq!(head, "HTTP/1.1 299 \r\nServer: weir\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n");
    }
}
