//! Bodies that have arrived and have not been read yet. A stream's window opens as its body is read (RFC 9113 section
//! 5.2), so the client stops when the reader stops, and a stream buffers at most its window. The window is larger if
//! the reader takes everything that arrives (`window`). The connection's window opens as bytes arrive, so that no
//! stream blocks the others; if memory is short, it opens as bytes are read.
//!
//! Whether a body is wanted is decided when the request is answered. Parts that arrive earlier are kept until then.

use std::collections::VecDeque;

use units::Nanos;
use units::memory::{Account, Charge};

use crate::STREAMS_MAX;
use crate::window::{RoundTrip, WINDOW_BYTES_MAX, Window};

/// The maximum memory of a request body that is not being read, and the initial maximum of a response body. It is the
/// initial window of a stream (65,535 bytes, RFC 9113 section 6.5.2), which the engine enforces.
pub const BODY_BYTES_MAX: usize = 64 << 10;
/// The maximum memory of all request bodies of a connection, however fast they are read.
pub const BODIES_BYTES_MAX: usize = STREAMS_MAX as usize * WINDOW_BYTES_MAX;

/// The state of a body after a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyRead {
    /// There are more bytes now.
    More,
    /// Bytes come later, announced by [`Event::Body`](crate::Event::Body).
    Later,
    /// The body is complete and has the declared length.
    End,
    /// The body is incomplete: the stream is closed, or the body was not wanted.
    Cut,
}

#[derive(Debug)]
struct Body {
    bytes: VecDeque<u8>,
    window: Window,
    /// True for the body of a response, whose whole window is counted because it may arrive before any of it is read.
    is_response: bool,
    charge: Charge,
    has_ended: bool,
    is_wanted: bool,
    /// True if the reader was notified and has not read since then.
    is_told: bool,
}

impl Body {
    fn new(account: &Account, has_ended: bool, now: Nanos) -> Body {
        let (bytes, charge, window) = (VecDeque::new(), Charge::new(account, 0), Window::new(now));
        Body { bytes, window, is_response: false, charge, has_ended, is_wanted: false, is_told: false }
    }

    /// Updates the charge for its memory.
    fn count(&mut self) {
        self.charge.set(self.memory_bytes());
    }

    /// Returns the memory in bytes: the stored bytes, or the whole window if it is larger and more may arrive.
    /// The window counts for the body of a response, or if it is wider than the initial one.
    fn memory_bytes(&self) -> usize {
        let may_come = !self.has_ended && (self.is_response || self.window.wider_bytes() > 0);
        self.bytes.capacity().max(if may_come { self.window.bytes() } else { 0 })
    }

    /// Returns true if the reader must be notified, and records that it is.
    fn tell(&mut self) -> bool {
        let is_news = self.is_wanted && !self.is_told && (self.has_ended || !self.bytes.is_empty());
        self.is_told |= is_news;
        is_news
    }
}

/// The bodies of open streams that are still wanted or undecided, ordered by stream.
#[derive(Debug, Default)]
pub struct Bodies {
    open: Vec<(u32, Body)>,
    /// The account of their memory, for streams that have no account of their own.
    pub account: Account,
    /// Bytes received and not read.
    unread_bytes: usize,
    /// The sum of the bytes by which stream windows exceed the initial window. The connection's window is wider by the
    /// same amount.
    wider_bytes: usize,
    /// Bytes by which the connection's window must still open.
    owed_bytes: usize,
    pub trip: RoundTrip,
}

impl Bodies {
    fn place(&self, stream: u32) -> Result<usize, usize> {
        self.open.binary_search_by_key(&stream, |(of, _)| *of)
    }

    fn get_mut(&mut self, stream: u32) -> Option<&mut Body> {
        self.place(stream).ok().map(|at| &mut self.open[at].1)
    }

    /// Adds the body of a new request. `has_ended` is true if the body is complete already.
    pub fn begin(&mut self, stream: u32, has_ended: bool) {
        if let Err(at) = self.place(stream) {
            self.open.insert(at, (stream, Body::new(&self.account, has_ended, self.trip.now)));
        }
    }

    /// Adds the body of the response to a request that this end sent, which will be read. Immediately charges `account`
    /// with everything that the server may send before any of it is read.
    pub fn begin_response(&mut self, stream: u32, account: &Account) {
        // Stream numbers only grow.
        let mut body = Body { is_wanted: true, is_response: true, ..Body::new(account, false, self.trip.now) };
        body.count();
        self.open.push((stream, body));
    }

    /// Stores bytes of a body. Returns `None` if the body is not wanted, otherwise whether the reader must be notified.
    pub fn keep(&mut self, stream: u32, bytes: &[u8]) -> Option<bool> {
        let at = self.place(stream).ok()?;
        self.unread_bytes += bytes.len();
        let body = &mut self.open[at].1;
        let have = body.bytes.len();
        debug_assert!(have + bytes.len() <= WINDOW_BYTES_MAX, "the engine lets no more through");
        body.window.on_bytes(bytes.len());
        // The growth of `VecDeque` itself would exceed the limit.
        body.bytes.reserve_exact((have + bytes.len()).next_power_of_two() - have);
        body.bytes.extend(bytes);
        body.count();
        Some(body.tell())
    }

    /// Records that the body is complete. Returns true if the reader must be notified.
    pub fn end(&mut self, stream: u32) -> bool {
        let Ok(at) = self.place(stream) else { return false };
        let body = &mut self.open[at].1;
        self.wider_bytes -= body.window.narrow();
        body.has_ended = true;
        body.count();
        body.tell()
    }

    /// Records that the body will be read. Returns `None` if it was discarded, otherwise whether the reader must be
    /// notified.
    pub fn want(&mut self, stream: u32) -> Option<bool> {
        let body = self.get_mut(stream)?;
        body.is_wanted = true;
        Some(body.tell())
    }

    /// Returns true if the body is complete, read or not.
    pub fn has_ended(&self, stream: u32) -> bool {
        self.place(stream).is_ok_and(|at| self.open[at].1.has_ended)
    }

    pub fn is_wanted(&self, stream: u32) -> bool {
        self.place(stream).is_ok_and(|at| self.open[at].1.is_wanted)
    }

    /// Appends at most `bytes_max` bytes. Also returns the number of bytes by which the window may open.
    pub fn read(&mut self, stream: u32, into: &mut Vec<u8>, bytes_max: usize) -> (usize, BodyRead) {
        let at = self.place(stream).ok().filter(|at| self.open[*at].1.is_wanted);
        let Some(at) = at else { return (0, BodyRead::Cut) };
        let body = &mut self.open[at].1;
        body.is_told = false;
        let bytes = body.bytes.len().min(bytes_max);
        self.unread_bytes -= bytes;
        let (front, back) = body.bytes.as_slices();
        let of_front = front.len().min(bytes);
        into.extend_from_slice(&front[..of_front]);
        into.extend_from_slice(&back[..bytes - of_front]);
        body.bytes.drain(..bytes);
        let opened_bytes = if body.has_ended { 0 } else { bytes };
        if !body.bytes.is_empty() {
            return (opened_bytes, BodyRead::More);
        }
        // A body that waits for its client holds no memory.
        body.bytes = VecDeque::new();
        body.count();
        (opened_bytes, if body.has_ended { BodyRead::End } else { BodyRead::Later })
    }

    /// Discards the body, which is not wanted or whose stream is closed. Returns the number of bytes by which the
    /// window may open.
    pub fn remove(&mut self, stream: u32) -> usize {
        let Ok(at) = self.place(stream) else { return 0 };
        let (_, mut body) = self.open.remove(at);
        self.unread_bytes -= body.bytes.len();
        self.wider_bytes -= body.window.narrow();
        if self.open.is_empty() {
            self.open = Vec::new();
        }
        if body.has_ended { 0 } else { body.bytes.len() }
    }

    /// Adapts the window after the reader has read everything that had arrived. Returns the stream's window if it
    /// changed.
    pub fn fit(&mut self, stream: u32) -> Option<usize> {
        let (now, trip, of_requests_bytes) = (self.trip.now, self.trip.get(), self.account.room());
        let body = self.get_mut(stream).filter(|body| !body.has_ended)?;
        let room_bytes = if body.is_response { body.charge.account().room() } else { of_requests_bytes };
        let before = body.window.wider_bytes();
        if !body.window.on_read(now, trip, room_bytes) {
            return None;
        }
        body.count();
        let (bytes, wider_bytes) = (body.window.bytes(), body.window.wider_bytes());
        self.wider_bytes = self.wider_bytes + wider_bytes - before;
        Some(bytes)
    }

    /// Returns the window of the connection for the current streams. `least_bytes` is the window for streams with the
    /// initial window.
    pub fn connection_bytes(&self, least_bytes: usize) -> usize {
        least_bytes + self.wider_bytes
    }

    /// Counts bytes that were received and stored. Returns the number by which the connection's window may open now; if
    /// memory is short, it opens later.
    pub fn open_for(&mut self, bytes: usize) -> usize {
        self.owed_bytes += bytes;
        self.take_owed()
    }

    /// Returns the number of bytes by which the connection's window may open now, and resets it.
    pub fn take_owed(&mut self) -> usize {
        let may_open = self.unread_bytes == 0 || self.account.room() > 0;
        if may_open { std::mem::take(&mut self.owed_bytes) } else { 0 }
    }

    /// Bytes of memory of one body.
    #[cfg(any(test, feature = "testing"))]
    pub fn kept_bytes(&self, stream: u32) -> usize {
        self.place(stream).map_or(0, |at| self.open[at].1.bytes.capacity())
    }

    /// Bytes of memory of one body, or the bytes its sender may send if those are more.
    #[cfg(any(test, feature = "testing"))]
    pub fn alive_bytes(&self, stream: u32) -> usize {
        self.place(stream).map_or(0, |at| self.open[at].1.memory_bytes())
    }

    /// Bytes to charge for all bodies, recomputed.
    #[cfg(any(test, feature = "testing"))]
    pub fn all_alive_bytes(&self) -> usize {
        self.open.iter().map(|(_, body)| body.memory_bytes()).sum()
    }

    /// Bytes of memory of all bodies, recomputed.
    #[cfg(any(test, feature = "testing"))]
    pub fn bytes(&self) -> usize {
        self.open.iter().map(|(_, body)| body.bytes.capacity()).sum()
    }
}
