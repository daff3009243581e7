//! A response on a stream of HTTP/2 or HTTP/3: what is granted becomes frames, and no more is made than that.

use mux::{Session, Source, Stop, Supply};

use super::{Failure, Outgoing};
use crate::storage::Storage;
use crate::transmit::{Body, engine::Engine};

/// What was made of a response.
#[derive(Debug)]
pub struct Made {
    /// Of its head, as [`http::ResponseHead::bytes`] counts, and of its body.
    pub bytes: u64,
    /// What the connection carries for it.
    pub frame_bytes: u64,
    pub stop: Stop,
    /// Why its source stopped.
    pub failure: Option<Failure>,
}

/// What a grant has room for.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    pub bytes: u64,
    /// Of which the responses before have taken so much.
    pub before_bytes: u64,
}

impl Room {
    fn left(self) -> usize {
        usize::try_from(self.bytes.saturating_sub(self.before_bytes)).unwrap_or(usize::MAX)
    }
}

/// A body, and the storage it is read from.
struct FromBody<'a> {
    body: &'a mut Body,
    storage: &'a mut dyn Storage,
    failure: Option<Failure>,
}

impl Source for FromBody<'_> {
    fn read(&mut self, into: &mut Vec<u8>, bytes_max: usize) -> Supply {
        match self.body.read(self.storage, into, bytes_max as u64) {
            Ok(_) if self.body.is_empty() => Supply::End,
            Ok(0) => {
                self.failure = Some(Failure::Absent);
                Supply::Later
            }
            Ok(_) => Supply::More,
            Err(failure) => {
                self.failure = Some(failure);
                Supply::Failed
            }
        }
    }
}

#[cfg(feature = "http3")]
impl quic::Source for FromBody<'_> {
    fn peek(&mut self, into: &mut Vec<u8>, bytes_max: usize) -> Supply {
        if self.body.is_empty() {
            return Supply::End;
        }
        match self.body.peek(self.storage, into, bytes_max as u64) {
            Ok(bytes) if bytes == self.body.len() => Supply::End,
            Ok(0) => {
                self.failure = Some(Failure::Absent);
                Supply::Later
            }
            Ok(_) => Supply::More,
            Err(failure) => {
                self.failure = Some(failure);
                Supply::Failed
            }
        }
    }

    fn advance(&mut self, bytes: usize) {
        self.body.advance(bytes as u64);
    }
}

impl Outgoing {
    /// Makes frames of it, the head first. The head is whole whatever the room: a block cannot be cut between two grants, since its compression
    /// depends on all blocks before it.
    pub fn make_frames(
        &mut self,
        engine: &mut Engine,
        stream: u32,
        storage: &mut dyn Storage,
        room: Room,
        out: &mut Vec<u8>,
    ) -> Made {
        match engine {
            Engine::Http2(session) => self.make_http2(session, stream, storage, room.left(), out),
            #[cfg(feature = "http3")]
            Engine::Http3(quic) => self.give_http3(&mut quic.session, stream, storage, room.bytes),
        }
    }

    /// Frames of so many bytes behind `out`.
    fn make_http2(
        &mut self,
        session: &mut Session,
        stream: u32,
        storage: &mut dyn Storage,
        room: usize,
        out: &mut Vec<u8>,
    ) -> Made {
        let begin = out.len();
        let has_body = !self.body.is_empty();
        let head = self.fields.take();
        if head.as_ref().is_some_and(|head| !session.respond(stream, head, has_body)) {
            self.fields = head;
            return Made { bytes: 0, frame_bytes: 0, stop: Stop::Closed, failure: None };
        }
        let head_bytes = head.map_or(0, |head| head.bytes());
        let mut source = FromBody { body: &mut self.body, storage, failure: None };
        let written = session.write(stream, room, &mut source, out);
        let failure = source.failure;
        // Without a body the stream ends behind its head.
        let stop = if has_body { written.stop } else { Stop::End };
        let frame_bytes = (out.len() - begin) as u64;
        Made { bytes: head_bytes + written.bytes, frame_bytes, stop, failure }
    }

    /// Content for datagrams of so many bytes in all, those of responses before it included.
    #[cfg(feature = "http3")]
    fn give_http3(
        &mut self,
        session: &mut quic::Session,
        stream: u32,
        storage: &mut dyn Storage,
        room_bytes: u64,
    ) -> Made {
        if let Some(head) = &self.fields {
            if !session.respond(stream, head, !self.body.is_empty()) {
                return Made { bytes: 0, frame_bytes: 0, stop: Stop::Closed, failure: None };
            }
            self.sealed = u32::try_from(head.bytes()).unwrap_or(u32::MAX);
            self.fields = None;
        }
        let mut source = FromBody { body: &mut self.body, storage, failure: None };
        let wrote = session.write(stream, usize::try_from(room_bytes).unwrap_or(usize::MAX), &mut source);
        let failure = source.failure;
        let is_begun = wrote.carried_bytes > 0 || wrote.stop == Stop::End;
        let head_bytes = if is_begun { u64::from(std::mem::take(&mut self.sealed)) } else { 0 };
        Made { bytes: head_bytes + wrote.bytes, frame_bytes: wrote.carried_bytes as u64, stop: wrote.stop, failure }
    }
}
