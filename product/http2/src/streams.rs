//! Tracks the streams on which a client may still send. The engine forgets closed streams and tolerates later frames on
//! them, but a client must not send after it has ended a stream (RFC 9113 section 5.1).

use crate::walker::{DATA, Frame, HEADERS, PRIORITY, RST_STREAM};

/// The maximum number of remembered streams that the client has not ended. Streams that this end has ended count too,
/// because frames on them may still arrive.
const UNENDED_MAX: usize = 512;
const PRIORITY_BYTES: u32 = 5;

pub const PROTOCOL_ERROR: u32 = 1;
const STREAM_CLOSED: u32 = 5;
const FRAME_SIZE_ERROR: u32 = 6;

/// A WINDOW_UPDATE with an increment of 0, for the connection or for a stream that has ended (RFC 9113 section 6.9).
pub const UPDATE_BY_NOTHING: Mistake = Mistake { code: PROTOCOL_ERROR, why: "WINDOW_UPDATE by nothing" };

/// A client's mistake that ends the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mistake {
    /// The error code (RFC 9113 section 7).
    pub code: u32,
    pub why: &'static str,
}

#[derive(Debug, Default)]
pub struct Streams {
    /// The highest stream that the client has opened.
    highest: u32,
    /// Streams that the client has not ended, in ascending order.
    unended: Vec<u32>,
    /// The highest stream number that has been forgotten.
    forgotten: u32,
}

impl Streams {
    pub fn on_frame(&mut self, frame: &Frame) -> Result<(), Mistake> {
        match frame.kind {
            HEADERS if frame.stream > self.highest => {
                self.highest = frame.stream;
                if !frame.ends_stream() {
                    self.remember(frame.stream);
                }
                Ok(())
            }
            // The engine refuses a stream that was not opened yet.
            HEADERS | DATA if frame.stream != 0 && frame.stream <= self.highest => self.on_more(frame),
            RST_STREAM => {
                self.unended.retain(|stream| *stream != frame.stream);
                Ok(())
            }
            PRIORITY => check_priority(frame),
            _ => Ok(()),
        }
    }

    fn on_more(&mut self, frame: &Frame) -> Result<(), Mistake> {
        if frame.stream <= self.forgotten {
            return Ok(());
        }
        let Some(at) = self.unended.iter().position(|stream| *stream == frame.stream) else {
            return Err(Mistake { code: STREAM_CLOSED, why: "a frame on a stream that the client has ended" });
        };
        if frame.ends_stream() {
            self.unended.remove(at);
        }
        Ok(())
    }

    fn remember(&mut self, stream: u32) {
        if self.unended.len() >= UNENDED_MAX {
            self.forgotten = self.unended.remove(0);
        }
        self.unended.push(stream);
    }
}

/// Checks PRIORITY, which has no effect (RFC 9113 section 5.3.2), but must be well formed (RFC 7540 sections 5.3.1 and
/// 6.3).
fn check_priority(frame: &Frame) -> Result<(), Mistake> {
    if frame.stream == 0 {
        return Err(Mistake { code: PROTOCOL_ERROR, why: "PRIORITY on no stream" });
    }
    if frame.length != PRIORITY_BYTES {
        return Err(Mistake { code: FRAME_SIZE_ERROR, why: "PRIORITY of another size than 5 bytes" });
    }
    if frame.word == frame.stream {
        return Err(Mistake { code: PROTOCOL_ERROR, why: "a stream that depends on itself" });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDED: Mistake = Mistake { code: STREAM_CLOSED, why: "a frame on a stream that the client has ended" };

    fn frame(kind: u8, stream: u32, ends_stream: bool) -> Frame {
        Frame { kind, flags: u8::from(ends_stream), stream, length: 5, word: 0 }
    }

    fn last(frames: &[Frame]) -> Result<(), Mistake> {
        let mut streams = Streams::default();
        let (last, before) = frames.split_last().unwrap();
        before.iter().for_each(|frame| streams.on_frame(frame).unwrap());
        streams.on_frame(last)
    }

    #[test]
    fn a_body_and_trailers_come_before_the_end_and_nothing_behind_it() {
        let [open, data, end] = [frame(HEADERS, 1, false), frame(DATA, 1, false), frame(DATA, 1, true)];
        let [request, reset] = [frame(HEADERS, 1, true), frame(RST_STREAM, 1, false)];
        assert_eq!(last(&[open, data, data, request]), Ok(()));
        for ended in [&[request][..], &[open, end], &[open, data, request], &[open, reset]] {
            for late in [data, end, request, open] {
                assert_eq!(last(&[ended, &[late]].concat()), Err(ENDED));
            }
            assert_eq!(last(&[ended, &[reset]].concat()), Ok(()));
            assert_eq!(last(&[ended, &[frame(crate::walker::WINDOW_UPDATE, 1, false)]].concat()), Ok(()));
        }
    }

    #[test]
    fn streams_are_opened_in_their_order() {
        assert_eq!(last(&[frame(HEADERS, 5, true), frame(HEADERS, 3, true)]), Err(ENDED));
        assert_eq!(last(&[frame(HEADERS, 5, true), frame(DATA, 7, true)]), Ok(()), "the engine knows");
    }

    #[test]
    fn old_streams_are_forgotten_and_forgiven() {
        let mut streams = Streams::default();
        for nth in 0..=UNENDED_MAX as u32 {
            streams.on_frame(&frame(HEADERS, 1 + 2 * nth, false)).unwrap();
        }
        assert_eq!(streams.unended.len(), UNENDED_MAX);
        assert_eq!([1, 3].map(|stream| streams.on_frame(&frame(DATA, stream, true))), [Ok(()), Ok(())]);
        assert_eq!(streams.on_frame(&frame(DATA, 3, true)), Err(ENDED));
        assert_eq!(streams.on_frame(&frame(DATA, 1, true)), Ok(()));
    }

    #[test]
    fn priority_is_well_formed() {
        let of = |stream, length, word| check_priority(&Frame { kind: PRIORITY, flags: 0, stream, length, word });
        assert_eq!(of(3, 5, 1), Ok(()));
        assert_eq!([of(0, 5, 1), of(3, 4, 1), of(3, 5, 3)].map(|result| result.unwrap_err().code), [1, 6, 1]);
    }
}
