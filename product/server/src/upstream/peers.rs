//! The upstreams that this worker knows.

use std::collections::HashMap;
use std::ops::{Index, IndexMut};

use slab::Slab;
use units::Nanos;

use super::connection::UpstreamConnections;
use super::peer::Peer;
use super::{Endpoint, Fault, Group};
use crate::net::Net;

/// By a number each.
#[derive(Default)]
pub struct Peers {
    all: Slab<Peer>,
    by_endpoint: HashMap<Endpoint, usize>,
}

impl Index<usize> for Peers {
    type Output = Peer;

    fn index(&self, at: usize) -> &Peer {
        &self.all[at]
    }
}

impl IndexMut<usize> for Peers {
    fn index_mut(&mut self, at: usize) -> &mut Peer {
        &mut self.all[at]
    }
}

impl Peers {
    /// The upstream with the fewest requests, those that cannot be reached last.
    pub fn choose(&mut self, group: &Group, now: Nanos) -> usize {
        let peers: Vec<usize> = group.endpoints.iter().map(|endpoint| self.at(endpoint)).collect();
        peers.into_iter().min_by_key(|at| self.all[*at].load(now)).expect("a group has an upstream")
    }

    fn at(&mut self, endpoint: &Endpoint) -> usize {
        if let Some(at) = self.by_endpoint.get(endpoint) {
            return *at;
        }
        let at = self.all.insert(Peer::new(endpoint.clone()));
        self.by_endpoint.insert(endpoint.clone(), at);
        at
    }

    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = &Peer> {
        self.all.iter().map(|(_, peer)| peer)
    }

    /// A new connection to one.
    pub fn open<N: Net>(
        &mut self,
        net: &N,
        now: Nanos,
        peer: usize,
        connections: &mut UpstreamConnections<N>,
    ) -> Result<usize, Fault> {
        let opened = connections.open(net, now, peer, &self.all[peer].endpoint);
        opened.map_err(Fault::Unreachable).inspect_err(|_| self.all[peer].on_unreachable(now))
    }

    /// A connection of HTTP/2 with room for another transfer: a new one only where there is no room on others.
    pub fn shared<N: Net>(
        &mut self,
        net: &N,
        now: Nanos,
        peer: usize,
        connections: &mut UpstreamConnections<N>,
    ) -> Result<usize, Fault> {
        let mut has_room = |at: usize| connections.multiplexed(at).is_some_and(|several| several.has_room());
        if let Some(found) = self.all[peer].shared().iter().copied().find(|at| has_room(*at)) {
            return Ok(found);
        }
        let opened = self.open(net, now, peer, connections)?;
        self.all[peer].share(opened);
        Ok(opened)
    }

    /// Closes a connection.
    pub fn close<N: Net>(&mut self, net: &N, connection: usize, connections: &mut UpstreamConnections<N>) {
        if let Some(own) = connections.get(connection) {
            self.all[own.peer].forget(connection);
            connections.close(net, connection);
        }
    }

    /// Forgets those of which nothing is known that is worth keeping, and that nobody wants.
    pub fn forget_unused(&mut self, now: Nanos, is_wanted: impl Fn(usize) -> bool) {
        let by_endpoint = &mut self.by_endpoint;
        self.all.retain(|at, peer| {
            let is_kept = !peer.is_unused(now) || is_wanted(at);
            if !is_kept {
                by_endpoint.remove(&peer.endpoint);
            }
            is_kept
        });
    }
}
