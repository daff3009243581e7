//! The part that both ends of a connection share: takes bytes, makes frames, and enforces limits.

use units::Nanos;

use crate::FRAME_HEADER_BYTES;
use crate::ffi::{Engine, Hooks};
use crate::floods::{Budget, Flood};
use crate::session::{Broken, Source, Stop, Supply, Written};
use crate::streams::{Mistake, PROTOCOL_ERROR};
use crate::walker::{Frame, Walker};

const ENHANCE_YOUR_CALM: u32 = 11;

/// The side that ended a connection.
pub enum End {
    /// The engine ended it and has sent the reason.
    Engines(String),
    /// This end closes the connection, with this error code.
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

/// The framing state of one end of a connection.
pub struct Framer {
    pub engine: Engine,
    pub walker: Walker,
    pub budget: Budget,
    pub is_broken: bool,
}

impl Framer {
    /// Creates the framer of a connection whose peer starts with `preface_bytes` bytes before the first frame.
    pub fn new(engine: Engine, preface_bytes: usize, budget: Budget) -> Framer {
        Framer { engine, walker: Walker::new(preface_bytes), budget, is_broken: false }
    }

    /// Advances until the next frame is known, or to the end of `bytes`. Returns the bytes passed and the frame, which
    /// is within the limits.
    pub fn next_frame(&mut self, now: Nanos, bytes: &[u8]) -> Result<(usize, Option<Frame>), Flood> {
        let (taken, frame) = self.walker.next(bytes);
        frame.iter().try_for_each(|frame| self.budget.on_frame(now, frame))?;
        Ok((taken, frame))
    }

    /// Passes bytes whose frames are known to the engine, and appends its answers.
    pub fn feed(&mut self, now: Nanos, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), End> {
        let taken = self.engine.receive(bytes);
        self.reset_malformed();
        self.control(out);
        taken.map_err(End::Engines)?;
        let Hooks { provoked, trouble, .. } = self.engine.hooks();
        let (provoked, trouble) = (std::mem::take(provoked), trouble.take());
        (0..provoked).try_for_each(|_| self.budget.on_provoked(now))?;
        match trouble {
            // A mistake that ends only a stream is not reported, and a peer that only closes has made none.
            Some(trouble) if !self.engine.wants_read() => Err(End::Engines(trouble)),
            _ => Ok(()),
        }
    }

    /// Resets the streams of malformed messages; the connection continues (RFC 9113 section 8.1.1).
    fn reset_malformed(&mut self) {
        for stream in std::mem::take(&mut self.engine.hooks().malformed) {
            if self.engine.stream_window(stream).is_some() {
                self.engine.reset(stream, PROTOCOL_ERROR);
            }
        }
    }

    /// Returns the result of taking bytes. If it ends the connection, appends the GOAWAY for the peer.
    pub fn conclude(&mut self, taken: Result<(), End>, out: &mut Vec<u8>) -> Result<(), Broken> {
        let taken = taken.map_err(|end| {
            if let End::Ours(code, _) = &end {
                self.engine.terminate(*code);
                self.control(out);
            }
            end.into()
        });
        self.is_broken |= taken.is_err();
        taken
    }

    /// Appends the session's own frames: settings, answers, resets, window updates.
    pub fn control(&mut self, out: &mut Vec<u8>) {
        self.is_broken |= self.engine.make(out).is_some();
    }

    /// Appends frames of a stream's body, up to `room` bytes with their headers.
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
        self.budget.on_sent(out.len() - begin);
        if turned.bytes > 0 {
            self.budget.on_written();
        }
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

    /// Returns true if nothing more will be read or written.
    pub fn has_ended(&mut self) -> bool {
        self.is_broken || (!self.engine.wants_read() && !self.engine.wants_write())
    }
}
