//! A response on a stream of HTTP/2 or HTTP/3: exactly the granted bytes become frames.

use http::Trailers;
use http2::{FRAME_HEADER_BYTES, Session, Source, Stop, Supply};

use super::{Outgoing, Sent};
use crate::body::{Body, Failure};
use crate::connection::{Engine, Room};
#[cfg(test)]
use crate::simulation::planted;
use crate::storage::Storage;

/// The maximum content of a frame in bytes, which every client accepts (RFC 9113 section 6.5.2).
const FRAME_BYTES_MAX: u64 = 16 << 10;

/// A body, and the storage it is read from.
struct FromBody<'a> {
    body: &'a mut Body,
    storage: &'a mut dyn Storage,
    failure: Option<Failure>,
    /// Some bytes of the body were taken.
    is_taken: bool,
    /// True if the producer failed after the bytes that were taken. They are sent before the stream is reset.
    is_cut_next: bool,
}

impl<'a> FromBody<'a> {
    fn new(body: &'a mut Body, storage: &'a mut dyn Storage) -> FromBody<'a> {
        FromBody { body, storage, failure: None, is_taken: false, is_cut_next: false }
    }
}

impl Source for FromBody<'_> {
    fn peek(&mut self, into: &mut Vec<u8>, bytes_max: usize) -> Supply {
        match self.body.peek(self.storage, into, bytes_max as u64) {
            Ok(bytes) if bytes == self.body.len() && !self.body.is_open_ended() => Supply::End,
            Ok(_) => Supply::More,
            Err(Failure::Source) if self.is_taken => {
                self.is_cut_next = true;
                Supply::Later
            }
            Err(failure) => {
                let is_for_now = matches!(failure, Failure::Absent | Failure::Pending);
                self.failure = Some(failure);
                if is_for_now { Supply::Later } else { Supply::Failed }
            }
        }
    }

    fn advance(&mut self, bytes: usize) {
        self.is_taken |= bytes > 0;
        self.body.advance(bytes as u64);
    }

    fn trailers(&mut self) -> Option<Box<Trailers>> {
        self.body.trailers.take()
    }
}

impl Outgoing {
    /// Makes frames of the response, the head first. The head is always made whole, even if it exceeds the room: its
    /// block cannot be divided between two grants, because its compression depends on all blocks before it.
    pub fn make_frames(
        &mut self,
        engine: &mut Engine,
        stream: u32,
        storage: &mut dyn Storage,
        room: Room,
        out: &mut Vec<u8>,
    ) -> Sent {
        let bytes_max = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        match engine {
            Engine::Http2(session) => {
                let left_bytes = room.carried_bytes_max.saturating_sub(room.before_bytes);
                self.make_http2(session, stream, storage, bytes_max(left_bytes), out)
            }
            // HTTP/3 takes the content for all datagrams together, including content of earlier responses.
            Engine::Http3(quic) => {
                self.give_http3(&mut quic.session, stream, storage, bytes_max(room.carried_bytes_max))
            }
        }
    }

    /// Appends frames of at most `room` bytes to `out`.
    fn make_http2(
        &mut self,
        session: &mut Session,
        stream: u32,
        storage: &mut dyn Storage,
        room: usize,
        out: &mut Vec<u8>,
    ) -> Sent {
        let begin = out.len();
        let head = self.fields.take();
        // Without a body, the stream ends after its head.
        let is_bare = head.is_some() && self.body.is_nothing();
        if head.as_ref().is_some_and(|head| !session.respond(stream, head, !is_bare)) {
            self.fields = head;
            return Sent::stopped(0, 0, Stop::Closed, None);
        }
        let head_bytes = head.map_or(0, |head| head.bytes());
        out.reserve(frames_bytes(self.body.len().min(session.window().into()).min(room as u64)));
        let mut source = FromBody::new(&mut self.body, storage);
        let written = session.write(stream, room, &mut source, out);
        let (failure, is_cut_next) = (source.failure, source.is_cut_next);
        let stop = if is_bare { Stop::End } else { written.stop };
        let frame_bytes = (out.len() - begin) as u64;
        Sent::stopped(head_bytes + written.bytes, frame_bytes, if is_cut_next { Stop::Room } else { stop }, failure)
    }

    fn give_http3(&mut self, session: &mut quic::Session, stream: u32, storage: &mut dyn Storage, room: usize) -> Sent {
        if let Some(head) = &self.fields {
            if !session.respond(stream, head, !self.body.is_nothing()) {
                return Sent::stopped(0, 0, Stop::Closed, None);
            }
            self.sealed = u32::try_from(head.bytes()).unwrap_or(u32::MAX);
            self.fields = None;
        }
        let mut source = FromBody::new(&mut self.body, storage);
        let mut wrote = session.write(stream, room, &mut source);
        let failure = source.failure;
        if source.is_cut_next {
            wrote.stop = Stop::Room;
        }
        let is_begun = wrote.carried_bytes > 0 || wrote.stop == Stop::End;
        let head_bytes = if is_begun { u64::from(std::mem::take(&mut self.sealed)) } else { 0 };
        #[cfg(test)]
        if wrote.stop == Stop::Room && planted::strikes(planted::Fault::UnfinishedStream) {
            return Sent::stopped(head_bytes + wrote.bytes, wrote.carried_bytes as u64, Stop::End, failure);
        }
        Sent::stopped(head_bytes + wrote.bytes, wrote.carried_bytes as u64, wrote.stop, failure)
    }
}

/// The bytes of the frames for `body_bytes` of a body, to allocate their memory at once.
fn frames_bytes(body_bytes: u64) -> usize {
    (body_bytes + body_bytes.div_ceil(FRAME_BYTES_MAX) * FRAME_HEADER_BYTES as u64) as usize
}

impl Sent {
    /// Returns the result of making frames until `stop` occurred or the source failed.
    fn stopped(bytes: u64, carried_bytes: u64, stop: Stop, failure: Option<Failure>) -> Sent {
        let failure = failure.or(match stop {
            Stop::Room | Stop::End => None,
            Stop::Window | Stop::StreamWindow => Some(Failure::Shut),
            // The client has reset the stream, and the worker will be notified, or the connection is broken.
            Stop::Closed | Stop::Source | Stop::Failed => Some(Failure::Disconnected),
        });
        Sent { bytes, carried_bytes, failure, has_room: stop != Stop::Room, is_whole: stop == Stop::End }
    }
}
