//! Responses that hold too many of an upstream's places are written to files, the larger ones first, so that the
//! upstream is free for others.

use std::collections::VecDeque;

use super::{Effect, Proxy};
use crate::exchange_id::ExchangeId;
use crate::net::Net;

/// The upstreams that are crowded with responses that wait for their clients.
#[derive(Default)]
pub struct Relief {
    /// A waiting transfer of each crowded upstream that is not relieved yet, each once.
    crowded: VecDeque<usize>,
    /// The transfer whose upstream is being relieved.
    of: usize,
    /// The transfers that wait with it and were not tried yet, the next at the end.
    held: Vec<usize>,
}

impl<N: Net> Proxy<N> {
    /// Relieves the upstream of a transfer that begins to wait: if half of its places are held by waiting responses,
    /// some of them continue in files.
    pub(super) fn relieve(&mut self, at: usize) {
        if self.upstreams.is_crowded(at) && !self.relief.crowded.contains(&at) {
            self.relief.crowded.push_back(at);
        }
    }

    /// Once a second: tries again to relieve upstreams, because there may be room for a file now.
    pub fn relieve_all(&mut self) {
        self.upstreams.crowded().into_iter().for_each(|at| self.relieve(at));
    }

    /// Returns the next response that has to continue in a file.
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

    /// Records that a response continues in a file, and does not wait for its client any more.
    pub fn on_spooled(&mut self, id: ExchangeId) {
        if let Some(at) = self.upstreams.of(id) {
            self.upstreams.let_go(at);
        }
    }
}
