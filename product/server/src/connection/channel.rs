//! The layer below HTTP on a connection, and its handshake.

use http::Request;
use http::gateway::claimed;
use units::Nanos;

/// The maximum time for a handshake. A client's first flight has usually arrived when the connection is accepted, and
/// the second one arrives a round trip later.
pub const HANDSHAKE_TIMEOUT: Nanos = Nanos::from_secs(10);

/// The transport security of a connection. It decides whether a request came over TLS.
#[derive(Debug, Clone, Copy)]
pub struct Security {
    pub is_secure: bool,
    /// True if the peer is a trusted proxy, which reports how requests came to it.
    pub is_trusted: bool,
}

impl Security {
    pub fn of(self, request: &Request) -> bool {
        let told = self.is_trusted.then(|| claimed(request, |_| true).is_secure).flatten();
        told.unwrap_or(self.is_secure)
    }
}

/// The layer below HTTP, and its handshake.
#[derive(Debug)]
pub struct Channel {
    kind: ChannelKind,
    /// True if no keys have been agreed on yet.
    pub is_handshaking: bool,
    /// True if a flight of the handshake is being sent as a job. Nothing is read until then, because no request can
    /// have arrived.
    pub is_in_flight: bool,
    /// True if the socket is corked, so that segments are held back until they are full.
    pub is_corked: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChannelKind {
    Tcp,
    /// TLS over TCP.
    Tls,
    Quic,
}

impl Channel {
    pub fn new(kind: ChannelKind) -> Channel {
        Channel { kind, is_handshaking: kind != ChannelKind::Tcp, is_in_flight: false, is_corked: false }
    }

    pub fn is_tls(&self) -> bool {
        self.kind == ChannelKind::Tls
    }

    pub fn is_quic(&self) -> bool {
        self.kind == ChannelKind::Quic
    }

    pub fn is_secure(&self) -> bool {
        self.kind != ChannelKind::Tcp
    }

    /// Falls back to plain TCP because the client does not use TLS.
    pub fn end_tls(&mut self) {
        *self = Channel::new(ChannelKind::Tcp);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handshake_is_of_tls_and_quic() {
        let kinds = [ChannelKind::Tcp, ChannelKind::Tls, ChannelKind::Quic];
        assert_eq!(kinds.map(|kind| Channel::new(kind).is_handshaking), [false, true, true]);
        let mut channel = Channel::new(ChannelKind::Tls);
        assert!(channel.is_tls() && channel.is_secure() && !channel.is_quic());
        channel.end_tls();
        assert!(!channel.is_secure() && !channel.is_handshaking);
    }
}
