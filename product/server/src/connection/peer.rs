//! The peer of a connection, and the clients whose requests the peer passes on.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;

use crate::limits::Limits;

/// The other end of a connection.
pub struct Peer {
    pub address: IpAddr,
    pub port: u16,
    /// The clients whose requests a trusted proxy passes on; `None` for any other peer.
    pub origins: Option<Box<Origins>>,
    /// The UDP port at which this server offers HTTP/3 to the client.
    pub http3_port: Option<NonZeroU16>,
}

impl Peer {
    pub fn new(peer: SocketAddr, limits: &Limits) -> Peer {
        let origins = limits.trusted_proxies.contain(peer.ip()).then(Box::default);
        Peer { address: peer.ip(), port: peer.port(), origins, http3_port: None }
    }
}

/// The client behind a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    pub address: IpAddr,
    /// The index of the client's entry in the table of clients, held until the request is over.
    pub client: u32,
}

/// The clients whose requests a trusted proxy passes on over one connection.
#[derive(Debug, Default)]
pub struct Origins {
    /// The origins of the requests under way, by stream (0 without streams). A request without an origin is the proxy's
    /// own.
    pub requests: Vec<(u32, Origin)>,
    /// The PROXY header received so far; nothing else is read until it is complete.
    pub header: Option<Vec<u8>>,
}

impl Origins {
    pub fn of(&self, stream: u32) -> Option<Origin> {
        self.requests.iter().find(|(number, _)| *number == stream).map(|(_, origin)| *origin)
    }

    pub fn take(&mut self, stream: u32) -> Option<Origin> {
        let at = self.requests.iter().position(|(number, _)| *number == stream)?;
        Some(self.requests.swap_remove(at).1)
    }
}
