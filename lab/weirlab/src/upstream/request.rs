//! Parses requests on a connection, as far as a file server needs.

use std::io::{self, Read};

/// The maximum length of a head.
const HEAD_BYTES_MAX: usize = 16 << 10;
const READ_BYTES: usize = 4 << 10;

#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    /// The path of the target, without its query.
    pub path: String,
    pub is_head: bool,
    pub is_1_0: bool,
    /// True if no other request follows on its connection.
    pub is_last: bool,
}

/// The reason why there is no request.
#[derive(Debug)]
pub enum Refused {
    /// The request is answered with this status, and its connection ends.
    Status(&'static str),
    Io(io::Error),
}

/// The requests of a connection, one after another; bytes after a head belong to the next.
pub struct Requests<R> {
    from: R,
    /// At most a head, and the bytes of one read.
    read: Vec<u8>,
}

impl<R: Read> Requests<R> {
    pub fn new(from: R) -> Requests<R> {
        Requests { from, read: vec![] }
    }

    /// Waits for the next request; `None` if the connection has ended between two.
    pub fn next(&mut self) -> Result<Option<Request>, Refused> {
        loop {
            if let Some(end) = self.read.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                let head: Vec<u8> = self.read.drain(..end + 4).collect();
                return parse(&head[..end]).map(Some).map_err(Refused::Status);
            }
            if self.read.len() > HEAD_BYTES_MAX {
                return Err(Refused::Status("431 Request Header Fields Too Large"));
            }
            let mut bytes = [0; READ_BYTES];
            match self.from.read(&mut bytes).map_err(Refused::Io)? {
                0 if self.read.is_empty() => return Ok(None),
                0 => return Err(Refused::Io(io::ErrorKind::UnexpectedEof.into())),
                count => self.read.extend_from_slice(&bytes[..count]),
            }
        }
    }
}

/// Parses a head without the empty line at its end.
fn parse(head: &[u8]) -> Result<Request, &'static str> {
    const BAD: &str = "400 Bad Request";
    let head = std::str::from_utf8(head).map_err(|_| BAD)?;
    let mut lines = head.split("\r\n");
    let words: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
    let &[method, target, version] = &words[..] else { return Err(BAD) };
    let is_1_0 = match version {
        "HTTP/1.1" => false,
        "HTTP/1.0" => true,
        _ => return Err(BAD),
    };
    let mut is_last = is_1_0;
    for line in lines {
        let (name, value) = line.split_once(':').ok_or(BAD)?;
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "connection" => is_last |= value.split(',').any(|word| word.trim().eq_ignore_ascii_case("close")),
            "content-length" if value == "0" => {}
            // A body would have to be read from the connection.
            "content-length" | "transfer-encoding" => return Err("413 Content Too Large"),
            _ => {}
        }
    }
    let is_head = match method {
        "GET" => false,
        "HEAD" => true,
        _ => return Err("405 Method Not Allowed"),
    };
    let path = target.split('?').next().unwrap_or_default().to_owned();
    Ok(Request { path, is_head, is_1_0, is_last })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the bytes one by one, like a slow connection.
    struct Slowly<'a>(&'a [u8]);

    impl Read for Slowly<'_> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let count = 1.min(to.len());
            self.0.read(&mut to[..count])
        }
    }

    fn request(path: &str, is_head: bool, is_1_0: bool, is_last: bool) -> Request {
        Request { path: path.into(), is_head, is_1_0, is_last }
    }

    #[test]
    fn requests_come_one_after_the_other_however_they_are_cut() {
        let bytes = b"GET /1.bin?x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\nHEAD / HTTP/1.1\r\nConnection: te, CLOSE\r\n\r\n\
            GET /a/b HTTP/1.0\r\n\r\n";
        let wanted = [
            request("/1.bin", false, false, false),
            request("/", true, false, true),
            request("/a/b", false, true, true),
        ];
        let mut slow = Requests::new(Slowly(bytes));
        let mut fast = Requests::new(&bytes[..]);
        for wanted in wanted {
            assert_eq!(slow.next().unwrap().as_ref(), Some(&wanted));
            assert_eq!(fast.next().unwrap(), Some(wanted));
        }
        assert!(slow.next().unwrap().is_none() && fast.next().unwrap().is_none());
    }

    #[test]
    fn what_is_no_request_for_a_file_is_refused() {
        for (bytes, status) in [
            ("\r\n\r\n", "400"),
            ("GET /\r\n\r\n", "400"),
            ("GET / HTTP/2.0\r\n\r\n", "400"),
            ("GET / HTTP/1.1\r\nno colon\r\n\r\n", "400"),
            ("POST / HTTP/1.1\r\n\r\n", "405"),
            ("POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", "413"),
            ("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "413"),
            (&format!("GET /{} HTTP/1.1", "a".repeat(HEAD_BYTES_MAX)), "431"),
        ] {
            match Requests::new(bytes.as_bytes()).next() {
                Err(Refused::Status(said)) => assert!(said.starts_with(status), "{bytes}: {said}"),
                other => panic!("{bytes}: {other:?}"),
            }
        }
        assert!(matches!(Requests::new(&b"GET / HT"[..]).next(), Err(Refused::Io(_))), "it ends in a head");
    }
}
