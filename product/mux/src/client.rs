//! One connection's HTTP/2, the client's side, without its socket: requests to a server, each on a stream of its own.

use http::gateway::RequestHead;
use http::http1::upstream::{ResponseLimits, UpstreamFault, UpstreamHead};
use http::{Method, Trailers};
use units::Nanos;
use units::memory::Account;

use crate::STREAMS_MAX;
use crate::bodies::BodyRead;
use crate::budget::Budget;
use crate::ffi::Engine;
use crate::framer::{End, Framer};
use crate::responses::Responses;
use crate::session::{Broken, Source, Written};

const NO_ERROR: u32 = 0;
const REFUSED_STREAM: u32 = 7;
const CANCEL: u32 = 8;

/// The window of a connection: what may be under way of all its responses. It opens as bytes come, whoever reads them; each stream's own, of
/// [`BODY_BYTES_MAX`](crate::BODY_BYTES_MAX), bounds what is kept.
pub const WINDOW_BYTES: i32 = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClientSettings {
    /// What the head of a response may cost.
    pub response: ResponseLimits,
}

/// The end of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// Both sides have said all.
    Whole,
    /// The server has done nothing with the request, which may be sent again (RFC 9113 section 8.7).
    Refused,
    /// It was reset, with this code (RFC 9113 section 7).
    Reset(u32),
}

/// The client's end of a connection.
pub struct ClientSession {
    framer: Framer,
}

impl ClientSession {
    pub fn new(settings: &ClientSettings) -> ClientSession {
        ClientSession { framer: Framer::new(Engine::client(settings), 0, Budget::of_responses()) }
    }

    /// Takes what has come, and appends the session's own answers; the streams that it was for are asked of [`ClientSession::news`]. After an
    /// error nothing more is taken.
    pub fn receive(&mut self, now: Nanos, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
        if self.framer.is_broken {
            return Ok(());
        }
        let taken = self.take(now, bytes, out);
        self.framer.conclude(taken, out)
    }

    fn take(&mut self, now: Nanos, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), End> {
        let mut known = 0;
        while let (taken, Some(_)) = self.framer.next_frame(now, &bytes[known..])? {
            known += taken;
        }
        self.framer.feed(now, bytes, out)
    }

    /// A stream on which something has come, or that has ended. Each is given once, until more comes.
    pub fn news(&mut self) -> Option<u32> {
        self.responses().next_news()
    }

    /// How many streams may be open at once: what the server has said, [`STREAMS_MAX`] at most; none any more where it takes no new requests
    /// (GOAWAY) or the connection has ended.
    pub fn streams_max(&mut self) -> u32 {
        if self.is_leaving() { 0 } else { self.framer.engine.streams_max().min(STREAMS_MAX) }
    }

    /// It takes no new requests any more.
    pub fn is_leaving(&mut self) -> bool {
        self.framer.is_broken || !self.framer.engine.may_request()
    }

    /// Sends the head of a request on a stream of its own, behind `out`. `None`: it takes none. The caller has no more open than
    /// [`ClientSession::streams_max`]. What is kept of the response is counted in this account.
    pub fn request(
        &mut self,
        method: Method,
        head: &RequestHead,
        has_body: bool,
        account: &Account,
        out: &mut Vec<u8>,
    ) -> Option<u32> {
        if self.is_leaving() {
            return None;
        }
        let stream = self.framer.engine.request(head, has_body)?;
        let hooks = self.framer.engine.hooks();
        hooks.responses().begin(stream, method);
        hooks.bodies.begin_response(stream, account);
        // Each may be reset once by its server, which is no flood.
        self.framer.budget.on_request();
        self.framer.control(out);
        Some(stream)
    }

    /// Makes frames of the body of a request, of so many bytes with their headers, behind `out`.
    pub fn write(&mut self, stream: u32, room: usize, source: &mut dyn Source, out: &mut Vec<u8>) -> Written {
        self.framer.write(stream, room, source, out)
    }

    /// The next head of the response that has come, interim ones (1xx) before the final one. The last is what is wrong with a response that is
    /// malformed, also where its head was not: its stream is reset.
    pub fn take_head(&mut self, stream: u32) -> Option<Result<UpstreamHead, UpstreamFault>> {
        self.responses().take_head(stream)
    }

    /// Appends so many bytes of the response's body at most, and says what follows. The stream's window opens by as much, which
    /// [`ClientSession::control`] tells the server.
    pub fn read_body(&mut self, stream: u32, into: &mut Vec<u8>, bytes_max: usize) -> BodyRead {
        let (opened_bytes, read) = self.framer.engine.hooks().bodies.read(stream, into, bytes_max);
        self.framer.engine.open_window(stream, opened_bytes);
        read
    }

    /// The fields behind a body that is whole, once.
    pub fn take_trailers(&mut self, stream: u32) -> Option<Box<Trailers>> {
        self.responses().take_trailers(stream)
    }

    /// How the stream has ended; `None`: it has not. Of a malformed response ([`ClientSession::take_head`]) it tells nothing.
    pub fn closed(&mut self, stream: u32) -> Option<Closed> {
        Some(match self.responses().closed(stream)? {
            NO_ERROR => Closed::Whole,
            REFUSED_STREAM => Closed::Refused,
            code => Closed::Reset(code),
        })
    }

    /// Nobody wants anything more of this stream: what is not whole is cancelled, which [`ClientSession::control`] tells the server.
    pub fn leave(&mut self, stream: u32) {
        self.reset(stream, CANCEL);
        let hooks = self.framer.engine.hooks();
        hooks.responses().remove(stream);
        hooks.bodies.remove(stream);
    }

    fn reset(&mut self, stream: u32, code: u32) {
        if self.framer.engine.stream_window(stream).is_some() {
            self.framer.engine.reset(stream, code);
        }
    }

    /// What the server lets us send on this stream now; `None` for a closed one.
    pub fn window(&mut self, stream: u32) -> Option<u32> {
        let window = self.framer.engine.stream_window(stream)?;
        Some(window.min(self.framer.engine.window()))
    }

    /// Appends what the session has to say for itself: settings, answers, resets, windows.
    pub fn control(&mut self, out: &mut Vec<u8>) {
        self.framer.control(out);
    }

    /// No request follows: says so, once the last response has come.
    pub fn end(&mut self, out: &mut Vec<u8>) {
        self.framer.engine.terminate(NO_ERROR);
        self.framer.control(out);
    }

    /// Nothing is taken or said any more.
    pub fn has_ended(&mut self) -> bool {
        self.framer.has_ended()
    }

    /// Bytes of memory of a body that was not read.
    #[cfg(any(test, feature = "testing"))]
    pub fn kept_bytes(&self, stream: u32) -> usize {
        self.framer.engine.seen().bodies.kept_bytes(stream)
    }

    /// The same, or those of all that may come.
    #[cfg(any(test, feature = "testing"))]
    pub fn alive_bytes(&self, stream: u32) -> usize {
        self.framer.engine.seen().bodies.alive_bytes(stream)
    }

    /// Bytes of memory of bodies that were not read, summed anew: [`BODIES_BYTES_MAX`](crate::BODIES_BYTES_MAX) at most.
    #[cfg(any(test, feature = "testing"))]
    pub fn body_bytes(&mut self) -> usize {
        self.framer.engine.hooks().bodies.bytes()
    }

    fn responses(&mut self) -> &mut Responses {
        self.framer.engine.hooks().responses()
    }
}
