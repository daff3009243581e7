//! Requests and responses on one connection of HTTP/2, many at once, without the connection: bytes in, bytes out, facts into
//! the ledger. The protocol is h2's, which is polled by hand whenever something has come or is to be asked: no runtime, no
//! thread, and no clock but ours.

mod frames;
mod pipe;
mod probe;
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
use frames::{CONTINUATION, DATA, FRAME_HEAD_BYTES, Frame, Frames, GOAWAY, HEADERS};
use pipe::Pipe;
use stream::{End, Stream};

pub use probe::{NoHttp2, check_http2};

/// The bytes that the server may send before it hears from us, on one stream and on the connection: as much as Chromium allows, more
/// than any link we measure holds. It is opened again as the bytes come, so that no response ever waits for it.
const STREAM_WINDOW_BYTES: u32 = 6 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 15 << 20;

/// Requests before the server has said how many it takes: no server should take fewer (RFC 9113 section 6.5.2).
const STREAMS_UNTOLD: u32 = 100;

/// The bytes of a response's fields; h2 refuses more, and a server's are a few hundred.
const FIELDS_BYTES_MAX: u32 = 64 << 10;

#[derive(Debug)]
pub(crate) struct Streams {
    pipe: Pipe,
    connection: client::Connection<Pipe, Bytes>,
    sender: SendRequest<Bytes>,
    /// The streams under way.
    streams: Vec<Stream>,
    frames: Frames,
    /// Frames to be sent, and how many bytes of them the socket has taken.
    unsent: Vec<u8>,
    sent_bytes: usize,
    /// Requests asked and answered so far, and bytes that have come.
    asked: u64,
    answered: u64,
    received_bytes: u64,
    streams_max: u32,
    /// No request comes any more: we asked the last, or the server announced the end.
    is_last: bool,
    /// Jobs to be asked for again over another connection.
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

    /// Asks for a job. A connection that turns out to take no more gives it back as unheard.
    pub(crate) fn submit(&mut self, plan: &Plan, job: usize, ledger: &mut Ledger<'_>, now: Nanos) {
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
        // h2 leaves whole frames, and memory takes them all.
        self.drive();
        self.unsent.extend(weight.into_iter().flatten());
    }

    /// Returns true if another request may be asked.
    pub(crate) fn has_room(&self) -> bool {
        let most = self.sender.current_max_send_streams().min(self.streams_max as usize);
        !self.is_last && self.streams.len() < most
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.streams.is_empty()
    }

    pub(crate) fn unsent(&self) -> &[u8] {
        &self.unsent[self.sent_bytes..]
    }

    pub(crate) fn on_sent(&mut self, bytes: usize) {
        self.sent_bytes += bytes;
        if self.sent_bytes == self.unsent.len() {
            self.unsent.clear();
            self.sent_bytes = 0;
        }
    }

    pub(crate) fn on_bytes(&mut self, input: &[u8], ledger: &mut Ledger<'_>, now: Nanos) -> Next {
        self.received_bytes += input.len() as u64;
        self.note_frames(input, ledger, now);
        self.pipe.0.borrow_mut().put(input);
        let is_open = self.drive();
        self.collect(ledger, now);
        // Once more, to send what the reading has opened.
        if !(self.drive() && is_open) {
            self.fail(Outcome::Reset, ledger, now);
            return Next::Close;
        }
        if self.is_last && self.is_idle() { Next::Close } else { Next::Continue }
    }

    /// The user of a job gives it up: the server is told to stop, and the other jobs go on.
    pub(crate) fn cancel(&mut self, job: usize) {
        self.streams.retain(|stream| stream.job != job);
        self.drive();
    }

    /// The server has closed the connection, or it was lost.
    pub(crate) fn on_end_of_stream(&mut self, ledger: &mut Ledger<'_>, now: Nanos) {
        for stream in std::mem::take(&mut self.streams) {
            match stream.is_unheard_at(self.received_bytes) {
                true => self.unheard.push(stream.job),
                false => self.end(stream.job, Outcome::Reset, ledger, now),
            }
        }
    }

    /// The connection is lost, and with it the jobs under way.
    pub(crate) fn fail(&mut self, outcome: Outcome, ledger: &mut Ledger<'_>, now: Nanos) {
        for stream in std::mem::take(&mut self.streams) {
            self.end(stream.job, outcome, ledger, now);
        }
    }

    /// The jobs to be asked for again over another connection, once each: the server had announced the end before it saw
    /// them, or had taken no more at once than it only then could say, or closed a connection that had served others while they
    /// were on their way. The first request of a connection has no such excuse, so that each connection ends a job at least.
    pub(crate) fn take_unheard(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.unheard)
    }

    pub(crate) fn take_ended(&mut self) -> Option<usize> {
        self.ended.take()
    }

    /// Lets h2 read what has come and write what is to be sent; whether the connection goes on.
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

    /// Takes what h2 has of every response.
    fn collect(&mut self, ledger: &mut Ledger<'_>, now: Nanos) {
        let mut place = 0;
        while let Some(stream) = self.streams.get_mut(place) {
            let Some(end) = stream.poll(&mut context(), ledger) else {
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

/// Returns a context that wakes nobody: all is looked at when something comes.
fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

#[cfg(test)]
mod tests;
