//! Connections to upstreams, with the transfers on each.

use std::collections::BTreeSet;
use std::io;

use http::fastcgi::Decoder;
use http::http1::upstream::{ResponseLimits, UpstreamHead};
use rustix::event::epoll::EventFlags;
use slab::Slab;
use tls::ClientSession;
use units::Nanos;
use units::memory::Account;

use super::TransferStep;
use super::endpoint::TOKENS;
use super::fastcgi::Inflow;
use super::multiplexed::Multiplexed;
use super::on_connection::OnConnection;
use super::response::IDLE_FOR;
use super::transfer::Transfer;
use super::wire::{Readiness, Received, Wire};
use super::{Announced, BodySink, Endpoint, Fault};
use crate::net::{Net, Source};

/// The maximum number of bytes read from a socket in one system call.
const READ_BYTES: usize = 64 << 10;
/// The maximum number of connections to upstreams of one worker.
const CONNECTIONS_MAX: usize = 1 << 20;

/// Returns the slot of the connection with this token, if it is a token of a connection to an upstream.
pub fn connection_of(token: u64) -> Option<usize> {
    let at = (token & u64::from(u32::MAX)) as usize;
    (token >= TOKENS && at < CONNECTIONS_MAX).then_some(at)
}

pub struct UpstreamConnection<N: Net> {
    socket: N::Tcp,
    /// The TLS session, if the upstream speaks TLS.
    tls: Option<Box<ClientSession>>,
    /// The announcement at the beginning of the connection. `preface` is the part of it that was not sent yet.
    pub announced: Announced,
    preface: Vec<u8>,
    pub peer: usize,
    /// The client connection to which this connection is bound, if any: it serves no other.
    bound_to: Option<u64>,
    /// The time from which the upstream may close the connection, because it has waited too long for a request.
    idle_until: Nanos,
    /// The number of readiness reports ([`Net::reports`]) at the time when the connection began to wait for a request.
    idle_since: u64,
    ready: Readiness,
    limits: ResponseLimits,
    load: Load,
    /// The bytes that have arrived, if the upstream speaks FastCGI.
    inflow: Option<Box<Inflow>>,
}

/// The transfers on a connection.
pub enum Load {
    /// HTTP/1.1: the transfer, or `None` while the connection waits for a request.
    Single(Option<usize>),
    /// HTTP/2: several transfers.
    Several(Box<Multiplexed>),
}

/// The meaning of an event for a connection.
pub enum Told {
    /// The event does not concern a transfer.
    Nothing,
    /// The transfer with this number continues.
    GoesOn(usize),
    /// Several transfers of the connection may be able to continue.
    Several,
    /// The connection cannot be used any more.
    Over,
}

/// All connections to upstreams of a worker.
pub struct UpstreamConnections<N: Net> {
    all: Slab<UpstreamConnection<N>>,
    /// The connections bound to one client connection, with the client connection first.
    bound: BTreeSet<(u64, usize)>,
    buffers: Buffers,
    /// The limits of new connections.
    pub limits: ResponseLimits,
}

/// Buffers for received bytes, without state between uses. Allocated on first use, because most servers have no
/// upstream.
#[derive(Default)]
struct Buffers {
    /// Bytes received from a socket.
    received: Box<[u8]>,
    /// Bytes read from a stream.
    read: Vec<u8>,
}

impl<N: Net> UpstreamConnection<N> {
    fn parts(&mut self) -> (Wire<'_, N::Tcp>, &mut Load) {
        let wire = Wire::new(&self.socket, &mut self.ready, self.tls.as_deref_mut());
        (wire.behind(&mut self.preface).decoding(self.inflow.as_deref_mut()), &mut self.load)
    }

    fn wire(&mut self) -> Wire<'_, N::Tcp> {
        self.parts().0
    }

    pub fn is_idle(&self) -> bool {
        match &self.load {
            Load::Single(transfer) => transfer.is_none(),
            Load::Several(several) => several.is_idle(),
        }
    }

    fn is_multiplexed(&self) -> bool {
        matches!(self.load, Load::Several(_))
    }

    /// Returns true if the connection has waited so long for a request that the upstream may close it.
    pub fn is_old(&self, now: Nanos) -> bool {
        self.is_idle() && now >= self.idle_until
    }

    /// Returns true if nothing has arrived on the connection while it waited for a request, not even its end. Such
    /// bytes would be taken for the response to the next request. The socket is read only if no readiness report covers
    /// the time of waiting, or for a request that would be lost if the upstream had closed the connection meanwhile.
    fn is_quiet(&mut self, net: &N, token: u64, is_repeatable: bool) -> bool {
        let is_reported = net.reports() > self.idle_since && !net.is_left(token);
        let mut wire = self.wire();
        if !is_reported || !is_repeatable {
            wire.look();
        }
        wire.receive(&mut [0]).is_ok_and(|come| come == Received::Nothing)
    }

    /// Returns true if this is an HTTP/2 connection, and it is established.
    pub fn has_begun(&self) -> bool {
        matches!(&self.load, Load::Several(several) if several.has_begun())
    }

    /// Assigns an HTTP/1.1 connection to this transfer. An idle connection counts as writable.
    pub fn take(&mut self, transfer: usize, is_idle: bool) {
        self.load = Load::Single(Some(transfer));
        self.ready.is_writable |= is_idle;
    }

    /// Decodes the next response as FastCGI, and counts its memory in `account`.
    pub fn decode(&mut self, (keeps_connection, is_head): (bool, bool), account: &Account) {
        let head_bytes_max = self.limits.head.head_bytes_max;
        let decoder = Decoder::new(head_bytes_max, keeps_connection);
        let decoder = if is_head { decoder.of_head() } else { decoder };
        self.inflow = Some(Box::new(Inflow::new(decoder, account)));
    }

    /// Handles an event of the connection.
    fn on_ready(&mut self, scratch: &mut [u8], now: Nanos, flags: EventFlags) -> Told {
        let is_broken = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        let has_come = is_broken || flags.intersects(EventFlags::IN | EventFlags::RDHUP);
        self.ready.is_readable |= has_come;
        self.ready.is_writable |= is_broken || flags.contains(EventFlags::OUT);
        self.ready.has_ended |= is_broken || flags.contains(EventFlags::RDHUP);
        let (mut wire, load) = self.parts();
        match load {
            Load::Single(transfer) => match transfer {
                Some(transfer) => Told::GoesOn(*transfer),
                None if !has_come => Told::Nothing,
                // TLS tickets for later connections may arrive.
                None if wire.receive(&mut [0]).is_ok_and(|come| come == Received::Nothing) => Told::Nothing,
                // The connection has ended, or the upstream sent something unrequested.
                None => Told::Over,
            },
            Load::Several(several) => {
                several.on_ready(&mut wire, scratch, now);
                if several.is_idle() && several.is_used_up() { Told::Over } else { Told::Several }
            }
        }
    }

    /// Continues a transfer until its head has arrived, or the transfer has to wait.
    fn step(
        &mut self,
        transfer: &mut Transfer,
        number: usize,
        scratch: &mut [u8],
        now: Nanos,
    ) -> Result<Option<UpstreamHead>, Fault> {
        let limits = self.limits;
        let (mut wire, load) = self.parts();
        if let Load::Several(several) = load {
            return several.step(&mut wire, transfer, number, now);
        }
        let mut alone = OnConnection { wire, scratch, limits };
        let sent = alone.wire.go_on().and_then(|()| alone.send(transfer, now));
        if transfer.is_answered() {
            return Ok(None);
        }
        sent.and_then(|()| alone.read_head(transfer, now))
    }

    /// Continues with the body of a response.
    fn read_body(
        &mut self,
        transfer: &mut Transfer,
        number: usize,
        buffers: &mut Buffers,
        now: Nanos,
        sink: &mut impl BodySink,
    ) -> TransferStep {
        let limits = self.limits;
        let (mut wire, load) = self.parts();
        let Load::Several(several) = load else {
            return OnConnection { wire, scratch: &mut buffers.received, limits }.read_body(transfer, sink, now);
        };
        let Some(mut on_stream) = several.stream_of(number) else { return TransferStep::Failed(Fault::Closed) };
        let step = on_stream.read_body(transfer, sink, &mut buffers.read, now);
        several.open_windows(&mut wire);
        match (step, several.fault()) {
            (TransferStep::Wait, Some(fault)) if !transfer.is_held() => TransferStep::Failed(fault),
            (step, _) => step,
        }
    }
}

impl<N: Net> Default for UpstreamConnections<N> {
    fn default() -> UpstreamConnections<N> {
        let (bound, buffers) = (BTreeSet::new(), Buffers::default());
        UpstreamConnections { all: Slab::new(), bound, buffers, limits: ResponseLimits::default() }
    }
}

impl<N: Net> UpstreamConnections<N> {
    /// Opens a connection. It may not be established yet when this returns.
    pub fn open(
        &mut self,
        net: &N,
        now: Nanos,
        (peer, to): (usize, &Endpoint),
        announced: Announced,
    ) -> io::Result<usize> {
        if self.buffers.received.is_empty() {
            self.buffers.received = vec![0; READ_BYTES].into();
        }
        let tls = to.session()?;
        let socket = net.connect(to)?;
        let entry = self.all.vacant_entry();
        let at = entry.key();
        if at >= CONNECTIONS_MAX {
            return Err(io::Error::other("too many connections to upstreams"));
        }
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        net.add(Source::Tcp(&socket), TOKENS | at as u64, flags)?;
        let limits = self.limits;
        let several = || Load::Several(Box::new(Multiplexed::new(now, limits)));
        let load = if to.is_http2() { several() } else { Load::Single(None) };
        let (ready, preface) = (Readiness::default(), announced.preface());
        entry.insert(UpstreamConnection {
            socket,
            tls,
            announced,
            preface,
            peer,
            bound_to: None,
            idle_until: now + IDLE_FOR,
            idle_since: 0,
            ready,
            limits,
            load,
            inflow: None,
        });
        Ok(at)
    }

    pub fn close(&mut self, net: &N, at: usize) {
        let mut connection = self.all.remove(at);
        if let Some(client) = connection.bound_to {
            self.bound.remove(&(client, at));
        }
        let (mut wire, load) = connection.parts();
        if let Load::Several(several) = load {
            several.end(&mut wire);
        }
        wire.end();
        let _ = net.remove(Source::Tcp(&connection.socket));
    }

    pub fn get(&self, at: usize) -> Option<&UpstreamConnection<N>> {
        self.all.get(at)
    }

    /// Binds the connection to this client connection, because the upstream may attribute all requests on it to that
    /// client.
    pub fn bind(&mut self, at: usize, client: u64) {
        let Some(own) = self.all.get_mut(at).filter(|own| own.bound_to.is_none()) else { return };
        own.bound_to = Some(client);
        self.bound.insert((client, at));
    }

    /// The connections bound to this client connection.
    pub fn bound_to(&self, client: u64) -> impl Iterator<Item = usize> {
        self.bound.range((client, 0)..=(client, usize::MAX)).map(|(_, at)| *at)
    }

    /// Returns true if a transfer may use this connection: both announce the same client, and the connection is bound
    /// to `bound_to` or to none.
    pub fn may_serve(&self, at: usize, transfer: &Transfer, bound_to: Option<u64>) -> bool {
        self.all.get(at).is_some_and(|own| own.announced == transfer.client.announced && own.bound_to == bound_to)
    }

    /// Returns true if an idle HTTP/1.1 connection may carry a request: it is not too old, and nothing has arrived on
    /// it.
    pub fn is_usable(&mut self, net: &N, now: Nanos, at: usize, is_repeatable: bool) -> bool {
        let own = self.all.get_mut(at).filter(|own| !own.is_old(now));
        own.is_some_and(|own| own.is_quiet(net, TOKENS | at as u64, is_repeatable))
    }

    pub fn get_mut(&mut self, at: usize) -> Option<&mut UpstreamConnection<N>> {
        self.all.get_mut(at)
    }

    pub fn iter(&self) -> impl Iterator<Item = (usize, &UpstreamConnection<N>)> {
        self.all.iter()
    }

    /// Handles an event of a connection.
    pub fn on_ready(&mut self, now: Nanos, at: usize, flags: EventFlags) -> Told {
        let scratch = &mut self.buffers.received;
        self.all.get_mut(at).map_or(Told::Nothing, |own| own.on_ready(scratch, now, flags))
    }

    /// Continues a transfer until its head has arrived, or the transfer has to wait.
    pub fn step(&mut self, transfer: &mut Transfer, number: usize, now: Nanos) -> Result<Option<UpstreamHead>, Fault> {
        let scratch = &mut self.buffers.received;
        let own = transfer.connection.and_then(|own| self.all.get_mut(own));
        own.map_or(Ok(None), |own| own.step(transfer, number, scratch, now))
    }

    /// Continues with the body of a response. Acknowledges its first bytes at once, because the upstream may hold back
    /// the rest until then.
    pub fn read_body(
        &mut self,
        transfer: &mut Transfer,
        number: usize,
        now: Nanos,
        sink: &mut impl BodySink,
    ) -> TransferStep {
        let Some(own) = transfer.connection.and_then(|own| self.all.get_mut(own)) else { return TransferStep::Wait };
        let step = own.read_body(transfer, number, &mut self.buffers, now, sink);
        if matches!(step, TransferStep::Wait) && transfer.body_bytes() < HELD_BACK_BYTES_MAX {
            own.wire().acknowledge();
        }
        step
    }

    /// Ends a transfer, with or without a complete response. Returns false if the connection cannot be used again.
    pub fn leave(&mut self, net: &N, transfer: &Transfer, number: usize, now: Nanos, is_whole: bool) -> bool {
        let Some(own) = transfer.connection.and_then(|own| self.all.get_mut(own)) else { return true };
        own.idle_since = net.reports();
        own.idle_until = now + if own.is_multiplexed() { IDLE_FOR } else { transfer.inbound.kept_for };
        let has_ended =
            own.ready.has_ended || own.tls.as_mut().is_some_and(|tls| tls.has_plain() || tls.has_peer_ended());
        let is_answered = own.inflow.as_ref().is_none_or(|inflow| inflow.is_done());
        let (mut wire, load) = own.parts();
        match load {
            Load::Single(on_it) => {
                *on_it = None;
                is_whole && !has_ended && is_answered && transfer.keeps_connection()
            }
            Load::Several(several) => {
                let patience = if is_whole || transfer.is_tunnel() { Nanos::MAX } else { transfer.group.read_timeout };
                several.leave(&mut wire, number, now, patience);
                !several.is_idle() || !several.is_used_up()
            }
        }
    }

    /// Takes the text that the program at the other end has written to its error stream.
    pub fn take_said(&mut self, at: usize) -> Option<String> {
        self.all.get_mut(at)?.inflow.as_mut()?.take_said()
    }

    /// Returns an HTTP/2 connection.
    pub fn multiplexed(&mut self, at: usize) -> Option<&mut Multiplexed> {
        if let Load::Several(several) = &mut self.all.get_mut(at)?.load { Some(several) } else { None }
    }

    /// The memory of a transfer's bytes that have arrived on its stream.
    #[cfg(test)]
    pub fn alive_bytes(&self, transfer: &Transfer, number: usize) -> usize {
        match transfer.connection.and_then(|own| self.all.get(own)).map(|own| &own.load) {
            Some(Load::Several(several)) => several.alive_bytes(number),
            _ => 0,
        }
    }

    /// The transfers on an HTTP/2 connection that may continue.
    pub fn stirred(&mut self, at: usize, wants_room: impl Fn(usize) -> bool) -> Vec<usize> {
        self.multiplexed(at).map_or_else(Vec::new, |several| several.stirred(wants_room))
    }
}

/// The number of first bytes of a body that are acknowledged at once. An upstream that writes head and body separately
/// may hold back the body until its head is acknowledged (Nagle's algorithm, RFC 9293 section 3.7.4). After a full
/// segment, it does not hold back.
const HELD_BACK_BYTES_MAX: u64 = 1460;
