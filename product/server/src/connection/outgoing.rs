mod framed;
mod sealed;

use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;

use http::ResponseHead;

use sched::Size;

use crate::body::{self, Available, Body, Failure, Piece, Pipe};
use crate::files::{Content, Entry};
use crate::net::Sink;
use crate::storage::{Buffer, Storage};

/// Pieces of memory handed down in one system call: a head and a body, or a few parts of several ranges.
const SLICES_MAX: usize = 8;

/// A response, or what is left of it.
#[derive(Debug, Default)]
pub struct Outgoing {
    /// Sent first: the head, and a very small body with it.
    bytes: Vec<u8>,
    /// How many of `bytes` are gone.
    at: u32,
    /// Of a response on a stream, until its engine has it: then `bytes` is empty.
    fields: Option<Box<ResponseHead>>,
    body: Body,
    /// Bytes behind which `at` and `body` are, in records that were sealed and not all handed down, or of a head that no datagram has taken yet.
    sealed: u32,
    /// Its bytes are records already.
    pub is_sealed: bool,
    end: End,
}

/// What follows the last byte. Unless the connection stays open, the kernel is told to wait with a segment that is not
/// full, so that the FIN rides on it instead of taking a packet of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum End {
    /// The connection stays open.
    #[default]
    Open,
    /// The sending side is shut down, the other stays open: the client may still be sending.
    Finish,
}

/// How far one grant got.
#[derive(Debug, Default)]
pub struct Sent {
    /// Of the response.
    pub bytes: u64,
    /// Of the connection: records and frames included.
    pub carried_bytes: u64,
    /// Why there was not more, where that is not for want of room.
    pub failure: Option<Failure>,
    /// The connection's next response may have what is left of the room.
    pub has_room: bool,
    /// Nothing of the response is left, and its end was told.
    pub is_whole: bool,
}

impl Outgoing {
    pub fn new(bytes: Vec<u8>, body: Body, end: End) -> Outgoing {
        Outgoing { bytes, body, end, ..Outgoing::default() }
    }

    /// On a stream of HTTP/2 or HTTP/3, whose engine makes frames of it.
    pub fn on_stream(head: ResponseHead, body: Body) -> Outgoing {
        Outgoing { fields: Some(Box::new(head)), body, ..Outgoing::default() }
    }

    /// Records of a handshake, behind which the connection stays open.
    pub fn of_records(bytes: Vec<u8>) -> Outgoing {
        Outgoing { is_sealed: true, ..Outgoing::new(bytes, Body::default(), End::Open) }
    }

    pub fn remaining_bytes(&self) -> u64 {
        let head_bytes = self.fields.as_ref().map_or(0, |head| head.bytes());
        head_bytes.saturating_add(self.unread_bytes()).saturating_add(self.sealed.into())
    }

    /// Bytes of memory that were made for it alone, but for those that its body counts itself.
    pub fn made_bytes(&self) -> usize {
        let head_bytes = self.fields.as_ref().map_or(0, |head| head.bytes() as usize);
        self.bytes.capacity() + head_bytes + self.body.made_bytes()
    }

    /// The size of a response of which this is left and so much is gone.
    pub fn size(&self, sent_bytes: u64) -> Size {
        let bytes = sent_bytes.saturating_add(self.remaining_bytes());
        // Where a grant takes the head of an empty body and no more, another has to come for the fields behind it, which count as no bytes.
        let is_open = self.body.is_open_ended() || self.body.is_empty() && !self.body.is_nothing();
        if is_open { Size::AtLeast(bytes) } else { Size::Known(bytes) }
    }

    /// Nothing is left of it, nor comes.
    pub fn is_done(&self) -> bool {
        self.remaining_bytes() == 0 && self.body.is_empty()
    }

    /// All of it was read, and sealed where that is done.
    fn is_read(&self) -> bool {
        self.head().is_empty() && self.body.is_empty()
    }

    pub fn body(&mut self) -> &mut Body {
        &mut self.body
    }

    /// What is left of the bytes before the body.
    fn head(&self) -> &[u8] {
        &self.bytes[self.at as usize..]
    }

    /// Bytes that are as they were, not sealed.
    fn unread_bytes(&self) -> u64 {
        self.body.len().saturating_add(self.head().len() as u64)
    }

    /// Whether the sending side ends behind the last byte.
    pub fn ends_connection(&self) -> bool {
        self.end != End::Open
    }

    /// Hands down at most `bytes_max` without TLS, in as few and as full segments as there can be.
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

    /// The part of a file that is sent next, after [`Failure::Absent`].
    pub fn absent(&self) -> (&Arc<Entry>, Range<u64>) {
        self.body.absent()
    }

    /// What was read of the part that is sent next.
    pub fn on_read(&mut self, buffer: Buffer) -> Result<(), Failure> {
        self.body.on_read(buffer)
    }

    /// Gives back memory that is not needed while the response waits.
    pub fn shrink(&mut self) {
        self.bytes.drain(..std::mem::take(&mut self.at) as usize);
        self.bytes.shrink_to_fit();
        self.fields.iter_mut().for_each(|head| head.shrink());
        self.body.shrink();
    }

    fn send_some(&mut self, socket: &impl Sink, storage: &mut dyn Storage, bytes_max: u64) -> Result<u64, Failure> {
        match self.next(storage, bytes_max)? {
            Next::Memory(gathered) => self.send_gathered(socket, &gathered),
            Next::File { entry, offset, count } => self.send_file(socket, entry, offset, count),
        }
    }

    /// What comes next, as far as it can be had at once.
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
            return if gathered.bytes == 0 { Err(Failure::Pending) } else { Ok(Next::Memory(gathered)) };
        };
        match body::look(storage, entry, range, gathered.room()) {
            Ok(Available::Memory(bytes)) if !bytes.is_empty() => {
                gathered.push(bytes);
                Ok(Next::Memory(gathered))
            }
            // What is in memory goes first, whatever became of the file.
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

    /// Says if the kernel may hold the segment that these next bytes end in until it is full (MSG_MORE): where the FIN follows, or more of the
    /// grant does, for which there is room. The kernel holds it for 200 ms, so never for bytes that a producer has not pushed yet. A disk that
    /// has not read what follows is found out too late for this: see [`Outgoing::send_on`].
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

    /// `sendfile` of what is in the page cache; nothing at all means that the file ends too early.
    fn send_file(&self, socket: &impl Sink, entry: &Entry, offset: u64, count: u64) -> Result<u64, Failure> {
        let Content::Open(file) = &entry.content else { unreachable!("a held body is sent from memory") };
        if count == self.remaining_bytes() && self.end != End::Open {
            // sendfile cannot say that the FIN follows.
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

    /// The buffer of the head, to be used again.
    pub fn into_buffer(self) -> Vec<u8> {
        self.bytes
    }
}

/// The next bytes, wherever they are.
enum Next<'a> {
    Memory(Gathered<'a>),
    File { entry: &'a Arc<Entry>, offset: u64, count: u64 },
}

/// What one system call hands down from memory.
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
