//! Concurrent requests and responses on one connection of HTTP/2, without any I/O: it takes and returns bytes, and
//! records facts in the ledger. The crate h2 implements the protocol and is polled by hand whenever bytes have arrived
//! or a request is due, so there is no runtime, no thread and no other clock.

mod frames;
mod pipe;
mod stream;
mod weights;

use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::client::{self, SendRequest};
use record::Outcome;
use units::Nanos;

use crate::Plan;
use crate::exchange::Next;
use crate::ledger::Ledger;
use crate::talk::Talk;
use frames::{CONTINUATION, DATA, FRAME_HEAD_BYTES, Frame, Frames, GOAWAY, HEADERS};
use pipe::Pipe;
use stream::{End, Stream};

/// The flow-control window of a stream and of the connection, in bytes. It is Chromium's, and more than any link
/// measured holds. It is reopened as bytes arrive, so that no response ever waits for it.
const STREAM_WINDOW_BYTES: u32 = 6 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 15 << 20;

/// The maximum number of concurrent requests before the server has announced its own. No server should allow fewer (RFC
/// 9113 section 6.5.2).
const STREAMS_UNTOLD: u32 = 100;

/// The maximum bytes of a response's fields. h2 refuses more, and servers send a few hundred.
const FIELDS_BYTES_MAX: u32 = 64 << 10;

#[derive(Debug)]
pub(crate) struct Streams {
    pipe: Pipe,
    connection: client::Connection<Pipe, Bytes>,
    sender: SendRequest<Bytes>,
    /// The streams in flight.
    streams: Vec<Stream>,
    frames: Frames,
    /// Frames to be sent, and the number of their bytes that the socket has taken.
    unsent: Vec<u8>,
    sent_bytes: usize,
    /// The number of requests sent and answered so far, and of bytes received.
    asked: u64,
    answered: u64,
    received_bytes: u64,
    streams_max: u32,
    /// No request follows: we sent the last one, or the server announced the end.
    is_last: bool,
    /// Jobs to be requested again over another connection.
    unheard: Vec<usize>,
    /// The last job that has ended.
    ended: Option<usize>,
}

impl Streams {
    pub(crate) fn new(streams_max: u32) -> Streams {
        let pipe = Pipe::default();
        let mut builder = client::Builder::new();
        builder
            .enable_push(false)
            .initial_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .initial_max_send_streams(streams_max.min(STREAMS_UNTOLD) as usize)
            .max_header_list_size(FIELDS_BYTES_MAX);
        let handshake = pin!(builder.handshake(pipe.clone()));
        let Poll::Ready(Ok((sender, connection))) = handshake.poll(&mut context()) else {
            unreachable!("memory takes the preface at once");
        };
        let mut streams = Streams {
            pipe,
            connection,
            sender,
            streams: vec![],
            frames: Frames::default(),
            unsent: vec![],
            sent_bytes: 0,
            asked: 0,
            answered: 0,
            received_bytes: 0,
            streams_max,
            is_last: false,
            unheard: vec![],
            ended: None,
        };
        streams.drive();
        streams
    }

    /// Lets h2 read the bytes that arrived and write the bytes to be sent. Returns whether the connection continues.
    fn drive(&mut self) -> bool {
        let is_open = Pin::new(&mut self.connection).poll(&mut context()).is_pending();
        self.unsent.append(&mut self.pipe.0.borrow_mut().outgoing);
        is_open
    }

    fn note_frames(&mut self, mut input: &[u8], ledger: &mut Ledger<'_>, now: Nanos) {
        while let Some(Frame { kind, stream: id, payload_bytes }) = self.frames.poll(&mut input) {
            self.is_last |= kind == GOAWAY;
            if !matches!(kind, DATA | HEADERS | CONTINUATION) {
                continue;
            }
            if let Some(stream) = self.streams.iter_mut().find(|stream| stream.id == id) {
                ledger.on_byte(stream.job, now);
                if kind != DATA {
                    stream.head_bytes += FRAME_HEAD_BYTES as u64 + u64::from(payload_bytes);
                }
            }
        }
    }

    /// Takes the parts of each response that h2 has ready.
    fn collect(&mut self, ledger: &mut Ledger<'_>, now: Nanos) {
        let mut place = 0;
        while let Some(stream) = self.streams.get_mut(place) {
            let Some(end) = stream.poll(&mut context(), ledger, now) else {
                place += 1;
                continue;
            };
            let Stream { job, .. } = self.streams.swap_remove(place);
            match end {
                End::Whole => {
                    self.answered += 1;
                    self.ended = Some(job);
                    ledger.on_whole(job, now);
                }
                End::Unheard => self.unheard.push(job),
                End::Lost(outcome) => self.end(job, outcome, ledger, now),
            }
        }
    }

    fn end(&mut self, job: usize, outcome: Outcome, ledger: &mut Ledger<'_>, now: Nanos) {
        self.ended = Some(job);
        ledger.end(job, outcome, now);
    }
}

impl Talk for Streams {
    /// If the connection turns out to accept no more, the job becomes unheard ([`Talk::take_unheard`]).
    fn submit(&mut self, plan: &Plan, job: usize, ledger: &mut Ledger<'_>, now: Nanos) {
        self.asked += 1;
        self.is_last |= self.asked == plan.per_connection;
        let (ask, mut weight) = (ledger.ask(job), None);
        match self.sender.send_request(ledger.request(job), true) {
            Ok((answer, _)) => {
                let urgency = weights::urgency(ask.part);
                let stream = Stream::new(job, answer, urgency, self.asked, self.received_bytes, self.answered > 0);
                let others = self.streams.iter().map(|other| (other.id, other.urgency));
                weight = ask.part.map(|part| weights::frame(stream.id, part.urgency, others));
                self.streams.push(stream);
            }
            Err(_) => {
                self.is_last = true;
                match self.asked {
                    1 => self.end(job, Outcome::Wrong, ledger, now),
                    _ => self.unheard.push(job),
                }
            }
        }
        // h2 leaves whole frames, and memory takes all of them.
        self.drive();
        self.unsent.extend(weight.into_iter().flatten());
    }

    fn has_room(&self) -> bool {
        let most = self.sender.current_max_send_streams().min(self.streams_max as usize);
        !self.is_last && self.streams.len() < most
    }

    fn is_idle(&self) -> bool {
        self.streams.is_empty()
    }

    fn unsent(&self) -> &[u8] {
        &self.unsent[self.sent_bytes..]
    }

    fn on_sent(&mut self, bytes: usize) {
        self.sent_bytes += bytes;
        if self.sent_bytes == self.unsent.len() {
            self.unsent.clear();
            self.sent_bytes = 0;
        }
    }

    fn on_bytes(&mut self, input: &[u8], ledger: &mut Ledger<'_>, now: Nanos) -> Next {
        self.received_bytes += input.len() as u64;
        self.note_frames(input, ledger, now);
        self.pipe.0.borrow_mut().put(input);
        let is_open = self.drive();
        self.collect(ledger, now);
        // Drives h2 again, to send what became possible by reading.
        if !(self.drive() && is_open) {
            self.fail(Outcome::Reset, ledger, now);
            return Next::Close;
        }
        if self.is_last && self.is_idle() { Next::Close } else { Next::Continue }
    }

    /// Resets the stream of the job. The others continue.
    fn cancel(&mut self, job: usize) -> bool {
        self.streams.retain(|stream| stream.job != job);
        self.drive();
        true
    }

    fn on_end_of_stream(&mut self, ledger: &mut Ledger<'_>, now: Nanos) {
        for stream in std::mem::take(&mut self.streams) {
            match stream.is_unheard_at(self.received_bytes) {
                true => self.unheard.push(stream.job),
                false => self.end(stream.job, Outcome::Reset, ledger, now),
            }
        }
    }

    fn fail(&mut self, outcome: Outcome, ledger: &mut Ledger<'_>, now: Nanos) {
        for stream in std::mem::take(&mut self.streams) {
            self.end(stream.job, outcome, ledger, now);
        }
    }

    /// The server announced the end before it saw these jobs, or refused them before it could announce its limit, or closed
    /// a connection that had served other requests while these were on their way. The first request of a connection is
    /// never given back, so each connection ends at least one job.
    fn take_unheard(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.unheard)
    }

    fn take_ended(&mut self) -> Option<usize> {
        self.ended.take()
    }
}

/// Returns a context that wakes nothing, because everything is polled when bytes arrive.
fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

#[cfg(test)]
mod tests;
