//! Where the body of a response goes: to the pipe of a response that has not begun, or to one that is being sent.

use http::http1::upstream::Framing;
use http::{Length, Trailers};
use units::memory::Account;

use crate::body::{PIPE_BYTES_MAX, Pipe};

/// Takes a response's body as far as there is room.
pub trait BodySink {
    /// Bytes that may be pushed; `None` where nobody wants them any more.
    fn room(&mut self) -> Option<usize>;
    /// No more than there is room for. False where nobody wants them any more.
    fn push(&mut self, bytes: &[u8]) -> bool;
    /// The body is whole, with these fields behind it.
    fn finish(&mut self, trailers: Option<Box<Trailers>>);
    /// There would be room if the rest of the connection held less memory.
    fn waits_for_memory(&mut self) -> bool;
    /// Room comes as soon as a disk has taken what there is.
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

/// A pipe for a response whose body is framed so; `None` where it has none. Its memory is counted in this account.
pub fn pipe_of(framing: Framing, account: &Account) -> Option<Pipe> {
    let length = match framing {
        Framing::None => return None,
        Framing::Length(length) => Length::Known(length.bytes()),
        Framing::Chunked | Framing::Close | Framing::Stream | Framing::Upgraded => Length::Unknown,
    };
    Some(Pipe::new(length, account))
}

const _: () = assert!(PIPE_BYTES_MAX >= 4096);
