use std::net::SocketAddr;

use http::{BodyLength, Chunked};
use sched::JobId;
use units::Nanos;

use super::line::Line;
use crate::transmit::{Connection, End, Stream};

/// One client connection. An idle one holds no buffers.
pub struct Conn {
    pub socket: Connection,
    pub peer: SocketAddr,
    /// Differs between a slot's tenants.
    pub generation: u32,
    pub phase: Phase,
    /// Received and not yet used: part of a head, or requests behind one that is being answered.
    pub input: Vec<u8>,
    /// When the phase has lasted too long.
    pub deadline: Nanos,
    /// Of the response being sent.
    pub class: u8,
    /// Something arrived that was not read yet.
    pub is_readable: bool,
    /// The client sends no more: behind the last bytes is an end, of which no other event will tell.
    pub has_ended: bool,
    /// The kernel tells us about it.
    pub is_registered: bool,
    /// Nothing is read after the response being sent.
    pub closes: bool,
    /// What arrived after the last request that will be answered, so closing at once could reset the response.
    pub has_unread: bool,
    /// Segments are held back until they are full.
    pub is_corked: bool,
    pub stream: Stream,
    /// For the access log, while a response is being sent.
    pub line: Option<Box<Line>>,
}

impl Conn {
    /// What follows the response now being built: `closing` if nothing more is read from the connection.
    pub fn end(&self, closing: End) -> End {
        if self.closes && !self.has_unread { closing } else { End::Open }
    }
}

/// What a connection is doing.
pub enum Phase {
    /// Waiting for a request, or for the rest of its head.
    Head,
    /// Reading a request body that nobody wants.
    Body(Box<Body>),
    /// A response is being sent; `job` is known where the worker sends it itself.
    Sending { job: Option<JobId> },
    /// The last response is sent; reading until the client has seen it and closes.
    Lingering,
}

impl Phase {
    pub fn is_sending(&self) -> bool {
        matches!(self, Phase::Sending { .. })
    }
}

/// A request whose body is still arriving. Its head is kept as it came and parsed again when the body has ended: bodies
/// are rare here, and a parsed head borrows from its bytes.
pub struct Body {
    pub head: Vec<u8>,
    pub left: Left,
    /// How much more of it is put up with.
    pub bytes_max: u64,
}

pub enum Left {
    Length(u64),
    Chunked(Chunked),
}

impl Body {
    pub fn new(head: &[u8], length: BodyLength, bytes_max: u64) -> Body {
        let left = match length {
            BodyLength::None => Left::Length(0),
            BodyLength::Length(bytes) => Left::Length(bytes),
            BodyLength::Chunked => Left::Chunked(Chunked::new()),
        };
        Body { head: head.to_vec(), left, bytes_max }
    }

    /// Takes the next bytes; says how many belong to the body and whether it has ended.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(usize, bool), http::Reject> {
        let (consumed, is_done) = match &mut self.left {
            Left::Length(left) => {
                let consumed = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= consumed as u64;
                (consumed, *left == 0)
            }
            Left::Chunked(chunked) => {
                let progress = chunked.discard(bytes)?;
                (progress.consumed, progress.done)
            }
        };
        self.bytes_max = self.bytes_max.checked_sub(consumed as u64).ok_or(TOO_LARGE)?;
        Ok((consumed, is_done))
    }
}

pub const TOO_LARGE: http::Reject =
    http::Reject { status: http::Status::CONTENT_TOO_LARGE, reason: "the request body is too large" };
