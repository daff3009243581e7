//! Responses that hold too many of an upstream's places are written to files, the larger ones first, so that the
//! upstream is free for others.

use super::proxy::{Proxy, line_of};
use super::proxy_context::ProxyContext;
use crate::net::Net;
use crate::send::Producer;

impl<N: Net> Proxy<N> {
    /// Called when a transfer begins to wait. If half of its upstream's places are held by waiting responses, some of
    /// them continue into files.
    pub(super) fn relieve(&mut self, with: &mut ProxyContext<N>, transfer: usize) {
        if !self.upstreams.is_crowded(transfer) {
            return;
        }
        for at in self.upstreams.held_with(transfer) {
            let Some((job, room)) = self.upstreams.spooling(at) else { continue };
            let mut producer = Producer::of(with.transmitter, with.connections, job);
            let bytes = producer.queued_bytes();
            if !producer.spool(&room) {
                continue;
            }
            self.note_spooled(with, at, bytes);
            self.upstreams.let_go(at);
            if !self.upstreams.is_crowded(transfer) {
                return;
            }
        }
    }

    fn note_spooled(&mut self, with: &mut ProxyContext<N>, transfer: usize, bytes: u64) {
        let owner = self.upstreams.get(transfer).map(|transfer| transfer.owner);
        let line = owner.and_then(|owner| line_of(with.connections, owner)).and_then(|line| line.passed_on.as_mut());
        line.into_iter().for_each(|line| line.spooled_bytes += bytes);
    }

    /// Once a second: tries again, because there may be room for a file now.
    pub(super) fn relieve_all(&mut self, with: &mut ProxyContext<N>) {
        self.upstreams.crowded().into_iter().for_each(|transfer| self.relieve(with, transfer));
        self.refill(with);
    }
}
