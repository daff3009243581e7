//! The requests of a connection that are open, and what is still to be said on them.

use std::collections::{HashMap, HashSet, VecDeque};

use http::{ResponseHead, Trailers};
use mux::{Event, Priority, priority};
use quinn_proto::{Connection, Dir, Side, StreamId, VarInt};
use units::memory::{Account, Charge};

use crate::bodies::Body;
use crate::h3::fault::{EXCESSIVE_LOAD, End};
use crate::h3::{frames, request};
use crate::qpack;

/// Bytes of frames that are not whole, of all streams of a connection.
pub const KEPT_BYTES_MAX: usize = 256 << 10;
/// Wishes for requests that have not come: a client's PRIORITY_UPDATE may be first.
const EARLY_WISHES_MAX: usize = 100;
/// Idle connections keep room for so many streams.
const STREAMS_KEPT: usize = 4;
/// And for so many events.
const EVENTS_KEPT: usize = 8;

/// A response, and the interim ones before it.
#[derive(Debug)]
pub struct Reply {
    /// Heads of frames that are not given yet, and content that is still to come of a frame whose head is among them or was given.
    pub heads: Vec<u8>,
    pub frame_left: usize,
    /// The source is at its end.
    pub is_read: bool,
    /// Its own head is among those.
    is_begun: bool,
    /// Bytes that quinn has taken.
    pub offset: u64,
}

impl Reply {
    pub fn new() -> Reply {
        Reply { heads: Vec::new(), frame_left: 0, is_read: false, is_begun: false, offset: 0 }
    }

    /// An interim head, where the response's own was not given. Says whether that is so.
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

    /// The source is at its end, with these fields behind it.
    pub fn end(&mut self, trailers: Option<Box<Trailers>>) {
        if let Some(trailers) = trailers {
            let mut block = Vec::new();
            qpack::encode(trailers.fields(), &mut block);
            frames::head(frames::HEADERS, block.len() as u64, &mut self.heads);
            self.heads.extend(block);
        }
        self.is_read = true;
    }

    /// The next byte is of a frame's head.
    pub fn has_heads(&self) -> bool {
        !self.heads.is_empty()
    }
}

#[derive(Debug)]
pub struct Stream {
    /// Until all of the request has come.
    pub incoming: Option<Box<request::Incoming>>,
    /// Bytes of a frame that is not whole, and of heads and a body that wait, as they are counted in those of all streams.
    kept_bytes: u32,
    held_bytes: u32,
    /// The caller knows of it.
    pub is_told: bool,
    pub body: Body,
    pub priority: Priority,
    /// Told on the control stream, which goes before what the request says.
    pub is_wished: bool,
    pub reply: Option<Reply>,
    /// The client's window of it is used up.
    pub is_shut: bool,
}

/// Streams by number: a client that lets them wait makes us hold them, and a table of hashes is twice as large.
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
    /// One past the last that has come.
    pub next: u32,
    pub events: VecDeque<Event>,
    /// The request that was told of last: perhaps nobody wants its body.
    pub asked: Option<u32>,
    /// Windows of streams by which that of the connection is wider.
    pub windows: usize,
    /// Bytes of frames that are not whole.
    pub kept_bytes: usize,
    /// Bytes of heads that no window has let through, and of bodies that were not read.
    held_bytes: usize,
    charge: Charge,
    /// Those whose last bytes are given, and whose client has not acknowledged all of them.
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

    /// One that the client has opened.
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

    /// The client's wish for a request, which may be yet to come.
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

    /// Counts what is kept.
    pub fn account(&self) -> &Account {
        self.charge.account()
    }

    /// Counts what is kept in this account from now on.
    pub fn count_in(&mut self, account: &Account) {
        self.charge.move_to(account);
    }

    /// Counts what is kept of a stream, of which something was read.
    pub fn count(&mut self, stream: u32) {
        if let Some(open) = self.open.get_mut(stream) {
            self.kept_bytes -= open.kept_bytes as usize;
            self.held_bytes -= open.held_bytes as usize;
            let kept_bytes = open.incoming.as_ref().map_or(0, |incoming| incoming.kept_bytes());
            // Both are far below 4 GiB: frames and windows have bounds.
            (open.kept_bytes, open.held_bytes) = (kept_bytes as u32, open.memory_bytes() as u32);
            self.kept_bytes += open.kept_bytes as usize;
            self.held_bytes += open.held_bytes as usize;
        }
        self.charge();
    }

    /// An end of the connection, if frames that are not whole hold more than [`KEPT_BYTES_MAX`].
    pub fn check_kept(&self) -> Result<(), End> {
        if self.kept_bytes > KEPT_BYTES_MAX {
            return Err(End::protocol(EXCESSIVE_LOAD, "more than 256 KB of frames that are not whole"));
        }
        Ok(())
    }

    /// What all of them hold may be another now.
    pub fn charge(&mut self) {
        self.charge.set(self.kept_bytes + self.held_bytes);
    }

    /// A stream is of no more use, whoever ended it.
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

    /// Ends a stream both ways with this code; either way may be over already.
    pub fn reset(&mut self, connection: &mut Connection, stream: u32, code: u64) {
        let code = VarInt::from_u64(code).unwrap_or(VarInt::MAX);
        let _ = connection.recv_stream(id(stream)).stop(code);
        let _ = connection.send_stream(id(stream)).reset(code);
        self.end(stream);
    }
}

/// The head of a response as a frame.
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
