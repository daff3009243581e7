//! The protocols that carry several responses at once, as the write path asks them.

use mux::{Broken, Event, Priority};
use sched::Precedence;

use super::http3::Quic;

/// Who makes the frames of a connection.
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
            Engine::Http3(quic) => Some(quic.session.datagram_bytes()),
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
