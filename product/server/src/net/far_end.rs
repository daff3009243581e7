//! Connections for tests: the other end takes bytes and returns bytes, and nothing else is known of it.

use std::fmt::Debug;
use std::fs::File;
use std::io::{self, IoSlice};

use super::{Sink, Status, Stream};

/// The other end of a connection.
pub trait FarEnd: Debug {
    /// Takes bytes like [`Sink::send`].
    fn take(&self, bytes: &[u8]) -> io::Result<usize>;
    /// Returns bytes like [`Stream::receive`].
    fn give(&self, into: &mut [u8]) -> rustix::io::Result<usize>;
}

impl<T: FarEnd> Sink for T {
    fn send(&self, bytes: &[u8], _: bool) -> io::Result<usize> {
        self.take(bytes)
    }
    fn send_slices(&self, slices: &[IoSlice<'_>], _: bool) -> io::Result<usize> {
        self.take(slices.first().map_or(&[], |first| first))
    }
    fn send_file(&self, _: &File, _: u64, _: usize) -> io::Result<usize> {
        unreachable!("all is in memory")
    }
    fn cork(&self, _: bool) {}
    fn finish(&self) {}
    fn reset(&self) {}
}

impl<T: FarEnd> Stream for T {
    fn receive(&self, into: &mut [u8]) -> rustix::io::Result<usize> {
        self.give(into)
    }
    fn acknowledge(&self) {}
    fn segments(&self) -> Option<(u32, bool)> {
        None
    }
    fn status(&self) -> Status {
        Status::default()
    }
    fn has_room(&self) -> bool {
        true
    }
    fn queued_below_bytes(&self) -> Option<u64> {
        None
    }
    fn set_priority(&self, _: u32) {}
}
