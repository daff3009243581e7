//! The client side of an HTTP/2 connection, without its socket: requests to a server, each on its own stream.

use http::gateway::RequestHead;
use http::http1::upstream::{ResponseLimits, UpstreamFault, UpstreamHead};
use http::{Method, Trailers};
use units::Nanos;
use units::memory::Account;

use crate::STREAMS_MAX;
use crate::bodies::BodyRead;
use crate::ffi::Engine;
use crate::floods::Budget;
use crate::framer::{End, Framer};
use crate::responses::Responses;
use crate::session::{Broken, Source, Written};

const NO_ERROR: u32 = 0;
const REFUSED_STREAM: u32 = 7;
const CANCEL: u32 = 8;

/// The initial window of a connection: the bytes that all its responses may have in flight. It is larger when the
/// windows of its streams have grown. It opens as bytes arrive, read or not. Each stream's own window, initially
/// [`BODY_BYTES_MAX`](crate::BODY_BYTES_MAX), limits the stored bytes.
pub const WINDOW_BYTES: i32 = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClientSettings {
    /// Limits on the head of a response.
    pub response: ResponseLimits,
}

/// The end of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// Both sides are complete.
    Whole,
    /// The server has not processed the request, which may be sent again (RFC 9113 section 8.7).
    Refused,
    /// The stream was reset with this code (RFC 9113 section 7).
    Reset(u32),
}

/// The client side of a connection.
pub struct ClientSession {
    framer: Framer,
    /// The window of the connection, as last set.
    window_bytes: usize,
}

impl ClientSession {
    pub fn new(settings: &ClientSettings) -> ClientSession {
        let framer = Framer::new(Engine::client(settings), 0, Budget::of_responses());
        ClientSession { framer, window_bytes: WINDOW_BYTES as usize }
    }

    /// Takes received bytes and appends the session's own answers; [`ClientSession::news`] returns the streams
    /// affected. After an error all input is ignored.
    pub fn receive(&mut self, now: Nanos, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
        if self.framer.is_broken {
            return Ok(());
        }
        self.framer.engine.hooks().bodies.trip.at(now);
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

    /// Returns a stream that has received something or has ended. Each stream is returned once, until it receives more.
    pub fn news(&mut self) -> Option<u32> {
        self.responses().next_news()
    }

    /// The maximum number of open streams: the server's setting, at most [`STREAMS_MAX`]. 0 once the server takes no
    /// new requests (GOAWAY) or the connection has ended.
    pub fn streams_max(&mut self) -> u32 {
        if self.is_leaving() { 0 } else { self.framer.engine.streams_max().min(STREAMS_MAX) }
    }

    /// Returns true if the server accepts a [`Method::Connect`] that opens a WebSocket (RFC 8441 section 3); `None`
    /// until its settings have arrived.
    pub fn takes_tunnels(&mut self) -> Option<bool> {
        self.framer.engine.takes_tunnels()
    }

    /// Returns true if the connection accepts no new requests.
    pub fn is_leaving(&mut self) -> bool {
        self.framer.is_broken || !self.framer.engine.may_request()
    }

    /// Returns true if the server closes without an error and still processes earlier requests, because of a limit for
    /// each connection or a new configuration. It has not processed the requests that it then refuses (RFC 9113 section
    /// 6.8).
    pub fn leaves_after_some(&mut self) -> bool {
        self.framer.engine.hooks().last_processed > 0
    }

    /// Sends the head of a request on a new stream, appending it to `out`. Returns `None` if no request can be sent.
    /// The first request follows the SETTINGS of this end, whose acknowledgement shows the round trip. The caller must
    /// not open more than [`ClientSession::streams_max`] streams. The memory of the response is charged to `account`.
    pub fn request(
        &mut self,
        now: Nanos,
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
        hooks.bodies.trip.at(now);
        hooks.responses().begin(stream, method);
        hooks.bodies.begin_response(stream, account);
        // The server may reset each request once; that is not a flood.
        self.framer.budget.on_request();
        self.framer.control(out);
        Some(stream)
    }

    /// Appends frames of a request's body to `out`, up to `room` bytes with their headers.
    pub fn write(&mut self, stream: u32, room: usize, source: &mut dyn Source, out: &mut Vec<u8>) -> Written {
        self.framer.write(stream, room, source, out)
    }

    /// Returns the next head of the response, interim ones (1xx) before the final one. The last item of a malformed
    /// response is its fault, even if the head was valid; its stream is reset.
    pub fn take_head(&mut self, stream: u32) -> Option<Result<UpstreamHead, UpstreamFault>> {
        self.responses().take_head(stream)
    }

    /// Appends at most `bytes_max` bytes of the response's body. The stream's window opens by as many bytes, and by
    /// more if the reader takes everything that a distant server sends. [`ClientSession::control`] sends the window
    /// update to the server.
    pub fn read_body(&mut self, now: Nanos, stream: u32, into: &mut Vec<u8>, bytes_max: usize) -> BodyRead {
        let engine = &mut self.framer.engine;
        engine.hooks().bodies.trip.at(now);
        let (opened_bytes, read) = engine.hooks().bodies.read(stream, into, bytes_max);
        engine.open_window(stream, opened_bytes);
        if read == BodyRead::Later
            && let Some(bytes) = engine.hooks().bodies.fit(stream)
        {
            engine.set_window(stream, bytes);
        }
        read
    }

    /// Returns the trailers of a complete body, once.
    pub fn take_trailers(&mut self, stream: u32) -> Option<Box<Trailers>> {
        self.responses().take_trailers(stream)
    }

    /// Returns how the stream ended; `None` if it has not. Not meaningful for a malformed response
    /// ([`ClientSession::take_head`]).
    pub fn closed(&mut self, stream: u32) -> Option<Closed> {
        Some(match self.responses().closed(stream)? {
            NO_ERROR => Closed::Whole,
            REFUSED_STREAM => Closed::Refused,
            code => Closed::Reset(code),
        })
    }

    /// Abandons this stream. An incomplete stream is cancelled, and [`ClientSession::control`] informs the server.
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

    /// Bytes that the server currently lets us send on this stream; `None` if it is closed.
    pub fn window(&mut self, stream: u32) -> Option<u32> {
        let window = self.framer.engine.stream_window(stream)?;
        Some(window.min(self.framer.engine.window()))
    }

    /// Appends the session's own frames: settings, answers, resets, window updates.
    pub fn control(&mut self, out: &mut Vec<u8>) {
        let engine = &mut self.framer.engine;
        let bytes = engine.hooks().bodies.connection_bytes(WINDOW_BYTES as usize);
        if std::mem::replace(&mut self.window_bytes, bytes) != bytes {
            engine.set_window(0, bytes);
        }
        self.framer.control(out);
    }

    /// Ends the connection with a GOAWAY, once the last response is complete.
    pub fn end(&mut self, out: &mut Vec<u8>) {
        self.framer.engine.terminate(NO_ERROR);
        self.framer.control(out);
    }

    /// Returns true if nothing more will be read or written.
    pub fn has_ended(&mut self) -> bool {
        self.framer.has_ended()
    }

    /// Bytes of memory of an unread body.
    #[cfg(any(test, feature = "testing"))]
    pub fn kept_bytes(&self, stream: u32) -> usize {
        self.framer.engine.seen().bodies.kept_bytes(stream)
    }

    /// Bytes of memory of an unread body, or of everything that may still arrive.
    #[cfg(any(test, feature = "testing"))]
    pub fn alive_bytes(&self, stream: u32) -> usize {
        self.framer.engine.seen().bodies.alive_bytes(stream)
    }

    /// Bytes of memory of unread bodies, recomputed: at most [`BODIES_BYTES_MAX`](crate::BODIES_BYTES_MAX).
    #[cfg(any(test, feature = "testing"))]
    pub fn body_bytes(&mut self) -> usize {
        self.framer.engine.hooks().bodies.bytes()
    }

    fn responses(&mut self) -> &mut Responses {
        self.framer.engine.hooks().responses()
    }
}
