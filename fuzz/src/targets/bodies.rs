//! Bodies of responses, as the sources of HTTP/2 and HTTP/3 ask for them.

use std::time::UNIX_EPOCH;

use http::{HttpDate, Response, ResponseHead, Status};
use mux::{Source, Supply};

/// A body and its behaviour, both chosen by one byte.
#[derive(Debug)]
pub struct Body {
    left: usize,
    /// It has nothing every second time.
    is_halting: bool,
    was_asked: bool,
    /// Where it breaks off.
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
