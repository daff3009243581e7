//! TLS over a socket.

use std::io::{self, IoSlice, Write};

use super::Sink;

/// A socket that takes sealed records.
pub struct Down<'a, S> {
    pub socket: &'a S,
    /// True if more bytes follow immediately.
    pub more: bool,
}

impl<S: Sink> Write for Down<'_, S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.send(bytes, self.more)
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match pieces {
            [bytes] => self.socket.send(bytes, self.more),
            pieces => self.socket.send_slices(pieces, self.more),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
