//! Writing response heads into a `Vec<u8>` that the caller reuses: no formatting machinery, no other allocation.
//!
//! ```text
//! start · field* · content_length? · end
//! ```

use std::ops::Range;
use std::time::SystemTime;

use crate::{HttpDate, Status};

/// What becomes of the connection after this response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connection {
    KeepAlive,
    Close,
}

/// Status line, Server, Date. The version is ours, not the request's (RFC 9110 section 6.2).
pub fn start(out: &mut Vec<u8>, status: Status, date: &HttpDate) {
    match status.start() {
        Some(start) => out.extend_from_slice(start.as_bytes()),
        None => {
            out.extend_from_slice(b"HTTP/1.1 ");
            number(out, u64::from(status.0));
            out.extend_from_slice(b" \r\nServer: weir\r\nDate: ");
        }
    }
    out.extend_from_slice(date.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// One field line. A control character in the value, which would let whoever chose it write lines of his own,
/// becomes `?`.
pub fn field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend(value.iter().map(|&b| if b.is_ascii_control() && b != b'\t' { b'?' } else { b }));
    out.extend_from_slice(b"\r\n");
}

pub fn content_length(out: &mut Vec<u8>, bytes: u64) {
    out.extend_from_slice(b"Content-Length: ");
    number(out, bytes);
    out.extend_from_slice(b"\r\n");
}

/// `Content-Range: bytes 0-9/100` for a single part, or a part of a multipart body. The range is not empty.
pub fn content_range(out: &mut Vec<u8>, range: &Range<u64>, entity_bytes: u64) {
    out.extend_from_slice(b"Content-Range: bytes ");
    number(out, range.start);
    out.push(b'-');
    number(out, range.end - 1);
    out.push(b'/');
    number(out, entity_bytes);
    out.extend_from_slice(b"\r\n");
}

/// `Content-Range: bytes */100`, which a 416 should carry (RFC 9110 section 15.5.17).
pub fn content_range_unsatisfied(out: &mut Vec<u8>, entity_bytes: u64) {
    out.extend_from_slice(b"Content-Range: bytes */");
    number(out, entity_bytes);
    out.extend_from_slice(b"\r\n");
}

/// Says what becomes of the connection, where that is not the default of the request's version, and ends the head.
pub fn end(out: &mut Vec<u8>, connection: Connection, minor_version: u8) {
    out.extend_from_slice(match connection {
        Connection::Close => b"Connection: close\r\n\r\n",
        Connection::KeepAlive if minor_version == 0 => b"Connection: keep-alive\r\n\r\n",
        Connection::KeepAlive => b"\r\n",
    });
}

/// Content-Type, ETag, Last-Modified and Accept-Ranges of a cached file, built once and appended to every 200 or
/// single 206 of it.
pub fn entity_fields(mime: &str, etag: &str, last_modified: SystemTime) -> Vec<u8> {
    let mut out = Vec::new();
    field(&mut out, "Content-Type", mime.as_bytes());
    out.extend(validator_fields(etag, last_modified));
    out
}

/// The same without Content-Type: for a 304, which should not describe a body it does not have (RFC 9110
/// section 15.4.5), and for a multipart 206, which has a type of its own.
pub fn validator_fields(etag: &str, last_modified: SystemTime) -> Vec<u8> {
    let mut out = Vec::new();
    field(&mut out, "ETag", etag.as_bytes());
    field(&mut out, "Last-Modified", HttpDate::new(last_modified).as_bytes());
    field(&mut out, "Accept-Ranges", b"bytes");
    out
}

/// Decimal digits, without the formatting machinery.
pub fn number(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20]; // u64::MAX has 20
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[first..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    const RFC_DATE: Duration = Duration::from_secs(784_111_777);

    #[test]
    fn a_whole_head() {
        let modified = UNIX_EPOCH + RFC_DATE;
        let head = written(|out| {
            start(out, Status::OK, &HttpDate::new(modified));
            out.extend(entity_fields("text/html", "\"5-a\"", modified));
            content_length(out, 1024);
            end(out, Connection::KeepAlive, 1);
        });
        let lines = [
            "HTTP/1.1 200 OK",
            "Server: weir",
            "Date: Sun, 06 Nov 1994 08:49:37 GMT",
            "Content-Type: text/html",
            "ETag: \"5-a\"",
            "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT",
            "Accept-Ranges: bytes",
            "Content-Length: 1024",
            "",
            "",
        ];
        assert_eq!(head, lines.join("\r\n"));
    }

    #[test]
    fn connection_is_said_only_where_it_is_not_the_default() {
        assert_eq!(written(|out| end(out, Connection::KeepAlive, 1)), "\r\n");
        assert_eq!(written(|out| end(out, Connection::KeepAlive, 0)), "Connection: keep-alive\r\n\r\n");
        assert_eq!(written(|out| end(out, Connection::Close, 1)), "Connection: close\r\n\r\n");
        assert_eq!(written(|out| end(out, Connection::Close, 0)), "Connection: close\r\n\r\n");
    }

    #[test]
    fn numbers_of_every_length() {
        for n in [0, 9, 10, 1_234_567_890, u64::MAX] {
            assert_eq!(written(|out| content_length(out, n)), format!("Content-Length: {n}\r\n"));
        }
    }

    #[test]
    fn ranges_are_inclusive_on_the_wire() {
        assert_eq!(written(|out| content_range(out, &(0..10), 100)), "Content-Range: bytes 0-9/100\r\n");
        assert_eq!(written(|out| content_range_unsatisfied(out, 100)), "Content-Range: bytes */100\r\n");
    }

    #[test]
    fn a_value_cannot_split_the_response() {
        let line = written(|out| field(out, "Location", b"/a\r\nSet-Cookie: x\0\t/"));
        assert_eq!(line, "Location: /a??Set-Cookie: x?\t/\r\n");
    }

    #[test]
    fn an_unlisted_status_has_no_phrase() {
        let head = written(|out| start(out, Status(299), &HttpDate::new(UNIX_EPOCH + RFC_DATE)));
        assert_eq!(head, "HTTP/1.1 299 \r\nServer: weir\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n");
    }
}
