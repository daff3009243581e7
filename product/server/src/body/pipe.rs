//! A body whose bytes arrive later: a queue of the bytes that its producer has pushed and its connection has not taken.
//! Both run on the same event loop. The body owns the queue, so the queue is freed with its response.

use http::http1::{CHUNK_OVERHEAD_MAX, Delimiter, LAST_CHUNK, begin_chunk};
use http::{Length, Trailers};
use units::memory::{Account, Counted};

use super::Failure;

/// The maximum number of bytes queued in a pipe. The producer keeps any further bytes.
pub const PIPE_BYTES_MAX: usize = 64 << 10;
/// The free room, in bytes, from which a stopped producer may resume.
const ROOM_AGAIN_BYTES: usize = PIPE_BYTES_MAX / 2;

#[derive(Debug)]
pub struct Pipe {
    /// The pushed bytes, in chunks if the codec requires them.
    bytes: Counted,
    /// The number of `bytes` consumed.
    at: usize,
    /// The bytes still to be pushed, if the producer announced a length.
    to_come: Option<u64>,
    delimiter: Delimiter,
    trailing: Trailing,
    /// The trailers, until they are written or passed to the body.
    trailers: Option<Box<Trailers>>,
    is_finished: bool,
    /// True if the producer has failed, so that nothing follows the queued bytes.
    is_cut: bool,
    was_full: bool,
    write: FileWrite,
}

/// The trailers that a client accepts (RFC 9110 section 6.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trailing {
    /// The client accepts no trailers.
    Never,
    /// After the last chunk, if the body is chunked.
    InChunks,
    /// In frames of HTTP/2 or HTTP/3.
    InFrames,
}

/// The state of writing queued bytes to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileWrite {
    None,
    UnderWay,
    /// A write has failed; no further write is made.
    Failed,
}

impl Pipe {
    /// Creates an empty pipe, whose bytes are counted in `account`.
    pub fn new(length: Length, account: &Account) -> Pipe {
        Pipe {
            bytes: Counted::new(account),
            at: 0,
            to_come: match length {
                Length::Known(bytes) => Some(bytes),
                Length::Unknown => None,
            },
            delimiter: Delimiter::Length,
            trailing: Trailing::InFrames,
            trailers: None,
            is_finished: false,
            is_cut: false,
            was_full: false,
            write: FileWrite::None,
        }
    }

    /// Takes as many bytes as there is room for, and returns their number. `None` if the producer has pushed more than
    /// it announced.
    pub fn push(&mut self, bytes: &[u8]) -> Option<usize> {
        let taken = bytes.len().min(self.room());
        let is_over = self.is_finished || self.to_come.is_some_and(|left| left < bytes.len() as u64);
        if is_over && !bytes.is_empty() {
            return None;
        }
        if self.bytes.is_empty() && self.delimiter == Delimiter::Length {
            // Reserves once rather than growing by doubling.
            let room = self.room() as u64;
            let expected = self.to_come.map_or(taken, |left| left.min(room) as usize);
            self.bytes.edit().reserve_exact(expected);
        }
        self.to_come = self.to_come.map(|left| left - taken as u64);
        self.put(&bytes[..taken]);
        self.was_full |= taken < bytes.len() || self.room() == 0;
        Some(taken)
    }

    /// Takes all of these bytes, even if there is no room, because the stage that produced them cannot keep them.
    /// Returns false if there are more than were announced.
    pub fn give(&mut self, bytes: &[u8]) -> bool {
        let is_over = self.to_come.is_some_and(|left| left < bytes.len() as u64);
        if !bytes.is_empty() && !is_over {
            self.to_come = self.to_come.map(|left| left - bytes.len() as u64);
            self.put(bytes);
        }
        !is_over
    }

    /// From now on passes trailers to the body, as for frames, so that stages after this pipe get them. Returns the
    /// trailers that the client accepts.
    pub fn pass_trailers(&mut self) -> Trailing {
        std::mem::replace(&mut self.trailing, Trailing::InFrames)
    }

    /// Counts its bytes in this account from now on.
    pub fn count_in(&mut self, account: &Account) {
        self.bytes.move_to(account);
    }

    /// Sets the trailers that the client accepts. Trailers that it does not accept are dropped.
    pub fn trailing(mut self, trailing: Trailing) -> Pipe {
        self.trailing = trailing;
        self.trailers = self.trailers.filter(|_| trailing != Trailing::Never);
        self
    }

    pub fn has_trailers(&self) -> bool {
        self.trailers.is_some()
    }

    /// Returns the trailers to be sent in frames, once.
    pub fn take_trailers(&mut self) -> Option<Box<Trailers>> {
        if self.trailing == Trailing::InFrames { self.trailers.take() } else { None }
    }

    /// Ends the body with these trailers. Returns false if the producer announced more bytes.
    pub fn finish(&mut self, trailers: Option<Box<Trailers>>) -> bool {
        if !self.is_finished {
            self.trailers = trailers.filter(|_| self.trailing != Trailing::Never);
            self.end_chunks();
        }
        self.is_finished = true;
        self.to_come.is_none_or(|left| left == 0)
    }

    /// Cuts off the body because its producer failed, so that the client does not consider it complete. Queued bytes
    /// are still sent.
    pub fn cut(&mut self) {
        self.is_cut = true;
    }

    /// Returns the reason why nothing is queued.
    pub fn dry(&self) -> Failure {
        if self.is_cut { Failure::Source } else { Failure::Pending }
    }

    /// Returns the number of bytes that may be pushed now.
    pub fn room(&self) -> usize {
        self.own_room().min(self.bytes.account().room())
    }

    /// Returns true if the pipe has room but the memory of its connection is used up.
    pub fn waits_for_memory(&self) -> bool {
        self.own_room() > 0 && self.bytes.account().room() == 0
    }

    fn own_room(&self) -> usize {
        let beside = if self.to_come.is_none() { CHUNK_OVERHEAD_MAX + LAST_CHUNK.len() } else { 0 };
        PIPE_BYTES_MAX.saturating_sub(self.queued().len() + beside)
    }

    /// From now on frames bytes as the HTTP/1.1 codec requires, including bytes that are already queued.
    pub fn delimit(&mut self, delimiter: Delimiter) {
        self.delimiter = delimiter;
        if delimiter == Delimiter::LastChunk {
            let (queued, at) = (self.bytes.split(), std::mem::take(&mut self.at));
            self.put(&queued[at..]);
            if self.is_finished {
                self.end_chunks();
            }
        } else if self.trailing == Trailing::InChunks {
            self.trailers = None;
        }
    }

    /// Queues the end of the chunks, if the body is chunked.
    fn end_chunks(&mut self) {
        if self.delimiter != Delimiter::LastChunk {
            return;
        }
        match self.trailers.take() {
            Some(trailers) => trailers.encode(&mut self.bytes.edit()),
            None => self.bytes.edit().extend_from_slice(LAST_CHUNK),
        }
    }

    /// Returns true if only the end of the connection marks the end of the body.
    pub fn ends_by_close(&self) -> bool {
        self.delimiter == Delimiter::Close
    }

    fn put(&mut self, bytes: &[u8]) {
        let is_moved = self.at > 0 && self.at >= self.queued().len();
        let gone = if is_moved { std::mem::take(&mut self.at) } else { 0 };
        let mut into = self.bytes.edit();
        into.drain(..gone);
        let (len, overhead) = (into.len(), if self.delimiter == Delimiter::LastChunk { CHUNK_OVERHEAD_MAX } else { 0 });
        let needed = len + bytes.len() + overhead;
        if needed > into.capacity() {
            // Doubles the capacity, up to the maximum of queued bytes.
            let capacity = needed.max((2 * into.capacity()).min(PIPE_BYTES_MAX));
            into.reserve_exact(capacity - len);
        }
        if self.delimiter == Delimiter::LastChunk && !bytes.is_empty() {
            begin_chunk(&mut into, bytes.len());
            into.extend_from_slice(bytes);
            return into.extend_from_slice(b"\r\n");
        }
        into.extend_from_slice(bytes);
    }

    /// The allocated memory in bytes.
    #[cfg(test)]
    pub fn alive_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Returns the next bytes that have arrived.
    pub fn queued(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    /// Returns the number of bytes left, if known.
    pub fn left_bytes(&self) -> u64 {
        self.to_come_bytes().saturating_add(self.queued().len() as u64)
    }

    /// Returns the number of bytes that the producer has announced and not pushed yet.
    pub fn to_come_bytes(&self) -> u64 {
        self.to_come.unwrap_or(0)
    }

    /// Returns true if the number of remaining bytes is known only at the end.
    pub fn is_open_ended(&self) -> bool {
        self.to_come.is_none() && !self.is_finished
    }

    /// Returns true if some bytes have not arrived yet.
    pub fn is_awaited(&self) -> bool {
        self.is_open_ended() || self.to_come.is_some_and(|left| left > 0)
    }

    /// Consumes `bytes`. Once all queued bytes are consumed, their memory is freed, even if more are expected.
    pub fn advance(&mut self, bytes: usize) {
        self.at += bytes;
        if self.queued().is_empty() {
            self.at = 0;
            self.bytes.take();
        }
    }

    /// Returns true if queued bytes may go to a file and no write is in progress.
    pub fn may_be_written(&self) -> bool {
        self.write == FileWrite::None && !self.queued().is_empty() && self.is_awaited()
    }

    pub fn is_being_written(&self) -> bool {
        self.write == FileWrite::UnderWay
    }

    /// Takes the queued bytes, to be written to a file.
    pub fn begin_write(&mut self) -> Counted {
        (self.write, self.was_full) = (FileWrite::UnderWay, false);
        let (mut bytes, at) = (self.bytes.split(), std::mem::take(&mut self.at));
        bytes.edit().drain(..at);
        bytes
    }

    /// Puts the taken bytes back, because the write could not be started.
    pub fn put_back(&mut self, bytes: &[u8]) {
        (self.write, self.was_full) = (FileWrite::None, true);
        self.bytes.edit().extend_from_slice(bytes);
    }

    pub fn end_write(&mut self, has_succeeded: bool) {
        self.write = if has_succeeded { FileWrite::None } else { FileWrite::Failed };
    }

    /// Returns true, once, when a stopped producer may resume.
    pub fn has_room_again(&mut self) -> bool {
        let has_room = self.was_full && self.is_awaited() && self.own_room() >= ROOM_AGAIN_BYTES;
        self.was_full &= !has_room;
        has_room
    }
}

#[cfg(test)]
mod tests {
    use http::http1::Chunked;
    use proptest::prelude::*;

    use super::*;

    fn new_pipe(length: Length) -> Pipe {
        Pipe::new(length, &Account::default())
    }

    /// Takes out at most `bytes` of what has arrived.
    fn take(pipe: &mut Pipe, bytes: usize) -> Vec<u8> {
        let taken = pipe.queued()[..bytes.min(pipe.queued().len())].to_vec();
        pipe.advance(taken.len());
        taken
    }

    proptest! {
        /// For any portions pushed and taken, and any framing of the end.
        #[test]
        fn what_is_pushed_comes_out_and_no_more_waits_than_may(
            steps in prop::collection::vec((0..2 * PIPE_BYTES_MAX, 0..2 * PIPE_BYTES_MAX), 1..20),
            delimiter in prop::sample::select(vec![Delimiter::Length, Delimiter::LastChunk, Delimiter::Close]),
            delimited_at in 0_usize..3,
        ) {
            let (mut pipe, mut pushed, mut came) = (new_pipe(Length::Unknown), 0, Vec::new());
            for (nth, (push, portion)) in steps.into_iter().enumerate() {
                if nth == delimited_at {
                    came.clear();
                    pushed = pipe.queued().len();
                    pipe.delimit(delimiter);
                }
                let room = pipe.room();
                prop_assert_eq!(pipe.push(&vec![7; push]), Some(push.min(room)));
                pushed += push.min(room);
                prop_assert!(pipe.queued().len() <= PIPE_BYTES_MAX && pipe.is_awaited() && pipe.is_open_ended());
                prop_assert_eq!(pipe.left_bytes(), pipe.queued().len() as u64);
                came.extend(take(&mut pipe, portion));
            }
            let is_delimited = pipe.delimiter == delimiter;
            prop_assert!(pipe.finish(None) && pipe.finish(None) && !pipe.is_awaited() && !pipe.is_open_ended());
            prop_assert!(pipe.queued().len() <= PIPE_BYTES_MAX);
            prop_assert_eq!(pipe.push(&[7]), None);
            came.extend(take(&mut pipe, usize::MAX));
            if delimiter == Delimiter::LastChunk && is_delimited {
                let progress = Chunked::new().discard(&came).unwrap();
                prop_assert!(progress.done && progress.consumed == came.len());
                came.retain(|byte| *byte == 7);
            }
            prop_assert!(came == vec![7; pushed], "{} of {} bytes", came.len(), pushed);
            prop_assert_eq!(pipe.bytes.capacity(), 0);
        }
    }

    #[test]
    fn as_much_is_pushed_as_was_announced() {
        let mut pipe = new_pipe(Length::Known(10));
        assert_eq!((pipe.room(), pipe.left_bytes()), (PIPE_BYTES_MAX, 10));
        assert!(pipe.is_awaited() && !pipe.is_open_ended());
        assert_eq!(pipe.push(&[7; 4]), Some(4));
        assert_eq!(take(&mut pipe, 3).len(), 3);
        assert_eq!(pipe.left_bytes(), 7);
        assert_eq!(pipe.push(&[7; 7]), None, "more than is to come");
        assert_eq!(pipe.push(&[7; 6]), Some(6));
        assert!(!pipe.is_awaited() && pipe.push(&[]) == Some(0) && pipe.finish(None));
        let mut short = new_pipe(Length::Known(10));
        short.push(&[7; 9]);
        assert!(!short.finish(None));
    }

    #[test]
    fn trailers_go_as_their_client_takes_them() {
        let trailers = || Trailers::of([(&b"a"[..], &b"b"[..])].into_iter()).unwrap();
        for (trailing, delimiter, queued, is_framed) in [
            (Trailing::InFrames, Delimiter::Length, &b"7"[..], true),
            (Trailing::InChunks, Delimiter::LastChunk, b"1\r\n7\r\n0\r\na: b\r\n\r\n", false),
            (Trailing::InChunks, Delimiter::Length, b"7", false),
            (Trailing::Never, Delimiter::LastChunk, b"1\r\n7\r\n0\r\n\r\n", false),
        ] {
            for is_finished_first in [false, true] {
                let mut pipe = new_pipe(Length::Unknown);
                pipe.push(b"7");
                if is_finished_first {
                    pipe.finish(trailers());
                }
                let mut pipe = pipe.trailing(trailing);
                // A body takes the trailers before its response is encoded.
                let mut taken = pipe.take_trailers();
                pipe.delimit(delimiter);
                pipe.finish(trailers());
                taken = taken.or(pipe.take_trailers());
                assert_eq!(pipe.queued(), queued, "{trailing:?}");
                assert_eq!(taken.is_some(), is_framed, "{trailing:?}");
                assert!(pipe.take_trailers().is_none(), "once");
            }
        }
    }

    #[test]
    fn room_is_told_again_once_when_half_is_free() {
        let mut pipe = new_pipe(Length::Unknown);
        assert!(!pipe.has_room_again(), "it was never full");
        let taken = pipe.push(&[7; 2 * PIPE_BYTES_MAX]).unwrap();
        assert!(!pipe.has_room_again());
        take(&mut pipe, ROOM_AGAIN_BYTES - 100);
        assert!(!pipe.has_room_again());
        take(&mut pipe, 100);
        assert!(pipe.has_room_again() && !pipe.has_room_again(), "of {taken} bytes");
        // A complete body needs no more room.
        pipe.push(&[7; PIPE_BYTES_MAX]);
        pipe.finish(None);
        take(&mut pipe, PIPE_BYTES_MAX);
        assert!(!pipe.has_room_again());
    }

    /// A connection whose memory is used up gets nothing more, and may have what it frees.
    #[test]
    fn a_pipe_has_the_room_that_its_connection_has() {
        let whole = Account::of_at_most(64 * 40_000);
        let account = whole.part();
        let [mut first, mut second] =
            [Length::Known(60_000), Length::Unknown].map(|length| Pipe::new(length, &account));
        let room = first.room();
        assert_eq!((room, first.push(&[7; 60_000])), (40_000, Some(room)));
        assert_eq!((account.bytes(), whole.bytes()), (40_000, 40_000), "no more than the bytes that came");
        assert!(first.room() == 0 && first.waits_for_memory() && second.waits_for_memory());
        assert_eq!(second.push(&[7; 10]), Some(0));
        take(&mut first, 40_000);
        assert_eq!((account.bytes(), second.push(&[7; 10])), (0, Some(10)));
        drop((first, second));
        assert_eq!(whole.bytes(), 0);
    }
}
