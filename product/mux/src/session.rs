//! One connection's HTTP/2, without its socket.

use std::collections::VecDeque;

use http::{Limits, OwnedRequest, Refused, ResponseHead};
use units::Nanos;

use crate::bodies::BodyRead;
use crate::budget::{Budget, Flood};
use crate::ffi::{Engine, Hooks};
use crate::streams::{Mistake, Streams};
use crate::walker::{Frame, WINDOW_UPDATE, Walker};
use crate::{FRAME_HEADER_BYTES, STREAMS_MAX};

/// What a client begins with (RFC 9113 section 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const NO_ERROR: u32 = 0;
const INTERNAL_ERROR: u32 = 2;
const FLOW_CONTROL_ERROR: u32 = 3;
const ENHANCE_YOUR_CALM: u32 = 11;

/// A request that is not wanted is stopped where its client may send less than this of it, which is one frame.
const EARLY_WINDOW_MIN: u32 = 16 << 10;

/// Room for so many events is kept.
const EVENTS_KEPT: usize = 8;

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
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { request: Limits::default(), streams_max: STREAMS_MAX }
    }
}

/// What has come.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// A request, or what is wrong with it: its head, whatever follows. A body is thrown away, unless [`Session::want_body`] is called before
    /// the next event is asked for.
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

/// Whose the end of a connection is.
enum End {
    /// The engine's, which has said so.
    Engines(String),
    /// Ours, with the code that says why.
    Ours(u32, Broken),
}

impl From<Flood> for End {
    fn from(flood: Flood) -> End {
        End::Ours(ENHANCE_YOUR_CALM, flood.into())
    }
}

impl From<Mistake> for End {
    fn from(mistake: Mistake) -> End {
        End::Ours(mistake.code, Broken::Protocol(mistake.why.to_string()))
    }
}

impl From<End> for Broken {
    fn from(end: End) -> Broken {
        match end {
            End::Engines(why) => Broken::Protocol(why),
            End::Ours(_, broken) => broken,
        }
    }
}

/// The server's end of a connection.
pub struct Session {
    engine: Engine,
    walker: Walker,
    streams: Streams,
    budget: Budget,
    /// Streams whose response was whole before their request.
    early: Vec<u32>,
    /// The request that was told of last: perhaps nobody wants its body.
    asked: Option<u32>,
    is_broken: bool,
}

impl Session {
    pub fn new(settings: &Settings) -> Session {
        Session {
            engine: Engine::new(settings),
            walker: Walker::new(PREFACE.len()),
            streams: Streams::default(),
            budget: Budget::default(),
            early: Vec::new(),
            asked: None,
            is_broken: false,
        }
    }

    /// Takes what has come, and appends the session's own answers; what it says is asked of [`Session::event`]. After an error nothing more is
    /// taken.
    pub fn receive(&mut self, now: Nanos, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
        if self.is_broken {
            return Ok(());
        }
        self.drain_unwanted();
        let taken = self.take(now, bytes, out).map_err(|end| {
            if let End::Ours(code, _) = &end {
                self.engine.terminate(*code);
                self.control(out);
            }
            end.into()
        });
        self.is_broken |= taken.is_err();
        taken
    }

    fn take(&mut self, now: Nanos, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), End> {
        let mut rest = bytes;
        let mut known = 0;
        while let (taken, Some(frame)) = self.walker.next(&rest[known..]) {
            known += taken;
            self.budget.on_frame(now, &frame)?;
            self.streams.on_frame(&frame)?;
            if frame.kind == WINDOW_UPDATE && frame.word >= GREAT_UPDATE {
                // The engine has to know all before it, and not it.
                let before = known.saturating_sub(taken);
                self.feed(now, &rest[..before], out)?;
                rest = &rest[before..];
                known = taken;
                self.on_great_update(&frame, out);
            }
        }
        self.feed(now, rest, out)?;
        self.reset_early(out);
        Ok(())
    }

    /// A window of a stream that is updated past the greatest costs the client that stream (RFC 9113 section 6.9.1).
    fn on_great_update(&mut self, frame: &Frame, out: &mut Vec<u8>) {
        let window = self.engine.stream_window(frame.stream).filter(|_| frame.stream != 0);
        if window.is_some_and(|window| window > WINDOW_MAX - frame.word) {
            self.engine.reset(frame.stream, FLOW_CONTROL_ERROR);
            self.control(out);
        }
    }

    fn feed(&mut self, now: Nanos, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), End> {
        let taken = self.engine.receive(bytes);
        self.control(out);
        taken.map_err(End::Engines)?;
        let Hooks { provoked, trouble, .. } = self.engine.hooks();
        let (provoked, trouble) = (std::mem::take(provoked), trouble.take());
        (0..provoked).try_for_each(|_| self.budget.on_provoked(now))?;
        match trouble {
            // Mistakes that end a stream alone are no news; a client that just leaves has made none.
            Some(trouble) if !self.engine.wants_read() => Err(End::Engines(trouble)),
            _ => Ok(()),
        }
    }

    pub fn event(&mut self) -> Option<Event> {
        self.drain_unwanted();
        let events = &mut self.engine.hooks().events;
        let event = events.pop_front();
        if event.is_none() && events.capacity() > EVENTS_KEPT {
            *events = VecDeque::new();
        }
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
        let hooks = self.engine.hooks();
        let wanted = hooks.bodies.want(stream);
        hooks.tell(stream, wanted == Some(true));
        wanted.is_some()
    }

    /// Appends so many bytes of a body at most, without its trailers, and says what follows. The stream's window opens by as much, which
    /// [`Session::control`] tells the client.
    pub fn read_body(&mut self, stream: u32, into: &mut Vec<u8>, bytes_max: usize) -> BodyRead {
        if self.is_broken {
            return BodyRead::Cut;
        }
        let (opened_bytes, read) = self.engine.hooks().bodies.read(stream, into, bytes_max);
        self.engine.open_window(stream, opened_bytes);
        read
    }

    /// Nobody wants the rest of this body: it is thrown away, and stopped when the response is whole.
    pub fn leave_body(&mut self, stream: u32) {
        let opened_bytes = self.engine.hooks().bodies.remove(stream);
        self.engine.open_window(stream, opened_bytes);
    }

    fn drain_unwanted(&mut self) {
        if let Some(stream) = self.asked.take()
            && !self.engine.hooks().bodies.is_wanted(stream)
        {
            self.leave_body(stream);
        }
    }

    /// Memory of bodies that were not read: [`BODIES_BYTES_MAX`](crate::BODIES_BYTES_MAX) at most.
    pub fn body_bytes(&mut self) -> usize {
        self.engine.hooks().bodies.bytes()
    }

    /// The client's wish for this stream; `None` for a closed one.
    pub fn priority(&mut self, stream: u32) -> Option<Priority> {
        self.engine.priority(stream)
    }

    /// Makes the head of a response the next thing that leaves. Without a body the stream ends behind it. False: the stream is closed.
    pub fn respond(&mut self, stream: u32, head: &ResponseHead, has_body: bool) -> bool {
        let is_open = self.engine.respond(stream, head, has_body);
        if is_open && !has_body && self.engine.has_whole_request(stream) == Some(false) {
            self.engine.hooks().bodies.remove(stream);
            self.early.push(stream);
        }
        is_open
    }

    /// Makes an interim head (1xx, RFC 9110 section 15.2) the next thing that leaves, with [`Session::control`] or the response: before
    /// [`Session::respond`] alone. False: the stream is closed.
    pub fn interim(&mut self, stream: u32, head: &ResponseHead) -> bool {
        self.engine.stream_window(stream).is_some() && self.engine.respond(stream, head, true)
    }

    /// Makes frames of a response that was begun, of so many bytes with their headers, behind `out`. What the session has to say besides goes
    /// first. A header block is made whole, whatever the room.
    pub fn write(&mut self, stream: u32, room: usize, source: &mut dyn Source, out: &mut Vec<u8>) -> Written {
        let begin = out.len();
        let turned = self.engine.turn(stream, room, source, out);
        self.is_broken |= turned.error.is_some();
        let stop = match turned.stop {
            Some(Supply::End) => Stop::End,
            Some(Supply::Failed) => Stop::Failed,
            Some(Supply::Later) => Stop::Source,
            Some(Supply::More) | None => self.obstacle(stream, (begin + room).saturating_sub(out.len())),
        };
        if matches!(stop, Stop::End | Stop::Closed) {
            self.end_request(stream, out);
        }
        self.budget.on_sent(out.len() - begin);
        Written { bytes: turned.bytes, stop }
    }

    fn obstacle(&mut self, stream: u32, room_left: usize) -> Stop {
        match self.engine.stream_window(stream) {
            None => Stop::Closed,
            _ if room_left <= FRAME_HEADER_BYTES => Stop::Room,
            _ if self.engine.window() == 0 => Stop::Window,
            Some(_) => Stop::StreamWindow,
        }
    }

    /// The response is whole; of its request, if something is still to come, nobody wants it.
    fn end_request(&mut self, stream: u32, out: &mut Vec<u8>) {
        if self.engine.has_whole_request(stream) == Some(false) {
            self.engine.hooks().bodies.remove(stream);
            self.early.push(stream);
            self.reset_early(out);
        }
    }

    /// Stops requests whose response is whole (RFC 9113 section 8.1): not before their window is nearly used up, since some clients (curl 7.88)
    /// take a stream that is reset in the midst of a short body for one without a response. Other streams need not wait for them.
    fn reset_early(&mut self, out: &mut Vec<u8>) {
        let (engine, mut has_reset) = (&mut self.engine, false);
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
        self.is_broken |= self.engine.make(out).is_some();
    }

    /// A response will not be finished. Nothing is said on a stream that is closed.
    pub fn cancel(&mut self, stream: u32) {
        if self.engine.stream_window(stream).is_some() {
            self.engine.reset(stream, INTERNAL_ERROR);
        }
    }

    /// Takes no new requests.
    pub fn go_away(&mut self) {
        self.engine.go_away();
    }

    /// What the client may still be sent on this stream, whatever the connection's window; `None` for a closed one.
    pub fn stream_window(&mut self, stream: u32) -> Option<u32> {
        self.engine.stream_window(stream)
    }

    /// What the client may still be sent on all streams together.
    pub fn window(&mut self) -> u32 {
        self.engine.window()
    }

    /// Of the client's next request a part may have come.
    pub fn has_part(&self) -> bool {
        self.walker.has_part()
    }

    /// Something of its own is to be sent.
    pub fn wants_write(&mut self) -> bool {
        self.engine.wants_write()
    }

    /// Nothing is taken or said any more.
    pub fn has_ended(&mut self) -> bool {
        self.is_broken || (!self.engine.wants_read() && !self.engine.wants_write())
    }
}
