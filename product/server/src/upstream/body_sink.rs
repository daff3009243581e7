//! The destination of a response's body: the pipe of a response, which may be in the process of being sent.

use http::http1::upstream::Framing;
use http::{Length, Trailers};
use units::memory::Account;

use crate::body::{PIPE_BYTES_MAX, Pipe};

/// A destination that takes bytes of a response's body within its room.
pub trait BodySink {
    /// The number of bytes that may be pushed; `None` if no more are wanted.
    fn room(&mut self) -> Option<usize>;
    /// Takes bytes, at most as many as there is room for. Returns false if no more are wanted.
    fn push(&mut self, bytes: &[u8]) -> bool;
    /// Ends the body, with these trailers if any.
    fn finish(&mut self, trailers: Option<Box<Trailers>>);
    /// Returns true if only the memory of the connection's other responses limits the room.
    fn waits_for_memory(&mut self) -> bool;
    /// Returns true if there will be room when a disk has written the queued bytes.
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

/// Creates the pipe for a response whose body has this framing, and counts its memory in `account`; `None` if the
/// response has no body.
pub fn pipe_of(framing: Framing, account: &Account) -> Option<Pipe> {
    let length = match framing {
        Framing::None => return None,
        Framing::Length(length) => Length::Known(length.bytes()),
        Framing::Chunked | Framing::Close | Framing::Stream | Framing::Upgraded => Length::Unknown,
    };
    Some(Pipe::new(length, account))
}

const _: () = assert!(PIPE_BYTES_MAX >= 4096);
