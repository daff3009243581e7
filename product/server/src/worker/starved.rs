//! Transfers that wait for memory, because their connection holds as much as it may of what others leave. They continue
//! when memory was given back; clients take turns.

use units::memory::Account;

use super::proxy::Proxy;
use super::proxy_context::ProxyContext;
use crate::net::Net;

impl<N: Net> Proxy<N> {
    /// Records a transfer that has begun to wait, if it waits for memory.
    pub(super) fn note_starved(&mut self, with: &ProxyContext<N>, transfer: usize) {
        let Some(waiting) = self.upstreams.get(transfer).filter(|transfer| transfer.begins_to_starve()) else { return };
        let owner = waiting.owner;
        // The number of waiting transfers is bounded by the places of upstreams.
        if let Some(id) = with.connections.exchange_id(owner) {
            waiting.starve();
            self.starved.waiting.push(with.connections[id.at].client_of(id.stream), owner);
        }
    }

    /// Returns true if memory was given back since the last look at waiting transfers.
    pub(super) fn may_be_fed(&self, memory: &Account) -> bool {
        self.starved.waiting.len() > 0 && memory.released_bytes() != self.starved.released_bytes
    }

    /// Continues transfers that have waited for memory, as far as memory is available.
    pub(super) fn feed(&mut self, with: &mut ProxyContext<N>) {
        self.starved.released_bytes = with.connections.account().released_bytes();
        for _ in 0..self.starved.waiting.len() {
            let Some((client, owner)) = self.starved.waiting.pop_unless(|_| false) else { return };
            // Its client may have left.
            let Some(at) = self.upstreams.of(owner) else { continue };
            let Some(transfer) = self.upstreams.get(at) else { continue };
            if with
                .connections
                .exchange_id(owner)
                .is_some_and(|id| with.connections[id.at].held.responses().room() == 0)
            {
                self.starved.waiting.push(client, owner);
                continue;
            }
            transfer.feed();
            self.go_on_with(with, at);
        }
    }
}
