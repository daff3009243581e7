//! A body whose bytes come later: what its producer has pushed and its connection has not taken yet. Both are on the same event loop, and the
//! body owns what is queued: it ends with its response, and nothing is left to be freed.

use http::Length;
use http::http1::{CHUNK_OVERHEAD_MAX, Delimiter, LAST_CHUNK, begin_chunk};

/// Bytes that wait in a pipe at most. What is more stays with the producer.
pub const PIPE_BYTES_MAX: usize = 64 << 10;
/// A producer that was told to stop may go on when there is so much room.
const ROOM_AGAIN_BYTES: usize = PIPE_BYTES_MAX / 2;
/// How long a response waits for a producer that says nothing, in looks about a second apart; nginx's `proxy_read_timeout` is the same.
pub const SILENT_LOOKS_MAX: u32 = 60;

#[derive(Debug)]
pub struct Pipe {
    /// What was pushed, in chunks where the codec wants them.
    bytes: Vec<u8>,
    /// How many of `bytes` are gone.
    at: usize,
    /// Bytes to be pushed yet, where the producer has said how many there are.
    to_come: Option<u64>,
    delimiter: Delimiter,
    is_finished: bool,
    was_full: bool,
    /// How often it was looked at since it waits for its producer.
    silent_looks: u32,
}

impl Pipe {
    pub fn new(length: Length) -> Pipe {
        Pipe {
            bytes: Vec::new(),
            at: 0,
            to_come: match length {
                Length::Known(bytes) => Some(bytes),
                Length::Unknown => None,
            },
            delimiter: Delimiter::Length,
            is_finished: false,
            was_full: false,
            silent_looks: 0,
        }
    }

    /// Takes as many bytes as there is room for, and gives how many; `None` where they are more than the producer has said.
    pub fn push(&mut self, bytes: &[u8]) -> Option<usize> {
        let taken = bytes.len().min(self.room());
        let is_over = self.is_finished || self.to_come.is_some_and(|left| left < bytes.len() as u64);
        if is_over && !bytes.is_empty() {
            return None;
        }
        self.to_come = self.to_come.map(|left| left - taken as u64);
        self.put(&bytes[..taken]);
        self.was_full |= taken < bytes.len() || self.room() == 0;
        self.silent_looks = 0;
        Some(taken)
    }

    /// No more comes. False where the producer has said that more would.
    pub fn finish(&mut self) -> bool {
        if !self.is_finished && self.delimiter == Delimiter::LastChunk {
            self.bytes.extend_from_slice(LAST_CHUNK);
        }
        self.is_finished = true;
        self.to_come.is_none_or(|left| left == 0)
    }

    /// Bytes that may be pushed now.
    pub fn room(&self) -> usize {
        let beside = if self.to_come.is_none() { CHUNK_OVERHEAD_MAX + LAST_CHUNK.len() } else { 0 };
        PIPE_BYTES_MAX.saturating_sub(self.queued().len() + beside)
    }

    /// From now on bytes are queued in the form that the codec of HTTP/1.1 wants.
    pub fn delimit(&mut self, delimiter: Delimiter) {
        self.delimiter = delimiter;
        if delimiter == Delimiter::LastChunk {
            let (queued, at) = (std::mem::take(&mut self.bytes), std::mem::take(&mut self.at));
            self.put(&queued[at..]);
            if self.is_finished {
                self.bytes.extend_from_slice(LAST_CHUNK);
            }
        }
    }

    /// Nothing but the end of the connection tells the client that the body is whole.
    pub fn ends_by_close(&self) -> bool {
        self.delimiter == Delimiter::Close
    }

    fn put(&mut self, bytes: &[u8]) {
        if self.at > 0 && self.at >= self.queued().len() {
            self.bytes.drain(..std::mem::take(&mut self.at));
        }
        if self.delimiter == Delimiter::LastChunk && !bytes.is_empty() {
            begin_chunk(&mut self.bytes, bytes.len());
            self.bytes.extend_from_slice(bytes);
            return self.bytes.extend_from_slice(b"\r\n");
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// What is next, as far as it has come.
    pub fn queued(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    /// Bytes that are left, as far as that is known.
    pub fn len(&self) -> u64 {
        self.queued().len() as u64 + self.to_come.unwrap_or(0)
    }

    /// How many more come is told by their end alone.
    pub fn is_open_ended(&self) -> bool {
        self.to_come.is_none() && !self.is_finished
    }

    /// Not all has come.
    pub fn is_awaited(&self) -> bool {
        self.is_open_ended() || self.to_come.is_some_and(|left| left > 0)
    }

    /// So many bytes are gone. Nothing that has waited and gone takes memory while more is waited for.
    pub fn advance(&mut self, bytes: usize) {
        self.at += bytes;
        if self.queued().is_empty() {
            (self.bytes, self.at) = (Vec::new(), 0);
        }
    }

    /// Whether a producer that was told to stop may go on; said once.
    pub fn has_room_again(&mut self) -> bool {
        let has_room = self.was_full && self.is_awaited() && self.room() >= ROOM_AGAIN_BYTES;
        self.was_full &= !has_room;
        has_room
    }

    /// It waits for its producer, and is looked at. Says whether it has been too often.
    pub fn is_silent(&mut self) -> bool {
        self.silent_looks += 1;
        self.silent_looks > SILENT_LOOKS_MAX
    }
}
