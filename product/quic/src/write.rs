//! Content of responses, given to quinn-proto when it is decided that it leaves.

use bytes::{Bytes, BytesMut};
use mux::{Source, Stop, Supply, head};
use quinn_proto::{Connection, WriteError};

use crate::h3::fault::{INTERNAL_ERROR, NO_ERROR};
use crate::h3::{frames, varint};
use crate::packing::Packing;
use crate::streams::{Reply, id};
use crate::{Session, qpack};

/// Less content than this is not worth a frame of its own, but at the end of a body.
const CONTENT_BYTES_MIN: usize = 16;

/// What a [`Session::write`] has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wrote {
    /// Of the body, given to the engine. What a window has cut short was read from the source before, and counts when it is given.
    pub bytes: u64,
    /// UDP payload that it takes, as estimated: [`Session::make`] makes that much more.
    pub carried_bytes: usize,
    pub stop: Stop,
}

/// What one response has given: bytes of its stream, how many of those are of the body, and the reason for no more.
struct Given {
    bytes: usize,
    body_bytes: usize,
    stop: Option<Obstacle>,
}

enum Obstacle {
    Room,
    /// A window, of the stream or the connection.
    Shut,
    /// The client has had enough.
    Gone,
    Source,
    Failed,
}

impl Session {
    /// Gives the engine content of one response: so much that it fits `room` bytes of UDP payload with the headers of its frames and
    /// packets, and what flow control allows. Nothing is made yet: that is [`Session::make`], to be called with the same room. What was
    /// given or lost before and has not left uses up the room ([`Stop::Room`]); where the congestion window or the pacer holds it back,
    /// nothing is given ([`Stop::Window`]). The head is given whole, whatever the room.
    pub fn write(&mut self, stream: u32, room: usize, source: &mut dyn Source) -> Wrote {
        let nothing = |stop| Wrote { bytes: 0, carried_bytes: 0, stop };
        let Some(open) = self.streams.open.get_mut(&stream).filter(|_| !self.connection.is_closed()) else {
            return nothing(Stop::Closed);
        };
        let Some(reply) = &mut open.reply else { return nothing(Stop::Source) };
        if self.outbox.is_held() {
            return nothing(Stop::Window);
        }
        let waiting = self.outbox.waiting();
        let packing = Packing {
            datagram: self.connection.stats().path.current_mtu.into(),
            id_bytes: self.id_bytes,
            stream_id: id(stream).into(),
            offset: reply.offset,
        };
        let given = give(&mut self.connection, stream, reply, packing.fits(waiting, room), waiting == 0, source);
        reply.offset += given.bytes as u64;
        let is_ended = given.stop.is_none();
        if is_ended {
            // A client that has had enough in the meantime is told of by quinn.
            let _ = self.connection.send_stream(id(stream)).finish();
        }
        let carried_bytes = packing.takes(waiting, given.bytes.max(is_ended.into()));
        self.outbox.give(carried_bytes);
        Wrote { bytes: given.body_bytes as u64, carried_bytes, stop: self.stop(stream, given.stop) }
    }

    /// What follows of an obstacle for the stream.
    fn stop(&mut self, stream: u32, obstacle: Option<Obstacle>) -> Stop {
        match obstacle {
            None => {
                let is_whole = self.streams.open.get(&stream).is_none_or(|open| open.is_whole);
                if !is_whole {
                    // Of its request nobody wants the rest (RFC 9114 section 4.1).
                    let _ = self.connection.recv_stream(id(stream)).stop((NO_ERROR as u32).into());
                }
                self.streams.unacknowledged.insert(stream);
                self.streams.end(stream);
                Stop::End
            }
            Some(Obstacle::Room) => Stop::Room,
            Some(Obstacle::Source) => Stop::Source,
            Some(Obstacle::Gone) => {
                self.streams.reset(&mut self.connection, stream, NO_ERROR);
                Stop::Closed
            }
            Some(Obstacle::Failed) => {
                self.streams.reset(&mut self.connection, stream, INTERNAL_ERROR);
                Stop::Failed
            }
            Some(Obstacle::Shut) if self.is_window_shut() => {
                self.is_shut = true;
                Stop::Window
            }
            Some(Obstacle::Shut) => {
                if let Some(open) = self.streams.open.get_mut(&stream) {
                    open.is_shut = true;
                }
                Stop::StreamWindow
            }
        }
    }
}

/// Gives so many bytes of a stream at most, but a head whole if nothing waits before it.
fn give(
    connection: &mut Connection,
    stream: u32,
    reply: &mut Reply,
    room: usize,
    is_first: bool,
    source: &mut dyn Source,
) -> Given {
    let mut given = give_rest(connection, stream, reply, room);
    if given.stop.is_some() {
        return given;
    }
    let room = room - given.bytes;
    if reply.head.is_some() && room == 0 && !is_first {
        return Given { stop: Some(Obstacle::Room), ..given };
    }
    let mut frame_heads = reply.head.take().map(|head| headers(&head)).unwrap_or_default();
    let mut content = Vec::new();
    let content_room = room.saturating_sub(frame_heads.len());
    let obstacle = if reply.is_read { None } else { read(source, content_room, &mut content) };
    if matches!(obstacle, Some(Obstacle::Failed)) {
        return Given { stop: obstacle, ..given };
    }
    reply.is_read |= obstacle.is_none();
    if !content.is_empty() {
        frames::head(frames::DATA, content.len() as u64, &mut frame_heads);
    }
    let body_bytes = content.len();
    let mut offered = [Bytes::from(frame_heads), Bytes::from(content)];
    let taken = match offer(connection, stream, &mut offered) {
        Ok(taken) => taken,
        Err(obstacle) => return Given { stop: Some(obstacle), ..given },
    };
    keep(reply, &offered);
    given.bytes += taken;
    given.body_bytes += body_bytes - reply.rest_body_bytes;
    given.stop = if reply.rest.is_empty() { obstacle } else { Some(Obstacle::Shut) };
    given
}

/// Gives what a window had cut short.
fn give_rest(connection: &mut Connection, stream: u32, reply: &mut Reply, room: usize) -> Given {
    let offered = reply.rest.len().min(room);
    let (bytes, obstacle) = match offer(connection, stream, &mut [reply.rest.slice(..offered)]) {
        Ok(taken) if taken < offered => (taken, Some(Obstacle::Shut)),
        Ok(taken) => (taken, Some(Obstacle::Room)),
        Err(obstacle) => return Given { bytes: 0, body_bytes: 0, stop: Some(obstacle) },
    };
    let body_bytes = reply.advance(bytes);
    Given { bytes, body_bytes, stop: obstacle.filter(|_| !reply.rest.is_empty()) }
}

/// Keeps what was not taken.
fn keep(reply: &mut Reply, [heads, content]: &[Bytes; 2]) {
    reply.rest_body_bytes = content.len();
    reply.rest = match heads.is_empty() {
        true => content.clone(),
        false => {
            let mut rest = BytesMut::from(&heads[..]);
            rest.extend_from_slice(content);
            rest.freeze()
        }
    };
}

/// Reads so much that it fits this room with the head of its frame; `None`: the body is whole.
fn read(source: &mut dyn Source, room: usize, content: &mut Vec<u8>) -> Option<Obstacle> {
    let most = room.saturating_sub(1 + varint::bytes(room as u64));
    if most < CONTENT_BYTES_MIN {
        return Some(Obstacle::Room);
    }
    content.reserve_exact(most);
    while content.len() < most {
        let before = content.len();
        match source.read(content, most - before) {
            Supply::End => return None,
            Supply::Failed => return Some(Obstacle::Failed),
            Supply::Later => return Some(Obstacle::Source),
            Supply::More if content.len() == before => return Some(Obstacle::Source),
            Supply::More => {}
        }
    }
    Some(Obstacle::Room)
}

/// How much of these was taken; what was not is left in them.
fn offer(connection: &mut Connection, stream: u32, chunks: &mut [Bytes]) -> Result<usize, Obstacle> {
    if chunks.iter().all(Bytes::is_empty) {
        return Ok(0);
    }
    match connection.send_stream(id(stream)).write_chunks(chunks) {
        Ok(written) => Ok(written.bytes),
        Err(WriteError::Blocked) => Ok(0),
        Err(WriteError::Stopped(_) | WriteError::ClosedStream) => Err(Obstacle::Gone),
    }
}

/// The head of a response as a frame.
fn headers(head: &[u8]) -> Vec<u8> {
    let (status, fields) = head::fields(head);
    let mut section = Vec::new();
    qpack::encode(std::iter::once((&b":status"[..], status)).chain(fields), &mut section);
    let mut frame = Vec::with_capacity(section.len() + 8);
    frames::head(frames::HEADERS, section.len() as u64, &mut frame);
    frame.extend(section);
    frame
}
