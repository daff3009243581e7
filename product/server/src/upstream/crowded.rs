//! The upstream places of responses whose clients are still receiving them. The upstream has already produced these
//! responses and could answer other requests.

use std::cmp::Reverse;
use std::sync::Arc;

use super::Upstreams;
use crate::disk::Room;
use crate::exchange_id::ExchangeId;
use crate::net::Net;

impl<N: Net> Upstreams<N> {
    /// Returns true if this transfer waits for its client, and such transfers hold at least half of the upstream's
    /// places, or as many as one client may have.
    pub fn is_crowded(&self, at: usize) -> bool {
        let Some(transfer) = self.transfers.get(at).filter(|transfer| transfer.is_held()) else { return false };
        self.peers[transfer.peer].places.is_crowded(transfer.group.bounds)
    }

    /// The transfers that wait for their clients while holding a place at this transfer's upstream. The largest
    /// response comes first; among equals, the transfer that began first.
    pub fn held_with(&self, at: usize) -> Vec<usize> {
        let Some(peer) = self.transfers.get(at).map(|transfer| transfer.peer) else { return Vec::new() };
        let is_beside = |at: &usize| self.transfers[*at].is_held() && self.transfers[*at].peer == peer;
        let mut held: Vec<usize> = self.transfers.iter().map(|(at, _)| at).filter(is_beside).collect();
        held.sort_by_key(|at| (Reverse(self.transfers[*at].size_bytes()), self.transfers[*at].exchange));
        held
    }

    /// The exchange of a response that is being sent, and the disk space that the response may use.
    pub fn spooling(&self, at: usize) -> Option<(ExchangeId, Arc<Room>)> {
        let transfer = self.transfers.get(at).filter(|transfer| transfer.is_sending)?;
        Some((transfer.exchange, transfer.group.spool.clone()?))
    }

    /// Records that the transfer no longer waits for its client.
    pub fn let_go(&mut self, at: usize) {
        if let Some(transfer) = self.transfers.get_mut(at) {
            self.peers[transfer.peer].places.on_held(transfer.let_go(), false);
        }
    }

    /// Returns one transfer that waits for its client for each crowded upstream, for [`Upstreams::held_with`].
    pub fn crowded(&self) -> Vec<usize> {
        let mut found: Vec<usize> = Vec::new();
        for at in self.transfers.iter().map(|(at, _)| at) {
            let is_new = |of: usize| found.iter().all(|known| self.transfers[*known].peer != self.transfers[of].peer);
            if self.is_crowded(at) && is_new(at) {
                found.push(at);
            }
        }
        found
    }
}
