//! The protocol that a client uses, with or without TLS.

use std::io::{Read, Write};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection};
use units::Nanos;

use super::super::files::Site;
use super::super::random::Random;
use super::super::wire::Stop;
use super::attacker::Attacker;
use super::http1::Http1;
use super::http2::Http2;
use super::tunnel::Tunnel;
use super::websocket::WebSocket;

pub enum Engine {
    Http1(Http1),
    Http2(Http2),
    Tunnel(Tunnel),
    WebSocket(WebSocket),
    Attacker(Attacker),
}

impl Engine {
    pub fn describe(&self) -> String {
        match self {
            Engine::Http1(http1) => format!("HTTP/1.1, {}", http1.describe()),
            Engine::Http2(http2) => format!("HTTP/2, {}", http2.describe()),
            Engine::Tunnel(tunnel) => tunnel.describe(),
            Engine::WebSocket(tunnel) => tunnel.describe(),
            Engine::Attacker(attacker) => attacker.describe(),
        }
    }

    pub fn is_done(&self) -> bool {
        match self {
            Engine::Http1(http1) => http1.is_done(),
            Engine::Http2(http2) => http2.is_done(),
            Engine::Tunnel(tunnel) => tunnel.is_done(),
            Engine::WebSocket(tunnel) => tunnel.is_done(),
            Engine::Attacker(attacker) => attacker.is_done(),
        }
    }

    pub fn asked(&self) -> u64 {
        match self {
            Engine::Http1(http1) => http1.asked_count,
            Engine::Http2(http2) => http2.asked_count(),
            Engine::Tunnel(tunnel) => tunnel.asked_count(),
            Engine::WebSocket(tunnel) => tunnel.asked_count(),
            Engine::Attacker(attacker) => attacker.asked_count,
        }
    }

    /// The number of bytes echoed in a tunnel.
    pub fn echoed_bytes(&self) -> Option<usize> {
        match self {
            Engine::Tunnel(tunnel) => Some(tunnel.heard),
            Engine::WebSocket(tunnel) => Some(tunnel.heard),
            Engine::Http1(_) | Engine::Http2(_) | Engine::Attacker(_) => None,
        }
    }

    pub fn is_waiting(&self) -> bool {
        match self {
            Engine::Http1(http1) => http1.is_waiting(),
            Engine::Http2(http2) => http2.is_waiting(),
            Engine::Tunnel(tunnel) => tunnel.is_waiting(),
            Engine::WebSocket(tunnel) => tunnel.is_waiting(),
            Engine::Attacker(_) => false,
        }
    }

    pub fn think_at(&self) -> Option<Nanos> {
        match self {
            Engine::Http1(http1) => http1.think_at(),
            Engine::Http2(http2) => http2.think_at(),
            Engine::Tunnel(tunnel) => tunnel.think_at(),
            Engine::WebSocket(tunnel) => tunnel.think_at(),
            Engine::Attacker(attacker) => attacker.think_at(),
        }
    }

    pub fn note_written(&mut self, bytes: u64) {
        match self {
            Engine::Http1(http1) => http1.note_written(bytes),
            Engine::Http2(http2) => http2.note_written(bytes),
            Engine::Tunnel(tunnel) => tunnel.note_written(bytes),
            Engine::WebSocket(tunnel) => tunnel.note_written(bytes),
            Engine::Attacker(_) => {}
        }
    }

    pub fn say(&mut self, now: Nanos, into: &mut Vec<u8>, site: &Site, random: &mut Random) {
        match self {
            Engine::Http1(http1) => http1.say(now, into, site),
            Engine::Http2(http2) => http2.say(now, into, site, random),
            Engine::Tunnel(tunnel) => tunnel.say(now, into, site, random),
            Engine::WebSocket(tunnel) => tunnel.say(now, into, site, random),
            Engine::Attacker(attacker) => attacker.say(now, into, random),
        }
    }

    pub fn receive(&mut self, bytes: &[u8], now: Nanos, site: &Site) -> Result<u64, String> {
        match self {
            Engine::Http1(http1) => http1.receive(bytes, now, site),
            Engine::Http2(http2) => http2.receive(bytes, now, site),
            Engine::Tunnel(tunnel) => tunnel.receive(bytes, site),
            Engine::WebSocket(tunnel) => tunnel.receive(bytes, site),
            Engine::Attacker(_) => Ok(0),
        }
    }

    pub fn judge_end(&self, read_bytes: u64, stop: Stop) -> Result<(), String> {
        match self {
            Engine::Http1(http1) => http1.judge_end(read_bytes, stop),
            Engine::Http2(http2) => http2.judge_end(read_bytes, stop),
            Engine::Tunnel(tunnel) => tunnel.judge_end(read_bytes, stop),
            Engine::WebSocket(tunnel) => tunnel.judge_end(read_bytes, stop),
            Engine::Attacker(_) => Ok(()),
        }
    }

    /// Makes the client send no more requests, and expect its unfinished request to be refused.
    pub fn expect_refusal(&mut self) {
        match self {
            Engine::Http1(http1) => http1.expect_refusal(),
            Engine::Http2(http2) => http2.stop(),
            Engine::Attacker(_) | Engine::Tunnel(_) | Engine::WebSocket(_) => {}
        }
    }

    fn protocol(&self) -> &'static [u8] {
        match self {
            Engine::Http1(_) | Engine::Tunnel(_) => b"http/1.1",
            Engine::Http2(_) | Engine::WebSocket(_) => b"h2",
            Engine::Attacker(attacker) if attacker.speaks_http2() => b"h2",
            Engine::Attacker(_) => b"http/1.1",
        }
    }
}

/// A TLS connection of a client.
pub struct Tls(ClientConnection);

impl Tls {
    pub fn new(engine: &Engine) -> Tls {
        let mut config: ClientConfig = tls::testing::client_config(&[&TLS13]);
        config.alpn_protocols = vec![engine.protocol().to_vec()];
        let name = ServerName::try_from("localhost").expect("a name");
        let mut connection = ClientConnection::new(Arc::new(config), name).expect("nothing of it can fail");
        // Request bodies are sealed at once.
        connection.set_buffer_limit(None);
        Tls(connection)
    }

    pub fn is_handshaking(&self) -> bool {
        self.0.is_handshaking()
    }

    /// Decrypts received bytes; returns the plaintext.
    pub fn open(&mut self, mut wire: &[u8]) -> Result<Vec<u8>, String> {
        let mut plain = Vec::new();
        while !wire.is_empty() {
            self.0.read_tls(&mut wire).map_err(|error| error.to_string())?;
            self.0.process_new_packets().map_err(|error| format!("TLS: {error}"))?;
            // The end of the available input is not the end of the connection.
            let _ = self.0.reader().read_to_end(&mut plain);
        }
        Ok(plain)
    }

    pub fn seal(&mut self, plain: &[u8], into: &mut Vec<u8>) -> Result<(), String> {
        self.0.writer().write_all(plain).map_err(|error| error.to_string())?;
        while self.0.wants_write() {
            self.0.write_tls(into).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Sends close_notify.
    pub fn end(&mut self, into: &mut Vec<u8>) {
        self.0.send_close_notify();
        let _ = self.seal(&[], into);
    }
}
