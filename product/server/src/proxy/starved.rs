//! Transfers that wait for memory, because their connection holds as much as it may of what others leave. They continue
//! when memory was given back; clients take turns.

use super::Proxy;
use crate::client_turns::Turns;
use crate::exchange_id::ExchangeId;
use crate::net::Net;

/// The waiting transfers, by the names of their exchanges; each occurs once, so the places of upstreams bound them.
#[derive(Default)]
pub struct Starved {
    waiting: Turns<ExchangeId>,
    /// The released bytes of the event loop's account at the last look.
    released_bytes: u64,
    /// The number of them that may continue now.
    to_feed: usize,
}

impl<N: Net> Proxy<N> {
    /// Records a transfer that has begun to wait, if it waits for memory.
    pub(super) fn note_starved(&mut self, at: usize) {
        if let Some(waiting) = self.upstreams.get(at).filter(|transfer| transfer.begins_to_starve()) {
            waiting.starve();
            self.starved.waiting.push(waiting.queued.turn.client, waiting.exchange);
        }
    }

    /// Returns true if memory was given back since the last look at waiting transfers; `released_bytes` changes with
    /// each such release.
    pub fn may_be_fed(&self, released_bytes: u64) -> bool {
        self.starved.waiting.len() > 0 && released_bytes != self.starved.released_bytes
    }

    /// Continues transfers that have waited for memory, as far as memory is available.
    pub fn feed(&mut self, released_bytes: u64) {
        self.starved.released_bytes = released_bytes;
        self.starved.to_feed = self.starved.waiting.len();
    }

    /// Continues the next of them. Returns false if all have had their turn.
    pub(super) fn feed_next(&mut self) -> bool {
        while self.starved.to_feed > 0 {
            self.starved.to_feed -= 1;
            let Some((client, id)) = self.starved.waiting.pop_unless(|_| false) else { break };
            // Its client may have left.
            let Some(at) = self.upstreams.of(id) else { continue };
            let Some(transfer) = self.upstreams.get(at) else { continue };
            if transfer.client.responses.room() == 0 {
                self.starved.waiting.push(client, id);
                continue;
            }
            transfer.feed();
            self.go_on(at);
            return true;
        }
        self.starved.to_feed = 0;
        false
    }
}
