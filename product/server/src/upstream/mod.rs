//! Requests that other servers answer: connections to upstreams over HTTP/1.1, and what goes through them.
//!
//! A [`Transfer`] is a request and its response. It has a connection of its own, an idle one or a new one, or waits for its turn where as many
//! are under way as its [`Group`] allows. The worker lends the clock, the sockets' readiness and the response's body ([`BodySink`]).

mod fault;
mod group;
mod held;
mod named;
mod outbound;
mod peer;
mod sink;
#[cfg(test)]
mod tests;
mod transfer;
mod wire;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use rustix::event::epoll::EventFlags;
use sched::routes::{Curve, Route, Routes, ServiceTimes};
use sched::waiting::Turn;
use slab::Slab;
use tls::ClientSession;
use units::Nanos;

pub use fault::Fault;
pub use group::{Endpoint, Group, GroupError, TlsEndpoint, Trust};
pub use named::NamedFiles;
use peer::{IDLE_FOR, Peer};
pub use sink::{BodySink, pipe_of};
use transfer::Queued;
pub use transfer::{Step, Times, Transfer};

use crate::net::{Net, Source};
use wire::{Readiness, Received, Wire};

/// Tokens of connections to upstreams lie above those of clients, and below the worker's own.
const TOKENS: u64 = (u32::MAX as u64) << 32;
/// Bytes read from a socket at once.
const READ_BYTES: usize = 64 << 10;
/// An upstream may hold the first bytes of a body back until its head is acknowledged (Nagle's algorithm, RFC 9293 section 3.7.4), as it
/// does where it writes them one after the other; behind a whole segment it does not.
const HELD_BACK_BYTES_MAX: u64 = 1460;
/// Connections to upstreams of one worker.
const CONNECTIONS_MAX: usize = 1 << 20;

pub struct Upstreams<N: Net> {
    transfers: Slab<Transfer>,
    /// By the exchange that they are for.
    by_owner: HashMap<u64, usize>,
    connections: Slab<Connection<N>>,
    peers: Slab<Peer>,
    by_endpoint: HashMap<Endpoint, usize>,
    /// Sizes of responses that have come.
    routes: Routes,
    /// How long requests took.
    services: ServiceTimes,
    /// Owners of transfers that may begin, since others have ended.
    released: Vec<u64>,
    /// What a socket has received; nothing before it is needed.
    scratch: Box<[u8]>,
}

struct Connection<N: Net> {
    socket: N::Tcp,
    /// Where the upstream speaks it.
    tls: Option<Box<ClientSession>>,
    peer: usize,
    /// `None` where it waits for a request.
    transfer: Option<usize>,
    /// A response was read from it before.
    was_idle: bool,
    idle_since: Nanos,
    ready: Readiness,
}

fn wire<N: Net>(own: &mut Connection<N>) -> Wire<'_, N::Tcp> {
    Wire::new(&own.socket, &mut own.ready, own.tls.as_deref_mut())
}

/// The connection of this token, where it is one to an upstream.
pub fn connection_of(token: u64) -> Option<usize> {
    let at = (token & u64::from(u32::MAX)) as usize;
    (token >= TOKENS && at < CONNECTIONS_MAX).then_some(at)
}

impl<N: Net> Default for Upstreams<N> {
    fn default() -> Upstreams<N> {
        Upstreams {
            transfers: Slab::new(),
            by_owner: HashMap::new(),
            connections: Slab::new(),
            peers: Slab::new(),
            by_endpoint: HashMap::new(),
            routes: Routes::new(),
            services: ServiceTimes::default(),
            released: Vec::new(),
            scratch: Box::default(),
        }
    }
}

impl<N: Net> Upstreams<N> {
    /// Begins a transfer, or has it wait.
    pub fn begin(&mut self, net: &N, now: Nanos, mut transfer: Transfer) -> Result<usize, (Fault, String)> {
        transfer.queued.turn.since = now;
        if self.scratch.is_empty() {
            self.scratch = vec![0; READ_BYTES].into();
        }
        let owner = transfer.owner;
        let at = self.transfers.insert(transfer);
        self.by_owner.insert(owner, at);
        self.begin_somewhere(net, now, at).map(|()| at).map_err(|fault| {
            let name = self.name(at);
            self.transfers.remove(at);
            self.by_owner.remove(&owner);
            (fault, name)
        })
    }

    /// At one upstream after the other, as long as they refuse at once.
    fn begin_somewhere(&mut self, net: &N, now: Nanos, at: usize) -> Result<(), Fault> {
        let group = Arc::clone(&self.transfers[at].group);
        let mut begun = Err(Fault::Busy);
        for _ in 0..group.endpoints.len() {
            self.transfers[at].peer = self.choose(&group, now);
            begun = self.begin_at(net, now, at);
            if !matches!(begun, Err(Fault::Unreachable(_))) {
                break;
            }
        }
        begun
    }

    /// The upstream with the fewest requests, those that cannot be reached last.
    fn choose(&mut self, group: &Group, now: Nanos) -> usize {
        let peers: Vec<usize> = group.endpoints.iter().map(|endpoint| self.peer(endpoint)).collect();
        peers.into_iter().min_by_key(|at| self.peers[*at].load(now)).expect("a group has an upstream")
    }

    fn peer(&mut self, endpoint: &Endpoint) -> usize {
        if let Some(at) = self.by_endpoint.get(endpoint) {
            return *at;
        }
        let at = self.peers.insert(Peer::new(endpoint.clone()));
        self.by_endpoint.insert(endpoint.clone(), at);
        at
    }

    fn begin_at(&mut self, net: &N, now: Nanos, at: usize) -> Result<(), Fault> {
        let (peer, group) = (self.transfers[at].peer, &self.transfers[at].group);
        let (requests_max, waits_for) = (group.requests_max, group.read_timeout);
        if self.peers[peer].begin(requests_max) {
            let connected = self.connect(net, now, at);
            return connected.inspect_err(|_| self.end_under_way(peer));
        }
        let Queued { turn, route } = &self.transfers[at].queued;
        let service = route.map_or(Nanos::ZERO, |route| self.services.expected(route));
        let waits = self.peers[peer].wait(Turn { service, ..*turn }, at);
        self.transfers[at].deadline = now + waits_for;
        if waits { Ok(()) } else { Err(Fault::Busy) }
    }

    /// Gives a transfer that is under way a connection: an idle one, or a new one.
    fn connect(&mut self, net: &N, now: Nanos, at: usize) -> Result<(), Fault> {
        let peer = self.transfers[at].peer;
        while let Some(connection) = self.peers[peer].take_idle() {
            let own = &mut self.connections[connection];
            if now - own.idle_since < IDLE_FOR {
                own.transfer = Some(at);
                own.ready.is_writable = true;
                self.transfers[at].connect(connection, true, now);
                return Ok(());
            }
            self.drop_connection(net, connection);
        }
        let opened = self.open(net, peer).map_err(Fault::Unreachable);
        let connection = opened.inspect_err(|_| self.peers[peer].on_unreachable(now))?;
        self.connections[connection].transfer = Some(at);
        self.transfers[at].connect(connection, false, now);
        Ok(())
    }

    fn open(&mut self, net: &N, peer: usize) -> io::Result<usize> {
        let tls = self.peers[peer].endpoint.session()?;
        let socket = net.connect(&self.peers[peer].endpoint)?;
        let entry = self.connections.vacant_entry();
        let at = entry.key();
        if at >= CONNECTIONS_MAX {
            return Err(io::Error::other("too many connections to upstreams"));
        }
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        net.add(Source::Tcp(&socket), TOKENS | at as u64, flags)?;
        let (ready, idle_since) = (Readiness::default(), Nanos::ZERO);
        let (transfer, was_idle) = (None, false);
        entry.insert(Connection { socket, tls, peer, transfer, was_idle, idle_since, ready });
        Ok(at)
    }

    fn drop_connection(&mut self, net: &N, at: usize) {
        let mut connection = self.connections.remove(at);
        wire(&mut connection).end();
        let _ = net.remove(Source::Tcp(&connection.socket));
    }

    /// The kernel has something to tell of a connection; gives the transfer that goes on.
    pub fn on_ready(&mut self, net: &N, at: usize, flags: EventFlags) -> Option<usize> {
        let connection = self.connections.get_mut(at)?;
        let is_broken = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        let has_come = is_broken || flags.intersects(EventFlags::IN | EventFlags::RDHUP);
        connection.ready.is_readable |= has_come;
        connection.ready.is_writable |= is_broken || flags.contains(EventFlags::OUT);
        connection.ready.has_ended |= is_broken || flags.contains(EventFlags::RDHUP);
        if connection.transfer.is_none()
            && has_come
            && wire(connection).receive(&mut [0]).is_ok_and(|come| come == Received::Nothing)
        {
            // Tickets of TLS for later connections.
            return None;
        }
        if connection.transfer.is_none() && has_come {
            // It ended, or said something that nobody had asked for.
            let peer = connection.peer;
            self.peers[peer].forget(at);
            self.drop_connection(net, at);
            return None;
        }
        connection.transfer
    }

    /// The transfer for an exchange, as long as something is to come.
    pub fn of(&self, owner: u64) -> Option<usize> {
        // Most servers have none.
        if self.by_owner.is_empty() { None } else { self.by_owner.get(&owner).copied() }
    }

    pub fn get(&mut self, at: usize) -> Option<&mut Transfer> {
        self.transfers.get_mut(at)
    }

    /// Goes on with a transfer until its head has come, or it has to wait.
    pub fn step(&mut self, net: &N, now: Nanos, at: usize) -> Step {
        let Some(transfer) = self.transfers.get_mut(at) else { return Step::Wait };
        let Some(own) = transfer.connection.and_then(|own| self.connections.get_mut(own)) else { return Step::Wait };
        let mut wire = wire(own);
        let sent = wire.go_on().and_then(|()| transfer.send(&mut wire, now));
        if transfer.is_answered() {
            return Step::Wait;
        }
        let fault = match sent.and_then(|()| transfer.read_head(&mut wire, &mut self.scratch, now)) {
            Ok(Some(head)) => {
                self.peers[own.peer].on_reached();
                return Step::Head(head);
            }
            Ok(None) => return Step::Wait,
            Err(fault) => fault,
        };
        match self.repeat(net, now, at, fault) {
            Ok(()) => self.step(net, now, at),
            Err(fault) => Step::Failed(fault),
        }
    }

    /// Over another connection, where that does no harm.
    fn repeat(&mut self, net: &N, now: Nanos, at: usize, fault: Fault) -> Result<(), Fault> {
        let transfer = &mut self.transfers[at];
        let own = transfer.connection.expect("it was under way");
        let (was_idle, peer) = (self.connections[own].was_idle, self.connections[own].peer);
        if matches!(fault, Fault::Unreachable(_) | Fault::Tls(_)) && !was_idle {
            self.peers[peer].on_unreachable(now);
        }
        if !transfer.may_repeat(&fault, was_idle) {
            return Err(fault);
        }
        transfer.connection = None;
        self.drop_connection(net, own);
        let group = self.transfers[at].group.clone();
        let next = self.choose(&group, now);
        if next != peer {
            self.end_under_way(peer);
            self.transfers[at].peer = next;
            return self.begin_at(net, now, at);
        }
        // The same once more only where the connection was an old one.
        let connected = if was_idle { self.connect(net, now, at) } else { Err(fault) };
        connected.inspect_err(|_| self.end_under_way(peer))
    }

    /// Goes on with a response's body.
    pub fn read_body(&mut self, now: Nanos, at: usize, sink: &mut impl BodySink) -> Step {
        let Some(transfer) = self.transfers.get_mut(at).filter(|transfer| transfer.is_answered()) else {
            return Step::Wait;
        };
        let Some(own) = transfer.connection.and_then(|own| self.connections.get_mut(own)) else { return Step::Wait };
        let was_held = transfer.is_held();
        let step = transfer.read_body(sink, &mut wire(own), &mut self.scratch, now);
        self.peers[transfer.peer].on_held(was_held, transfer.is_held());
        if matches!(step, Step::Wait) && transfer.body_bytes() < HELD_BACK_BYTES_MAX {
            wire(own).acknowledge();
        }
        step
    }

    /// The head of a response has come, which is of this route.
    pub fn on_route(&mut self, at: usize, route: &Route) {
        if let Some(transfer) = self.transfers.get_mut(at) {
            transfer.route = Some(self.routes.enter(route));
        }
    }

    /// What the sizes of like responses say of one whose size is not known.
    pub fn curve(&mut self, at: usize) -> Option<Arc<Curve>> {
        self.routes.curve(self.transfers.get(at)?.route?)
    }

    /// Ends a transfer: its connection is kept where the response is whole, and closed where anything is left of it.
    pub fn end(&mut self, net: &N, now: Nanos, at: usize, is_whole: bool) {
        let Some(transfer) = self.transfers.try_remove(at) else { return };
        self.by_owner.remove(&transfer.owner);
        if transfer.is_held() {
            self.peers[transfer.peer].on_held(true, false);
        }
        match transfer.route {
            Some(route) if is_whole => drop(self.routes.note(route, transfer.body_bytes())),
            Some(route) => self.routes.note_censored(route, transfer.body_bytes()),
            None => {}
        }
        if let Some((route, took)) = transfer.service(now).filter(|_| is_whole) {
            self.services.note(route, took);
        }
        let Some(own) = transfer.connection else {
            return self.peers[transfer.peer].leave(at);
        };
        self.end_under_way(transfer.peer);
        let connection = &mut self.connections[own];
        let is_used_up = connection.ready.has_ended || connection.tls.as_ref().is_some_and(|tls| tls.has_plain());
        if !is_whole || is_used_up || !transfer.keeps_connection() {
            return self.drop_connection(net, own);
        }
        (connection.transfer, connection.was_idle, connection.idle_since) = (None, true, now);
        if let Some(oldest) = self.peers[transfer.peer].keep(own) {
            self.drop_connection(net, oldest);
        }
    }

    fn end_under_way(&mut self, peer: usize) {
        let next = self.peers[peer].end();
        self.released.extend(next.map(|at| self.transfers[at].owner));
    }

    /// Begins those that waited; gives one that began, or failed to.
    pub fn release(&mut self, net: &N, now: Nanos) -> Option<(usize, Result<(), Fault>)> {
        while let Some(owner) = self.released.pop() {
            // Its client may have left.
            if let Some(at) = self.of(owner) {
                return Some((at, self.begin_at(net, now, at)));
            }
        }
        None
    }

    /// Those whose upstream has let them wait too long. Idle connections past their time are closed.
    pub fn late(&mut self, net: &N, now: Nanos) -> Vec<usize> {
        let is_old = |own: &Connection<N>| own.transfer.is_none() && now - own.idle_since >= IDLE_FOR;
        let old: Vec<usize> = self.connections.iter().filter(|(_, own)| is_old(own)).map(|(at, _)| at).collect();
        for at in old {
            self.peers[self.connections[at].peer].forget(at);
            self.drop_connection(net, at);
        }
        let unused: Vec<usize> = self.peers.iter().filter(|(_, peer)| peer.is_unused(now)).map(|(at, _)| at).collect();
        let is_wanted: Vec<usize> = self.transfers.iter().map(|(_, transfer)| transfer.peer).collect();
        for at in unused.into_iter().filter(|at| !is_wanted.contains(at)) {
            let peer = self.peers.remove(at);
            self.by_endpoint.remove(&peer.endpoint);
        }
        self.transfers.iter().filter(|(_, transfer)| now >= transfer.deadline).map(|(at, _)| at).collect()
    }

    /// Memory of a transfer.
    pub fn memory_bytes(&self, at: usize) -> usize {
        self.transfers.get(at).map_or(0, Transfer::memory_bytes)
    }

    /// The upstream of a transfer, for the log.
    pub fn name(&self, at: usize) -> String {
        self.peers[self.transfers[at].peer].endpoint.to_string()
    }

    /// Every deadline is so much later.
    pub fn excuse(&mut self, paused: Nanos) {
        for (_, transfer) in &mut self.transfers {
            transfer.excuse(paused);
        }
    }
}

#[cfg(test)]
impl<N: Net> Upstreams<N> {
    /// Under way, or waiting.
    pub fn transfers(&self) -> usize {
        debug_assert_eq!(self.transfers.len(), self.by_owner.len(), "each is one exchange's");
        self.transfers.len()
    }

    /// As upstreams count them.
    pub fn requests(&self) -> usize {
        self.peers.iter().map(|(_, peer)| peer.load(Nanos::ZERO).1).sum()
    }

    pub fn connections_in_use(&self) -> usize {
        self.connections.len() - self.idle_connections()
    }

    pub fn idle_connections(&self) -> usize {
        self.connections.iter().filter(|(_, connection)| connection.transfer.is_none()).count()
    }
}
