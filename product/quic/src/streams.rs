//! The open requests of a connection, and the responses still to be sent on them.

use std::collections::{HashMap, HashSet, VecDeque};

use http::{ResponseHead, Trailers};
use http2::{Event, Priority, priority};
use quinn_proto::{Connection, Dir, Side, StreamId, VarInt};
use units::memory::{Account, Charge};

use crate::bodies::Body;
use crate::h3::fault::{EXCESSIVE_LOAD, End};
use crate::h3::{frames, request};
use crate::qpack;

/// Maximum bytes of incomplete frames on all streams of a connection.
pub const KEPT_BYTES_MAX: usize = 256 << 10;
/// The maximum number of stored priorities of requests that have not arrived; a client's PRIORITY_UPDATE may overtake
/// its request.
const EARLY_WISHES_MAX: usize = 100;
/// Stream capacity that idle connections keep.
const STREAMS_KEPT: usize = 4;
/// Event capacity that idle connections keep.
const EVENTS_KEPT: usize = 8;

/// A response, with the interim ones before it.
#[derive(Debug)]
pub struct Reply {
    /// The frame heads that quinn has not taken yet, and the content still to come of the last frame.
    pub heads: Vec<u8>,
    pub frame_left: usize,
    /// True if the source has ended.
    pub is_read: bool,
    /// True if the response's own head is in `heads` or was already passed to quinn.
    is_begun: bool,
    /// Bytes that quinn has taken.
    pub offset: u64,
}

impl Reply {
    pub fn new() -> Reply {
        Reply { heads: Vec::new(), frame_left: 0, is_read: false, is_begun: false, offset: 0 }
    }

    /// Appends an interim head unless the response's own head has been passed to quinn. Returns true if it was
    /// appended.
    pub fn add_interim(&mut self, head: &ResponseHead) -> bool {
        if !self.is_begun {
            self.heads.extend(headers(head));
        }
        !self.is_begun
    }

    pub fn begin(&mut self, head: &ResponseHead, has_body: bool) {
        self.heads.extend(headers(head));
        (self.is_begun, self.is_read) = (true, !has_body);
    }

    pub fn is_begun(&self) -> bool {
        self.is_begun
    }

    /// Records that the source has ended, followed by these trailers.
    pub fn end(&mut self, trailers: Option<Box<Trailers>>) {
        if let Some(trailers) = trailers {
            let mut block = Vec::new();
            qpack::encode(trailers.fields(), &mut block);
            frames::head(frames::HEADERS, block.len() as u64, &mut self.heads);
            self.heads.extend(block);
        }
        self.is_read = true;
    }

    /// Returns true if the next byte belongs to a frame's head.
    pub fn has_heads(&self) -> bool {
        !self.heads.is_empty()
    }
}

#[derive(Debug)]
pub struct Stream {
    /// Present until the whole request has arrived.
    pub incoming: Option<Box<request::Incoming>>,
    /// Bytes of an incomplete frame. The next fields are the bytes of waiting heads and of the body. All are included
    /// in the totals of all streams.
    kept_bytes: u32,
    held_bytes: u32,
    /// True if the request was reported to the caller.
    pub is_told: bool,
    pub body: Body,
    pub priority: Priority,
    /// True if the priority was received on the control stream. It then overrides the priority in the request.
    pub is_wished: bool,
    pub reply: Option<Reply>,
    /// True if the client's window for this stream is used up.
    pub is_shut: bool,
}

/// The streams ordered by number. A client that lets responses wait makes the server hold them, and a hash table would
/// be twice as large.
#[derive(Debug, Default)]
pub struct Open(Vec<(u32, Stream)>);

impl Open {
    fn place(&self, stream: u32) -> Result<usize, usize> {
        self.0.binary_search_by_key(&stream, |(of, _)| *of)
    }

    pub fn get(&self, stream: u32) -> Option<&Stream> {
        self.place(stream).ok().map(|at| &self.0[at].1)
    }

    pub fn get_mut(&mut self, stream: u32) -> Option<&mut Stream> {
        self.place(stream).ok().map(|at| &mut self.0[at].1)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Stream> {
        self.0.iter().map(|(_, stream)| stream)
    }

    fn insert(&mut self, stream: u32, begun: Stream) {
        if self.0.len() == self.0.capacity() {
            self.0.reserve_exact(self.0.len() / 8 + 2);
        }
        match self.place(stream) {
            Ok(at) => self.0[at].1 = begun,
            Err(at) => self.0.insert(at, (stream, begun)),
        }
    }

    fn remove(&mut self, stream: u32) -> Option<Stream> {
        let at = self.place(stream).ok()?;
        let ended = self.0.remove(at).1;
        if self.0.is_empty() && self.0.capacity() > STREAMS_KEPT {
            self.0 = Vec::new();
        }
        Some(ended)
    }
}

#[derive(Debug, Default)]
pub struct Streams {
    pub open: Open,
    early: HashMap<u32, Priority>,
    /// The number after the highest stream that has arrived.
    pub next: u32,
    pub events: VecDeque<Event>,
    /// The last reported request, whose body may turn out to be unwanted.
    pub asked: Option<u32>,
    /// The number of stream windows by which the connection's window was widened.
    pub windows: usize,
    /// Bytes of incomplete frames.
    pub kept_bytes: usize,
    /// The bytes of heads that wait for a window, and of unread bodies.
    held_bytes: usize,
    charge: Charge,
    /// Streams whose last bytes were passed to quinn but are not all acknowledged.
    pub unacknowledged: HashSet<u32>,
}

/// The identifier of a request's stream.
pub fn id(stream: u32) -> StreamId {
    StreamId::new(Side::Client, Dir::Bi, stream.into())
}

impl Streams {
    pub fn next_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front();
        if event.is_none() && self.events.capacity() > EVENTS_KEPT {
            self.events = VecDeque::new();
        }
        event
    }

    /// Adds a stream that the client has opened.
    pub fn begin(&mut self, stream: u32) {
        let wish = self.early.remove(&stream);
        let begun = Stream {
            incoming: Some(Box::default()),
            kept_bytes: 0,
            held_bytes: 0,
            is_told: false,
            body: Body::Undecided,
            priority: wish.unwrap_or(priority::DEFAULT),
            is_wished: wish.is_some(),
            reply: None,
            is_shut: false,
        };
        self.open.insert(stream, begun);
        self.next = self.next.max(stream.saturating_add(1));
    }

    /// Sets the client's priority for a request, which may not have arrived.
    pub fn wish(&mut self, stream: u32, priority: Priority) {
        match self.open.get_mut(stream) {
            Some(open) => {
                (open.priority, open.is_wished) = (priority, true);
                if open.is_told {
                    self.events.push_back(Event::Priority { stream });
                }
            }
            None if stream >= self.next
                && (self.early.len() < EARLY_WISHES_MAX || self.early.contains_key(&stream)) =>
            {
                self.early.insert(stream, priority);
            }
            None => {}
        }
    }

    /// The account of the stored bytes.
    pub fn account(&self) -> &Account {
        self.charge.account()
    }

    /// Charges the stored bytes to this account from now on.
    pub fn count_in(&mut self, account: &Account) {
        self.charge.move_to(account);
    }

    /// Updates the count of a stream's stored bytes after reading from it.
    pub fn count(&mut self, stream: u32) {
        if let Some(open) = self.open.get_mut(stream) {
            self.kept_bytes -= open.kept_bytes as usize;
            self.held_bytes -= open.held_bytes as usize;
            let kept_bytes = open.incoming.as_ref().map_or(0, |incoming| incoming.kept_bytes());
            // Both are far below 4 GiB: frames and windows are limited.
            (open.kept_bytes, open.held_bytes) = (kept_bytes as u32, open.memory_bytes() as u32);
            self.kept_bytes += open.kept_bytes as usize;
            self.held_bytes += open.held_bytes as usize;
        }
        self.charge();
    }

    /// Returns an error that ends the connection if incomplete frames hold more than [`KEPT_BYTES_MAX`].
    pub fn check_kept(&self) -> Result<(), End> {
        if self.kept_bytes > KEPT_BYTES_MAX {
            return Err(End::protocol(EXCESSIVE_LOAD, "more than 256 KB of frames that are not whole"));
        }
        Ok(())
    }

    /// Updates the charge for all streams.
    pub fn charge(&mut self) {
        self.charge.set(self.kept_bytes + self.held_bytes);
    }

    /// Removes a stream that was ended by either side.
    pub fn end(&mut self, stream: u32) {
        if let Some(ended) = self.open.remove(stream) {
            self.kept_bytes -= ended.kept_bytes as usize;
            self.held_bytes -= ended.held_bytes as usize;
            self.charge();
            if ended.is_told {
                self.events.push_back(Event::Closed { stream });
            }
        }
    }

    pub fn end_all(&mut self) {
        while let Some(&(stream, _)) = self.open.0.first() {
            self.end(stream);
        }
    }

    /// Ends a stream in both directions with this code; either may have ended already.
    pub fn reset(&mut self, connection: &mut Connection, stream: u32, code: u64) {
        let code = VarInt::from_u64(code).unwrap_or(VarInt::MAX);
        let _ = connection.recv_stream(id(stream)).stop(code);
        let _ = connection.send_stream(id(stream)).reset(code);
        self.end(stream);
    }
}

/// Encodes the head of a response as a frame.
fn headers(head: &ResponseHead) -> Vec<u8> {
    let status = head.status().digits();
    let mut section = Vec::new();
    qpack::encode(std::iter::once((&b":status"[..], &status[..])).chain(head.fields()), &mut section);
    let mut frame = Vec::with_capacity(section.len() + frames::HEAD_BYTES_MAX);
    frames::head(frames::HEADERS, section.len() as u64, &mut frame);
    frame.extend(section);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client decides how long a hundred of them are kept.
    #[test]
    fn a_stream_is_small() {
        assert!(size_of::<(u32, Stream)>() <= 80, "{}", size_of::<(u32, Stream)>());
    }
}
