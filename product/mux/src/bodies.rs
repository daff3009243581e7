//! Bodies of requests, as far as they have come and nobody has read them. A stream's window opens as its body is read (RFC 9113 section 5.2),
//! so that a client is held where the reader stops, and what is kept of a stream is what its window lets through.
//!
//! Whether anybody wants a body is known when the request is answered, and parts of it may come before: they are kept until then.

use std::collections::VecDeque;

use units::memory::{Account, Charge};

use crate::STREAMS_MAX;

/// Memory of the body of one request: the window of a stream (65,535 bytes, RFC 9113 section 6.5.2), which the engine sees to.
pub const BODY_BYTES_MAX: usize = 64 << 10;
/// And of the bodies of a connection's requests, all together.
pub const BODIES_BYTES_MAX: usize = STREAMS_MAX as usize * BODY_BYTES_MAX;

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
    /// Bytes that are counted also where they have not come, as long as the sender may send them.
    window_bytes: usize,
    charge: Charge,
    has_ended: bool,
    is_wanted: bool,
    /// The reader knows of it, and has not looked.
    is_told: bool,
}

impl Body {
    fn new(account: &Account, has_ended: bool) -> Body {
        let (bytes, charge) = (VecDeque::new(), Charge::new(account, 0));
        Body { bytes, window_bytes: 0, charge, has_ended, is_wanted: false, is_told: false }
    }

    /// Counts its memory anew.
    fn count(&mut self) {
        let window_bytes = if self.has_ended { 0 } else { self.window_bytes };
        self.charge.set(window_bytes.max(self.bytes.capacity()));
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
            self.open.insert(at, (stream, Body::new(&self.account, has_ended)));
        }
    }

    /// The response to a request of ours is to come, and will be read. Its memory is counted in this account: from now on with all that its server
    /// may send before anything is read.
    pub fn begin_response(&mut self, stream: u32, account: &Account) {
        // Their numbers grow.
        let mut body = Body { is_wanted: true, window_bytes: BODY_BYTES_MAX, ..Body::new(account, false) };
        body.count();
        self.open.push((stream, body));
    }

    /// `None`: nobody wants it. Else it is kept, and the reader is to be told, or not.
    pub fn keep(&mut self, stream: u32, bytes: &[u8]) -> Option<bool> {
        let body = self.get_mut(stream)?;
        let have = body.bytes.len();
        debug_assert!(have + bytes.len() < BODY_BYTES_MAX, "the engine lets no more through");
        // Its own growth would go past the bound.
        body.bytes.reserve_exact((have + bytes.len()).next_power_of_two() - have);
        body.bytes.extend(bytes);
        body.count();
        Some(body.tell())
    }

    /// It is whole. Says whether the reader is to be told.
    pub fn end(&mut self, stream: u32) -> bool {
        let Some(body) = self.get_mut(stream) else { return false };
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
        let Some(body) = self.get_mut(stream).filter(|body| body.is_wanted) else { return (0, BodyRead::Cut) };
        body.is_told = false;
        let bytes = body.bytes.len().min(bytes_max);
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
        let (_, body) = self.open.remove(at);
        if self.open.is_empty() {
            self.open = Vec::new();
        }
        if body.has_ended { 0 } else { body.bytes.len() }
    }

    /// Bytes of memory of one, or those that its sender may send.
    #[cfg(any(test, feature = "testing"))]
    pub fn alive_bytes(&self, stream: u32) -> usize {
        self.place(stream).map_or(0, |at| {
            let body = &self.open[at].1;
            body.bytes.capacity().max(if body.has_ended { 0 } else { body.window_bytes })
        })
    }

    /// Bytes of memory that all of them take, summed anew.
    #[cfg(any(test, feature = "testing"))]
    pub fn bytes(&self) -> usize {
        self.open.iter().map(|(_, body)| body.bytes.capacity()).sum()
    }
}
