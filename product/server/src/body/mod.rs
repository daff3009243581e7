//! The body of a response, wherever its bytes come from (memory, a file, a read by another thread, a producer), and the
//! stages that it passes through.

mod failure;
mod pipe;
mod stage;

use std::collections::VecDeque;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use http::http1::{Delimiter, LAST_CHUNK};
use http::{Length, Trailers};
use units::memory::{Account, Counted};

use crate::disk::Buffer;
use crate::files::{Content, Entry};
use crate::storage::{Look, Storage};
pub use failure::Failure;
pub use pipe::{PIPE_BYTES_MAX, Pipe, Trailing};
pub use stage::{Stage, Staged, Tally};

/// The zeros that a body of zeros sends in one piece.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// The remaining pieces of a body, in order. A body with a single piece, as nearly all have, allocates nothing.
#[derive(Debug, Default)]
pub struct Body {
    front: Option<Piece>,
    /// The pieces after the first, if there are any. Boxed to take 8 bytes instead of 32, because a client that reads
    /// nothing may have a hundred bodies.
    #[allow(clippy::box_collection)]
    rest: Option<Box<VecDeque<Piece>>>,
    /// Trailers to be sent in frames, once they have arrived.
    pub trailers: Option<Box<Trailers>>,
}

#[derive(Debug)]
pub enum Piece {
    /// A few bytes that were made for this response.
    Bytes(Vec<u8>),
    /// Bytes of a file that another thread has read. Boxed because it is the largest variant, and waiting responses
    /// must be small.
    Read(Box<Buffer>),
    /// A part of a file. The file is either held in memory and shared by all responses, or open and read as it is sent.
    File { entry: Arc<Entry>, range: Range<u64> },
    /// A page made in memory, and shared like a file.
    Page { page: Arc<Vec<u8>>, at: usize },
    /// Bytes of the pipe that are being written to a file.
    Written { bytes: Arc<Counted>, at: usize },
    /// A number of zeros, produced as they are sent.
    Zeros(u64),
    /// Bytes that a producer pushes; always the last piece.
    Pipe(Box<Pipe>),
    /// A whole body with the stage that it passes through; always the only piece.
    Staged(Box<Staged>),
}

impl Piece {
    pub fn len(&self) -> u64 {
        match self {
            Piece::File { range, .. } => range.end - range.start,
            Piece::Bytes(bytes) => bytes.len() as u64,
            Piece::Read(buffer) => buffer.left().len() as u64,
            Piece::Page { page, at } => (page.len() - at) as u64,
            Piece::Written { bytes, at } => (bytes.len() - at) as u64,
            Piece::Zeros(left) => *left,
            Piece::Pipe(pipe) => pipe.left_bytes(),
            Piece::Staged(staged) => staged.out.left_bytes(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0 && !self.is_awaited()
    }

    pub fn is_file(&self) -> bool {
        matches!(self, Piece::File { .. })
    }

    fn is_awaited(&self) -> bool {
        self.pipe().is_some_and(Pipe::is_awaited)
    }

    /// The pipe from which the connection takes bytes: the producer's or the last stage's.
    fn pipe(&self) -> Option<&Pipe> {
        match self {
            Piece::Pipe(pipe) => Some(pipe),
            Piece::Staged(staged) => Some(&staged.out),
            _ => None,
        }
    }

    /// Returns the next bytes in memory: those that have arrived in a pipe, those that a stage has produced, or zeros.
    /// `None` for an open file.
    pub fn in_memory(&self) -> Option<&[u8]> {
        match self {
            Piece::Bytes(bytes) => Some(bytes),
            Piece::Read(buffer) => Some(buffer.left()),
            Piece::Page { page, at } => Some(&page[*at..]),
            Piece::Written { bytes, at } => Some(&bytes[*at..]),
            Piece::Zeros(left) => Some(&ZEROS[..ZEROS.len().min(usize::try_from(*left).unwrap_or(usize::MAX))]),
            Piece::Pipe(pipe) => Some(pipe.queued()),
            Piece::Staged(staged) => Some(staged.out.queued()),
            Piece::File { entry, range } => match &entry.content {
                Content::Held(body) => Some(&body[range.start as usize..range.end as usize]),
                Content::Open(_) => None,
            },
        }
    }

    fn advance(&mut self, bytes: u64) {
        match self {
            Piece::File { range, .. } => range.start += bytes,
            Piece::Bytes(left) => drop(left.drain(..bytes as usize)),
            Piece::Read(buffer) => buffer.advance(bytes as usize),
            Piece::Page { at, .. } | Piece::Written { at, .. } => *at += bytes as usize,
            Piece::Zeros(left) => *left -= bytes,
            Piece::Pipe(pipe) => pipe.advance(bytes as usize),
            Piece::Staged(staged) => staged.out.advance(bytes as usize),
        }
    }
}

/// Bytes of a body that can be read without waiting.
#[derive(Debug, PartialEq, Eq)]
pub enum Available<'a> {
    /// The next bytes.
    Memory(&'a [u8]),
    /// This many of the next bytes are in a file, for `sendfile`.
    File(u64),
}

impl From<Piece> for Body {
    fn from(piece: Piece) -> Body {
        let mut body = Body::default();
        body.push(piece);
        body
    }
}

impl From<Pipe> for Body {
    fn from(mut pipe: Pipe) -> Body {
        let (trailers, has_chunk) = (pipe.take_trailers(), pipe.has_trailers());
        let piece = Piece::Pipe(Box::new(pipe));
        // Trailers that follow the last chunk are written when the body is framed, even if it has no bytes.
        let front = (has_chunk || !piece.is_empty()).then_some(piece);
        Body { front, trailers, ..Body::default() }
    }
}

impl FromIterator<Piece> for Body {
    fn from_iter<I: IntoIterator<Item = Piece>>(pieces: I) -> Body {
        let mut body = Body::default();
        pieces.into_iter().for_each(|piece| body.push(piece));
        body
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Body {
        Piece::Bytes(bytes).into()
    }
}

impl Body {
    pub fn push(&mut self, piece: Piece) {
        match &self.front {
            _ if piece.is_empty() => {}
            None => self.front = Some(piece),
            Some(_) => self.rest.get_or_insert_default().push_back(piece),
        }
    }

    /// Passes the whole body through this stage, whose output has the length `length`.
    pub fn through(mut self, stage: Box<dyn Stage>, length: Length) -> Body {
        // A body of known length ends with its last byte, and the connection takes the trailers then.
        let trailers = if length == Length::Unknown { None } else { self.trailers.take() };
        Body { trailers, ..Piece::Staged(Box::new(Staged::new(self, stage, length))).into() }
    }

    /// Returns true if the body passes through a stage.
    pub fn is_staged(&self) -> bool {
        matches!(self.front, Some(Piece::Staged(_)))
    }

    /// Returns the byte counts of the last stage. `None` if there is no stage.
    pub fn tally(&self) -> Option<Arc<Tally>> {
        match &self.front {
            Some(Piece::Staged(staged)) => Some(Arc::clone(staged.tally())),
            _ => None,
        }
    }

    /// Returns the body before all stages, which contains the files and producers. Without stages, that is the body
    /// itself.
    pub fn start(&mut self) -> &mut Body {
        // The borrow checker rejects a `match` on the front that returns `self` in its other arm.
        if !self.is_staged() {
            return self;
        }
        match &mut self.front {
            Some(Piece::Staged(staged)) => staged.source.start(),
            _ => unreachable!("it is staged"),
        }
    }

    /// Inserts a piece before the pipe, which stays the last piece.
    pub fn put_before_pipe(&mut self, piece: Piece) {
        let pipe = match &mut self.rest {
            Some(rest) if !rest.is_empty() => rest.pop_back(),
            _ => self.front.take(),
        };
        self.push(piece);
        pipe.into_iter().for_each(|pipe| self.push(pipe));
    }

    /// Replaces each piece with the result of `with`. Adjacent parts of a file are joined.
    pub fn replace(&mut self, with: impl Fn(Piece) -> Piece) {
        let rest = self.rest.take().into_iter().flat_map(|rest| *rest);
        for piece in self.front.take().into_iter().chain(rest).map(with) {
            let last = self.rest.as_mut().and_then(|rest| rest.back_mut()).or(self.front.as_mut());
            match (last, piece) {
                (Some(Piece::File { entry, range }), Piece::File { entry: next, range: more })
                    if Arc::ptr_eq(entry, &next) && range.end == more.start =>
                {
                    range.end = more.end;
                }
                (_, piece) => self.push(piece),
            }
        }
    }

    /// Returns the number of bytes left, if known.
    pub fn len(&self) -> u64 {
        self.pieces().map(Piece::len).fold(0, u64::saturating_add)
    }

    pub fn is_empty(&self) -> bool {
        self.front.is_none()
    }

    /// Returns true if every remaining byte is in memory: nothing must be read from a file or is still to arrive.
    pub fn is_in_memory(&self) -> bool {
        self.pieces().all(|piece| piece.in_memory().is_some() && !piece.is_awaited())
    }

    /// The pipe at the end of the body, from which the connection takes its bytes. Without stages, and in
    /// [`Body::start`], that is the pipe to which its producer pushes.
    pub fn pipe(&self) -> Option<&Pipe> {
        let rest = self.rest.as_ref().and_then(|rest| rest.back());
        rest.or(self.front.as_ref()).and_then(Piece::pipe)
    }

    pub fn pipe_mut(&mut self) -> Option<&mut Pipe> {
        let rest = self.rest.as_mut().and_then(|rest| rest.back_mut());
        match rest.or(self.front.as_mut()) {
            Some(Piece::Pipe(pipe)) => Some(pipe),
            Some(Piece::Staged(staged)) => Some(&mut staged.out),
            _ => None,
        }
    }

    /// Takes the trailers from a finished producer's pipe, and removes the pipe if it is empty.
    pub fn on_finished(&mut self) {
        let start = self.start();
        start.trailers = start.pipe_mut().and_then(Pipe::take_trailers);
        start.advance(0);
    }

    /// Returns true if nothing is left and nothing, including trailers, is still to come.
    pub fn is_nothing(&self) -> bool {
        self.is_empty() && self.trailers.is_none()
    }

    /// Frames the body for HTTP/1.1. A file, and any body that ends by its length, is not changed.
    pub fn delimited(mut self, delimiter: Delimiter) -> Body {
        match self.pipe_mut() {
            Some(pipe) => pipe.delimit(delimiter),
            None if delimiter == Delimiter::LastChunk => self.push(Piece::Bytes(LAST_CHUNK.to_vec())),
            None => {}
        }
        self.advance(0);
        self
    }

    /// Returns true if the length of the body becomes known only at its end.
    pub fn is_open_ended(&self) -> bool {
        self.pipe().is_some_and(Pipe::is_open_ended)
    }

    pub fn pieces(&self) -> impl Iterator<Item = &Piece> {
        self.front.iter().chain(self.rest.iter().flat_map(|rest| rest.iter()))
    }

    /// Produces the next bytes of a staged body; does nothing for other bodies. Returns a failure of the source, but
    /// only once all bytes produced earlier have been taken. Afterwards the body may be empty.
    pub fn fill(&mut self, storage: &mut dyn Storage) -> Result<(), Failure> {
        let Some(Piece::Staged(staged)) = &mut self.front else { return Ok(()) };
        let filled = staged.fill(storage);
        if let Some(trailers) = staged.take_trailers() {
            self.trailers = Some(trailers);
        }
        self.advance(0);
        filled
    }

    /// Returns at most `bytes_max` of the next bytes, or none if a file has ended too early. Fails if another thread
    /// must read the bytes ([`Body::absent`]) or if they have not arrived.
    pub fn available<'a>(&'a self, storage: &'a mut dyn Storage, bytes_max: u64) -> Result<Available<'a>, Failure> {
        let Some(piece) = &self.front else { return Ok(Available::Memory(&[])) };
        let clip = |bytes: u64| usize::try_from(bytes.min(bytes_max)).unwrap_or(usize::MAX);
        match (piece, piece.in_memory()) {
            (_, Some([])) => Err(self.dry()),
            (_, Some(bytes)) => Ok(Available::Memory(&bytes[..clip(bytes.len() as u64)])),
            (Piece::File { entry, range }, None) => look(storage, entry, range, bytes_max),
            (_, None) => unreachable!("only a file is not in memory"),
        }
    }

    /// Appends the next bytes that are available without waiting, at most `bytes_max`, or none if nothing is left. A
    /// failure after some bytes is returned by the next call.
    pub fn read(&mut self, storage: &mut dyn Storage, into: &mut Vec<u8>, bytes_max: u64) -> Result<u64, Failure> {
        let mut read = 0;
        while read < bytes_max {
            match self.peek(storage, into, bytes_max - read) {
                Ok(0) => break,
                Ok(bytes) => {
                    self.advance(bytes);
                    read += bytes;
                }
                Err(failure) if read == 0 => return Err(failure),
                Err(_) => break,
            }
        }
        Ok(read)
    }

    /// Appends bytes of the next piece without consuming them, or none if nothing is left.
    pub fn peek(&mut self, storage: &mut dyn Storage, into: &mut Vec<u8>, bytes_max: u64) -> Result<u64, Failure> {
        self.fill(storage)?;
        if self.is_empty() {
            return Ok(0);
        }
        let before = into.len();
        match self.available(storage, bytes_max)? {
            Available::Memory(bytes) => into.extend_from_slice(bytes),
            Available::File(count) => {
                into.resize(before + count as usize, 0);
                let got = self.read_file(&mut into[before..]);
                into.truncate(before + *got.as_ref().unwrap_or(&0));
                got?;
            }
        }
        let bytes = (into.len() - before) as u64;
        if bytes == 0 {
            return Err(self.truncated());
        }
        Ok(bytes)
    }

    /// Returns the reason why nothing is queued at the end of the body.
    pub fn dry(&self) -> Failure {
        self.pipe().map_or(Failure::Pending, Pipe::dry)
    }

    fn read_file(&self, into: &mut [u8]) -> Result<usize, Failure> {
        let (entry, range) = self.absent();
        let Content::Open(file) = &entry.content else { unreachable!("a held body is read from memory") };
        file.read_at(into, range.start).map_err(|error| Failure::unreadable(entry, error))
    }

    /// Consumes `bytes`.
    pub fn advance(&mut self, bytes: u64) {
        let mut left = bytes;
        while let Some(piece) = &mut self.front {
            let of_piece = left.min(piece.len());
            piece.advance(of_piece);
            left -= of_piece;
            if !piece.is_empty() {
                return;
            }
            self.front = self.rest.as_mut().and_then(|rest| rest.pop_front());
        }
    }

    /// Returns the memory in bytes that was allocated only for this body. Pipes and file buffers are excluded, because
    /// they count their own memory.
    pub fn made_bytes(&self) -> usize {
        let of = |piece: &Piece| match piece {
            Piece::Bytes(bytes) => bytes.capacity(),
            Piece::Staged(staged) => staged.source.made_bytes(),
            _ => 0,
        };
        self.pieces().map(of).sum()
    }

    /// Counts the memory of its stages in this account from now on.
    pub fn count_in(&mut self, account: &Account) {
        if let Some(Piece::Staged(staged)) = &mut self.front {
            staged.count_in(account);
        }
    }

    /// Returns the memory in bytes of the body's pipe, its stages, its pending writes and its read buffers.
    #[cfg(test)]
    pub fn alive_bytes(&self) -> usize {
        let of = |piece: &Piece| match piece {
            Piece::Pipe(pipe) => pipe.alive_bytes(),
            Piece::Staged(staged) => staged.alive_bytes(),
            Piece::Written { bytes, .. } => bytes.capacity(),
            Piece::Read(buffer) => buffer.alive_bytes(),
            _ => 0,
        };
        self.pieces().map(of).sum()
    }

    /// Returns the part of a file that comes next.
    pub fn absent(&self) -> (&Arc<Entry>, Range<u64>) {
        match &self.front {
            Some(Piece::File { entry, range }) => (entry, range.clone()),
            Some(Piece::Staged(staged)) => staged.source.absent(),
            _ => unreachable!("only a file is read aside"),
        }
    }

    /// Takes the result of a read of the next part of a file.
    pub fn on_read(&mut self, buffer: Buffer) -> Result<(), Failure> {
        if buffer.left().is_empty() {
            return Err(self.truncated());
        }
        if let Some(Piece::Staged(staged)) = &mut self.front {
            return staged.source.on_read(buffer);
        }
        let Some(Piece::File { range, .. }) = &mut self.front else {
            unreachable!("a response waits for one read at a time")
        };
        range.start += buffer.left().len() as u64;
        let file = self.front.replace(Piece::Read(Box::new(buffer))).filter(|file| !file.is_empty());
        if let Some(file) = file {
            self.rest.get_or_insert_default().push_front(file);
        }
        Ok(())
    }

    fn truncated(&self) -> Failure {
        Failure::truncated(self.absent().0)
    }

    pub fn shrink(&mut self) {
        if let Some(rest) = &mut self.rest {
            rest.shrink_to_fit();
        }
    }
}

/// Finds the first bytes of a part of a file in memory.
pub fn look<'a>(
    storage: &'a mut dyn Storage,
    entry: &Arc<Entry>,
    range: &Range<u64>,
    bytes_max: u64,
) -> Result<Available<'a>, Failure> {
    match storage.look(entry, range.start, (range.end - range.start).min(bytes_max)) {
        Ok(Look::Copied(bytes)) => Ok(Available::Memory(bytes)),
        Ok(Look::Resident(count)) => Ok(Available::File(count)),
        Ok(Look::Absent) => Err(Failure::Absent),
        Err(error) => Err(Failure::unreadable(entry, error)),
    }
}
