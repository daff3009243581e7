//! What callbacks read and write.

use std::collections::VecDeque;

use crate::head::HeadText;
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
    /// The head being received: header blocks are not interleaved.
    pub head: HeadText,
    head_bytes_max: usize,
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
    pub fn new(head_bytes_max: usize) -> Hooks {
        Hooks {
            events: VecDeque::new(),
            head: HeadText::default(),
            head_bytes_max,
            out: Vec::new(),
            frame_at: 0,
            turn: None,
            provoked: 0,
            trouble: None,
        }
    }

    pub fn begin_head(&mut self) {
        self.head = HeadText::new(self.head_bytes_max);
    }

    pub fn end_head(&mut self, stream: u32) {
        let head = std::mem::take(&mut self.head).finish();
        self.events.push_back(Event::Request { stream, head });
    }

    /// How many bytes the body of this stream may have in its next frame, of so many at most.
    pub fn room(&self, stream: u32, bytes_max: usize) -> usize {
        let Some(turn) = self.turn.as_ref().filter(|turn| turn.stream == stream && turn.stop.is_none()) else {
            return 0;
        };
        turn.end.saturating_sub(self.out.len() + FRAME_HEADER_BYTES).min(bytes_max)
    }

    /// Leaves room for a frame's header, and behind it for so much of its payload.
    pub fn begin_frame(&mut self, bytes: usize) -> &mut [u8] {
        self.frame_at = self.out.len();
        self.out.resize(self.frame_at + FRAME_HEADER_BYTES + bytes, 0);
        &mut self.out[self.frame_at + FRAME_HEADER_BYTES..]
    }

    /// So much of that came.
    pub fn end_frame(&mut self, bytes: usize) {
        let begin = if bytes == 0 { self.frame_at } else { self.frame_at + FRAME_HEADER_BYTES + bytes };
        self.out.truncate(begin);
    }
}
