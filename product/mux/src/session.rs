//! One connection's HTTP/2, without its socket.

use http::{Limits, OwnedRequest, Refused, ResponseHead, Trailers};
use units::Nanos;
use units::memory::Account;

use crate::STREAMS_MAX;
use crate::bodies::BodyRead;
use crate::budget::{Budget, Flood};
use crate::ffi::{Engine, Requests};
use crate::framer::{End, Framer};
use crate::streams::{PROTOCOL_ERROR, Streams, UPDATE_BY_NOTHING};
use crate::walker::Frame;
use crate::window::WINDOW_BYTES_MIN;

/// What a client begins with (RFC 9113 section 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const NO_ERROR: u32 = 0;
const INTERNAL_ERROR: u32 = 2;
const FLOW_CONTROL_ERROR: u32 = 3;

/// A request that is not wanted is stopped where its client may send less than this of it, which is one frame.
const EARLY_WINDOW_MIN: u32 = 16 << 10;

/// The greatest window (RFC 9113 section 6.9.1).
const WINDOW_MAX: u32 = (1 << 31) - 1;
/// Updates from here on may take a window past that at once.
const GREAT_UPDATE: u32 = 1 << 30;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// What the head of a request may cost; of a greater one the rest is dropped, and it is given as refused.
    pub request: Limits,
    /// Streams that the client may have open at once.
    pub streams_max: u32,
    /// It may ask for WebSocket (RFC 8441 section 3): [`http::Method::Connect`]. Else such a request is malformed.
    pub has_tunnels: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { request: Limits::default(), streams_max: STREAMS_MAX, has_tunnels: false }
    }
}

/// What has come.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// A request, or what is wrong with it: its head, whatever follows. A body is thrown away, unless [`Session::want_body`] is called before
    /// the next event is asked for. Of a request whose head is malformed no more is told than that its stream
    /// is closed.
    Request { stream: u32, request: Result<Box<OwnedRequest>, Box<Refused>> },
    /// The client wishes to have it sooner or later than before: [`Session::priority`].
    Priority { stream: u32 },
    /// Of a body that is wanted something can be read, or its end: [`Session::read_body`]. Once, until it is read.
    Body { stream: u32 },
    /// The stream has ended, whoever ended it. Of its request's body nothing can be read any more, also where it was not whole.
    Closed { stream: u32 },
}

/// A client's wish (RFC 9218 section 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Priority {
    /// 0 is first, 7 last.
    pub urgency: u8,
    pub is_incremental: bool,
}

/// Where the bytes of a body come from. They can be read again until they are gone: what windows refuse is kept nowhere else.
pub trait Source {
    /// Appends so many of the next bytes at most, and says what follows them.
    fn peek(&mut self, into: &mut Vec<u8>, bytes_max: usize) -> Supply;

    /// So many of them are gone.
    fn advance(&mut self, bytes: usize);

    /// The fields behind a body that is whole and gone, asked for once.
    fn trailers(&mut self) -> Option<Box<Trailers>> {
        None
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Supply {
    /// More, at once.
    More,
    /// Nothing: the body is whole.
    End,
    /// More, later.
    Later,
    /// It cannot be had: the stream is reset.
    Failed,
}

/// Why no more of a response was made into frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The room is used up.
    Room,
    /// All of it was made.
    End,
    /// Its source has no more now.
    Source,
    /// Its source has failed, and it was reset.
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
    /// Of the body.
    pub bytes: u64,
    pub stop: Stop,
}

/// Why a connection cannot go on; what tells the client so is made by [`Session::control`].
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    #[error("{0}")]
    Protocol(String),
    #[error("{0}")]
    Flood(#[from] Flood),
}

/// The server's end of a connection.
pub struct Session {
    framer: Framer,
    streams: Streams,
    /// Streams whose response was whole before their request.
    early: Vec<u32>,
    /// The request that was told of last: perhaps nobody wants its body.
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

    /// Takes what has come, and appends the session's own answers; what it says is asked of [`Session::event`]. After an error nothing more is
    /// taken.
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
                // The engine has to know all before it, and not it.
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

    /// A window of a stream that is updated by nothing, or past the greatest, costs the client that stream (RFC 9113 sections 6.9 and 6.9.1).
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

    /// The body of this request, which [`Session::event`] has just told of, is kept until it is read: up to [`BODY_BYTES_MAX`] beyond which its
    /// client is held, whatever the other streams do. Of one that has come already, [`Event::Body`] is told. False: the stream is closed, or the
    /// body was thrown away.
    ///
    /// [`BODY_BYTES_MAX`]: crate::BODY_BYTES_MAX
    pub fn want_body(&mut self, stream: u32) -> bool {
        let hooks = self.framer.engine.hooks();
        let wanted = hooks.bodies.want(stream);
        hooks.tell(stream, wanted == Some(true));
        wanted.is_some()
    }

    /// Appends so many bytes of a body at most, without its trailers, and says what follows. The stream's window opens by as much, which
    /// [`Session::control`] tells the client.
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

    /// Opens the connection's window as far as memory lets it, and makes it as wide as the windows of its streams ask for.
    fn fit_window(&mut self) {
        let engine = &mut self.framer.engine;
        let bodies = &mut engine.hooks().bodies;
        let (owed_bytes, bytes) = (bodies.take_owed(), bodies.connection_bytes());
        if owed_bytes > 0 {
            engine.open_connection_window(owed_bytes);
        }
        if std::mem::replace(&mut self.window_bytes, bytes) != bytes {
            engine.set_window(0, bytes);
        }
    }

    /// Nobody wants the rest of this body: it is thrown away, and stopped when the response is whole.
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

    /// Counts its memory in this account from now on: bodies that were not read, [`BODIES_BYTES_MAX`](crate::BODIES_BYTES_MAX) at most, and
    /// requests that were not given or are not whole.
    pub fn count_in(&mut self, account: &Account) {
        let hooks = self.framer.engine.hooks();
        hooks.bodies.account = account.clone();
        hooks.requests().count_in(account);
    }

    /// Bytes of memory that are alive.
    #[cfg(any(test, feature = "testing"))]
    pub fn alive_bytes(&mut self) -> usize {
        self.framer.engine.hooks().bodies.all_alive_bytes() + self.requests().alive_bytes()
    }

    /// Bytes of memory of bodies that were not read, summed anew.
    #[cfg(any(test, feature = "testing"))]
    pub fn body_bytes(&mut self) -> usize {
        self.framer.engine.hooks().bodies.bytes()
    }

    /// The client's wish for this stream; `None` for a closed one.
    pub fn priority(&mut self, stream: u32) -> Option<Priority> {
        self.framer.engine.priority(stream)
    }

    /// Makes the head of a response the next thing that leaves. Without a body the stream ends behind it. False: the stream is closed.
    pub fn respond(&mut self, stream: u32, head: &ResponseHead, has_body: bool) -> bool {
        let is_open = self.framer.engine.respond(stream, head, has_body);
        if is_open && !has_body && self.framer.engine.has_whole_request(stream) == Some(false) {
            self.framer.engine.hooks().bodies.remove(stream);
            self.early.push(stream);
        }
        is_open
    }

    /// Makes an interim head (1xx, RFC 9110 section 15.2) the next thing that leaves, with [`Session::control`] or the response: before
    /// [`Session::respond`] alone. False: the stream is closed.
    pub fn interim(&mut self, stream: u32, head: &ResponseHead) -> bool {
        self.framer.engine.stream_window(stream).is_some() && self.framer.engine.respond(stream, head, true)
    }

    /// Makes frames of a response that was begun, of so many bytes with their headers, behind `out`. What the session has to say besides goes
    /// first. A header block is made whole, whatever the room.
    pub fn write(&mut self, stream: u32, room: usize, source: &mut dyn Source, out: &mut Vec<u8>) -> Written {
        let written = self.framer.write(stream, room, source, out);
        if matches!(written.stop, Stop::End | Stop::Closed) {
            self.end_request(stream, out);
        }
        written
    }

    /// The response is whole; of its request, if something is still to come, nobody wants it.
    fn end_request(&mut self, stream: u32, out: &mut Vec<u8>) {
        if self.framer.engine.has_whole_request(stream) == Some(false) {
            self.framer.engine.hooks().bodies.remove(stream);
            self.early.push(stream);
            self.reset_early(out);
        }
    }

    /// Stops requests whose response is whole (RFC 9113 section 8.1): not before their window is nearly used up, since some clients (curl 7.88)
    /// take a stream that is reset in the midst of a short body for one without a response. Other streams need not wait for them.
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

    /// Appends what the session has to say for itself: settings, answers, resets, windows.
    pub fn control(&mut self, out: &mut Vec<u8>) {
        self.fit_window();
        self.framer.control(out);
    }

    /// A response will not be finished. Nothing is said on a stream that is closed.
    pub fn cancel(&mut self, stream: u32) {
        if self.framer.engine.stream_window(stream).is_some() {
            self.framer.engine.reset(stream, INTERNAL_ERROR);
        }
    }

    /// Takes no new requests.
    pub fn go_away(&mut self) {
        self.framer.engine.go_away();
    }

    /// What the client may still be sent on this stream, whatever the connection's window; `None` for a closed one.
    pub fn stream_window(&mut self, stream: u32) -> Option<u32> {
        self.framer.engine.stream_window(stream)
    }

    /// What the client may still be sent on all streams together.
    pub fn window(&mut self) -> u32 {
        self.framer.engine.window()
    }

    /// Of the client's next request a part may have come.
    pub fn has_part(&self) -> bool {
        self.framer.walker.has_part()
    }

    /// Something of its own is to be sent.
    pub fn wants_write(&mut self) -> bool {
        self.framer.engine.wants_write()
    }

    /// Nothing is taken or said any more.
    pub fn has_ended(&mut self) -> bool {
        self.framer.has_ended()
    }
}
