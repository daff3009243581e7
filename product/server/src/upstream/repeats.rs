//! Requests that are tried again, over another connection or at another upstream. A request that may have been
//! processed is tried again only if it is idempotent, and the upstream has not begun to answer. A request of which no
//! byte has left, because no connection could be made, is tried at each upstream of its group.

use std::sync::Arc;

use units::Nanos;

use super::transfer::Hold;
use super::{EndpointAddress, Fault, Upstreams};
use crate::net::Net;

impl<N: Net> Upstreams<N> {
    /// Repeats the request over another connection, or once the names of its upstreams were looked up again, if that is
    /// harmless.
    pub(super) fn repeat(&mut self, net: &N, now: Nanos, at: usize, fault: Fault) -> Result<(), Fault> {
        let repeated = self.repeat_at_known(net, now, at, fault);
        self.or_looked_up(net, now, at, repeated)
    }

    fn repeat_at_known(&mut self, net: &N, now: Nanos, at: usize, fault: Fault) -> Result<(), Fault> {
        let transfer = &mut self.transfers[at];
        let (is_new, peer) = (transfer.attempt.is_new(), transfer.peer);
        // A listener whose program is away, such as that of a container, may accept a connection and close it.
        let is_silent = matches!(fault, Fault::Closed | Fault::Broken(_)) && !transfer.inbound.has_come;
        if (matches!(fault, Fault::Unreachable(_) | Fault::Tls(_) | Fault::TooSlow(_)) || is_silent) && is_new {
            self.peers[peer].on_unreachable(now);
            self.look_up_again(at);
        }
        let transfer = &mut self.transfers[at];
        if !transfer.may_repeat(&fault) {
            return Err(fault);
        }
        transfer.on_failed(&fault);
        self.disconnect(net, now, at, false);
        let next = self.other_peer(now, at);
        if next != peer {
            // A client that has waited for one upstream must not wait for another that may be unreachable too.
            if matches!(fault, Fault::TooSlow(_)) && self.peers[next].load(now).0 {
                return Err(fault);
            }
            let begun = self.begin_at_other(net, now, (at, next));
            return self.or_elsewhere(net, now, at, begun);
        }
        // The same upstream is tried again only if the connection was an old one, or if the upstream is reachable.
        let may_be_reached = !is_new || fault.is_refusal();
        let connected = if may_be_reached { self.connect(net, now, at) } else { Err(fault) };
        connected.inspect_err(|_| self.give_place_back(at))
    }

    /// Chooses an upstream for another attempt. Returns the same one if there is no other.
    fn other_peer(&mut self, now: Nanos, at: usize) -> usize {
        let group = Arc::clone(&self.transfers[at].group);
        let chosen = self.peers.choose((&group, &group.endpoints()), now, &self.checks);
        chosen.unwrap_or(self.transfers[at].peer)
    }

    fn begin_at_other(&mut self, net: &N, now: Nanos, (at, peer): (usize, usize)) -> Result<(), Fault> {
        self.give_place_back(at);
        self.aim(at, peer);
        self.begin_at(net, now, at)
    }

    /// Sets the upstream of a transfer: of one that was changed to HTTP/1.1, the same upstream over HTTP/1.1.
    pub(super) fn aim(&mut self, at: usize, peer: usize) {
        let peer = match self.transfers[at].is_over_http1() {
            true => self.peers.at(&self.peers[peer].endpoint.over_http1()),
            false => peer,
        };
        self.transfers[at].peer = peer;
    }

    /// Opens a WebSocket over HTTP/1.1, because the upstream takes none on a stream. Without TLS, an upstream with prior
    /// knowledge of HTTP/2 speaks nothing else.
    pub(super) fn tunnel_over_http1(&mut self, net: &N, now: Nanos, at: usize) -> Result<(), Fault> {
        let peer = self.transfers[at].peer;
        let speaks_both = matches!(self.peers[peer].endpoint.address, EndpointAddress::Tls(_));
        if !speaks_both || !self.transfers[at].change_to_http1() {
            return Err(Fault::NoTunnels);
        }
        self.disconnect(net, now, at, false);
        let begun = self.begin_at_other(net, now, (at, peer));
        self.or_elsewhere(net, now, at, begun)
    }

    /// Continues at one upstream after another, as long as each fails immediately.
    pub(super) fn or_elsewhere(
        &mut self,
        net: &N,
        now: Nanos,
        at: usize,
        begun: Result<(), Fault>,
    ) -> Result<(), Fault> {
        let mut begun = begun;
        for _ in 1..self.transfers[at].group.endpoints().len() {
            if !matches!(begun, Err(Fault::Unreachable(_))) {
                break;
            }
            let next = self.other_peer(now, at);
            begun = self.begin_at_other(net, now, (at, next));
        }
        begun
    }

    /// Continues a transfer past its deadline at another upstream, if it could not be connected; returns the fault if
    /// that is impossible. An upstream that has not answered at all is avoided by other transfers.
    pub fn on_late(&mut self, net: &N, now: Nanos, at: usize) -> Result<(), Fault> {
        let transfer = &self.transfers[at];
        let fault = transfer.timed_out();
        if transfer.queued.hold == Hold::Names {
            return Err(self.lookups.remove(transfer.exchange).unwrap_or(fault));
        }
        let Some(own) = transfer.connection.and_then(|own| self.connections.get(own)) else { return Err(fault) };
        if transfer.is_unconnected(&fault) && !own.has_begun() {
            return self.repeat(net, now, at, fault);
        }
        if !transfer.inbound.has_come && !transfer.outbound.is_unsent() && !transfer.is_probe() {
            self.peers[transfer.peer].on_unreachable(now);
            self.look_up_again(at);
        }
        Err(fault)
    }
}
