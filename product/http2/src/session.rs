//! The server side of an HTTP/2 connection, without its socket.

use http::{Limits, OwnedRequest, Refused, ResponseHead, Trailers};
use units::Nanos;
use units::memory::Account;

use crate::STREAMS_MAX;
use crate::bodies::BodyRead;
use crate::ffi::{Engine, Requests};
use crate::floods::{Budget, Flood};
use crate::framer::{End, Framer};
use crate::streams::{PROTOCOL_ERROR, Streams, UPDATE_BY_NOTHING};
use crate::walker::Frame;
use crate::window::WINDOW_BYTES_MIN;

/// The first bytes that a client sends (RFC 9113 section 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const NO_ERROR: u32 = 0;
const INTERNAL_ERROR: u32 = 2;
const FLOW_CONTROL_ERROR: u32 = 3;

/// The minimum window left to an unwanted request, one frame. Below it, the request is stopped.
const EARLY_WINDOW_MIN: u32 = 16 << 10;

/// The maximum window (RFC 9113 section 6.9.1).
const WINDOW_MAX: u32 = (1 << 31) - 1;
/// The minimum window update that is checked, because an update of this size may exceed the maximum window by itself.
const GREAT_UPDATE: u32 = 1 << 30;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The limits on the head of a request. The rest of a larger head is dropped, and the request is returned as
    /// refused.
    pub request: Limits,
    /// Maximum number of streams that the client may have open at once.
    pub streams_max: u32,
    /// True if the client may ask for WebSocket (RFC 8441 section 3): [`http::Method::Connect`]. Otherwise, such a
    /// request is malformed.
    pub has_tunnels: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { request: Limits::default(), streams_max: STREAMS_MAX, has_tunnels: false }
    }
}

/// An event on a connection.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// A request, or the reason for its refusal. It is reported as soon as its head is complete. The body is discarded
    /// unless [`Session::want_body`] is called before the next event is taken.
    Request { stream: u32, request: Result<Box<OwnedRequest>, Box<Refused>> },
    /// A request is malformed. If its head is malformed it has not been reported; otherwise a later part of the request
    /// is malformed. Its stream is reset.
    Malformed { stream: u32, refused: Box<Refused> },
    /// The client has changed the stream's priority: [`Session::priority`].
    Priority { stream: u32 },
    /// A wanted body has bytes to read, or has ended: [`Session::read_body`]. Reported once, until the body is read.
    Body { stream: u32 },
    /// The stream has ended, on either side. The body of its request can no longer be read, complete or not.
    Closed { stream: u32 },
}

/// A client's priority (RFC 9218 section 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Priority {
    /// The urgency, from 0 (first) to 7 (last).
    pub urgency: u8,
    pub is_incremental: bool,
}

/// The source of a body's bytes. Bytes can be read repeatedly until they are consumed, because bytes that a window does
/// not admit are stored nowhere else.
pub trait Source {
    /// Appends at most `bytes_max` of the next bytes. Returns the state of the source after them.
    fn peek(&mut self, into: &mut Vec<u8>, bytes_max: usize) -> Supply;

    /// Consumes bytes.
    fn advance(&mut self, bytes: usize);

    /// Returns the trailers, once the body is complete and consumed. Called once.
    fn trailers(&mut self) -> Option<Box<Trailers>> {
        None
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Supply {
    /// There are more bytes now.
    More,
    /// The body is complete.
    End,
    /// Bytes come later.
    Later,
    /// The source failed: the stream is reset.
    Failed,
}

/// The reason why no more of a response was turned into frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The room is used up.
    Room,
    /// The whole response was made.
    End,
    /// The source has no more bytes for now.
    Source,
    /// The source failed, and the stream was reset.
    Failed,
    /// The stream's window is shut.
    StreamWindow,
    /// The connection's window is shut.
    Window,
    /// The stream is closed.
    Closed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Bytes of the body.
    pub bytes: u64,
    pub stop: Stop,
}

/// The reason why a connection cannot continue. [`Session::control`] makes the frame that informs the client.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    #[error("{0}")]
    Protocol(String),
    #[error("{0}")]
    Flood(#[from] Flood),
}

/// The server side of a connection.
pub struct Session {
    framer: Framer,
    streams: Streams,
    /// The streams whose response was complete before their request.
    early: Vec<u32>,
    /// The last reported request, whose body may turn out to be unwanted.
    asked: Option<u32>,
    /// The connection's window.
    window_bytes: usize,
}

impl Session {
    pub fn new(settings: &Settings) -> Session {
        Session {
            framer: Framer::new(Engine::server(settings), PREFACE.len(), Budget::default()),
            streams: Streams::default(),
            early: Vec::new(),
            asked: None,
            window_bytes: WINDOW_BYTES_MIN,
        }
    }

    /// Takes received bytes and appends the session's own answers; [`Session::event`] returns the events. After an
    /// error all input is ignored.
    pub fn receive(&mut self, now: Nanos, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
        if self.framer.is_broken {
            return Ok(());
        }
        self.framer.engine.hooks().bodies.trip.at(now);
        self.drain_unwanted();
        let taken = self.take(now, bytes, out);
        self.requests().count();
        self.framer.conclude(taken, out)
    }

    fn take(&mut self, now: Nanos, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), End> {
        let mut rest = bytes;
        let mut known = 0;
        while let (taken, Some(frame)) = self.framer.next_frame(now, &rest[known..])? {
            known += taken;
            self.streams.on_frame(&frame)?;
            if frame.update().is_some_and(|update| update == 0 || update >= GREAT_UPDATE) {
                // The engine needs all bytes before this frame, but not the frame itself.
                let before = known.saturating_sub(taken);
                self.framer.feed(now, &rest[..before], out)?;
                rest = &rest[before..];
                known = taken;
                self.on_odd_update(&frame, out)?;
            }
        }
        self.framer.feed(now, rest, out)?;
        self.reset_early(out);
        Ok(())
    }

    /// Handles a WINDOW_UPDATE with an increment of 0 or beyond the maximum window. On a stream, only that stream is
    /// reset (RFC 9113 sections 6.9 and 6.9.1).
    fn on_odd_update(&mut self, frame: &Frame, out: &mut Vec<u8>) -> Result<(), End> {
        let window = self.framer.engine.stream_window(frame.stream).filter(|_| frame.stream != 0);
        let code = match window {
            Some(_) if frame.word == 0 => PROTOCOL_ERROR,
            None if frame.word == 0 => return Err(UPDATE_BY_NOTHING.into()),
            Some(window) if window > WINDOW_MAX - frame.word => FLOW_CONTROL_ERROR,
            _ => return Ok(()),
        };
        self.framer.engine.reset(frame.stream, code);
        self.control(out);
        Ok(())
    }

    pub fn event(&mut self) -> Option<Event> {
        self.drain_unwanted();
        let event = self.requests().next_event();
        if let Some(Event::Request { stream, .. }) = event {
            self.asked = Some(stream);
        }
        event
    }

    /// Keeps the body of this request, which [`Session::event`] has just returned, until it is read. Its client may
    /// send up to [`BODY_BYTES_MAX`] unread bytes, whatever the other streams do. If a part has already arrived,
    /// [`Event::Body`] follows. Returns false if the stream is closed or the body was discarded.
    ///
    /// [`BODY_BYTES_MAX`]: crate::BODY_BYTES_MAX
    pub fn want_body(&mut self, stream: u32) -> bool {
        let hooks = self.framer.engine.hooks();
        let wanted = hooks.bodies.want(stream);
        hooks.tell(stream, wanted == Some(true));
        wanted.is_some()
    }

    /// Appends at most `bytes_max` bytes of a body, without its trailers. The stream's window opens by as many bytes,
    /// and [`Session::control`] informs the client.
    pub fn read_body(&mut self, stream: u32, into: &mut Vec<u8>, bytes_max: usize) -> BodyRead {
        if self.framer.is_broken {
            return BodyRead::Cut;
        }
        let (opened_bytes, read) = self.framer.engine.hooks().bodies.read(stream, into, bytes_max);
        self.framer.engine.open_window(stream, opened_bytes);
        if read == BodyRead::Later
            && let Some(bytes) = self.framer.engine.hooks().bodies.fit(stream)
        {
            self.framer.engine.set_window(stream, bytes);
        }
        read
    }

    /// Opens the connection's window as memory allows, and adapts it to the windows of its streams.
    fn fit_window(&mut self) {
        let engine = &mut self.framer.engine;
        let bodies = &mut engine.hooks().bodies;
        let (owed_bytes, bytes) = (bodies.take_owed(), bodies.connection_bytes(WINDOW_BYTES_MIN));
        if owed_bytes > 0 {
            engine.open_connection_window(owed_bytes);
        }
        if std::mem::replace(&mut self.window_bytes, bytes) != bytes {
            engine.set_window(0, bytes);
        }
    }

    /// Discards the rest of this body, and stops it when the response is complete.
    pub fn leave_body(&mut self, stream: u32) {
        let opened_bytes = self.framer.engine.hooks().bodies.remove(stream);
        self.framer.engine.open_window(stream, opened_bytes);
    }

    fn requests(&mut self) -> &mut Requests {
        self.framer.engine.hooks().requests()
    }

    fn drain_unwanted(&mut self) {
        if let Some(stream) = self.asked.take()
            && !self.framer.engine.hooks().bodies.is_wanted(stream)
        {
            self.leave_body(stream);
        }
    }

    /// Charges the session's memory to this account: unread bodies, at most
    /// [`BODIES_BYTES_MAX`](crate::BODIES_BYTES_MAX), and requests that are incomplete or not yet returned.
    pub fn count_in(&mut self, account: &Account) {
        let hooks = self.framer.engine.hooks();
        hooks.bodies.account = account.clone();
        hooks.requests().count_in(account);
    }

    /// Bytes of memory in use.
    #[cfg(any(test, feature = "testing"))]
    pub fn alive_bytes(&mut self) -> usize {
        self.framer.engine.hooks().bodies.all_alive_bytes() + self.requests().alive_bytes()
    }

    /// Bytes of memory of unread bodies, recomputed.
    #[cfg(any(test, feature = "testing"))]
    pub fn body_bytes(&mut self) -> usize {
        self.framer.engine.hooks().bodies.bytes()
    }

    /// The client's priority for this stream; `None` if it is closed.
    pub fn priority(&mut self, stream: u32) -> Option<Priority> {
        self.framer.engine.priority(stream)
    }

    /// Queues the head of a response as the next thing to send. Without a body it ends the stream. Returns false if the
    /// stream is closed.
    pub fn respond(&mut self, stream: u32, head: &ResponseHead, has_body: bool) -> bool {
        let is_open = self.framer.engine.respond(stream, head, has_body);
        if is_open && !has_body && self.framer.engine.has_whole_request(stream) == Some(false) {
            self.leave_body(stream);
            self.early.push(stream);
        }
        is_open
    }

    /// Queues an interim head (1xx, RFC 9110 section 15.2), sent with [`Session::control`] or the response. Call it
    /// only before [`Session::respond`]. Returns false if the stream is closed.
    pub fn interim(&mut self, stream: u32, head: &ResponseHead) -> bool {
        self.framer.engine.stream_window(stream).is_some() && self.framer.engine.respond(stream, head, true)
    }

    /// Appends frames of a response to `out`, up to `room` bytes with their headers. The session's own frames come
    /// first. A header block is always made whole.
    pub fn write(&mut self, stream: u32, room: usize, source: &mut dyn Source, out: &mut Vec<u8>) -> Written {
        let written = self.framer.write(stream, room, source, out);
        if matches!(written.stop, Stop::End | Stop::Closed) {
            self.end_request(stream, out);
        }
        written
    }

    /// Ends the request of a complete response, whose remaining body is not wanted.
    fn end_request(&mut self, stream: u32, out: &mut Vec<u8>) {
        if self.framer.engine.has_whole_request(stream) == Some(false) {
            // A client that waits for its window reads the answer first, if the window opens by what was not read.
            self.leave_body(stream);
            self.early.push(stream);
            self.reset_early(out);
            self.control(out);
        }
    }

    /// Stops requests whose response is complete (RFC 9113 section 8.1). The reset waits until their window is nearly
    /// used up, because some clients (curl 7.88) treat a reset in the middle of a short body as a missing response.
    /// Other streams are not delayed.
    fn reset_early(&mut self, out: &mut Vec<u8>) {
        let (engine, mut has_reset) = (&mut self.framer.engine, false);
        self.early.retain(|stream| {
            let is_coming = engine.has_whole_request(*stream) == Some(false);
            let is_long = is_coming && engine.request_window(*stream) < EARLY_WINDOW_MIN;
            if is_long {
                engine.reset(*stream, NO_ERROR);
            }
            has_reset |= is_long;
            is_coming && !is_long
        });
        if has_reset {
            self.control(out);
        }
    }

    /// Appends the session's own frames: settings, answers, resets, window updates.
    pub fn control(&mut self, out: &mut Vec<u8>) {
        self.fit_window();
        self.framer.control(out);
    }

    /// Cancels a response that will not be finished. Does nothing if the stream is closed.
    pub fn cancel(&mut self, stream: u32) {
        if self.framer.engine.stream_window(stream).is_some() {
            self.framer.engine.reset(stream, INTERNAL_ERROR);
        }
    }

    /// Stops accepting new requests.
    pub fn go_away(&mut self) {
        self.framer.engine.go_away();
    }

    /// Returns the window for sending on this stream, regardless of the connection's window. `None` if the stream is
    /// closed.
    pub fn stream_window(&mut self, stream: u32) -> Option<u32> {
        self.framer.engine.stream_window(stream)
    }

    /// Returns the window for sending on all streams together.
    pub fn window(&mut self) -> u32 {
        self.framer.engine.window()
    }

    /// Returns true if a part of the client's next request may have been received.
    pub fn has_part(&self) -> bool {
        self.framer.walker.has_part()
    }

    /// Bytes of a request whose header block is incomplete.
    pub fn part_bytes(&self) -> usize {
        if self.has_part() { self.framer.engine.seen().head_bytes() } else { 0 }
    }

    /// Returns true if the session has frames of its own to send.
    pub fn wants_write(&mut self) -> bool {
        self.framer.engine.wants_write()
    }

    /// Returns true if nothing more will be read or written.
    pub fn has_ended(&mut self) -> bool {
        self.framer.has_ended()
    }
}
