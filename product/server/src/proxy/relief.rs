//! Writes waiting responses to files, the larger ones first, if they hold too many of an upstream's places, so that the
//! upstream is free for other requests.

use std::collections::VecDeque;

use super::{Effect, Proxy};
use crate::exchange_id::ExchangeId;
use crate::net::Net;

/// The upstreams for which too many responses wait for their clients.
#[derive(Default)]
pub struct Relief {
    /// For each such upstream that has not been relieved yet, one of its waiting transfers.
    crowded: VecDeque<usize>,
    /// The transfer whose upstream is being relieved.
    of: usize,
    /// The waiting transfers of the same upstream that were not tried yet; the next one is last.
    held: Vec<usize>,
}

impl<N: Net> Proxy<N> {
    /// Relieves the upstream of a transfer that starts to wait: if waiting responses hold half of the upstream's
    /// places, some of them continue in files.
    pub(super) fn relieve(&mut self, at: usize) {
        if self.upstreams.is_crowded(at) && !self.relief.crowded.contains(&at) {
            self.relief.crowded.push_back(at);
        }
    }

    /// Tries again to relieve upstreams, once a second, because there may be room for a file now.
    pub fn relieve_all(&mut self) {
        self.upstreams.crowded().into_iter().for_each(|at| self.relieve(at));
    }

    /// Returns the next response that must continue in a file.
    pub(super) fn relieve_next(&mut self) -> Option<Effect> {
        loop {
            while let Some(at) = self.relief.held.pop() {
                if !self.upstreams.is_crowded(self.relief.of) {
                    self.relief.held.clear();
                } else if let Some((id, room)) = self.upstreams.spooling(at) {
                    return Some(Effect::Spool { id, room });
                }
            }
            self.relief.of = self.relief.crowded.pop_front()?;
            self.relief.held = self.upstreams.held_with(self.relief.of);
            self.relief.held.reverse();
        }
    }

    /// Records that a response continues in a file and no longer waits for its client.
    pub fn on_spooled(&mut self, id: ExchangeId) {
        if let Some(at) = self.upstreams.of(id) {
            self.upstreams.let_go(at);
        }
    }
}
