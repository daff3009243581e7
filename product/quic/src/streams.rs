//! The requests of a connection that are open, and what is still to be said on them.

use std::collections::{HashMap, HashSet, VecDeque};

use mux::{Event, Priority};
use quinn_proto::{Connection, Dir, Side, StreamId, VarInt};

use crate::h3::{priority, request};

/// Wishes for requests that have not come: a client's PRIORITY_UPDATE may be first.
const EARLY_WISHES_MAX: usize = 100;

/// A response.
#[derive(Debug)]
pub struct Reply {
    /// As HTTP/1.1 has it, until it was made into a frame.
    pub head: Option<Vec<u8>>,
    /// Heads of frames that are not given yet, and content that is still to come of a frame whose head is among them or was given.
    pub heads: Vec<u8>,
    pub frame_left: usize,
    /// The source is at its end.
    pub is_read: bool,
    /// Bytes that quinn has taken.
    pub offset: u64,
}

impl Reply {
    pub fn new(head: &[u8], has_body: bool) -> Reply {
        Reply { head: Some(head.to_vec()), heads: Vec::new(), frame_left: 0, is_read: !has_body, offset: 0 }
    }

    /// The next byte is of a frame's head.
    pub fn has_heads(&self) -> bool {
        self.head.is_some() || !self.heads.is_empty()
    }
}

#[derive(Debug)]
pub struct Stream {
    pub incoming: request::Incoming,
    /// Bytes of a frame that is not whole, as they are counted in those of all streams.
    kept_bytes: usize,
    /// All of the request has come.
    pub is_whole: bool,
    /// The caller knows of it.
    pub is_told: bool,
    pub priority: Priority,
    /// Told on the control stream, which goes before what the request says.
    pub is_wished: bool,
    pub reply: Option<Reply>,
    /// The client's window of it is used up.
    pub is_shut: bool,
}

#[derive(Debug, Default)]
pub struct Streams {
    pub open: HashMap<u32, Stream>,
    early: HashMap<u32, Priority>,
    /// One past the last that has come.
    pub next: u32,
    pub events: VecDeque<Event>,
    /// Bytes of frames that are not whole.
    pub kept_bytes: usize,
    /// Those whose last bytes are given, and whose client has not acknowledged all of them.
    pub unacknowledged: HashSet<u32>,
}

/// The identifier of a request's stream.
pub fn id(stream: u32) -> StreamId {
    StreamId::new(Side::Client, Dir::Bi, stream.into())
}

impl Streams {
    /// One that the client has opened.
    pub fn begin(&mut self, stream: u32) {
        let wish = self.early.remove(&stream);
        let begun = Stream {
            incoming: request::Incoming::default(),
            kept_bytes: 0,
            is_whole: false,
            is_told: false,
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
        match self.open.get_mut(&stream) {
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

    /// Something of a stream was read.
    pub fn count(&mut self, stream: u32) {
        if let Some(open) = self.open.get_mut(&stream) {
            let before = std::mem::replace(&mut open.kept_bytes, open.incoming.kept_bytes());
            self.kept_bytes = self.kept_bytes - before + open.kept_bytes;
        }
    }

    /// A stream is of no more use, whoever ended it.
    pub fn end(&mut self, stream: u32) {
        if let Some(ended) = self.open.remove(&stream) {
            self.kept_bytes -= ended.kept_bytes;
            if ended.is_told {
                self.events.push_back(Event::Closed { stream });
            }
        }
    }

    pub fn end_all(&mut self) {
        let mut open: Vec<u32> = self.open.keys().copied().collect();
        open.sort_unstable();
        open.into_iter().for_each(|stream| self.end(stream));
    }

    /// Ends a stream both ways with this code; either way may be over already.
    pub fn reset(&mut self, connection: &mut Connection, stream: u32, code: u64) {
        let code = VarInt::from_u64(code).unwrap_or(VarInt::MAX);
        let _ = connection.recv_stream(id(stream)).stop(code);
        let _ = connection.send_stream(id(stream)).reset(code);
        self.end(stream);
    }
}
