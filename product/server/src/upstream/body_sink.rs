//! The destination of a response's body: the pipe of a response that has not begun, or of one that is being sent.

use http::http1::upstream::Framing;
use http::{Length, Trailers};
use units::memory::Account;

use crate::body::{PIPE_BYTES_MAX, Pipe};

/// Takes a response's body as far as there is room.
pub trait BodySink {
    /// The number of bytes that may be pushed; `None` if they are not wanted any more.
    fn room(&mut self) -> Option<usize>;
    /// Takes bytes, which must not exceed the room. Returns false if they are not wanted any more.
    fn push(&mut self, bytes: &[u8]) -> bool;
    /// Ends the body, with these trailers.
    fn finish(&mut self, trailers: Option<Box<Trailers>>);
    /// Returns true if there would be room if the rest of the connection held less memory.
    fn waits_for_memory(&mut self) -> bool;
    /// Returns true if there will be room once a disk has written what is queued.
    fn waits_for_disk(&mut self) -> bool {
        false
    }
}

impl BodySink for Pipe {
    fn room(&mut self) -> Option<usize> {
        Some(Pipe::room(self))
    }

    fn push(&mut self, bytes: &[u8]) -> bool {
        Pipe::push(self, bytes) == Some(bytes.len())
    }

    fn finish(&mut self, trailers: Option<Box<Trailers>>) {
        Pipe::finish(self, trailers);
    }

    fn waits_for_memory(&mut self) -> bool {
        Pipe::waits_for_memory(self)
    }
}

/// Creates the pipe for a response whose body has this framing; `None` if it has no body. Its memory is counted in
/// `account`.
pub fn pipe_of(framing: Framing, account: &Account) -> Option<Pipe> {
    let length = match framing {
        Framing::None => return None,
        Framing::Length(length) => Length::Known(length.bytes()),
        Framing::Chunked | Framing::Close | Framing::Stream | Framing::Upgraded => Length::Unknown,
    };
    Some(Pipe::new(length, account))
}

const _: () = assert!(PIPE_BYTES_MAX >= 4096);
