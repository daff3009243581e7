mod in_frames;
mod sealed;

use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;

use http::ResponseHead;

use sched::Size;
use units::memory::Account;

use crate::body::{self, Available, Body, Failure, Piece, Pipe};
use crate::disk::Buffer;
use crate::files::{Content, Entry};
use crate::net::Sink;
use crate::storage::Storage;

/// The maximum number of memory slices per system call: a head and a body, or a few parts of several ranges.
const SLICES_MAX: usize = 8;

/// A response, or what is left of it.
#[derive(Debug, Default)]
pub struct Outgoing {
    /// The bytes that are sent first: the head, with the body if that is very small.
    bytes: Vec<u8>,
    /// The number of bytes of `bytes` that were consumed.
    at: u32,
    /// The head of a response on a stream, until the engine takes it. `bytes` is then empty.
    fields: Option<Box<ResponseHead>>,
    body: Body,
    /// The number of bytes before `at` and the position in `body` that have not been sent. They are in sealed records
    /// that were not completely handed down, or belong to a head that no datagram has taken yet.
    sealed: u32,
    /// Set if the bytes are already TLS records.
    pub is_sealed: bool,
    end: End,
}

/// The action after the last byte. Unless the connection stays open, the kernel holds back an incomplete last segment,
/// so that the FIN is sent in it and not in a packet of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum End {
    /// The connection stays open.
    #[default]
    Open,
    /// The sending side is shut down. The receiving side stays open, because the client may still be sending.
    Finish,
}

/// The progress of a grant.
#[derive(Debug, Default)]
pub struct Sent {
    /// The bytes of the response that were sent.
    pub bytes: u64,
    /// The bytes of the connection that were sent, including those of records and frames.
    pub carried_bytes: u64,
    /// The reason why no more was sent, unless there was no more room.
    pub failure: Option<Failure>,
    /// True if the connection's next response may use the rest of the room.
    pub has_room: bool,
    /// True if nothing is left of the response and its end was sent.
    pub is_whole: bool,
}

impl Outgoing {
    pub fn new(bytes: Vec<u8>, body: Body, end: End) -> Outgoing {
        Outgoing { bytes, body, end, ..Outgoing::default() }
    }

    /// Creates a response on a stream of HTTP/2 or HTTP/3, whose engine turns it into frames.
    pub fn on_stream(head: ResponseHead, body: Body) -> Outgoing {
        Outgoing { fields: Some(Box::new(head)), body, ..Outgoing::default() }
    }

    /// Creates a job of handshake records, after which the connection stays open.
    pub fn of_records(bytes: Vec<u8>) -> Outgoing {
        Outgoing { is_sealed: true, ..Outgoing::new(bytes, Body::default(), End::Open) }
    }

    pub fn remaining_bytes(&self) -> u64 {
        let head_bytes = self.fields.as_ref().map_or(0, |head| head.bytes());
        head_bytes.saturating_add(self.unread_bytes()).saturating_add(self.sealed.into())
    }

    /// The bytes of memory allocated only for this response, except those that its body counts itself.
    pub fn made_bytes(&self) -> usize {
        let head_bytes = self.fields.as_ref().map_or(0, |head| head.bytes() as usize);
        self.bytes.capacity() + head_bytes + self.body.made_bytes()
    }

    /// Returns the size of the whole response, given that `sent_bytes` were sent and this is the rest.
    pub fn size(&self, sent_bytes: u64) -> Size {
        let bytes = sent_bytes.saturating_add(self.remaining_bytes());
        // A grant may take only the head of an empty body; another must follow for its trailers, which count as no
        // bytes.
        let is_open = self.body.is_open_ended() || self.body.is_empty() && !self.body.is_nothing();
        if is_open { Size::AtLeast(bytes) } else { Size::Known(bytes) }
    }

    /// Returns true if nothing of the response is left or still to come.
    pub fn is_done(&self) -> bool {
        self.remaining_bytes() == 0 && self.body.is_empty()
    }

    /// Returns true if the whole response was read and, with TLS, sealed.
    fn is_read(&self) -> bool {
        self.head().is_empty() && self.body.is_empty()
    }

    /// From now on charges the memory of the body's stages to this account.
    pub fn count_in(&mut self, account: &Account) {
        self.body.count_in(account);
    }

    pub fn body(&mut self) -> &mut Body {
        &mut self.body
    }

    /// The remaining bytes before the body.
    fn head(&self) -> &[u8] {
        &self.bytes[self.at as usize..]
    }

    /// The bytes that are not sealed yet.
    fn unread_bytes(&self) -> u64 {
        self.body.len().saturating_add(self.head().len() as u64)
    }

    /// Returns whether the sending side ends after the last byte.
    pub fn ends_connection(&self) -> bool {
        self.end != End::Open
    }

    /// Hands down at most `bytes_max` without TLS, in as few and as full segments as possible.
    fn send(&mut self, socket: &impl Sink, storage: &mut dyn Storage, bytes_max: u64) -> Sent {
        let mut sent = Sent::default();
        while sent.bytes < bytes_max && !self.is_read() {
            match self.send_some(socket, storage, bytes_max - sent.bytes) {
                Ok(bytes) => {
                    sent.bytes += bytes;
                    self.advance(bytes);
                }
                Err(failure) => {
                    sent.failure = Some(failure);
                    break;
                }
            }
        }
        sent.carried_bytes = sent.bytes;
        sent.is_whole = self.is_read();
        if sent.is_whole && self.end == End::Finish {
            socket.finish();
        }
        sent
    }

    /// Returns the part of a file that is sent next and must be read after [`Failure::Absent`].
    pub fn absent(&self) -> (&Arc<Entry>, Range<u64>) {
        self.body.absent()
    }

    /// Takes the bytes that were read of that part.
    pub fn on_read(&mut self, buffer: Buffer) -> Result<(), Failure> {
        self.body.on_read(buffer)
    }

    /// Frees memory that is not needed while the response waits.
    pub fn shrink(&mut self) {
        self.bytes.drain(..std::mem::take(&mut self.at) as usize);
        self.bytes.shrink_to_fit();
        self.fields.iter_mut().for_each(|head| head.shrink());
        self.body.shrink();
    }

    fn send_some(&mut self, socket: &impl Sink, storage: &mut dyn Storage, bytes_max: u64) -> Result<u64, Failure> {
        self.fill(storage)?;
        if self.is_read() {
            return Ok(0);
        }
        match self.next(storage, bytes_max)? {
            Next::Memory(gathered) => self.send_gathered(socket, &gathered),
            Next::File { entry, offset, count } => self.send_file(socket, entry, offset, count),
        }
    }

    /// Produces the next bytes of a staged body. If the head has not been sent, it goes first, whatever the state of
    /// the body.
    fn fill(&mut self, storage: &mut dyn Storage) -> Result<(), Failure> {
        let filled = self.body.fill(storage);
        if self.head().is_empty() { filled } else { Ok(()) }
    }

    /// Returns the next bytes that are available without waiting. Call [`Outgoing::fill`] first.
    fn next<'a>(&'a self, storage: &'a mut dyn Storage, bytes_max: u64) -> Result<Next<'a>, Failure> {
        let mut gathered = Gathered::new(bytes_max);
        gathered.push(self.head());
        let mut pieces = self.body.pieces();
        let mut file = None;
        while let Some(piece) = pieces.next().filter(|_| gathered.has_room()) {
            match (piece, piece.in_memory()) {
                (_, Some(bytes)) => {
                    gathered.push(bytes);
                    if (bytes.len() as u64) < piece.len() {
                        break;
                    }
                }
                (Piece::File { entry, range }, None) => {
                    file = Some((entry, range));
                    break;
                }
                (_, None) => unreachable!("only a file is not in memory"),
            }
        }
        let Some((entry, range)) = file else {
            return if gathered.bytes == 0 { Err(self.body.dry()) } else { Ok(Next::Memory(gathered)) };
        };
        match body::look(storage, entry, range, gathered.room()) {
            Ok(Available::Memory(bytes)) if !bytes.is_empty() => {
                gathered.push(bytes);
                Ok(Next::Memory(gathered))
            }
            // Bytes in memory go first, in whatever state the file is.
            _ if gathered.bytes > 0 => Ok(Next::Memory(gathered)),
            Ok(Available::File(count)) => Ok(Next::File { entry, offset: range.start, count }),
            Ok(Available::Memory(_)) => Err(Failure::truncated(entry)),
            Err(failure) => Err(failure),
        }
    }

    fn send_gathered(&self, socket: &impl Sink, gathered: &Gathered<'_>) -> Result<u64, Failure> {
        let more = self.may_wait(gathered.bytes, gathered.room() > 0);
        let sent = match gathered.slices() {
            [bytes] => socket.send(bytes, more),
            slices => socket.send_slices(slices, more),
        };
        sent.map(|sent| sent as u64).map_err(Failure::of_socket)
    }

    /// Returns whether the kernel may hold the last segment of these bytes until it is full (MSG_MORE). It may if the
    /// FIN follows, or if more of the grant follows and there is room. The kernel holds the segment for 200 ms, so it
    /// must never wait for bytes that a producer has not pushed yet. A slow disk read is noticed too late to be
    /// considered here: see [`Outgoing::send_on`].
    fn may_wait(&self, bytes: u64, has_room: bool) -> bool {
        let left_bytes = self.unread_bytes() - bytes;
        if left_bytes == 0 && !self.body.is_open_ended() {
            return self.end != End::Open;
        }
        #[cfg(test)]
        if crate::simulation::planted::strikes(crate::simulation::planted::Fault::HeldTail) {
            return has_room;
        }
        has_room && left_bytes > self.body.pipe().map_or(0, Pipe::to_come_bytes)
    }

    /// Sends a part of a file in the page cache with `sendfile`. If nothing is sent, the file has ended too early.
    fn send_file(&self, socket: &impl Sink, entry: &Entry, offset: u64, count: u64) -> Result<u64, Failure> {
        let Content::Open(file) = &entry.content else { unreachable!("a held body is sent from memory") };
        if count == self.remaining_bytes() && self.end != End::Open {
            // sendfile has no flag for a FIN that follows.
            socket.cork(true);
        }
        match socket.send_file(file, offset, usize::try_from(count).unwrap_or(usize::MAX)) {
            Ok(0) => Err(Failure::truncated(entry)),
            Ok(sent) => Ok(sent as u64),
            Err(error) => Err(Failure::of_send_file(entry, error)),
        }
    }

    fn advance(&mut self, bytes: u64) {
        let head = bytes.min(self.head().len() as u64);
        self.at += head as u32;
        self.body.advance(bytes - head);
    }

    /// Returns the buffer of the head for reuse.
    pub fn into_buffer(self) -> Vec<u8> {
        self.bytes
    }
}

/// The next bytes to send, depending on where they are.
enum Next<'a> {
    Memory(Gathered<'a>),
    File { entry: &'a Arc<Entry>, offset: u64, count: u64 },
}

/// The slices of memory for one system call.
struct Gathered<'a> {
    slices: [IoSlice<'a>; SLICES_MAX],
    len: usize,
    bytes: u64,
    bytes_max: u64,
}

impl<'a> Gathered<'a> {
    fn new(bytes_max: u64) -> Gathered<'a> {
        Gathered { slices: [IoSlice::new(&[]); SLICES_MAX], len: 0, bytes: 0, bytes_max }
    }

    fn room(&self) -> u64 {
        self.bytes_max - self.bytes
    }

    fn has_room(&self) -> bool {
        self.room() > 0 && self.len < SLICES_MAX
    }

    fn push(&mut self, bytes: &'a [u8]) {
        let clipped = &bytes[..bytes.len().min(usize::try_from(self.room()).unwrap_or(usize::MAX))];
        if clipped.is_empty() {
            return;
        }
        self.slices[self.len] = IoSlice::new(clipped);
        self.len += 1;
        self.bytes += clipped.len() as u64;
    }

    fn slices(&self) -> &[IoSlice<'a>] {
        &self.slices[..self.len]
    }
}
