//! What callbacks read and write.

use std::collections::VecDeque;

use http::{Limits, RequestBuilder};

use crate::bodies::Bodies;
use crate::responses::Responses;
use crate::session::{Source, Supply};
use crate::{Event, FRAME_HEADER_BYTES};

/// What has come, by the end of the connection that this is.
pub enum Side {
    Server(Requests),
    Client(Responses),
}

/// What a client says.
pub struct Requests {
    pub events: VecDeque<Event>,
    /// The head being received: header blocks are not interleaved.
    pub head: RequestBuilder,
}

/// The stream whose body may be made into frames, and how much of it.
pub struct Turn {
    pub stream: u32,
    /// Where `out` may end.
    pub end: usize,
    /// Good for the call in which the turn is set, which ends it.
    pub source: *mut (dyn Source + 'static),
    /// Of the body.
    pub bytes: u64,
    pub stop: Option<Supply>,
}

pub struct Hooks {
    pub side: Side,
    pub bodies: Bodies,
    pub out: Vec<u8>,
    /// Where the header of the frame being made goes.
    pub frame_at: usize,
    pub turn: Option<Turn>,
    /// Streams reset for their peer's mistakes, since this was last asked.
    pub provoked: u32,
    /// The last thing that the library found wrong.
    pub trouble: Option<String>,
}

impl Requests {
    pub fn new(limits: Limits) -> Requests {
        Requests { events: VecDeque::new(), head: RequestBuilder::new(limits) }
    }
}

impl Hooks {
    pub fn new(side: Side) -> Hooks {
        Hooks { side, bodies: Bodies::default(), out: Vec::new(), frame_at: 0, turn: None, provoked: 0, trouble: None }
    }

    /// Of a server.
    pub fn requests(&mut self) -> &mut Requests {
        match &mut self.side {
            Side::Server(requests) => requests,
            Side::Client(_) => unreachable!("its session is a client's"),
        }
    }

    /// Of a client.
    pub fn responses(&mut self) -> &mut Responses {
        match &mut self.side {
            Side::Client(responses) => responses,
            Side::Server(_) => unreachable!("its session is a server's"),
        }
    }

    pub fn begin_head(&mut self) {
        match &mut self.side {
            Side::Server(requests) => requests.head.begin(),
            Side::Client(responses) => responses.head.begin(),
        }
    }

    pub fn push_field(&mut self, name: &[u8], value: &[u8]) {
        match &mut self.side {
            Side::Server(requests) => requests.head.push(name, value),
            Side::Client(responses) => responses.head.push(name, value),
        }
    }

    /// A head is whole, and the message with it if it ends the stream; or the trailers of a response.
    pub fn end_head(&mut self, stream: u32, ends_stream: bool) {
        match &mut self.side {
            Side::Server(requests) => {
                let mut request = requests.head.finish();
                if !ends_stream {
                    request.iter_mut().for_each(|request| request.set_unended());
                }
                self.bodies.begin(stream, ends_stream);
                requests.events.push_back(Event::Request { stream, request });
            }
            Side::Client(responses) => match responses.end_head(stream, ends_stream) {
                true if ends_stream => drop(self.bodies.end(stream)),
                true => {}
                false => drop(self.bodies.remove(stream)),
            },
        }
    }

    /// Part of a body. False: nobody wants it.
    pub fn keep(&mut self, stream: u32, bytes: &[u8]) -> bool {
        if !self.is_well_formed(stream, bytes.len(), false) {
            return false;
        }
        let kept = self.bodies.keep(stream, bytes);
        self.tell(stream, kept == Some(true));
        kept.is_some()
    }

    /// Of a response nothing is kept that has more or less than it said.
    fn is_well_formed(&mut self, stream: u32, bytes: usize, ends_stream: bool) -> bool {
        let Side::Client(responses) = &mut self.side else { return true };
        let is_well_formed = responses.on_body(stream, bytes, ends_stream);
        if !is_well_formed {
            self.bodies.remove(stream);
        }
        is_well_formed
    }

    pub fn end_body(&mut self, stream: u32) {
        if !self.is_well_formed(stream, 0, true) {
            return;
        }
        let is_news = self.bodies.end(stream);
        self.tell(stream, is_news);
    }

    /// Of a body there is something to be read.
    pub fn tell(&mut self, stream: u32, is_news: bool) {
        match &mut self.side {
            _ if !is_news => {}
            Side::Server(requests) => requests.events.push_back(Event::Body { stream }),
            Side::Client(responses) => responses.tell(stream),
        }
    }

    pub fn close(&mut self, stream: u32, code: u32) {
        match &mut self.side {
            Side::Server(requests) => {
                self.bodies.remove(stream);
                requests.events.push_back(Event::Closed { stream });
            }
            Side::Client(responses) => {
                // What is whole is still to be read.
                if !self.bodies.has_ended(stream) {
                    self.bodies.remove(stream);
                }
                responses.close(stream, code);
            }
        }
    }

    /// How many bytes the body of this stream may have in its next frame, of so many at most.
    pub fn room(&self, stream: u32, bytes_max: usize) -> usize {
        let Some(turn) = self.turn.as_ref().filter(|turn| turn.stream == stream && turn.stop.is_none()) else {
            return 0;
        };
        turn.end.saturating_sub(self.out.len() + FRAME_HEADER_BYTES).min(bytes_max)
    }

    /// Reads so much of a body to where it will stand, behind room for its frame's header. Of one that fails nothing stays.
    pub fn read(&mut self, source: &mut dyn Source, bytes_max: usize) -> (usize, Supply) {
        self.frame_at = self.out.len();
        self.out.extend_from_slice(&[0; FRAME_HEADER_BYTES]);
        let begin = self.out.len();
        let supply = source.peek(&mut self.out, bytes_max);
        let mut bytes = self.out.len() - begin;
        assert!(bytes <= bytes_max, "{bytes} bytes of a frame of {bytes_max}");
        if supply == Supply::Failed {
            bytes = 0;
        }
        if bytes == 0 {
            self.out.truncate(self.frame_at);
        }
        source.advance(bytes);
        (bytes, supply)
    }
}
