//! Decisions that depend on a connection's protocol. Only this module branches on it.

use http::http1::OwnedHead;

use super::{Connection, Protocol, Task};
use crate::body::Trailing;
use crate::clock::ClientTime;
use crate::exchange_id::ExchangeId;
use crate::limits::Limits;
use crate::net::Socket;

impl<S> Connection<S> {
    /// Returns whether the connection carries several streams in frames. Its engine then reports requests as events.
    pub fn takes_frames(&self) -> bool {
        self.protocol.framed().is_some()
    }

    /// Returns the exchange of an HTTP/1.1 connection, which has one at a time. `None` over HTTP/2 and HTTP/3, whose
    /// streams have an exchange each.
    pub fn only_exchange(&self) -> Option<ExchangeId> {
        self.protocol.http1().map(|_| self.exchange_id(0))
    }

    /// Returns whether request bodies arrive on streams. The engine then buffers them, and flow control holds clients
    /// back.
    pub fn keeps_bodies(&self) -> bool {
        self.protocol.framed().is_some()
    }

    /// Returns whether the connection may be closed while its events are handled: at most one response ends with it.
    pub fn may_end_at_once(&self) -> bool {
        self.protocol.framed().is_none()
    }

    /// Returns true if no response is due or in progress that could carry a pending answer of TLS to the client.
    pub fn is_free_for_tls(&self) -> bool {
        self.protocol.http1().is_some() && !self.is_answering()
    }

    /// Returns the trailers that the client accepts. A client of HTTP/1.1 gets trailers only if it asks for them.
    pub fn trailing(&self, asks_for_trailers: bool) -> Trailing {
        match &self.protocol {
            Protocol::Framed(_) => Trailing::InFrames,
            Protocol::Http1(_) if asks_for_trailers => Trailing::InChunks,
            Protocol::Http1(_) => Trailing::Never,
        }
    }

    /// Takes the HTTP/1.1 request that waits for its body or for an earlier response, if there is one.
    pub fn take_unanswered(&mut self) -> Option<Box<OwnedHead>> {
        self.protocol.http1_mut()?.take_unanswered()
    }

    /// Stops reading a request body from an HTTP/1.1 client until [`Connection::let_send`].
    pub fn hold_body(&mut self, now: ClientTime) {
        let passing = self.protocol.http1_mut().and_then(|http1| http1.passing());
        passing.into_iter().for_each(|passing| passing.hold(now));
    }

    /// Resumes reading a request body from an HTTP/1.1 client. Returns whether reading had stopped.
    pub fn let_send(&mut self, now: ClientTime) -> bool {
        self.protocol.http1_mut().and_then(|http1| http1.passing()).is_some_and(|passing| passing.go_on(now))
    }

    /// Handles the state after a refusal: over HTTP/1.1, further bytes from the client are read and discarded. Returns
    /// whether the client unexpectedly uses TLS, so that it understands only an alert.
    pub fn on_refused(&mut self, speaks_tls: bool) -> bool {
        if self.protocol.framed().is_some() {
            return false;
        }
        self.input.is_readable = true;
        speaks_tls && !self.channel.is_tls()
    }

    /// Ends the task of a response that has departed. On a stream, the task ends together with the stream.
    pub fn end_task(&mut self) {
        if let Protocol::Http1(single) = &mut self.protocol {
            single.exchange.task = Task::None;
        }
    }
}

impl<S: Socket> Connection<S> {
    /// Continues with the next HTTP/1.1 request once all responses made so far have been sent.
    pub fn on_sent(&mut self, now: ClientTime, limits: &Limits) {
        self.http1().on_sent(now, limits);
        if !self.http1().answering.closes() && self.channel.is_corked {
            self.cork(false);
        }
    }
}
