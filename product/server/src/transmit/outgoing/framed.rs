//! A response on a stream of HTTP/2: what is granted becomes frames, and no more is made than that.

use mux::{Session, Source, Stop, Supply};

use super::{Failure, Outgoing};
use crate::storage::Storage;
use crate::transmit::Body;

/// What was made of a response.
#[derive(Debug)]
pub struct Made {
    /// Of its head, as HTTP/1.1 has it, and of its body.
    pub bytes: u64,
    pub stop: Stop,
    /// Why its source stopped.
    pub failure: Option<Failure>,
}

/// A body, and the storage it is read from.
struct FromBody<'a> {
    body: &'a mut Body,
    storage: &'a mut dyn Storage,
    failure: Option<Failure>,
}

impl Source for FromBody<'_> {
    fn read(&mut self, into: &mut Vec<u8>, bytes_max: usize) -> Supply {
        match self.body.read(self.storage, into, bytes_max as u64) {
            Ok(_) if self.body.is_empty() => Supply::End,
            Ok(0) => {
                self.failure = Some(Failure::Absent);
                Supply::Later
            }
            Ok(_) => Supply::More,
            Err(failure) => {
                self.failure = Some(failure);
                Supply::Failed
            }
        }
    }
}

impl Outgoing {
    /// Makes frames of so many bytes behind `out`, the head first. The head is whole whatever the room: a block cannot be cut between two
    /// grants, since its compression depends on all blocks before it.
    pub fn make_frames(
        &mut self,
        session: &mut Session,
        stream: u32,
        storage: &mut dyn Storage,
        room: usize,
        out: &mut Vec<u8>,
    ) -> Made {
        let head_bytes = self.bytes.len() - self.at;
        let has_body = !self.body.is_empty();
        if head_bytes > 0 {
            if !session.respond(stream, &self.bytes[self.at..], has_body) {
                return Made { bytes: 0, stop: Stop::Closed, failure: None };
            }
            self.at = self.bytes.len();
        }
        let mut source = FromBody { body: &mut self.body, storage, failure: None };
        let written = session.write(stream, room, &mut source, out);
        let failure = source.failure;
        // Without a body the stream ends behind its head.
        let stop = if has_body { written.stop } else { Stop::End };
        Made { bytes: head_bytes as u64 + written.bytes, stop, failure }
    }
}
