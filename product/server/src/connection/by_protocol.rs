//! Decisions that depend on the protocol of a connection. Nothing else asks a connection for its protocol.

use http::http1::OwnedHead;

use super::{Connection, Protocol, Task};
use crate::body::Trailing;
use crate::clock::ClientTime;
use crate::exchange_id::ExchangeId;
use crate::limits::Limits;
use crate::net::Socket;

impl<S> Connection<S> {
    /// Returns whether frames of several streams come on it. If so, their requests are events of its engine.
    pub fn takes_frames(&self) -> bool {
        self.protocol.framed().is_some()
    }

    /// The exchange of a connection that has one at a time, which is sent as bytes; `None` if each stream has its own.
    pub fn only_exchange(&self) -> Option<ExchangeId> {
        self.protocol.http1().map(|_| self.exchange_id(0))
    }

    /// Returns whether bodies of requests arrive on streams: the engine keeps what has come of them, and holds their
    /// clients back.
    pub fn keeps_bodies(&self) -> bool {
        self.protocol.framed().is_some()
    }

    /// Returns whether it may be closed in the midst of events: no more than one response ends with it.
    pub fn may_end_at_once(&self) -> bool {
        self.protocol.framed().is_none()
    }

    /// Returns whether no response is due or being sent that would take an answer to the client's TLS along.
    pub fn is_free_for_tls(&self) -> bool {
        self.protocol.http1().is_some() && !self.is_answering()
    }

    /// Decides how trailers reach the client. A client of HTTP/1.1 has to ask for them.
    pub fn trailing(&self, asks_for_trailers: bool) -> Trailing {
        match &self.protocol {
            Protocol::Framed(_) => Trailing::InFrames,
            Protocol::Http1(_) if asks_for_trailers => Trailing::InChunks,
            Protocol::Http1(_) => Trailing::Never,
        }
    }

    /// Takes the request of HTTP/1.1 that waits for its body or for an earlier response, if there is one.
    pub fn take_unanswered(&mut self) -> Option<Box<OwnedHead>> {
        self.protocol.http1_mut()?.take_unanswered()
    }

    /// Has the client of HTTP/1.1 send no more of a request's body until [`Connection::let_send`].
    pub fn hold_body(&mut self, now: ClientTime) {
        let passing = self.protocol.http1_mut().and_then(|http1| http1.passing());
        passing.into_iter().for_each(|passing| passing.hold(now));
    }

    /// Lets the client of HTTP/1.1 send more of a request's body. Returns whether it was held back.
    pub fn let_send(&mut self, now: ClientTime) -> bool {
        self.protocol.http1_mut().and_then(|http1| http1.passing()).is_some_and(|passing| passing.go_on(now))
    }

    /// Follows a refusal: over HTTP/1.1, what the client still sends is read and discarded. Returns whether it speaks
    /// TLS without having been asked to, so that an alert is all it understands.
    pub fn on_refused(&mut self, speaks_tls: bool) -> bool {
        if self.protocol.framed().is_some() {
            return false;
        }
        self.input.is_readable = true;
        speaks_tls && !self.channel.is_tls()
    }

    /// Ends the task of a response that has departed. On a stream it lasts as long as the stream.
    pub fn end_task(&mut self) {
        if let Protocol::Http1(single) = &mut self.protocol {
            single.exchange.task = Task::None;
        }
    }
}

impl<S: Socket> Connection<S> {
    /// Goes on to the next request of HTTP/1.1, once every response that was made is sent.
    pub fn on_sent(&mut self, now: ClientTime, limits: &Limits) {
        self.http1().on_sent(now, limits);
        if !self.http1().answering.closes() && self.channel.is_corked {
            self.cork(false);
        }
    }
}
