//! Requests that upstreams answer, as a state machine: inputs are method calls with values, and [`Proxy::poll`] returns
//! the actions for the event loop. The proxy has access to sockets to upstreams, but not to client connections, the
//! order of responses, or logs. (quinn's `Endpoint` is the model.)
//!
//! [`Proxy::poll`] must be called after each input until it returns `None`. The caller may apply an effect with further
//! inputs and a nested poll, because the proxy is in a consistent state whenever it returns an effect.

mod checks;
mod effect;
mod relief;
mod starved;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use http::Request;
use http::http1::upstream::{ResponseLimits, UpstreamHead};
use rustix::event::epoll::EventFlags;
use sched::routes::Curve;
use units::Nanos;

pub use effect::{Begun, Effect, Measured, Named, Tried};

use crate::clock::ClientClock;
use crate::exchange_id::ExchangeId;
use crate::files::SiteNumber;
use crate::net::Net;
use crate::upstream::{
    BodySink, CodedBody, Fault, LoopPlaces, Prediction, Transfer, TransferStep, Upstreams, Waiting, pipe_of,
};
use relief::Relief;
use starved::Starved;

/// The requests that upstreams answer, and the resulting effects that have not been returned yet.
pub struct Proxy<N: Net> {
    upstreams: Upstreams<N>,
    /// Transfers that may be continued, each once.
    ready: VecDeque<usize>,
    /// Transfers that have just been continued, each once, and whose clients may have to send more. The last one is
    /// handled first.
    readers: Vec<usize>,
    /// True if other transfers may be continued because of an event at an upstream.
    must_release: bool,
    relief: Relief,
    starved: Starved,
    /// The effects to return, at most three per transfer: a step of its upload, its end and its failure.
    effects: VecDeque<Effect>,
    /// Responses that are started once no other effect is left, at most one per transfer.
    responses: VecDeque<Effect>,
}

impl<N: Net> Proxy<N> {
    /// Creates a proxy with these places at upstreams. `clock` is the clock for its deadlines.
    pub fn new(places: LoopPlaces, limits: ResponseLimits, clock: ClientClock) -> Proxy<N> {
        let mut upstreams = Upstreams::new(places, clock);
        upstreams.set_limits(limits);
        Proxy {
            upstreams,
            ready: VecDeque::new(),
            readers: Vec::new(),
            must_release: false,
            relief: Relief::default(),
            starved: Starved::default(),
            effects: VecDeque::new(),
            responses: VecDeque::new(),
        }
    }

    pub fn upstreams(&self) -> &Upstreams<N> {
        &self.upstreams
    }

    /// Sets the limits for responses on connections that are opened later.
    pub fn set_limits(&mut self, limits: ResponseLimits) {
        self.upstreams.set_limits(limits);
    }

    /// Returns the next effect; `None` if only an input or an event can change anything.
    pub fn poll(&mut self, net: &N, now: Nanos) -> Option<Effect> {
        loop {
            let effect = self.effects.pop_front().or_else(|| self.said()).or_else(|| self.relieve_next());
            if effect.is_some() {
                return effect;
            }
            if let Some(at) = self.ready.pop_front() {
                let effect = self.step(net, now, at);
                if effect.is_some() {
                    return effect;
                }
            } else if self.release_next(net, now) {
                continue;
            } else if let Some(at) = self.readers.pop() {
                if let Some(transfer) = self.upstreams.transfer(at).filter(|transfer| transfer.is_wanting()) {
                    return Some(Effect::ReadRequest { id: transfer.exchange });
                }
            } else if !self.feed_next() {
                return self.responses.pop_front();
            }
        }
    }

    /// Returns the next line of a program's error stream, if there is one.
    fn said(&mut self) -> Option<Effect> {
        self.upstreams.take_said().map(|(upstream, said)| Effect::Said { upstream, said })
    }

    /// Starts a transfer. If no upstream can answer, returns the fault and the name of the upstream.
    pub fn begin(&mut self, net: &N, now: Nanos, transfer: Transfer) -> Result<(), (Fault, Arc<str>)> {
        let at = self.upstreams.begin(net, now, transfer)?;
        self.go_on(at);
        Ok(())
    }

    /// Handles an event of a connection to an upstream.
    pub fn on_ready(&mut self, net: &N, now: Nanos, connection: usize, flags: EventFlags) {
        match self.upstreams.on_ready(net, now, connection, flags) {
            Some(at) => self.go_on(at),
            None => self.release(),
        }
    }

    /// Returns the room for more of a request's body; `None` for an exchange without a transfer.
    pub fn request_room(&self, id: ExchangeId) -> Option<usize> {
        self.transfer(id).map(Transfer::room)
    }

    /// Appends more of a request's body. `is_last` marks its end.
    pub fn push_request(&mut self, id: ExchangeId, bytes: &[u8], is_last: bool) {
        let Some(at) = self.upstreams.of(id) else { return };
        if let Some(transfer) = self.upstreams.get(at) {
            transfer.push_request(bytes, is_last);
        }
        self.go_on(at);
    }

    /// Continues the transfer of an exchange because its response has room again, or more of its request has arrived.
    pub fn refill(&mut self, id: ExchangeId) {
        if let Some(at) = self.upstreams.of(id) {
            self.go_on(at);
        }
    }

    /// Continues transfers that have waited for others to end.
    pub fn release(&mut self) {
        self.must_release = true;
    }

    /// Ends the transfer of an exchange that no longer needs an upstream: its client has left, its request was refused
    /// later, or its response has departed.
    pub fn leave(&mut self, net: &N, now: Nanos, id: ExchangeId) {
        let Some(at) = self.upstreams.of(id) else { return };
        let tried = self.tried(at);
        self.effects.push_back(Effect::Ended { id, tried, measured: None });
        self.upstreams.end(net, now, at, false);
        self.release();
    }

    /// Closes connections to upstreams that served only this client connection, which has ended.
    pub fn forget_client(&mut self, net: &N, client: u64) {
        self.upstreams.forget_client(net, client);
    }

    /// Assigns a response to the route of its request.
    pub fn enter_route(&mut self, begun: &Begun, request: &Request) {
        if let Some(at) = self.upstreams.of(begun.id) {
            self.upstreams.on_head(at, request, &begun.head);
        }
    }

    /// Returns the prediction for the size of a response on its route.
    pub fn prediction(&self, begun: &Begun) -> Prediction {
        let at = self.upstreams.of(begun.id);
        at.map_or_else(Prediction::default, |at| self.upstreams.prediction(at, begun.is_whole()))
    }

    /// Continues a transfer whose response is being sent (`is_sending`), was sent completely, or is not wanted. `rest`
    /// is the progress of its body at the start. `coded` is present if stages change its bytes. Returns the
    /// distribution of the sizes of similar responses.
    pub fn on_sent(
        &mut self,
        net: &N,
        now: Nanos,
        (id, rest, coded): (ExchangeId, TransferStep, Option<CodedBody>),
        is_sending: bool,
    ) -> Option<Arc<Curve>> {
        let at = self.upstreams.of(id)?;
        self.upstreams.get(at)?.is_sending = is_sending;
        let curve = if is_sending { self.upstreams.curve(at, coded.as_ref()) } else { None };
        coded.into_iter().for_each(|coded| self.upstreams.learn_from(at, coded));
        let is_left = !is_sending && !matches!(rest, TransferStep::Done);
        self.on_step(net, now, at, if is_left { TransferStep::Unwanted } else { rest });
        self.release();
        curve
    }

    /// Passes on more of a response's body, as much as the sink accepts.
    pub fn read_body(&mut self, net: &N, now: Nanos, id: ExchangeId, sink: &mut impl BodySink) {
        if let Some(at) = self.upstreams.of(id) {
            let step = self.upstreams.read_body(now, at, sink);
            self.on_step(net, now, at, step);
        }
    }

    /// Handles deadlines, once a second: ends transfers whose upstream is too slow or repeats them at another upstream,
    /// closes idle connections, and learns sizes from coded responses.
    pub fn end_late(&mut self, net: &N, now: Nanos) {
        self.upstreams.learned.learn_ratios();
        for at in self.upstreams.late(net, now) {
            match self.upstreams.transfer(at).is_some().then(|| self.upstreams.on_late(net, now, at)) {
                Some(Err(fault)) => self.fail(net, now, at, fault),
                Some(Ok(())) => self.go_on(at),
                None => {}
            }
        }
        self.release();
    }

    /// Returns true if an upstream works or will work for this exchange, and must stop when the client leaves. A tunnel
    /// handles the end of either side itself.
    pub fn needs_client(&self, id: ExchangeId) -> bool {
        let transfer = self.transfer(id);
        transfer.is_some_and(|transfer| !transfer.group.ignores_client_abort && !transfer.is_tunnel())
    }

    /// Returns true if an upstream has this exchange, and has not ended its response.
    pub fn has_transfer(&self, id: ExchangeId) -> bool {
        self.transfer(id).is_some()
    }

    /// Returns true if this exchange is a tunnel.
    pub fn has_tunnel(&self, id: ExchangeId) -> bool {
        self.transfer(id).is_some_and(Transfer::is_tunnel)
    }

    /// Returns the bytes of a request that wait for its upstream and those that the upstream has taken. Zero without a
    /// transfer.
    pub fn waiting(&self, id: ExchangeId) -> Waiting {
        self.transfer(id).map_or(Waiting::default(), Transfer::waiting)
    }

    fn transfer(&self, id: ExchangeId) -> Option<&Transfer> {
        self.upstreams.of(id).and_then(|at| self.upstreams.transfer(at))
    }

    fn go_on(&mut self, at: usize) {
        if !self.ready.contains(&at) {
            self.ready.push_back(at);
        }
    }

    /// Continues a transfer until a head has arrived or the transfer has to wait.
    fn step(&mut self, net: &N, now: Nanos, at: usize) -> Option<Effect> {
        let step = self.upstreams.step(net, now, at);
        self.follow_upload(at);
        let (id, is_sending, is_probe) = self
            .upstreams
            .transfer(at)
            .map(|transfer| (transfer.exchange, transfer.is_sending, transfer.is_probe()))?;
        if let TransferStep::Interim(head) = step {
            self.ready.push_front(at);
            return Some(Effect::Interim { id, head: head.into() });
        }
        self.release();
        if is_probe {
            self.end_check(net, now, at, step);
            return None;
        }
        if !self.readers.contains(&at) {
            self.readers.push(at);
        }
        match step {
            TransferStep::Head(head) => self.begin_response(net, now, at, head),
            TransferStep::Wait if is_sending => return Some(Effect::Body { id }),
            step => self.on_step(net, now, at, step),
        }
        None
    }

    /// Reports which side an upload on a stream waits for, if that has changed.
    fn follow_upload(&mut self, at: usize) {
        if let Some(transfer) = self.upstreams.get(at).filter(|transfer| transfer.is_on_stream()) {
            let (id, is_awaited) = (transfer.exchange, transfer.waits_for_client());
            if std::mem::replace(&mut transfer.client.is_awaited, is_awaited) != is_awaited {
                self.effects.push_back(Effect::Upload { id, is_awaited });
            }
        }
    }

    /// Starts the response when its head has arrived. First reads the part of the body that has arrived, so that the
    /// size is known if the body is complete.
    fn begin_response(&mut self, net: &N, now: Nanos, at: usize, head: UpstreamHead) {
        let Some(transfer) = self.upstreams.transfer(at) else { return };
        let (id, is_intercepted) = (transfer.exchange, transfer.group.intercepts(head.status));
        let mut pipe = pipe_of(head.framing, &transfer.client.responses);
        let file = self.upstreams.named_file(at, &head);
        let rest = pipe.as_mut().map_or(TransferStep::Done, |pipe| self.upstreams.read_body(now, at, pipe));
        if let Some(file) = file {
            return self.begin_named(net, now, (at, id), head, file, matches!(rest, TransferStep::Done));
        }
        if is_intercepted {
            self.responses.push_back(Effect::Intercepted { id, head: Box::new(head) });
            return self.end(net, now, at, matches!(rest, TransferStep::Done));
        }
        if matches!(rest, TransferStep::Failed(_)) && pipe.as_ref().is_some_and(|pipe| pipe.queued().is_empty()) {
            return self.on_step(net, now, at, rest);
        }
        let tried = self.tried(at);
        self.responses.push_back(Effect::Respond(Box::new(Begun { id, head, pipe, rest, tried })));
        self.on_step(net, now, at, TransferStep::Wait);
    }

    /// Sends a file in place of the body (X-Accel-Redirect or X-Sendfile). The upstream becomes free, and the rest of
    /// the body is dropped.
    fn begin_named(
        &mut self,
        net: &N,
        now: Nanos,
        (at, id): (usize, ExchangeId),
        head: UpstreamHead,
        (folder, path): (SiteNumber, Vec<u8>),
        is_whole: bool,
    ) {
        self.responses.push_back(Effect::Named(Box::new(Named { id, head, folder, path })));
        self.end(net, now, at, is_whole);
    }

    fn on_step(&mut self, net: &N, now: Nanos, at: usize, step: TransferStep) {
        match step {
            TransferStep::Wait => {
                self.note_starved(at);
                self.relieve(at);
            }
            TransferStep::Head(_) | TransferStep::Interim(_) => {}
            TransferStep::Done => self.end(net, now, at, true),
            TransferStep::Unwanted => self.end(net, now, at, false),
            TransferStep::Failed(fault) => self.fail(net, now, at, fault),
        }
    }

    fn end(&mut self, net: &N, now: Nanos, at: usize, is_whole: bool) {
        let Some(transfer) = self.upstreams.transfer(at) else { return };
        let (id, body_bytes, tried) = (transfer.exchange, transfer.body_bytes(), self.tried(at));
        let quantile = self.upstreams.end(net, now, at, is_whole);
        self.effects.push_back(Effect::Ended { id, tried, measured: Some(Measured { quantile, body_bytes }) });
    }

    /// Handles the failure of an upstream. If the response has not been started, the client gets an error status;
    /// otherwise the response is cut off.
    fn fail(&mut self, net: &N, now: Nanos, at: usize, fault: Fault) {
        let Some(transfer) = self.upstreams.transfer(at) else { return };
        let (id, is_sending) = (transfer.exchange, transfer.is_sending);
        if transfer.is_probe() {
            return self.end_check(net, now, at, TransferStep::Failed(fault));
        }
        let upstream = self.upstreams.name(at);
        self.end(net, now, at, false);
        let failed = Effect::Failed { id, fault, upstream, is_sending };
        let queue = if is_sending { &mut self.effects } else { &mut self.responses };
        queue.push_back(failed);
    }

    /// Returns the upstream of a transfer and the last attempt, once an upstream has been chosen.
    fn tried(&self, at: usize) -> Option<Tried> {
        let transfer = self.upstreams.transfer(at).filter(|transfer| transfer.has_peer())?;
        let (queued_at, attempt) = (transfer.queued.turn.since, transfer.attempt);
        Some(Tried { upstream: self.upstreams.name(at), queued_at, attempt })
    }

    /// Starts a transfer that has waited, or lets one continue. Returns false if there is none.
    fn release_next(&mut self, net: &N, now: Nanos) -> bool {
        if !std::mem::take(&mut self.must_release) {
            return false;
        }
        let Some((at, begun)) = self.upstreams.release(net, now) else { return false };
        match begun {
            // A new connection reports its room as an event. A reused one has room already, including for the part of
            // the request's body that waits.
            Ok(()) => self.go_on(at),
            Err(fault) => self.fail(net, now, at, fault),
        }
        self.release();
        true
    }
}

impl Begun {
    /// Returns true if the whole body has arrived.
    pub fn is_whole(&self) -> bool {
        matches!(self.rest, TransferStep::Done)
    }
}
