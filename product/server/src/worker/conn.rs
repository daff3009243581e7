use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::sync::Arc;

use http::{BodyLength, Chunked};
use sched::JobId;
use units::Nanos;

use super::line::Line;
use crate::config::Limits;
use crate::transmit::{Connection, End, Stream};

/// One client connection. An idle one holds no buffers.
pub struct Conn {
    pub socket: Connection,
    pub peer: SocketAddr,
    /// Its name in events and messages.
    pub owner: u64,
    pub phase: Phase,
    /// Received and not yet used: part of a head, or requests behind one that is being answered.
    pub input: Input,
    /// When the phase has lasted too long.
    pub deadline: Nanos,
    /// Of the response being sent.
    pub class: u8,
    /// A response was sent on it before.
    pub has_answered: bool,
    /// Something arrived that was not read yet.
    pub is_readable: bool,
    /// It is on the worker's list of those with something to be read.
    pub is_queued: bool,
    /// Its turn ended before all of `input` was looked at.
    pub is_cut: bool,
    /// The client sends no more: behind the last bytes is an end, of which no other event will tell.
    pub has_ended: bool,
    /// The kernel tells us about it.
    pub is_registered: bool,
    /// Nothing is read after the response being sent.
    pub closes: bool,
    /// Segments are held back until they are full.
    pub is_corked: bool,
    pub stream: Stream,
    /// For the access log and the records, while a response is found and sent.
    pub line: Option<Box<Line>>,
}

impl Conn {
    /// What follows the response now being built.
    pub fn end(&self) -> End {
        if self.closes { End::Finish } else { End::Open }
    }

    /// Nothing is asked of us, and nothing is on its way to the client that we know of.
    pub fn is_idle(&self) -> bool {
        let is_waiting = matches!(self.phase, Phase::Head) && self.input.is_empty();
        !self.is_readable && (is_waiting || matches!(self.phase, Phase::Lingering))
    }
}

/// Bytes that were received and not used yet.
#[derive(Debug, Default)]
pub struct Input {
    bytes: Vec<u8>,
    /// How many of them are used: many requests may come in one packet, and moving the rest for each would cost more
    /// than answering it.
    used: usize,
}

impl Input {
    pub fn of(rest: &[u8]) -> Input {
        Input { bytes: rest.to_vec(), used: 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.used == self.bytes.len()
    }

    pub fn rest(&self) -> &[u8] {
        &self.bytes[self.used..]
    }

    pub fn append(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.used);
        self.used = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// An empty one holds no memory.
    pub fn consume(&mut self, bytes: usize) {
        self.used += bytes;
        if self.is_empty() {
            *self = Input::default();
        }
    }
}

/// What a connection is doing.
pub enum Phase {
    /// Waiting for a request, or for the rest of its head.
    Head,
    /// Reading a request body that nobody wants.
    Body(Box<Body>),
    /// What was asked for is being found by somebody who may wait for its disk.
    Finding(Box<Finding>),
    /// A response is being sent.
    Sending(JobId),
    /// The last response is sent and our side closed; reading until the client has seen it and closes too, since
    /// closing both sides at once would answer late bytes with a reset, and a reset can cost the client the response
    /// (RFC 9112 section 9.6).
    Lingering,
}

impl Phase {
    /// A request has its response coming, and nothing behind it is read.
    pub fn is_answering(&self) -> bool {
        matches!(self, Phase::Sending(_) | Phase::Finding(_))
    }
}

/// A request that waits for a find. Its head is kept for the reason that a [`Body`]'s is.
pub struct Finding {
    pub head: Vec<u8>,
    pub raw_path: Arc<[u8]>,
}

/// A request whose body is still arriving. Its head is kept as it came and parsed again when the body has ended: bodies
/// are rare here, and a parsed head borrows from its bytes.
pub struct Body {
    pub head: Vec<u8>,
    pub left: Left,
    /// How much more of it is put up with.
    pub bytes_max: u64,
    pub began_at: Nanos,
    /// Bytes that have arrived, framing included.
    arrived_bytes: u64,
}

pub enum Left {
    Length(u64),
    Chunked(Chunked),
}

impl Body {
    pub fn new(head: &[u8], length: BodyLength, bytes_max: u64, now: Nanos) -> Body {
        let left = match length {
            BodyLength::None => Left::Length(0),
            BodyLength::Length(bytes) => Left::Length(bytes),
            BodyLength::Chunked => Left::Chunked(Chunked::new()),
        };
        Body { head: head.to_vec(), left, bytes_max, began_at: now, arrived_bytes: 0 }
    }

    /// When it has taken too long: a pause may last `body_timeout`, and the whole that much beyond its time at the least rate.
    pub fn deadline(&self, now: Nanos, limits: &Limits) -> Nanos {
        let pause_ends_at = now + limits.body_timeout;
        let Some(second_bytes) = NonZeroU64::new(limits.body_rate_bytes_per_s_min) else { return pause_ends_at };
        let due_s = self.arrived_bytes / second_bytes;
        pause_ends_at.min(self.began_at + Nanos::from_secs(due_s) + limits.body_timeout)
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
        self.arrived_bytes += consumed as u64;
        self.bytes_max = self.bytes_max.checked_sub(consumed as u64).ok_or(TOO_LARGE)?;
        Ok((consumed, is_done))
    }
}

pub const TOO_LARGE: http::Reject =
    http::Reject { status: http::Status::CONTENT_TOO_LARGE, reason: "the request body is too large" };

#[cfg(test)]
mod tests {
    use super::*;

    /// A byte every `step` seconds, until it is too late.
    fn bytes_taken(step_s: u64) -> u64 {
        let limits = Limits::default();
        let mut body = Body::new(b"", BodyLength::Length(1 << 20), 1 << 20, Nanos::ZERO);
        let mut now = Nanos::ZERO;
        for taken in 0..2000 {
            now += Nanos::from_secs(step_s);
            if now >= body.deadline(now - Nanos::from_secs(step_s), &limits) {
                return taken;
            }
            body.take(b"x").unwrap();
        }
        2000
    }

    /// It used to be taken for 230 days.
    #[test]
    fn a_body_of_a_byte_every_19_seconds_is_too_slow() {
        assert_eq!((bytes_taken(19), bytes_taken(1)), (1, 19));
    }

    #[test]
    fn a_body_at_the_least_rate_is_not() {
        let limits = Limits::default();
        let mut body = Body::new(b"", BodyLength::Length(1 << 20), 1 << 20, Nanos::ZERO);
        let rate = limits.body_rate_bytes_per_s_min;
        for second in 1..=(1 << 20) / rate {
            let now = Nanos::from_secs(second);
            assert!(now < body.deadline(now - Nanos::from_secs(1), &limits), "second {second}");
            body.take(&vec![b'x'; rate as usize]).unwrap();
        }
    }

    /// However fast it was, it may not stop.
    #[test]
    fn a_body_that_stops_has_no_credit() {
        let limits = Limits::default();
        let mut body = Body::new(b"", BodyLength::Length(1 << 20), 1 << 20, Nanos::ZERO);
        body.take(&vec![b'x'; 1 << 19]).unwrap();
        assert_eq!(body.deadline(Nanos::from_secs(1), &limits), Nanos::from_secs(1) + limits.body_timeout);
    }

    #[test]
    fn input_is_used_in_order_and_then_holds_nothing() {
        let mut input = Input::of(b"abcdef");
        input.consume(2);
        assert_eq!(input.rest(), b"cdef");
        input.append(b"gh");
        input.consume(1);
        assert_eq!(input.rest(), b"defgh");
        input.consume(5);
        assert!(input.is_empty() && input.bytes.capacity() == 0);
    }
}
