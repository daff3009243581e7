//! What callbacks read and write.

use std::collections::VecDeque;

use http::{Limits, RequestBuilder};

use crate::bodies::Bodies;
use crate::session::{Source, Supply};
use crate::{Event, FRAME_HEADER_BYTES};

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
    pub events: VecDeque<Event>,
    pub bodies: Bodies,
    /// The head being received: header blocks are not interleaved.
    pub head: RequestBuilder,
    pub out: Vec<u8>,
    /// Where the header of the frame being made goes.
    pub frame_at: usize,
    pub turn: Option<Turn>,
    /// Streams reset for their client's mistakes, since this was last asked.
    pub provoked: u32,
    /// The last thing that the library found wrong.
    pub trouble: Option<String>,
}

impl Hooks {
    pub fn new(request: Limits) -> Hooks {
        Hooks {
            events: VecDeque::new(),
            bodies: Bodies::default(),
            head: RequestBuilder::new(request),
            out: Vec::new(),
            frame_at: 0,
            turn: None,
            provoked: 0,
            trouble: None,
        }
    }

    pub fn begin_head(&mut self) {
        self.head.begin();
    }

    /// A head is whole, and the request with it if it ends the stream.
    pub fn end_head(&mut self, stream: u32, ends_stream: bool) {
        let mut request = self.head.finish();
        if !ends_stream {
            request.iter_mut().for_each(|request| request.set_unended());
        }
        self.bodies.begin(stream, ends_stream);
        self.events.push_back(Event::Request { stream, request });
    }

    /// Part of a request's body. False: nobody wants it.
    pub fn keep(&mut self, stream: u32, bytes: &[u8]) -> bool {
        let kept = self.bodies.keep(stream, bytes);
        self.tell(stream, kept == Some(true));
        kept.is_some()
    }

    pub fn end_body(&mut self, stream: u32) {
        let is_news = self.bodies.end(stream);
        self.tell(stream, is_news);
    }

    /// Of a body there is something to be read.
    pub fn tell(&mut self, stream: u32, is_news: bool) {
        if is_news {
            self.events.push_back(Event::Body { stream });
        }
    }

    pub fn close(&mut self, stream: u32) {
        self.bodies.remove(stream);
        self.events.push_back(Event::Closed { stream });
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
