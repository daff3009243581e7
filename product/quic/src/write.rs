//! Passes the content of responses to quinn-proto once the scheduler has decided that it leaves.

use http::ResponseHead;
use http2::{Source, Stop, Supply};
use quinn_proto::{Connection, WriteError};

use crate::Session;
use crate::h3::fault::{INTERNAL_ERROR, NO_ERROR};
use crate::h3::{frames, varint};
use crate::packing::Packing;
use crate::streams::{Reply, id};

/// Minimum content for a frame, except at the end of a body.
const CONTENT_BYTES_MIN: usize = 16;
/// The content read before the state of the windows is known: at first. The next constants apply after a window was
/// found shut, and as a maximum. With 100 streams whose windows are shut, the total is 64 KB. The amount doubles each
/// time content is accepted.
const AHEAD_BYTES_FIRST: usize = 8 << 10;
const AHEAD_BYTES_MIN: usize = 512;
const AHEAD_BYTES_MAX: usize = 64 << 10;

/// The state of the client's window for the connection.
#[derive(Debug)]
pub struct Window {
    /// The content to read before the state of the windows is known.
    ahead_bytes: usize,
    /// True if the window is used up.
    pub is_shut: bool,
}

impl Default for Window {
    fn default() -> Window {
        Window { ahead_bytes: AHEAD_BYTES_FIRST, is_shut: false }
    }
}

/// The result of a [`Session::write`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wrote {
    /// Bytes of the body given to the engine.
    pub bytes: u64,
    /// The estimated UDP payload of these bytes. [`Session::make`] makes that much more.
    pub carried_bytes: usize,
    pub stop: Stop,
}

/// The part of a response passed to quinn: the bytes of its stream, the number of body bytes among them, and the reason
/// for stopping.
struct Given {
    bytes: usize,
    body_bytes: usize,
    stop: Option<Obstacle>,
}

enum Obstacle {
    Room,
    /// The window of the stream or the connection is shut.
    Shut,
    /// The client no longer wants the response.
    Gone,
    Source,
    Failed,
}

impl Session {
    /// Passes content of one response to quinn: as much as fits into `room` bytes of UDP payload with the headers of
    /// its frames and packets, and as flow control allows. No datagram is made yet; call [`Session::make`] with the
    /// same room. Earlier content that has not left, including lost content, uses up the room ([`Stop::Room`]). If the
    /// congestion window or the pacer holds such content back, nothing is passed ([`Stop::Window`]). The head is passed
    /// whole, whatever the room.
    pub fn write(&mut self, stream: u32, room: usize, source: &mut dyn Source) -> Wrote {
        let nothing = |stop| Wrote { bytes: 0, carried_bytes: 0, stop };
        let Some(open) = self.streams.open.get_mut(stream).filter(|_| !self.connection.is_closed()) else {
            return nothing(Stop::Closed);
        };
        if self.outbox.is_held() || self.window.is_shut {
            return nothing(Stop::Window);
        }
        if open.is_shut {
            return nothing(Stop::StreamWindow);
        }
        let Some(reply) = open.reply.as_mut().filter(|reply| reply.is_begun()) else { return nothing(Stop::Source) };
        let waiting = self.outbox.waiting();
        let packing = packing(&self.connection, self.id_bytes, stream, reply);
        let given = give(
            &mut self.connection,
            stream,
            reply,
            &mut self.window.ahead_bytes,
            packing.fits(waiting, room),
            waiting == 0,
            source,
        );
        reply.offset += given.bytes as u64;
        let is_ended = given.stop.is_none();
        if is_ended {
            // quinn reports a client that has stopped reading in the meantime.
            let _ = self.connection.send_stream(id(stream)).finish();
        }
        let carried_bytes = packing.takes(waiting, given.bytes.max(is_ended.into()));
        self.outbox.give(carried_bytes);
        self.streams.count(stream);
        Wrote { bytes: given.body_bytes as u64, carried_bytes, stop: stop(self, stream, given.stop) }
    }

    /// Passes an interim head (1xx, RFC 9110 section 15.2) to quinn, which leaves with the next [`Session::make`]. Call
    /// this only before [`Session::respond`]. Returns false if the stream is closed or the response has begun.
    pub fn interim(&mut self, stream: u32, head: &ResponseHead) -> bool {
        let Some(open) = self.streams.open.get_mut(stream).filter(|_| !self.connection.is_closed()) else {
            return false;
        };
        let reply = open.reply.get_or_insert_with(Reply::new);
        if !reply.add_interim(head) {
            return false;
        }
        let packing = packing(&self.connection, self.id_bytes, stream, reply);
        let mut given = Given { bytes: 0, body_bytes: 0, stop: None };
        // Bytes that exceed the window leave with the response. quinn reports a client that has stopped reading.
        let _ = give_heads(&mut self.connection, stream, reply, &mut given);
        reply.offset += given.bytes as u64;
        self.outbox.give(packing.takes(self.outbox.waiting(), given.bytes));
        self.streams.count(stream);
        true
    }
}

/// Handles an obstacle for the stream.
fn stop(session: &mut Session, stream: u32, obstacle: Option<Obstacle>) -> Stop {
    let Session { connection, streams, control, window, .. } = session;
    match obstacle {
        None => {
            let is_whole = streams.open.get(stream).is_none_or(|open| open.incoming.is_none());
            if !is_whole {
                // The rest of its request is not wanted (RFC 9114 section 4.1).
                let _ = connection.recv_stream(id(stream)).stop((NO_ERROR as u32).into());
            }
            streams.unacknowledged.insert(stream);
            streams.end(stream);
            Stop::End
        }
        Some(Obstacle::Room) => Stop::Room,
        Some(Obstacle::Source) => Stop::Source,
        Some(Obstacle::Gone) => {
            streams.reset(connection, stream, NO_ERROR);
            Stop::Closed
        }
        Some(Obstacle::Failed) => {
            streams.reset(connection, stream, INTERNAL_ERROR);
            Stop::Failed
        }
        Some(Obstacle::Shut) if control.is_refused(connection) => {
            window.is_shut = true;
            Stop::Window
        }
        Some(Obstacle::Shut) => {
            if let Some(open) = streams.open.get_mut(stream) {
                open.is_shut = true;
            }
            Stop::StreamWindow
        }
    }
}

/// Returns the packing of the next content into datagrams.
fn packing(connection: &Connection, id_bytes: usize, stream: u32, reply: &Reply) -> Packing {
    let datagram = connection.stats().path.current_mtu.into();
    Packing { datagram, id_bytes, stream_id: id(stream).into(), offset: reply.offset }
}

/// Passes at most `room` bytes of a stream to quinn. Heads are passed whole if there is room for a byte or nothing
/// waits before them.
fn give(
    connection: &mut Connection,
    stream: u32,
    reply: &mut Reply,
    ahead: &mut usize,
    room: usize,
    is_first: bool,
    source: &mut dyn Source,
) -> Given {
    let mut given = Given { bytes: 0, body_bytes: 0, stop: None };
    if reply.has_heads() && room == 0 && !is_first {
        return Given { stop: Some(Obstacle::Room), ..given };
    }
    loop {
        given.stop = give_heads(connection, stream, reply, &mut given).err();
        if given.stop.is_some() || reply.is_read {
            return given;
        }
        given.stop = give_content(connection, stream, reply, ahead, room, source, &mut given).err();
        if given.stop.is_some() {
            return given;
        }
    }
}

/// Passes a piece of the body to quinn.
fn give_content(
    connection: &mut Connection,
    stream: u32,
    reply: &mut Reply,
    ahead: &mut usize,
    room: usize,
    source: &mut dyn Source,
    given: &mut Given,
) -> Result<(), Obstacle> {
    let mut content = Vec::new();
    let supply = begin(reply, source, room.saturating_sub(given.bytes), *ahead, &mut content)?;
    give_heads(connection, stream, reply, given)?;
    let taken = offer(connection, stream, &content)?;
    source.advance(taken);
    reply.frame_left -= taken;
    given.bytes += taken;
    given.body_bytes += taken;
    if taken < content.len() {
        *ahead = AHEAD_BYTES_MIN;
        return Err(Obstacle::Shut);
    }
    *ahead = (*ahead * 2).min(AHEAD_BYTES_MAX);
    if supply == Supply::End {
        reply.end(source.trailers());
    }
    Ok(())
}

/// Passes heads of frames to quinn.
fn give_heads(connection: &mut Connection, stream: u32, reply: &mut Reply, given: &mut Given) -> Result<(), Obstacle> {
    let taken = offer(connection, stream, &reply.heads)?;
    given.bytes += taken;
    reply.heads.drain(..taken);
    if reply.heads.is_empty() { Ok(()) } else { Err(Obstacle::Shut) }
}

/// Reads content for this room, preceded by a frame head unless a frame is in progress. Reads at most `ahead`, because
/// the size of the window is unknown.
fn begin(
    reply: &mut Reply,
    source: &mut dyn Source,
    room: usize,
    ahead: usize,
    content: &mut Vec<u8>,
) -> Result<Supply, Obstacle> {
    let is_new = reply.frame_left == 0;
    let most = if is_new { room.saturating_sub(1 + varint::bytes(room as u64)) } else { room.min(reply.frame_left) };
    if most == 0 || (is_new && most < CONTENT_BYTES_MIN) {
        return Err(Obstacle::Room);
    }
    let supply = source.peek(content, most.min(ahead));
    match supply {
        Supply::Failed => return Err(Obstacle::Failed),
        Supply::Later | Supply::More if content.is_empty() => return Err(Obstacle::Source),
        _ => {}
    }
    if is_new && !content.is_empty() {
        frames::head(frames::DATA, content.len() as u64, &mut reply.heads);
        reply.frame_left = content.len();
    }
    Ok(supply)
}

/// Returns the number of bytes taken, of which quinn keeps a copy.
fn offer(connection: &mut Connection, stream: u32, bytes: &[u8]) -> Result<usize, Obstacle> {
    if bytes.is_empty() {
        return Ok(0);
    }
    match connection.send_stream(id(stream)).write(bytes) {
        Ok(taken) => Ok(taken),
        Err(WriteError::Blocked) => Ok(0),
        Err(WriteError::Stopped(_) | WriteError::ClosedStream) => Err(Obstacle::Gone),
    }
}
