use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::Socket;
use crate::files::{Content, Entry};

/// A response, or what is left of it.
#[derive(Debug, Default)]
pub struct Outgoing {
    /// Sent first: the head, and a small body with it.
    bytes: Vec<u8>,
    /// How many of `bytes` are gone.
    at: usize,
    rest: VecDeque<Segment>,
    remaining_bytes: u64,
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

/// A piece of a response's body.
#[derive(Debug)]
pub enum Segment {
    Bytes(Vec<u8>),
    /// Part of a file, read as it is sent.
    File {
        entry: Arc<Entry>,
        range: Range<u64>,
    },
}

impl Segment {
    pub fn len(&self) -> u64 {
        match self {
            Segment::Bytes(bytes) => bytes.len() as u64,
            Segment::File { range, .. } => range.end - range.start,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The part of a file, by whichever way it is at hand.
    pub fn of(entry: &Arc<Entry>, range: Range<u64>) -> Segment {
        match &entry.content {
            Content::Held(body) => Segment::Bytes(body[range.start as usize..range.end as usize].to_vec()),
            Content::Open(_) => Segment::File { entry: Arc::clone(entry), range },
        }
    }
}

/// Why sending stopped.
#[derive(Debug)]
pub enum Failure {
    /// The socket takes no more for now.
    Blocked,
    /// The file became shorter than the length already promised.
    Truncated,
    /// The file could not be read.
    Unreadable(io::Error),
    /// The connection is gone.
    Disconnected,
    /// The reader took too little for too long.
    Stalled,
}

/// How far one grant got.
#[derive(Debug)]
pub struct Sent {
    pub bytes: u64,
    pub failure: Option<Failure>,
}

impl Outgoing {
    pub fn new(bytes: Vec<u8>, rest: VecDeque<Segment>, end: End) -> Outgoing {
        let remaining_bytes = bytes.len() as u64 + rest.iter().map(Segment::len).sum::<u64>();
        Outgoing { bytes, at: 0, rest, remaining_bytes, end }
    }

    pub fn remaining_bytes(&self) -> u64 {
        self.remaining_bytes
    }

    /// Whether the sending side ends behind the last byte.
    pub fn ends_connection(&self) -> bool {
        self.end != End::Open
    }

    /// Hands down at most `bytes_max`, in as few and as full segments as there can be.
    pub fn send(&mut self, socket: &impl Socket, bytes_max: u64) -> Sent {
        let mut sent = Sent { bytes: 0, failure: None };
        while sent.bytes < bytes_max && self.remaining_bytes > 0 {
            match self.send_some(socket, bytes_max - sent.bytes) {
                Ok(bytes) => {
                    sent.bytes += bytes;
                    self.remaining_bytes -= bytes;
                }
                Err(failure) => {
                    sent.failure = Some(failure);
                    return sent;
                }
            }
        }
        if self.remaining_bytes == 0 && self.end == End::Finish {
            socket.finish();
        }
        sent
    }

    fn send_some(&mut self, socket: &impl Socket, bytes_max: u64) -> Result<u64, Failure> {
        if self.at < self.bytes.len() {
            let bytes = clip(&self.bytes[self.at..], bytes_max);
            // More of this grant follows, or the FIN does: the kernel may wait for it and fill the segment.
            let is_last = self.rest.is_empty() && self.at + bytes.len() == self.bytes.len();
            let more = if is_last { self.end != End::Open } else { (bytes.len() as u64) < bytes_max };
            let sent = socket.send(bytes, more).map_err(Failure::of_socket)?;
            self.at += sent;
            return Ok(sent as u64);
        }
        let is_last = self.rest.len() == 1;
        match self.rest.front_mut().expect("bytes remain, so a segment does") {
            Segment::Bytes(_) => {
                let Some(Segment::Bytes(bytes)) = self.rest.pop_front() else { unreachable!("just looked") };
                (self.bytes, self.at) = (bytes, 0);
                Ok(0)
            }
            Segment::File { entry, range } => {
                if is_last && self.end != End::Open && range.end - range.start <= bytes_max {
                    // sendfile cannot say that the FIN follows.
                    socket.cork(true);
                }
                let sent = send_file(socket, entry, range, bytes_max)?;
                range.start += sent;
                if range.is_empty() {
                    self.rest.pop_front();
                }
                Ok(sent)
            }
        }
    }

    /// The buffer of the head, to be used again.
    pub fn into_buffer(self) -> Vec<u8> {
        self.bytes
    }
}

/// `sendfile` of as much as may be sent; nothing at all means that the file ends too early.
fn send_file(socket: &impl Socket, entry: &Entry, range: &Range<u64>, bytes_max: u64) -> Result<u64, Failure> {
    let Content::Open(file) = &entry.content else { unreachable!("a held body is sent as bytes") };
    let count = (range.end - range.start).min(bytes_max);
    match socket.send_file(file, range.start, usize::try_from(count).unwrap_or(usize::MAX)) {
        Ok(0) => Err(Failure::Truncated),
        Ok(sent) => Ok(sent as u64),
        // A read error of the disk comes out of sendfile too.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => {
            Err(Failure::Unreadable(error))
        }
        Err(error) => Err(Failure::of_socket(error)),
    }
}

impl Failure {
    fn of_socket(error: io::Error) -> Failure {
        if error.kind() == io::ErrorKind::WouldBlock { Failure::Blocked } else { Failure::Disconnected }
    }
}

fn clip(bytes: &[u8], bytes_max: u64) -> &[u8] {
    &bytes[..bytes.len().min(usize::try_from(bytes_max).unwrap_or(usize::MAX))]
}
