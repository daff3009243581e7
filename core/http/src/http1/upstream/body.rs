//! Removes the framing of an upstream's response body as it arrives.

use super::{Framing, UpstreamFault};
use crate::PeerLength;
use crate::http1::{Chunked, Taken};
use crate::trailers::Trailers;

/// The state of a response body.
#[derive(Debug, Clone)]
pub struct UpstreamBody(State);

#[derive(Debug, Clone)]
enum State {
    /// A body with this many bytes left.
    Length(PeerLength),
    /// A chunked body, and its trailer section as received so far, which [`Chunked`] limits.
    Chunked(Chunked, Vec<u8>),
    /// A body that ends with its connection or stream.
    Close,
}

impl UpstreamBody {
    pub fn new(framing: Framing) -> UpstreamBody {
        UpstreamBody(match framing {
            Framing::None => State::Length(PeerLength::ZERO),
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => State::Chunked(Chunked::of_upstream(), Vec::new()),
            Framing::Close | Framing::Upgraded | Framing::Stream => State::Close,
        })
    }

    /// Takes the next bytes of the body. Call it with the rest until all bytes are consumed or the body is done. Bytes
    /// after its end are not consumed: they are unsolicited, and the connection must carry no other request.
    pub fn take<'b>(&mut self, bytes: &'b [u8]) -> Result<Taken<'b>, UpstreamFault> {
        match &mut self.0 {
            State::Length(left) => {
                let consumed = left.bytes().min(bytes.len() as u64) as usize;
                *left = left.less(consumed as u64).unwrap_or_default();
                Ok(Taken { consumed, data: &bytes[..consumed], is_done: *left == PeerLength::ZERO })
            }
            State::Chunked(chunked, section) => {
                let is_trailer = chunked.is_in_trailers();
                let taken = chunked.take(bytes).map_err(|reject| UpstreamFault(reject.reason))?;
                section.extend_from_slice(if is_trailer { &bytes[..taken.consumed] } else { &[] });
                Ok(taken)
            }
            State::Close => Ok(Taken { consumed: bytes.len(), data: bytes, is_done: false }),
        }
    }

    /// Returns true if the body is complete.
    pub fn is_done(&self) -> bool {
        match &self.0 {
            State::Length(left) => *left == PeerLength::ZERO,
            State::Chunked(chunked, _) => chunked.is_done(),
            State::Close => false,
        }
    }

    /// Returns the trailers of a complete body, once.
    pub fn trailers(&mut self) -> Result<Option<Box<Trailers>>, UpstreamFault> {
        match &mut self.0 {
            // Most bodies have no trailers.
            State::Chunked(_, section) if section.len() > "\r\n".len() => Trailers::of_lines(&std::mem::take(section)),
            _ => Ok(None),
        }
    }

    /// Records that the upstream has ended its stream.
    pub fn end(&mut self) -> Result<(), UpstreamFault> {
        if matches!(self.0, State::Close) {
            self.0 = State::Length(PeerLength::ZERO);
        }
        if self.is_done() { Ok(()) } else { Err(UpstreamFault("the connection ended before the body")) }
    }

    /// Returns the bytes of the body that are still to come, if known.
    pub fn left_bytes(&self) -> Option<u64> {
        match &self.0 {
            State::Length(left) => Some(left.bytes()),
            State::Chunked(chunked, _) => chunked.is_done().then_some(0),
            State::Close => None,
        }
    }
}
