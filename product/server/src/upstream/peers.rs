//! The upstreams that this worker uses.

use std::ops::{Index, IndexMut};

use hashbrown::HashMap;
use sched::upstream_queue::{Bounds, Turn};
use slab::Slab;
use units::Nanos;

use super::peer::Peer;
use super::upstream_connection::UpstreamConnections;
use super::upstream_places::{Begun, Handed, LoopPlaces};
use super::{Announced, Checks, Endpoint, Fault, Group, Transfer};
use crate::exchange_id::ExchangeId;
use crate::net::Net;
#[cfg(test)]
use crate::simulation::planted;

/// The upstreams that this worker uses, indexed by their numbers.
pub struct Peers {
    all: Slab<Peer>,
    by_endpoint: HashMap<Endpoint, usize>,
    places: LoopPlaces,
    /// The places that were handed to transfers waiting for them.
    handed: Vec<Handed>,
    /// The number of choices made so far.
    choices: u64,
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
    /// Creates an empty set; `places` are the places of this loop.
    pub fn new(places: LoopPlaces) -> Peers {
        Peers { all: Slab::new(), by_endpoint: HashMap::new(), places, handed: Vec::new(), choices: 0 }
    }

    pub fn get(&self, at: usize) -> Option<&Peer> {
        self.all.get(at)
    }

    /// Takes a place at an upstream, or queues the exchange for one.
    pub fn begin(&mut self, peer: usize, bounds: Bounds, turn: Turn, exchange: ExchangeId) -> Begun {
        #[cfg(test)]
        let bounds =
            if planted::strikes(planted::Fault::GreedyClient) { bounds.of_client(bounds.requests) } else { bounds };
        self.places.begin(&self.all[peer].places, bounds, turn, exchange)
    }

    /// Gives back a client's place at an upstream.
    pub fn end(&mut self, peer: usize, client: u32) {
        self.places.end(&self.all[peer].places, client, &mut self.handed);
    }

    /// Gives back a place whose request does not wait any longer.
    pub fn give_back(&mut self, handed: &Handed) {
        self.places.end(&handed.places, handed.client, &mut self.handed);
    }

    /// Returns a handed place for a transfer that waited.
    pub fn next_handed(&mut self) -> Option<Handed> {
        self.places.take_handed(&mut self.handed);
        self.handed.pop()
    }

    /// Chooses, among the current addresses of a group, the upstream with the fewest requests relative to its share;
    /// among equals, the least recently chosen one. Unreachable upstreams come last. Returns `None` if all are down.
    pub fn choose(&mut self, (group, endpoints): (&Group, &[Endpoint]), now: Nanos, checks: &Checks) -> Option<usize> {
        let mut best = None;
        for endpoint in endpoints {
            let is_down = group.health.is_some() && checks.is_down(endpoint);
            #[cfg(test)]
            let is_down = is_down && !planted::strikes(planted::Fault::DownAsked);
            if is_down {
                continue;
            }
            let at = self.at(endpoint);
            let (is_unreachable, requests) = self.all[at].load(now);
            let share = if group.health.is_some() { checks.share_permille(now, endpoint) } else { 1000 };
            let load = (is_unreachable, (requests as u64 + 1) * 1000 / share, self.all[at].chosen);
            best = best.filter(|(least, _)| *least <= load).or(Some((load, at)));
        }
        let (_, at) = best?;
        self.choices += 1;
        self.all[at].chosen = self.choices;
        Some(at)
    }

    /// Returns the upstream among these that has a connection bound to this client connection.
    pub fn of_client<N: Net>(
        &self,
        endpoints: &[Endpoint],
        client: u64,
        connections: &UpstreamConnections<N>,
    ) -> Option<usize> {
        let mut peers = connections.bound_to(client).filter_map(|at| connections.get(at)).map(|own| own.peer);
        peers.find(|peer| endpoints.contains(&self.all[*peer].endpoint))
    }

    /// Takes an idle connection to the transfer's upstream. A connection bound to the transfer's client connection
    /// comes first.
    pub fn take_idle<N: Net>(&mut self, transfer: &Transfer, connections: &UpstreamConnections<N>) -> Option<usize> {
        let peer = &mut self.all[transfer.peer];
        let has_own = connections.bound_to(transfer.exchange.token()).next().is_some();
        let own = Some(transfer.exchange.token()).filter(|_| has_own);
        let own = own.and_then(|_| peer.take_idle(|idle| connections.may_serve(idle, transfer, own)));
        own.or_else(|| peer.take_idle(|idle| connections.may_serve(idle, transfer, None)))
    }

    /// Returns true if a connection to this upstream failed recently, and its number of requests; 0 for an upstream not
    /// in use.
    pub fn load(&self, endpoint: &Endpoint, now: Nanos) -> (bool, usize) {
        self.by_endpoint.get(endpoint).map_or((false, 0), |at| self.all[*at].load(now))
    }

    pub fn at(&mut self, endpoint: &Endpoint) -> usize {
        if let Some(at) = self.by_endpoint.get(endpoint) {
            return *at;
        }
        let at = self.all.insert(Peer::new(endpoint.clone(), self.places.of(endpoint)));
        self.by_endpoint.insert(endpoint.clone(), at);
        at
    }

    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = &Peer> {
        self.all.iter().map(|(_, peer)| peer)
    }

    /// Opens a connection to an upstream.
    pub fn open<N: Net>(
        &mut self,
        net: &N,
        now: Nanos,
        peer: usize,
        announced: Announced,
        connections: &mut UpstreamConnections<N>,
    ) -> Result<usize, Fault> {
        let opened = connections.open(net, now, (peer, &self.all[peer].endpoint), announced);
        opened.map_err(|error| {
            self.all[peer].on_unreachable(now);
            Fault::Unreachable(error.into())
        })
    }

    /// Returns an HTTP/2 connection with room for another transfer, or a new connection if there is none. A request
    /// that logs in gets a connection that no other transfer uses.
    pub fn shared<N: Net>(
        &mut self,
        net: &N,
        now: Nanos,
        transfer: &Transfer,
        connections: &mut UpstreamConnections<N>,
    ) -> Result<usize, Fault> {
        let peer = transfer.peer;
        let is_own = |at: usize| connections.get(at).is_some_and(|own| own.peer == peer);
        let has_own = transfer.client.logs_in || connections.bound_to(transfer.exchange.token()).any(is_own);
        let bound_to = Some(transfer.exchange.token()).filter(|_| has_own);
        let mut has_room = |at: usize| {
            let is_alike = connections.may_serve(at, transfer, bound_to);
            is_alike && connections.multiplexed(at).is_some_and(|several| several.has_room())
        };
        if let Some(found) = self.all[peer].shared().iter().copied().find(|at| has_room(*at)) {
            return Ok(found);
        }
        let mut known = |at: &usize| connections.multiplexed(*at).and_then(|several| several.known_streams_max());
        let streams_max = self.all[peer].shared().iter().rev().find_map(&mut known).or(self.all[peer].streams_max);
        self.all[peer].streams_max = streams_max;
        let opened = self.open(net, now, peer, transfer.client.announced, connections)?;
        self.all[peer].share(opened);
        if let (Some(several), Some(streams_max)) = (connections.multiplexed(opened), streams_max) {
            several.assume(streams_max);
        }
        bound_to.into_iter().for_each(|client| connections.bind(opened, client));
        Ok(opened)
    }

    /// Closes a connection.
    pub fn close<N: Net>(&mut self, net: &N, connection: usize, connections: &mut UpstreamConnections<N>) {
        if let Some(own) = connections.get(connection) {
            self.all[own.peer].forget(connection);
            connections.close(net, connection);
        }
    }

    /// Forgets upstreams whose entries hold nothing worth keeping and that no transfer uses.
    pub fn forget_unused(&mut self, now: Nanos, is_wanted: impl Fn(usize) -> bool) {
        let is_over = |at: usize, peer: &Peer| peer.is_unused(now) && !is_wanted(at);
        let over: Vec<usize> = self.all.iter().filter(|(at, peer)| is_over(*at, peer)).map(|(at, _)| at).collect();
        for at in over {
            let peer = self.all.remove(at);
            self.by_endpoint.remove(&peer.endpoint);
        }
    }
}
