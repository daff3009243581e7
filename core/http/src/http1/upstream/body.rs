//! A body out of its framing, as it arrives.

use super::{Framing, UpstreamFault};
use crate::PeerLength;
use crate::http1::{Chunked, Taken};
use crate::trailers::Trailers;

/// Where in the body of a response the bytes have got to.
#[derive(Debug, Clone)]
pub struct UpstreamBody(State);

#[derive(Debug, Clone)]
enum State {
    /// The bytes that are left.
    Length(PeerLength),
    /// And its trailer section, as far as it has come: no more than [`Chunked`] lets through.
    Chunked(Chunked, Vec<u8>),
    /// All that comes.
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

    /// Takes the next bytes of the body; to be repeated with the rest until all are consumed or the body is done. Bytes behind its end are
    /// not taken: nobody asked for them, and the connection must carry no other request.
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

    /// Whether nothing more belongs to the body.
    pub fn is_done(&self) -> bool {
        match &self.0 {
            State::Length(left) => *left == PeerLength::ZERO,
            State::Chunked(chunked, _) => chunked.is_done(),
            State::Close => false,
        }
    }

    /// The fields behind a body that is done, once.
    pub fn trailers(&mut self) -> Result<Option<Box<Trailers>>, UpstreamFault> {
        match &mut self.0 {
            // Most have none.
            State::Chunked(_, section) if section.len() > "\r\n".len() => Trailers::of_lines(&std::mem::take(section)),
            _ => Ok(None),
        }
    }

    /// The upstream has ended its stream.
    pub fn end(&mut self) -> Result<(), UpstreamFault> {
        if matches!(self.0, State::Close) {
            self.0 = State::Length(PeerLength::ZERO);
        }
        if self.is_done() { Ok(()) } else { Err(UpstreamFault("the connection ended before the body")) }
    }

    /// Bytes of the body that are still to come, if that is known.
    pub fn left_bytes(&self) -> Option<u64> {
        match &self.0 {
            State::Length(left) => Some(left.bytes()),
            State::Chunked(chunked, _) => chunked.is_done().then_some(0),
            State::Close => None,
        }
    }
}
