//! Bodies of requests, as far as they have come and nobody has read them. A stream's window opens as its body is read (RFC 9113 section 5.2),
//! so that a client is held where the reader stops, and what is kept of a stream is what its window lets through: more where its reader takes all that
//! comes (`window`). The connection's window opens as bytes come, so that no stream shuts it for the others; but where memory is short, as they are
//! read.
//!
//! Whether anybody wants a body is known when the request is answered, and parts of it may come before: they are kept until then.

use std::collections::VecDeque;

use units::Nanos;
use units::memory::{Account, Charge};

use crate::STREAMS_MAX;
use crate::window::{RoundTrip, WINDOW_BYTES_MAX, WINDOW_BYTES_MIN, Window};

/// Memory of the body of one request that its reader does not take, and of a response: the window that a stream begins with (65,535 bytes, RFC 9113
/// section 6.5.2), which the engine sees to.
pub const BODY_BYTES_MAX: usize = 64 << 10;
/// Memory of the bodies of a connection's requests, all together, whatever their readers take.
pub const BODIES_BYTES_MAX: usize = STREAMS_MAX as usize * WINDOW_BYTES_MAX;

/// What follows of a body behind the bytes that were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyRead {
    /// More, at once.
    More,
    /// More, later: [`Event::Body`](crate::Event::Body) tells.
    Later,
    /// Nothing: it is whole, and as long as the request said.
    End,
    /// Nothing, and it is not whole: the stream is closed, or nobody wanted it.
    Cut,
}

#[derive(Debug)]
struct Body {
    bytes: VecDeque<u8>,
    window: Window,
    /// Of a response, whose window stays as it is.
    is_response: bool,
    charge: Charge,
    has_ended: bool,
    is_wanted: bool,
    /// The reader knows of it, and has not looked.
    is_told: bool,
}

impl Body {
    fn new(account: &Account, has_ended: bool, now: Nanos) -> Body {
        let (bytes, charge, window) = (VecDeque::new(), Charge::new(account, 0), Window::new(now));
        Body { bytes, window, is_response: false, charge, has_ended, is_wanted: false, is_told: false }
    }

    /// Counts its memory anew.
    fn count(&mut self) {
        self.charge.set(self.memory_bytes());
    }

    /// Bytes of memory: those that have come, or all that may come at once where that is more than a stream begins with.
    fn memory_bytes(&self) -> usize {
        let may_come = !self.has_ended && (self.is_response || self.window.wider_bytes() > 0);
        self.bytes.capacity().max(if may_come { self.window.bytes() } else { 0 })
    }

    /// There is something that the reader does not know of; from now on it does.
    fn tell(&mut self) -> bool {
        let is_news = self.is_wanted && !self.is_told && (self.has_ended || !self.bytes.is_empty());
        self.is_told |= is_news;
        is_news
    }
}

/// Those of open streams, of which nobody has said that they are not wanted, in their order.
#[derive(Debug, Default)]
pub struct Bodies {
    open: Vec<(u32, Body)>,
    /// Counts their memory, where a stream has no account of its own.
    pub account: Account,
    /// Bytes that have come and were not read.
    unread_bytes: usize,
    /// The sum by which windows of streams are wider than they were: the connection's is so too.
    wider_bytes: usize,
    /// Bytes by which the connection's window is to open.
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

    /// A request has come, and perhaps it is whole.
    pub fn begin(&mut self, stream: u32, has_ended: bool) {
        if let Err(at) = self.place(stream) {
            self.open.insert(at, (stream, Body::new(&self.account, has_ended, self.trip.now)));
        }
    }

    /// The response to a request of ours is to come, and will be read. Its memory is counted in this account: from now on with all that its server
    /// may send before anything is read.
    pub fn begin_response(&mut self, stream: u32, account: &Account) {
        // Their numbers grow.
        let mut body = Body { is_wanted: true, is_response: true, ..Body::new(account, false, self.trip.now) };
        body.count();
        self.open.push((stream, body));
    }

    /// `None`: nobody wants it. Else it is kept, and the reader is to be told, or not.
    pub fn keep(&mut self, stream: u32, bytes: &[u8]) -> Option<bool> {
        let at = self.place(stream).ok()?;
        self.unread_bytes += bytes.len();
        let body = &mut self.open[at].1;
        let have = body.bytes.len();
        debug_assert!(have + bytes.len() <= WINDOW_BYTES_MAX, "the engine lets no more through");
        body.window.on_bytes(bytes.len());
        // Its own growth would go past the bound.
        body.bytes.reserve_exact((have + bytes.len()).next_power_of_two() - have);
        body.bytes.extend(bytes);
        body.count();
        Some(body.tell())
    }

    /// It is whole. Says whether the reader is to be told.
    pub fn end(&mut self, stream: u32) -> bool {
        let Ok(at) = self.place(stream) else { return false };
        let body = &mut self.open[at].1;
        self.wider_bytes -= body.window.narrow();
        body.has_ended = true;
        body.count();
        body.tell()
    }

    /// It will be read. `None`: it was thrown away; else the reader is to be told, or not.
    pub fn want(&mut self, stream: u32) -> Option<bool> {
        let body = self.get_mut(stream)?;
        body.is_wanted = true;
        Some(body.tell())
    }

    /// It is whole, and perhaps not read.
    pub fn has_ended(&self, stream: u32) -> bool {
        self.place(stream).is_ok_and(|at| self.open[at].1.has_ended)
    }

    pub fn is_wanted(&self, stream: u32) -> bool {
        self.place(stream).is_ok_and(|at| self.open[at].1.is_wanted)
    }

    /// Appends so many bytes at most, and says by how many the window may open.
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
        // One that waits for its client holds no memory.
        body.bytes = VecDeque::new();
        body.count();
        (opened_bytes, if body.has_ended { BodyRead::End } else { BodyRead::Later })
    }

    /// Nobody wants it, or its stream is closed. Says by how much the window may open.
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

    /// All that has come of the body of a request was read: gives the window of its stream, where that is another now.
    pub fn fit(&mut self, stream: u32) -> Option<usize> {
        let (now, trip, room_bytes) = (self.trip.now, self.trip.get(), self.account.room());
        let body = self.get_mut(stream).filter(|body| !body.has_ended && !body.is_response)?;
        let before = body.window.wider_bytes();
        if !body.window.on_read(now, trip, room_bytes) {
            return None;
        }
        body.count();
        let (bytes, wider_bytes) = (body.window.bytes(), body.window.wider_bytes());
        self.wider_bytes = self.wider_bytes + wider_bytes - before;
        Some(bytes)
    }

    /// The window of a connection with these streams.
    pub fn connection_bytes(&self) -> usize {
        WINDOW_BYTES_MIN + self.wider_bytes
    }

    /// So many bytes have come and are kept. Gives by how many the connection's window may open at once: where memory is short, it opens later.
    pub fn open_for(&mut self, bytes: usize) -> usize {
        self.owed_bytes += bytes;
        self.take_owed()
    }

    /// Bytes by which the connection's window may open now.
    pub fn take_owed(&mut self) -> usize {
        let may_open = self.unread_bytes == 0 || self.account.room() > 0;
        if may_open { std::mem::take(&mut self.owed_bytes) } else { 0 }
    }

    /// Bytes of memory of one.
    #[cfg(any(test, feature = "testing"))]
    pub fn kept_bytes(&self, stream: u32) -> usize {
        self.place(stream).map_or(0, |at| self.open[at].1.bytes.capacity())
    }

    /// The same, or those that its sender may send.
    #[cfg(any(test, feature = "testing"))]
    pub fn alive_bytes(&self, stream: u32) -> usize {
        self.place(stream).map_or(0, |at| self.open[at].1.memory_bytes())
    }

    /// Bytes that are to be counted of all of them, summed anew.
    #[cfg(any(test, feature = "testing"))]
    pub fn all_alive_bytes(&self) -> usize {
        self.open.iter().map(|(_, body)| body.memory_bytes()).sum()
    }

    /// Bytes of memory that all of them take, summed anew.
    #[cfg(any(test, feature = "testing"))]
    pub fn bytes(&self) -> usize {
        self.open.iter().map(|(_, body)| body.bytes.capacity()).sum()
    }
}
