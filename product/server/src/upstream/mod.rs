//! Requests that other servers answer: the connections to upstreams, and the requests and responses on them.
//!
//! A [`Transfer`] is a request and its response. It waits for the request's body, or the first 64 KB of it, and then
//! for a place if as many requests are in progress as its [`Group`] allows. Then it has an HTTP/1.1 connection to
//! itself, which was idle or is new, or a stream of an HTTP/2 connection. The worker provides the clock, the sockets'
//! readiness and the destination of the response's body ([`BodySink`]).

mod accel_redirect;
mod addresses;
mod announced;
mod attempt;
mod body_sink;
mod crowded;
mod deadline;
mod endpoint;
mod fastcgi;
mod fault;
mod group;
mod health_checks;
mod learned;
mod lookups;
mod multiplexed;
mod on_connection;
mod on_stream;
mod peer;
mod peers;
mod repeats;
mod request;
pub mod resolver;
mod response;
#[cfg(test)]
mod tests;
mod transfer;
mod transfer_step;
mod tunnel;
mod upstream_connection;
mod upstream_places;
mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;
use http::gateway::is_connection_login;
use http::http1::upstream::{Framing, ResponseLimits, UpstreamHead};
use http::{Method, Request};
use rustix::event::epoll::EventFlags;
use sched::routes::Route;
use sched::upstream_queue::Turn;
use slab::Slab;
use units::Nanos;

pub use accel_redirect::NamedFiles;
pub use announced::Announced;
pub use attempt::Attempt;
pub use body_sink::{BodySink, pipe_of};
pub use endpoint::{Endpoint, EndpointAddress, HealthCheck, TlsEndpoint};
pub use fastcgi::{Run, Scripts};
pub use fault::Fault;
pub use group::{Group, GroupError, PassOn, Trust};
pub use health_checks::Checks;
pub use learned::{CodedBody, Learned, Prediction, RouteStatus, RoutesStatus};
use lookups::Lookups;
use peers::Peers;
pub use request::{Head, Waiting};
pub use transfer::{BodyAllowance, ClientConnection, Transfer};
use transfer::{Hold, Queued};
pub use transfer_step::TransferStep;
pub use upstream_connection::connection_of;
use upstream_connection::{Told, UpstreamConnections};
use upstream_places::Begun;
pub use upstream_places::{LoopPlaces, UpstreamPlaces};

use crate::clock::ClientClock;
use crate::exchange_id::ExchangeId;
use crate::net::Net;

pub struct Upstreams<N: Net> {
    transfers: Slab<Transfer>,
    /// The clock of the transfers' deadlines.
    clock: ClientClock,
    /// The transfers by their exchanges.
    by_exchange: HashMap<ExchangeId, usize>,
    connections: UpstreamConnections<N>,
    peers: Peers,
    lookups: Lookups,
    pub learned: Learned,
    pub checks: Checks,
    /// The exchanges of transfers that may be able to continue, after an event on a shared connection.
    stirred: Vec<ExchangeId>,
    /// Lines from programs' error streams, with the names of their upstreams.
    said: Vec<(Arc<str>, String)>,
}

impl<N: Net> Upstreams<N> {
    /// Creates an empty set; `places` are the places at upstreams.
    pub fn new(places: LoopPlaces, clock: ClientClock) -> Upstreams<N> {
        Upstreams {
            transfers: Slab::new(),
            clock,
            by_exchange: HashMap::new(),
            connections: UpstreamConnections::default(),
            lookups: Lookups::new(places.wake()),
            peers: Peers::new(places),
            learned: Learned::default(),
            checks: Checks::default(),
            stirred: Vec::new(),
            said: Vec::new(),
        }
    }

    /// Sets the limits of responses on new connections.
    pub fn set_limits(&mut self, limits: ResponseLimits) {
        self.connections.limits = limits;
    }

    /// Begins a transfer, or makes it wait for a place or for the body of its request.
    pub fn begin(&mut self, net: &N, now: Nanos, mut transfer: Transfer) -> Result<usize, (Fault, Arc<str>)> {
        transfer.queued.turn.since = now;
        transfer.deadline.keep_by(&self.clock);
        let (exchange, is_gathering) = (transfer.exchange, transfer.is_gathering());
        let at = self.transfers.insert(transfer);
        self.by_exchange.insert(exchange, at);
        let begun = if is_gathering { Ok(()) } else { self.begin_somewhere(net, now, at) };
        let begun = self.or_looked_up(net, now, at, begun);
        begun.map(|()| at).map_err(|fault| {
            let name = self.name(at);
            self.transfers.remove(at);
            self.by_exchange.remove(&exchange);
            (fault, name)
        })
    }

    /// Begins a transfer at one upstream after another, until one does not fail immediately.
    fn begin_somewhere(&mut self, net: &N, now: Nanos, at: usize) -> Result<(), Fault> {
        if self.transfers[at].outbound.is_unmeasured() {
            return Err(self.transfers[at].too_large_to_gather());
        }
        self.transfers[at].queued.turn.since = now;
        let group = Arc::clone(&self.transfers[at].group);
        let endpoints = group.endpoints();
        let mut begun = Err(Fault::NoAddress);
        for _ in 0..endpoints.len() {
            let own = self.peers.of_client(&endpoints, self.transfers[at].exchange.token(), &self.connections);
            let chosen = own.or_else(|| self.peers.choose((&group, &endpoints), now, &self.checks));
            let peer = chosen.unwrap_or_else(|| self.peers.at(&endpoints[0]));
            self.aim(at, peer);
            begun = if chosen.is_some() { self.begin_at(net, now, at) } else { Err(Fault::Down) };
            if !matches!(begun, Err(Fault::Unreachable(_))) {
                break;
            }
        }
        begun
    }

    /// Begins a transfer at the chosen upstream: with the place that it has, with a new place, or by waiting for one.
    fn begin_at(&mut self, net: &N, now: Nanos, at: usize) -> Result<(), Fault> {
        let transfer = &mut self.transfers[at];
        if transfer.queued.hold == Hold::Nothing && !transfer.is_probe() {
            let Queued { turn, route, .. } = transfer.queued;
            let service = route.map_or(Nanos::ZERO, |route| self.learned.services.expected(route));
            let turn = Turn { service, ..turn };
            match self.peers.begin(transfer.peer, transfer.group.bounds, turn, transfer.exchange) {
                Begun::Taken => transfer.queued.hold = Hold::Place,
                Begun::Waits(ticket) => {
                    transfer.wait_for_place(ticket, now);
                    return Ok(());
                }
                Begun::Full => return Err(Fault::Busy),
            }
        }
        let connected = self.connect(net, now, at);
        connected.inspect_err(|_| self.give_place_back(at))
    }

    /// Gives a connection to a transfer that has a place: an existing connection with room, or a new one.
    fn connect(&mut self, net: &N, now: Nanos, at: usize) -> Result<(), Fault> {
        let (peer, announced) = (self.transfers[at].peer, self.transfers[at].client.announced);
        if self.peers[peer].endpoint.is_http2() {
            let connection = self.peers.shared(net, now, &self.transfers[at], &mut self.connections)?;
            let multiplexed = self.connections.multiplexed(connection).expect("it speaks HTTP/2");
            multiplexed.carry(at, now);
            self.transfers[at].connect(connection, multiplexed.has_begun(), now);
            return Ok(());
        }
        let (connection, is_idle) = match self.take_idle(net, now, at) {
            Some(connection) => (connection, true),
            None => (self.peers.open(net, now, peer, announced, &mut self.connections)?, false),
        };
        let own = self.connections.get_mut(connection).expect("it is kept, or was opened");
        own.take(at, is_idle);
        let transfer = &mut self.transfers[at];
        if let Some(scripts) = &transfer.group.scripts {
            let is_head = transfer.inbound.method == Method::Head;
            own.decode((scripts.keeps_connections, is_head), transfer.account());
        }
        transfer.connect(connection, is_idle, now);
        if transfer.client.logs_in {
            self.connections.bind(connection, transfer.exchange.token());
        }
        Ok(())
    }

    /// Returns an idle HTTP/1.1 connection for a transfer. Closes idle connections that are too old or have received
    /// bytes.
    fn take_idle(&mut self, net: &N, now: Nanos, at: usize) -> Option<usize> {
        let is_repeatable = self.transfers[at].outbound.is_repeatable;
        while let Some(connection) = self.peers.take_idle(&self.transfers[at], &self.connections) {
            if self.connections.is_usable(net, now, connection, is_repeatable) {
                return Some(connection);
            }
            self.connections.close(net, connection);
        }
        None
    }

    /// Handles an event of a connection and returns the transfer that continues. If several continue,
    /// [`Upstreams::release`] returns them.
    pub fn on_ready(&mut self, net: &N, now: Nanos, connection: usize, flags: EventFlags) -> Option<usize> {
        match self.connections.on_ready(now, connection, flags) {
            Told::Nothing => {}
            Told::GoesOn(transfer) => return Some(transfer),
            Told::Several => self.stir(connection),
            Told::Over => self.peers.close(net, connection, &mut self.connections),
        }
        None
    }

    /// Records an event of a connection with several transfers.
    fn stir(&mut self, connection: usize) {
        let transfers = &self.transfers;
        let stirred = self.connections.stirred(connection, |at| transfers[at].outbound.has_unsent());
        self.stirred.extend(stirred.into_iter().map(|at| transfers[at].exchange));
    }

    /// Returns the transfer for an exchange, if one exists.
    pub fn of(&self, exchange: ExchangeId) -> Option<usize> {
        // Most servers have no transfers.
        if self.by_exchange.is_empty() { None } else { self.by_exchange.get(&exchange).copied() }
    }

    pub fn get(&mut self, at: usize) -> Option<&mut Transfer> {
        self.transfers.get_mut(at)
    }

    pub fn transfer(&self, at: usize) -> Option<&Transfer> {
        self.transfers.get(at)
    }

    /// Continues a transfer until a head has arrived, or it has to wait.
    pub fn step(&mut self, net: &N, now: Nanos, at: usize) -> TransferStep {
        if self.transfers.get(at).is_some_and(Transfer::is_too_large) {
            return TransferStep::Failed(Fault::TooLarge);
        }
        if let Some(fault) = self.begin_gathered(net, now, at) {
            return TransferStep::Failed(fault);
        }
        let Some(transfer) = self.transfers.get_mut(at) else { return TransferStep::Wait };
        let fault = match self.connections.step(transfer, at, now) {
            Ok(Some(head)) if head.is_interim() => return TransferStep::Interim(head),
            Ok(Some(head)) => {
                self.peers[transfer.peer].on_reached();
                let of_stream = self.peers[transfer.peer].endpoint.is_http2();
                if !of_stream && is_connection_login(head.values("www-authenticate")) {
                    transfer
                        .connection
                        .into_iter()
                        .for_each(|own| self.connections.bind(own, transfer.exchange.token()));
                }
                let is_tunnel = head.framing == Framing::Upgraded;
                let has_place = !is_tunnel || self.begin_tunnel(at);
                return if has_place { TransferStep::Head(head) } else { TransferStep::Failed(Fault::Tunnels) };
            }
            Ok(None) => return TransferStep::Wait,
            Err(fault) => fault,
        };
        let repeated = match fault {
            Fault::NoTunnels => self.tunnel_over_http1(net, now, at),
            fault => self.repeat(net, now, at, fault),
        };
        match repeated {
            Ok(()) => self.step(net, now, at),
            Err(fault) => TransferStep::Failed(fault),
        }
    }

    /// Begins a transfer if enough of its request has arrived. Returns the fault if it cannot begin.
    fn begin_gathered(&mut self, net: &N, now: Nanos, at: usize) -> Option<Fault> {
        let transfer = self.transfers.get_mut(at)?;
        if transfer.is_gathering() {
            return None;
        }
        let is_new = transfer.queued.hold == Hold::Nothing && transfer.connection.is_none();
        if !is_new {
            return None;
        }
        let begun = self.begin_somewhere(net, now, at);
        self.or_looked_up(net, now, at, begun).err()
    }

    /// Begins a change of protocol: the transfer takes a place for tunnels and returns the place of its request.
    /// Returns false if no place for tunnels is free.
    fn begin_tunnel(&mut self, at: usize) -> bool {
        let transfer = &self.transfers[at];
        let (client, tunnels_max) = (transfer.queued.turn.client, transfer.group.tunnels_max);
        let has_place = self.peers[transfer.peer].places.begin_tunnel(client, tunnels_max);
        if has_place {
            self.give_place_back(at);
            self.transfers[at].queued.hold = Hold::Tunnel;
        }
        has_place
    }

    /// Takes the connection from a transfer, and keeps the connection if it can be reused.
    fn disconnect(&mut self, net: &N, now: Nanos, at: usize, is_whole: bool) {
        let transfer = &mut self.transfers[at];
        let is_kept = self.connections.leave(net, transfer, at, now, is_whole);
        let Some(connection) = transfer.connection.take() else { return };
        let peer = transfer.peer;
        if !is_kept {
            return self.peers.close(net, connection, &mut self.connections);
        }
        if self.peers[peer].endpoint.is_http2() {
            return self.stir(connection);
        }
        if let Some(oldest) = self.peers[peer].keep(connection) {
            self.connections.close(net, oldest);
        }
    }

    /// Continues with a response's body.
    pub fn read_body(&mut self, now: Nanos, at: usize, sink: &mut impl BodySink) -> TransferStep {
        let Some(transfer) = self.transfers.get_mut(at).filter(|transfer| transfer.is_answered()) else {
            return TransferStep::Wait;
        };
        let was_held = transfer.is_held();
        let step = self.connections.read_body(transfer, at, now, sink);
        self.peers[transfer.peer].places.on_held(was_held, transfer.is_held());
        step
    }

    /// Assigns the response to a route when its head has arrived. The route learns the response's size.
    pub fn on_head(&mut self, at: usize, request: &Request, head: &UpstreamHead) {
        let Some(transfer) = self.transfers.get_mut(at) else { return };
        let value = |name| head.values(name).next().unwrap_or_default();
        let (content_type, coding) = (value("content-type"), value("content-encoding"));
        let route = Route { status: head.status.0, content_type, coding, ..transfer.group.route(request) };
        transfer.route = Some(match transfer.queued.route {
            Some(asked) => self.learned.routes.enter_answer(asked, &route),
            None => self.learned.routes.enter(&route),
        });
    }

    /// Ends a transfer. Its connection is kept if the response is complete, and closed if a part of the response may
    /// still arrive outside a stream. Returns the quantile of the size of a complete response.
    pub fn end(&mut self, net: &N, now: Nanos, at: usize, is_whole: bool) -> Option<f64> {
        let transfer = self.transfers.get(at)?;
        self.by_exchange.remove(&transfer.exchange);
        if transfer.is_held() {
            self.peers[transfer.peer].places.on_held(true, false);
        }
        let quantile = self.learned.note(transfer, now, is_whole);
        if let Some(said) = transfer.connection.and_then(|own| self.connections.take_said(own)) {
            self.said.push((self.name(at), said));
        }
        if self.transfers[at].connection.is_some() {
            self.disconnect(net, now, at, is_whole);
        }
        self.give_place_back(at);
        self.transfers.remove(at);
        quantile
    }

    /// Returns text that a FastCGI program wrote to its error stream, with the name of its upstream.
    pub fn take_said(&mut self) -> Option<(Arc<str>, String)> {
        self.said.pop()
    }

    /// Returns the place that a transfer holds at its upstream, or its place in the queue, to the upstream.
    fn give_place_back(&mut self, at: usize) {
        let transfer = &mut self.transfers[at];
        let (peer, client) = (transfer.peer, transfer.queued.turn.client);
        match std::mem::take(&mut transfer.queued.hold) {
            Hold::Nothing => {}
            Hold::Names => drop(self.lookups.remove(transfer.exchange)),
            Hold::Waits(ticket) => self.peers[peer].places.leave(client, ticket),
            Hold::Place => self.peers.end(peer, client),
            Hold::Tunnel => self.peers[peer].places.end_tunnel(client),
        }
    }

    /// Begins transfers that waited. Returns one that began, failed to begin, or may continue.
    pub fn release(&mut self, net: &N, now: Nanos) -> Option<(usize, Result<(), Fault>)> {
        while let Some(exchange) = self.stirred.pop() {
            if let Some(at) = self.of(exchange).filter(|at| self.transfers[*at].connection.is_some()) {
                return Some((at, Ok(())));
            }
        }
        while let Some(handed) = self.peers.next_handed() {
            let is_of = |at: &usize| self.transfers[*at].queued.hold == Hold::Waits(handed.ticket);
            match self.of(handed.exchange).filter(is_of) {
                Some(at) => {
                    self.transfers[at].queued.hold = Hold::Place;
                    let begun = self.begin_at(net, now, at);
                    let begun = self.or_elsewhere(net, now, at, begun);
                    return Some((at, self.or_looked_up(net, now, at, begun)));
                }
                // The client has left.
                None => self.peers.give_back(&handed),
            }
        }
        self.next_looked_up(net, now)
    }

    /// Closes the connections to upstreams that served only this client connection, which has ended.
    pub fn forget_client(&mut self, net: &N, client: u64) {
        let bound: Vec<usize> = self.connections.bound_to(client).collect();
        bound.into_iter().for_each(|connection| self.peers.close(net, connection, &mut self.connections));
    }

    /// Returns the transfers whose upstream has exceeded the deadline. Closes idle connections that are too old.
    pub fn late(&mut self, net: &N, now: Nanos) -> Vec<usize> {
        let old: Vec<usize> = self.connections.iter().filter(|(_, own)| own.is_old(now)).map(|(at, _)| at).collect();
        old.into_iter().for_each(|connection| self.peers.close(net, connection, &mut self.connections));
        let is_wanted = |peer| self.transfers.iter().any(|(_, transfer)| transfer.peer == peer);
        self.peers.forget_unused(now, is_wanted);
        self.transfers.iter().filter(|(_, transfer)| transfer.deadline.is_over(now)).map(|(at, _)| at).collect()
    }

    /// Returns true if there are connections, including idle ones, whose deadlines must be watched.
    pub fn has_connections(&self) -> bool {
        self.connections.iter().next().is_some()
    }

    /// The name of a transfer's upstream, for the log. Before one is chosen, the first name of its group.
    pub fn name(&self, at: usize) -> Arc<str> {
        let transfer = &self.transfers[at];
        match self.peers.get(transfer.peer) {
            Some(peer) => Arc::clone(&peer.name),
            None => transfer.group.addresses.names().next().map_or("none".into(), |name| name.to_string().into()),
        }
    }
}

/// An upstream of a site, as shown to an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamStatus {
    pub name: String,
    /// True if the last health checks and connections did not fail.
    pub is_healthy: bool,
    /// The number of requests of all event loops, in progress or waiting for a place.
    pub requests: usize,
}

/// The upstreams of the given groups, each once, in the order of their names.
pub fn status<'g, N: Net>(
    upstreams: &Upstreams<N>,
    now: Nanos,
    groups: impl Iterator<Item = &'g Arc<Group>>,
) -> Vec<UpstreamStatus> {
    let status = |endpoint: &Endpoint| {
        let (is_unreachable, requests) = upstreams.peers.load(endpoint, now);
        let is_healthy = !is_unreachable && !upstreams.checks.is_down(endpoint);
        (endpoint.to_string(), UpstreamStatus { name: endpoint.to_string(), is_healthy, requests })
    };
    let endpoints: Vec<Arc<[Endpoint]>> = groups.map(|group| group.endpoints()).collect();
    let by_name: BTreeMap<String, UpstreamStatus> = endpoints.iter().flat_map(|all| all.iter()).map(status).collect();
    by_name.into_values().collect()
}

/// The exchanges whose response has not begun, each with the time at which it began to wait.
pub fn unanswered<N: Net>(upstreams: &Upstreams<N>) -> impl Iterator<Item = (ExchangeId, Nanos)> {
    let waiting = upstreams.transfers.iter().filter(|(_, transfer)| !transfer.is_sending && !transfer.is_probe());
    waiting.map(|(_, transfer)| (transfer.exchange, transfer.queued.turn.since))
}

#[cfg(test)]
impl<N: Net> Upstreams<N> {
    /// The bytes of memory of the transfer for an exchange.
    pub fn alive_bytes(&self, exchange: ExchangeId) -> usize {
        self.of(exchange).map_or(0, |at| {
            let transfer = &self.transfers[at];
            transfer.alive_bytes() + self.connections.alive_bytes(transfer, at)
        })
    }

    /// The number of transfers in progress or waiting, without health checks, which belong to no exchange.
    pub fn transfers(&self) -> usize {
        debug_assert_eq!(self.transfers.len(), self.by_exchange.len(), "each is one exchange's");
        self.transfers.len() - self.probes()
    }

    fn probes(&self) -> usize {
        self.transfers.iter().filter(|(_, transfer)| transfer.is_probe()).count()
    }

    /// The number of requests according to the places at the upstreams.
    pub fn requests(&self) -> usize {
        self.peers.iter().map(|peer| peer.load(Nanos::ZERO).1).sum()
    }

    pub fn connections_in_use(&self) -> usize {
        self.connections.iter().count() - self.idle_connections() - self.probes()
    }

    pub fn idle_connections(&self) -> usize {
        self.connections.iter().filter(|(_, connection)| connection.is_idle()).count()
    }
}
