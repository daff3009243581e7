//! Bodies of responses, as sources for HTTP/2 and HTTP/3, and bodies of requests, as these deliver them.

use std::time::UNIX_EPOCH;

use http::{BodyLength, HttpDate, Request, Response, ResponseHead, Status};
use http2::{BodyRead, Source, Supply};

use crate::Reached;

/// A body and its behaviour, both chosen by one byte.
#[derive(Debug)]
pub struct Body {
    left: usize,
    /// It has no bytes every second time.
    is_halting: bool,
    was_asked: bool,
    /// The position at which it fails.
    fails: bool,
}

impl Body {
    pub fn new(choice: u8) -> Body {
        let left = [0, 1, 63, 100, 1500, 20_000, 70_000, 300_000][usize::from(choice & 7)];
        Body { left, is_halting: choice & 8 != 0, was_asked: false, fails: choice & 0x30 == 0x30 }
    }
}

impl Source for Body {
    fn peek(&mut self, into: &mut Vec<u8>, bytes_max: usize) -> Supply {
        self.was_asked = !self.was_asked;
        if self.is_halting && self.was_asked {
            return Supply::Later;
        }
        let bytes = bytes_max.min(self.left);
        into.resize(into.len() + bytes, b'x');
        match self.left - bytes {
            0 if self.fails => Supply::Failed,
            0 => Supply::End,
            _ => Supply::More,
        }
    }

    fn advance(&mut self, bytes: usize) {
        self.left -= bytes;
    }
}

/// The head of a response in a run.
pub fn head() -> ResponseHead {
    let response = Response::new(Status::OK, ()).with("Content-Type", b"text/plain");
    response.into_head(&HttpDate::new(UNIX_EPOCH)).0
}

/// The body of a request that is wanted, as seen by its server.
#[derive(Debug)]
pub struct Upload {
    said: BodyLength,
    bytes: u64,
    has_ended: bool,
    /// An event has reported bytes to read, or a read has left some.
    pub is_readable: bool,
}

impl Upload {
    pub fn new(request: &Request<'_>) -> Upload {
        Upload { said: request.body, bytes: 0, has_ended: false, is_readable: false }
    }

    /// Checks the bytes returned by a read of at most `asked_bytes`.
    pub fn on_read(&mut self, asked_bytes: usize, came: &[u8], read: BodyRead, reached: &mut Reached) {
        assert!(came.len() <= asked_bytes, "{} bytes where {asked_bytes} were asked for", came.len());
        assert!(came.is_empty() || !self.has_ended, "content behind the end");
        self.bytes += came.len() as u64;
        self.is_readable = read == BodyRead::More;
        match read {
            BodyRead::More => {}
            BodyRead::Later => assert!(!self.has_ended, "more of a body that has ended"),
            BodyRead::Cut => reached.mark("a request's body cut off"),
            BodyRead::End => {
                let is_whole = match self.said {
                    BodyLength::None => self.bytes == 0,
                    BodyLength::Known(length) => self.bytes == length.bytes(),
                    BodyLength::Unknown => true,
                };
                assert!(is_whole, "{} bytes, and {:?} were said", self.bytes, self.said);
                self.has_ended = true;
                reached.mark("a request's body whole");
            }
        }
    }
}
