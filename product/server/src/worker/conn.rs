use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;

use units::Nanos;

use super::exchange::Exchanges;
use super::timers::later;
use crate::config::Limits;
use crate::conn::Http1;
use crate::transmit::End;

/// One client connection: its protocol, and what the loop knows of it; its socket is the transmitter's. An idle one holds no buffers.
pub struct Conn {
    /// Has no part in it where the client speaks HTTP/2 or HTTP/3, but its end.
    pub http1: Http1,
    pub exchanges: Exchanges,
    pub address: IpAddr,
    pub port: u16,
    /// The index of its client's account.
    pub client: u32,
    /// Its name in events and among jobs.
    pub owner: u64,
    /// The UDP port at which its client could speak HTTP/3.
    pub http3_port: Option<NonZeroU16>,
    /// A response was sent on it before.
    pub has_answered: bool,
    /// Something arrived that was not read yet.
    pub is_readable: bool,
    /// It is on the worker's list of those with something to be read.
    pub is_queued: bool,
    /// Its turn ended before all that was kept was looked at.
    pub is_cut: bool,
    /// Parts of the request that is coming, each less than a segment.
    pub small_parts: u8,
    /// The client sends no more: behind the last bytes is an end, of which no other event will tell.
    pub has_ended: bool,
    /// Segments are held back until they are full.
    pub is_corked: bool,
    /// The client speaks TLS over TCP.
    pub is_secure: bool,
    /// It speaks QUIC.
    pub is_quic: bool,
    /// No keys are agreed on yet.
    pub is_handshaking: bool,
    /// A flight of its handshake is a job, and nothing is read meanwhile: no request can have come.
    pub is_in_flight: bool,
}

impl Conn {
    /// One that waits for its first request.
    pub fn new(now: Nanos, limits: &Limits, owner: u64, client: u32, peer: SocketAddr) -> Conn {
        Conn {
            http1: Http1::new(now, limits),
            exchanges: Exchanges::single(owner),
            address: peer.ip(),
            port: peer.port(),
            client,
            owner,
            http3_port: None,
            has_answered: false,
            is_readable: false,
            is_queued: false,
            is_cut: false,
            small_parts: 0,
            has_ended: false,
            is_corked: false,
            is_secure: false,
            is_quic: false,
            is_handshaking: false,
            is_in_flight: false,
        }
    }

    /// Its deadlines are so much later.
    pub fn excuse(&mut self, paused: Nanos) {
        self.http1.excuse(paused);
        if let Some(streams) = self.exchanges.streams_mut() {
            streams.deadline = later(streams.deadline, paused);
        }
    }

    pub fn peer(&self) -> SocketAddr {
        SocketAddr::new(self.address, self.port)
    }

    /// What follows the response now being built.
    pub fn end(&self) -> End {
        if !self.is_multiplexed() && self.http1.closes() { End::Finish } else { End::Open }
    }

    /// The client speaks HTTP/2 or HTTP/3.
    pub fn is_multiplexed(&self) -> bool {
        self.exchanges.streams().is_some()
    }

    pub fn is_sending(&self) -> bool {
        self.exchanges.iter().any(|exchange| exchange.is_sending())
    }

    /// When it has waited for its client too long.
    pub fn deadline(&self) -> Nanos {
        self.exchanges.streams().map_or_else(|| self.http1.deadline(), |streams| streams.deadline)
    }

    /// Nothing is asked of us, and nothing is on its way to the client that we know of.
    pub fn is_idle(&self) -> bool {
        let is_idle = self.exchanges.streams().map_or_else(|| self.http1.is_idle(), |streams| streams.is_idle());
        !self.is_readable && is_idle
    }
}
