//! The protocols that carry several responses at once, in the form that the write path uses.

use http::ResponseHead;
use http2::{BodyRead, Broken, Event, Priority};
use sched::Precedence;
use units::memory::Account;

use super::quic::Quic;

/// The session that frames a connection's responses. The variants differ by 200 bytes, which does not matter: `Framed`
/// is boxed.
#[allow(clippy::large_enum_variant)]
pub enum Engine {
    Http2(http2::Session),
    Http3(Box<Quic>),
}

/// Evaluates `$answer` on the session of either protocol.
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
    /// Returns the next event from the client.
    pub fn event(&mut self) -> Option<Event> {
        ask!(self, session => session.event())
    }

    /// Stores the body of the last reported request until it is read. Returns false if it was discarded already.
    pub fn want_body(&mut self, stream: u32) -> bool {
        ask!(self, session => session.want_body(stream))
    }

    /// Appends at most `bytes_max` of a body. The connection then has window updates to send.
    pub fn read_body(&mut self, stream: u32, into: &mut Vec<u8>, bytes_max: usize) -> BodyRead {
        ask!(self, session => session.read_body(stream, into, bytes_max))
    }

    /// Discards the rest of a body. The connection then has output to send.
    pub fn leave_body(&mut self, stream: u32) {
        ask!(self, session => session.leave_body(stream));
    }

    /// Counts the session's memory in this account from now on.
    pub fn count_in(&mut self, account: &Account) {
        match self {
            Engine::Http2(session) => session.count_in(account),
            Engine::Http3(quic) => quic.count_in(account),
        }
    }

    /// The bytes of memory in use.
    #[cfg(test)]
    pub fn alive_bytes(&mut self) -> usize {
        match self {
            Engine::Http2(session) => session.alive_bytes(),
            Engine::Http3(quic) => quic.alive_bytes(),
        }
    }

    /// Queues an interim head (1xx) before a response; the connection then has output to send. Returns false if the
    /// stream is closed.
    pub fn interim(&mut self, stream: u32, head: &ResponseHead) -> bool {
        ask!(self, session => session.interim(stream, head))
    }

    /// The client's priority for a stream.
    pub fn precedence(&mut self, stream: u32) -> Precedence {
        let priority: Option<Priority> = ask!(self, session => session.priority(stream));
        priority.map_or(Precedence::default(), |wish| Precedence {
            urgency: wish.urgency,
            is_incremental: wish.is_incremental,
        })
    }

    /// Returns true if part of an HTTP/2 request may have been received.
    pub fn has_part(&self) -> bool {
        matches!(self, Engine::Http2(session) if session.has_part())
    }

    /// Bytes of an HTTP/2 request whose header block is incomplete.
    pub fn part_bytes(&self) -> usize {
        if let Engine::Http2(session) = self { session.part_bytes() } else { 0 }
    }

    /// Returns, once, the reason why the connection cannot continue, if receiving has not reported it.
    pub fn broken(&mut self) -> Option<Broken> {
        match self {
            Engine::Http2(_) => None,
            Engine::Http3(quic) => quic.broken.take(),
        }
    }

    /// Returns true if no keys have been agreed on yet. Always false over TCP, where TLS handshakes happen outside the
    /// engine.
    pub fn is_handshaking(&self) -> bool {
        match self {
            Engine::Http2(_) => false,
            Engine::Http3(quic) => quic.session.is_handshaking(),
        }
    }

    /// Returns true if the client has acknowledged everything, including GOAWAY, or has gone. Always true over TCP,
    /// where the kernel tracks acknowledgements.
    pub fn is_acknowledged(&self) -> bool {
        match self {
            Engine::Http2(_) => true,
            Engine::Http3(quic) => {
                let session = &quic.session;
                session.is_acknowledged() && !session.awaits_farewell() || session.is_closing()
            }
        }
    }

    /// Returns true if everything was sent. Always true over TCP, where frames are handed to the socket.
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

    /// The connection's flow-control window; 0 if the client permits no more bytes.
    pub fn window(&mut self) -> u32 {
        ask!(self, session => session.window())
    }

    /// The flow-control window of one stream; `None` if it is closed.
    pub fn stream_window(&mut self, stream: u32) -> Option<u32> {
        ask!(self, session => session.stream_window(stream))
    }

    /// Returns true if the protocol no longer receives or sends anything.
    pub fn has_ended(&mut self) -> bool {
        match self {
            Engine::Http2(session) => session.has_ended(),
            Engine::Http3(quic) => quic.session.is_closing(),
        }
    }

    /// The payload of a full datagram; `None` over TCP.
    pub fn datagram_bytes(&self) -> Option<u64> {
        match self {
            Engine::Http2(_) => None,
            Engine::Http3(quic) => Some(quic.session.path().datagram_bytes),
        }
    }

    /// The HTTP/2 session, whose frames are sent as bytes.
    pub fn http2(&mut self) -> Option<&mut http2::Session> {
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

impl From<http2::Session> for Engine {
    fn from(session: http2::Session) -> Engine {
        Engine::Http2(session)
    }
}

impl From<quic::Session> for Engine {
    fn from(session: quic::Session) -> Engine {
        Engine::Http3(Box::new(Quic::new(session)))
    }
}
