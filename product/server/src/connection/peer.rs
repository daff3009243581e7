//! The peer of a connection, and the clients whose requests the peer passes on.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;

use crate::limits::Limits;

/// The other end of a connection.
pub struct Peer {
    pub address: IpAddr,
    pub port: u16,
    /// The clients whose requests are passed on, if the peer is a trusted proxy; otherwise `None`.
    pub origins: Option<Box<Origins>>,
    /// True if the address is in a local network, which is reached without the uplink. Never true for a trusted proxy,
    /// whose clients may be anywhere.
    pub is_local: bool,
    /// The UDP port at which this server offers HTTP/3 to the client.
    pub http3_port: Option<NonZeroU16>,
}

impl Peer {
    pub fn new(peer: SocketAddr, limits: &Limits) -> Peer {
        let origins = limits.trusted_proxies.contain(peer.ip()).then(Box::default);
        let is_local = origins.is_none() && limits.local_networks.contain(peer.ip());
        Peer { address: peer.ip(), port: peer.port(), origins, is_local, http3_port: None }
    }
}

/// The client behind a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    pub address: IpAddr,
    /// The index of the client's entry in the table of clients, held until the request is complete.
    pub client: u32,
}

/// The clients whose requests a trusted proxy passes on over one connection.
#[derive(Debug, Default)]
pub struct Origins {
    /// The origins of the requests in progress, by stream (0 without streams). A request without an origin is the
    /// proxy's own.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::NetworkList;

    #[test]
    fn a_trusted_proxy_is_never_local() {
        let networks = |text: &str| NetworkList::new(vec![text.parse().unwrap()]);
        let (local_networks, trusted_proxies) = (networks("10.0.0.0/8"), networks("10.0.0.1"));
        let limits = Limits { local_networks, trusted_proxies, ..Limits::default() };
        let is_local = |peer: &str| Peer::new(peer.parse().unwrap(), &limits).is_local;
        let peers = ["10.0.0.2:1", "[::ffff:10.0.0.2]:1", "10.0.0.1:1", "198.18.0.1:1"];
        assert_eq!(peers.map(is_local), [true, true, false, false]);
    }
}
