//! The protocols that carry several responses at once, as the write path asks them.

use http::ResponseHead;
use mux::{BodyRead, Broken, Event, Priority};
use sched::Precedence;
use units::memory::Account;

use super::quic::Quic;

/// Who makes the frames of a connection; in a box with all that such a connection has, where 200 bytes beside those of HTTP/3 are few.
#[allow(clippy::large_enum_variant)]
pub enum Engine {
    Http2(mux::Session),
    Http3(Box<Quic>),
}

/// The same question to either.
macro_rules! ask {
    ($engine:expr, $session:ident => $answer:expr) => {
        match $engine {
            Engine::Http2($session) => $answer,
            Engine::Http3(quic) => {
                let $session = &mut quic.session;
                $answer
            }
        }
    };
}

impl Engine {
    /// What its client has said.
    pub fn event(&mut self) -> Option<Event> {
        ask!(self, session => session.event())
    }

    /// The body of the request that was told of last is kept until it is read. False: it was thrown away.
    pub fn want_body(&mut self, stream: u32) -> bool {
        ask!(self, session => session.want_body(stream))
    }

    /// Appends so many bytes of a body at most. The connection then has something to say: its windows.
    pub fn read_body(&mut self, stream: u32, into: &mut Vec<u8>, bytes_max: usize) -> BodyRead {
        ask!(self, session => session.read_body(stream, into, bytes_max))
    }

    /// Nobody wants the rest of a body. The connection has something to say.
    pub fn leave_body(&mut self, stream: u32) {
        ask!(self, session => session.leave_body(stream));
    }

    /// Counts its memory in this account from now on.
    pub fn count_in(&mut self, account: &Account) {
        match self {
            Engine::Http2(session) => session.count_in(account),
            Engine::Http3(quic) => quic.count_in(account),
        }
    }

    /// Bytes of memory that are alive.
    #[cfg(test)]
    pub fn alive_bytes(&mut self) -> usize {
        match self {
            Engine::Http2(session) => session.alive_bytes(),
            Engine::Http3(quic) => quic.alive_bytes(),
        }
    }

    /// Gives an interim head (1xx) before a response. The connection has something to say. False: the stream is closed.
    pub fn interim(&mut self, stream: u32, head: &ResponseHead) -> bool {
        ask!(self, session => session.interim(stream, head))
    }

    /// The client's wish for a stream.
    pub fn precedence(&mut self, stream: u32) -> Precedence {
        let priority: Option<Priority> = ask!(self, session => session.priority(stream));
        priority.map_or(Precedence::default(), |wish| Precedence {
            urgency: wish.urgency,
            is_incremental: wish.is_incremental,
        })
    }

    /// Of a request over HTTP/2 a part may have come.
    pub fn has_part(&self) -> bool {
        matches!(self, Engine::Http2(session) if session.has_part())
    }

    /// Why the connection cannot go on, where what came did not say so, once.
    pub fn broken(&mut self) -> Option<Broken> {
        match self {
            Engine::Http2(_) => None,
            Engine::Http3(quic) => quic.broken.take(),
        }
    }

    /// No keys are agreed on yet, where that is not TCP's and TLS's business.
    pub fn is_handshaking(&self) -> bool {
        match self {
            Engine::Http2(_) => false,
            Engine::Http3(quic) => quic.session.is_handshaking(),
        }
    }

    /// Its client has all that was sent, or is gone, as far as it is not TCP that knows.
    pub fn is_acknowledged(&self) -> bool {
        match self {
            Engine::Http2(_) => true,
            Engine::Http3(quic) => quic.session.is_acknowledged() || quic.session.is_closing(),
        }
    }

    /// All that was given has left, as far as it is not TCP that takes it.
    pub fn has_left(&mut self) -> bool {
        match self {
            Engine::Http2(_) => true,
            Engine::Http3(quic) => quic.is_done() && quic.session.waiting_bytes() == 0,
        }
    }

    pub fn go_away(&mut self) {
        ask!(self, session => session.go_away());
    }

    pub fn cancel(&mut self, stream: u32) {
        ask!(self, session => session.cancel(stream));
    }

    /// 0 where the client lets nothing more be sent.
    pub fn window(&mut self) -> u32 {
        ask!(self, session => session.window())
    }

    /// The same of one stream; `None` for a closed one.
    pub fn stream_window(&mut self, stream: u32) -> Option<u32> {
        ask!(self, session => session.stream_window(stream))
    }

    /// Nothing more comes or goes by its own account.
    pub fn has_ended(&mut self) -> bool {
        match self {
            Engine::Http2(session) => session.has_ended(),
            Engine::Http3(quic) => quic.session.is_closing(),
        }
    }

    /// Payload of a full datagram, where its frames leave in datagrams.
    pub fn datagram_bytes(&self) -> Option<u64> {
        match self {
            Engine::Http2(_) => None,
            Engine::Http3(quic) => Some(quic.session.path().datagram_bytes),
        }
    }

    /// Of HTTP/2, whose frames leave as bytes.
    pub fn http2(&mut self) -> Option<&mut mux::Session> {
        match self {
            Engine::Http2(session) => Some(session),
            Engine::Http3(_) => None,
        }
    }

    pub fn http3(&mut self) -> Option<&mut Quic> {
        match self {
            Engine::Http2(_) => None,
            Engine::Http3(quic) => Some(quic),
        }
    }

    pub fn is_http3(&self) -> bool {
        matches!(self, Engine::Http3(_))
    }
}

impl From<mux::Session> for Engine {
    fn from(session: mux::Session) -> Engine {
        Engine::Http2(session)
    }
}

impl From<quic::Session> for Engine {
    fn from(session: quic::Session) -> Engine {
        Engine::Http3(Box::new(Quic::new(session)))
    }
}
