//! The UDP sockets of a worker.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use quic::{Datagrams, Endpoint, Settings};
use rustix::event::epoll::EventFlags;
use tls::Acceptor;
use units::wire::Framing;

use super::DATAGRAMS;
use super::listener::Listener;
use crate::limits::Limits;
use crate::net::{Net, Source};
use crate::udp::{DatagramSocket, Left, Pieces};

/// The payload of a full datagram over IPv6 if the path's MTU is that of Ethernet (RFC 8899 discovers it).
const DATAGRAM_BYTES: u64 = 1452;

/// A worker's state for datagrams.
pub(super) struct UdpEndpoints<N: Net> {
    /// The UDP sockets; `None` if no listener has HTTP/3.
    sockets: Option<Box<Sockets<N>>>,
}

pub(super) struct Sockets<N: Net> {
    pub all: Vec<UdpEndpoint<N>>,
    pub pieces: Pieces,
    /// The datagrams for clients without a connection.
    pub answers: Datagrams,
}

pub(super) struct UdpEndpoint<N: Net> {
    pub udp: Arc<N::Udp>,
    address: SocketAddr,
    pub quic: Endpoint,
    /// True if the service manager also holds the socket.
    pub is_passed: bool,
    /// The event loop waits for room in the socket.
    is_full: bool,
    /// True if the previous process still reads the socket.
    is_waiting: bool,
}

impl<N: Net> Default for UdpEndpoints<N> {
    fn default() -> UdpEndpoints<N> {
        UdpEndpoints { sockets: None }
    }
}

impl<N: Net> UdpEndpoints<N> {
    /// Watches the UDP sockets of the listeners for datagrams.
    pub fn open(
        &mut self,
        net: &N,
        listeners: &[Listener<N>],
        acceptor: &Acceptor,
        settings: &Settings,
    ) -> io::Result<()> {
        let mut all = Vec::new();
        for listener in listeners {
            let Some(udp) = listener.udp.clone() else { continue };
            let address = udp.local_address()?;
            let settings = Settings { is_ipv6: address.is_ipv6(), ..*settings };
            let quic = Endpoint::new(acceptor, &settings).map_err(io::Error::other)?;
            let (is_passed, is_waiting) = (listener.is_passed, listener.is_udp_waiting);
            if !is_waiting {
                let added = net.add(Source::Udp(&*udp), DATAGRAMS, EventFlags::IN);
                added.map_err(|error| io::Error::new(error.kind(), format!("UDP {address}: {error}")))?;
            }
            all.push(UdpEndpoint { udp, address, quic, is_passed, is_full: false, is_waiting });
        }
        if !all.is_empty() {
            self.sockets = Some(Box::new(Sockets { all, pieces: Pieces::new(), answers: Datagrams::new() }));
        }
        Ok(())
    }

    /// Replaces the certificates with newly read ones.
    pub fn renew(&self, acceptor: &Acceptor) {
        let all = self.sockets.iter().flat_map(|sockets| &sockets.all);
        all.for_each(|endpoint| endpoint.quic.replace(acceptor));
    }

    /// Starts to read the sockets that the previous process read until it ended. Returns the addresses at which that
    /// failed, with the errors.
    pub fn hear(&mut self, net: &N) -> Vec<(SocketAddr, io::Error)> {
        let mut deaf = Vec::new();
        for endpoint in self.sockets.iter_mut().flat_map(|sockets| &mut sockets.all).filter(|one| one.is_waiting) {
            let heard = net.add(Source::Udp(&*endpoint.udp), DATAGRAMS, EventFlags::IN);
            endpoint.is_waiting = heard.is_err();
            deaf.extend(heard.err().map(|error| (endpoint.address, error)));
        }
        deaf
    }

    /// Records that another process also has all sockets, and accepts new connections on them.
    pub fn share(&mut self) {
        self.sockets.iter_mut().flat_map(|sockets| &mut sockets.all).for_each(|endpoint| endpoint.is_passed = true);
    }

    /// Applies the limits to connections from now on.
    pub fn set_limits(&self, limits: &Limits) {
        let all = self.sockets.iter().flat_map(|sockets| &sockets.all);
        all.for_each(|endpoint| endpoint.quic.set_limits(limits.request, limits.idle_timeout));
    }

    /// Takes the sockets for a turn of reading. [`UdpEndpoints::put_back`] must follow.
    pub fn take(&mut self) -> Option<Box<Sockets<N>>> {
        self.sockets.take()
    }

    pub fn put_back(&mut self, sockets: Box<Sockets<N>>) {
        self.sockets = Some(sockets);
    }

    /// Waits for room at the sockets that are full, which are given by number, and stops waiting at the others.
    pub fn wait_for_room(&mut self, net: &N, is_full_at: impl Fn(u64) -> bool) {
        let Some(sockets) = &mut self.sockets else { return };
        for endpoint in &mut sockets.all {
            let is_full = is_full_at(endpoint.udp.number()) && !endpoint.is_waiting;
            if is_full != std::mem::replace(&mut endpoint.is_full, is_full) {
                let flags = if is_full { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
                // If this fails, waiting datagrams are sent when the next one arrives.
                let _ = net.modify(Source::Udp(&*endpoint.udp), DATAGRAMS, flags);
            }
        }
    }
}

impl<N: Net> UdpEndpoint<N> {
    /// Sends datagrams that belong to no connection. Returns the number sent and their framing. Datagrams for which
    /// there is no room are lost, as they could be anywhere on the path.
    pub fn answer(&self, answers: &mut Datagrams) -> Option<(Framing, Left)> {
        let framing = framing(answers.first()?.to);
        let (left, _) = self.udp.send(answers, self.udp.control_priority());
        answers.clear();
        Some((framing, left))
    }
}

/// Returns the framing of a peer's datagrams. An IPv4 client of an IPv6 socket counts as IPv4.
pub(super) fn framing(peer: SocketAddr) -> Framing {
    Framing::datagrams(DATAGRAM_BYTES, peer.ip().to_canonical().is_ipv6())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_client_is_one_of_ipv4() {
        let [mapped, ipv4, ipv6] =
            ["[::ffff:198.18.0.1]:1", "198.18.0.1:1", "[2001:db8::1]:1"].map(|peer| framing(peer.parse().unwrap()));
        assert_eq!(mapped, ipv4);
        assert_ne!(mapped, ipv6);
    }
}
