//! Transfers that wait for memory, because their connection uses as much memory as it may while others need some. They
//! continue when memory is released; clients are served in turn.

use super::Proxy;
use crate::client_turns::Turns;
use crate::exchange_id::ExchangeId;
use crate::net::Net;

/// The waiting transfers, by the names of their exchanges. Each occurs once, so the number of places at upstreams
/// bounds their number.
#[derive(Default)]
pub struct Starved {
    waiting: Turns<ExchangeId>,
    /// The event loop's counter of released bytes at the last check.
    released_bytes: u64,
    /// The number of transfers that may continue now.
    to_feed: usize,
}

impl<N: Net> Proxy<N> {
    /// Records a transfer that has started to wait, if it waits for memory.
    pub(super) fn note_starved(&mut self, at: usize) {
        if let Some(waiting) = self.upstreams.get(at).filter(|transfer| transfer.begins_to_starve()) {
            waiting.starve();
            self.starved.waiting.push(waiting.queued.turn.client, waiting.exchange);
        }
    }

    /// Returns true if memory was released since the last check. `released_bytes` changes with each release.
    pub fn may_be_fed(&self, released_bytes: u64) -> bool {
        self.starved.waiting.len() > 0 && released_bytes != self.starved.released_bytes
    }

    /// Continues transfers that have waited for memory, while memory is available.
    pub fn feed(&mut self, released_bytes: u64) {
        self.starved.released_bytes = released_bytes;
        self.starved.to_feed = self.starved.waiting.len();
    }

    /// Continues the next waiting transfer. Returns false once all have been tried.
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
