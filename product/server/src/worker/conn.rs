use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;

use units::Nanos;

use super::exchange::{Exchange, Task};
use super::streams::Multiplexed;
use crate::conn::Http1;
use crate::transmit::End;

/// One client connection: its protocol, and what the loop knows of it; its socket is the transmitter's. An idle one holds no buffers.
pub struct Conn {
    pub http1: Http1,
    pub address: IpAddr,
    pub port: u16,
    /// The index of its client's account.
    pub client: u32,
    /// Its name in events and among jobs.
    pub owner: u64,
    pub exchange: Exchange,
    /// Where the client speaks HTTP/2 or HTTP/3; `http1` has no part in it then.
    pub multiplexed: Option<Box<Multiplexed>>,
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
    /// The kernel tells us about it.
    pub is_registered: bool,
    /// Segments are held back until they are full.
    pub is_corked: bool,
    /// The client speaks TLS over TCP.
    pub is_secure: bool,
    /// It speaks QUIC.
    pub is_quic: bool,
    /// No keys are agreed on yet.
    pub is_handshaking: bool,
}

impl Conn {
    pub fn peer(&self) -> SocketAddr {
        SocketAddr::new(self.address, self.port)
    }

    /// What follows the response now being built.
    pub fn end(&self) -> End {
        if self.http1.closes() { End::Finish } else { End::Open }
    }

    pub fn is_sending(&self) -> bool {
        self.exchange.is_sending()
    }

    /// A flight of its handshake is being sent, and nothing is read meanwhile.
    pub fn is_in_flight(&self) -> bool {
        matches!(self.exchange.task, Task::Flight(_))
    }

    /// When it has waited for its client too long.
    pub fn deadline(&self) -> Nanos {
        self.multiplexed.as_ref().map_or_else(|| self.http1.deadline(), |multiplexed| multiplexed.deadline)
    }

    /// Nothing is asked of us, and nothing is on its way to the client that we know of.
    pub fn is_idle(&self) -> bool {
        let is_idle =
            self.multiplexed.as_ref().map_or_else(|| self.http1.is_idle(), |multiplexed| multiplexed.is_idle());
        !self.is_readable && is_idle
    }
}
