//! Clients that wait to be accepted, by listener.

use std::collections::VecDeque;

/// The number of listeners: the first without TLS, the second with TLS.
const LISTENERS: usize = 2;

#[derive(Default)]
pub struct Listeners {
    waiting: [VecDeque<usize>; LISTENERS],
    /// The token under which each listener's readiness is announced, if it is.
    tokens: [Option<u64>; LISTENERS],
    is_refusing: bool,
}

impl Listeners {
    /// Adds a client; returns false if the server accepts no more.
    pub fn arrive(&mut self, listener: usize, wire: usize) -> bool {
        if !self.is_refusing {
            self.waiting[listener].push_back(wire);
        }
        !self.is_refusing
    }

    pub fn accept(&mut self, listener: usize) -> Option<usize> {
        self.waiting[listener].pop_front()
    }

    pub fn has_waiting(&self, listener: usize) -> bool {
        !self.waiting[listener].is_empty()
    }

    /// Announces the listener's readiness under `token`; `None` ends that.
    pub fn announce(&mut self, listener: usize, token: Option<u64>) {
        self.tokens[listener] = token;
    }

    /// Returns the tokens of the listeners at which clients wait.
    pub fn ready(&self) -> impl Iterator<Item = u64> {
        self.tokens.iter().zip(&self.waiting).filter(|(_, waiting)| !waiting.is_empty()).filter_map(|(token, _)| *token)
    }

    /// Refuses all clients from now on. Returns the clients that waited at this listener.
    pub fn refuse(&mut self, listener: usize) -> VecDeque<usize> {
        self.is_refusing = true;
        std::mem::take(&mut self.waiting[listener])
    }
}
