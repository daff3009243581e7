//! Parses requests on a connection, as far as a file server needs.

use std::io::{self, Read};

use http::http1::{Head, parse_request};
use http::{BodyLength, Limits, Method, Status};

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
    Status(Status),
    Io(io::Error),
}

/// The requests of a connection, one after another; bytes after a head belong to the next.
pub struct Requests<R> {
    from: R,
    /// At most a head ([`Limits`]), and what one read gave.
    read: Vec<u8>,
}

impl<R: Read> Requests<R> {
    pub fn new(from: R) -> Requests<R> {
        Requests { from, read: vec![] }
    }

    /// Waits for the next request; `None` if the connection has ended between two.
    pub fn next(&mut self) -> Result<Option<Request>, Refused> {
        loop {
            match parse_request(&self.read, &Limits::default()) {
                Err(reject) => return Err(Refused::Status(reject.status)),
                Ok(Some(head)) => {
                    let (request, bytes) = (understood(&head), head.bytes);
                    self.read.drain(..bytes);
                    return request.map(Some).map_err(Refused::Status);
                }
                Ok(None) => {}
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

fn understood(head: &Head<'_>) -> Result<Request, Status> {
    // There would be bytes to take from the connection.
    if head.request.body != BodyLength::None {
        return Err(Status::CONTENT_TOO_LARGE);
    }
    let is_head = match head.request.method {
        Method::Get => false,
        Method::Head => true,
        _ => return Err(Status::METHOD_NOT_ALLOWED),
    };
    let path = String::from_utf8_lossy(head.request.path).into_owned();
    Ok(Request { path, is_head, is_1_0: head.minor_version == 0, is_last: !head.keep_alive })
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
        let bytes = b"GET /1.bin?x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\nHEAD / HTTP/1.1\r\nHost: a\r\nConnection: te, CLOSE\r\n\r\n\
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
            ("GET / HTTP/1.1\r\nno colon\r\n\r\n", Status::BAD_REQUEST),
            ("POST / HTTP/1.1\r\nHost: a\r\n\r\n", Status::METHOD_NOT_ALLOWED),
            ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", Status::CONTENT_TOO_LARGE),
            ("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", Status::CONTENT_TOO_LARGE),
        ] {
            match Requests::new(bytes.as_bytes()).next() {
                Err(Refused::Status(said)) => assert_eq!(said, status, "{bytes}"),
                other => panic!("{bytes}: {other:?}"),
            }
        }
        assert!(matches!(Requests::new(&b"GET / HT"[..]).next(), Err(Refused::Io(_))), "it ends in a head");
    }
}
