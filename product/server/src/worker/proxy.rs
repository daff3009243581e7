//! Requests that upstreams answer: from a request to a transfer, and from its response to the write path.

use std::collections::VecDeque;
use std::sync::Arc;

use http::gateway::takes_trailers;
use http::http1::Head;
use http::http1::upstream::{ResponseLimits, UpstreamHead};
use http::{Method, Request, Status, Trailers};
use mux::BodyRead;
use rustix::event::epoll::EventFlags;
use sched::JobId;
use units::Nanos;

use super::failures::Kind;
use super::forwarding::{transfer_of, upload_of};
use super::messages::{responding, size_from};
use super::proxy_context::ProxyContext;
use crate::answer::Handler;
use crate::answer::{Reply, To};
use crate::body::Trailing;
use crate::clock::ClientClock;
use crate::connection::Connections;
use crate::connection::Line;
use crate::connection::PassedOnLine;
use crate::connection::{ExchangeId, KeptRequest, Task};
use crate::net::{Net, Socket};
use crate::send::{Producer, want_body};
use crate::turns::Turns;
use crate::upstream::{BodySink, Fault, Group, LoopPlaces, Step, Transfer, Upstreams, pipe_of};

/// The number of bytes of a request body taken from its stream at once.
const REQUEST_PART_BYTES: usize = 16 << 10;

impl<S: Socket> BodySink for (Producer<'_, S>, Nanos) {
    fn room(&mut self) -> Option<usize> {
        self.0.room()
    }

    fn push(&mut self, bytes: &[u8]) -> bool {
        self.0.push(self.1, bytes) == Some(bytes.len())
    }

    fn finish(&mut self, trailers: Option<Box<Trailers>>) {
        self.0.finish(self.1, trailers);
    }

    fn waits_for_memory(&mut self) -> bool {
        self.0.waits_for_memory()
    }

    fn waits_for_disk(&mut self) -> bool {
        self.0.is_being_written()
    }
}

/// The waiting transfers, by the names of their exchanges; each occurs once.
#[derive(Default)]
pub(super) struct Starved {
    pub waiting: Turns<u64>,
    /// [`Account::released_bytes`] at the last look.
    pub released_bytes: u64,
}

/// Requests that upstreams answer, and the handler that resulted.
pub(super) struct Proxy<N: Net> {
    pub(super) upstreams: Upstreams<N>,
    /// At most one for each transfer.
    handler: VecDeque<ProxyReply>,
    pub(super) starved: Starved,
}

/// An upstream's reply, or the server's own in its place, for the event loop to send on an exchange.
pub(super) struct ProxyReply {
    /// The name of the exchange.
    pub owner: u64,
    pub reply: Box<Reply>,
    /// The progress of an upstream's body; passed to [`Proxy::on_sent`] once the reply is sent or a job.
    pub rest: Option<Step>,
}

impl<N: Net> Proxy<N> {
    /// Creates a proxy with these places at upstreams.
    pub fn new(places: LoopPlaces, limits: ResponseLimits, clock: ClientClock) -> Proxy<N> {
        let mut upstreams = Upstreams::new(places, clock);
        upstreams.set_limits(limits);
        Proxy { upstreams, handler: VecDeque::new(), starved: Starved::default() }
    }

    /// Returns the next reply to send; [`Proxy::on_sent`] must follow.
    pub fn next_reply(&mut self) -> Option<ProxyReply> {
        self.handler.pop_front()
    }

    /// Begins a transfer to an upstream. Returns the error reply if no upstream can answer.
    pub fn begin(
        &mut self,
        with: &mut ProxyContext<N>,
        id: ExchangeId,
        group: Arc<Group>,
        request: &Request,
        head: Option<&Head>,
    ) -> Result<usize, Box<Reply>> {
        let to = with.service.handler.to(&with.connections[id.at], request);
        if request.method == Method::Connect && group.is_http2() {
            // Only the upgrade of HTTP/1.1 is supported (RFC 9110 section 15.6.2).
            return Err(Box::new(with.service.handler.unanswered(to, request, Status::NOT_IMPLEMENTED)));
        }
        let upload = upload_of(with, id, &group, request);
        let transfer = transfer_of(with, id, group, (request, head), to.site, upload.is_some());
        match self.upstreams.begin(with.net, with.timers.now(), transfer) {
            Ok(transfer) => {
                want_body(with.timers.date(), with.connections, id.at, id.stream, request);
                let mut request = KeptRequest::new(request, with.connections[id.at].held.account());
                request.upload = upload;
                with.connections.exchange(id).task = Task::PassedOn(Box::new(request));
                Ok(transfer)
            }
            Err((fault, name)) => {
                note_fault(with, &name, &fault);
                Err(Box::new(with.service.handler.unanswered(to, request, fault.status())))
            }
        }
    }

    /// Passes on more of a request's body. What an upstream does not take in time waits with the client.
    pub fn pass_on(&mut self, with: &mut ProxyContext<N>, id: ExchangeId, bytes: &[u8], is_last: bool) {
        let owner = with.connections.exchange(id).owner;
        let Some(at) = self.upstreams.of(owner) else { return };
        if let Some(transfer) = self.upstreams.get(at) {
            transfer.push_request(bytes, is_last);
        }
        self.go_on_with(with, at);
        let now = with.timers.client_now();
        if let Some(conn) = with.connections.get_mut(id.at)
            && self.upstreams.get(at).is_some_and(|transfer| transfer.room() == 0)
        {
            conn.http1().passing().into_iter().for_each(|passing| passing.hold(now));
        }
    }

    /// Passes on more of the body on a stream, whose engine holds its client back.
    pub fn pass_on_stream(&mut self, with: &mut ProxyContext<N>, id: ExchangeId) {
        // The stream's flow-control window bounds how much there is.
        while let Some(at) = self.transfer_on(with, id) {
            let has_more = self.take_from_stream(with, id, at);
            self.send_request(with, at);
            if !has_more || self.upstreams.get(at).is_none_or(|transfer| transfer.room() == 0) {
                return;
            }
        }
    }

    /// Takes as much of a request's body from its stream as there is room for. Returns whether more is available at
    /// once.
    fn take_from_stream(&mut self, with: &mut ProxyContext<N>, id: ExchangeId, at: usize) -> bool {
        let (now, mut bytes, mut read) = (with.timers.client_now(), Vec::new(), BodyRead::More);
        while let Some(transfer) = self.upstreams.get(at).filter(|transfer| transfer.room() > 0) {
            bytes.clear();
            read = with.connections[id.at].engine().read_body(id.stream, &mut bytes, REQUEST_PART_BYTES);
            if !bytes.is_empty() || read == BodyRead::End {
                transfer.push_request(&bytes, read == BodyRead::End);
            }
            let upload = with.connections.exchange(id).upload();
            upload.into_iter().for_each(|upload| upload.on_bytes(now, bytes.len()));
            // A body that is cut off is reported by the end of its stream.
            if read != BodyRead::More {
                break;
            }
        }
        with.connections.say(id.at);
        read == BodyRead::More
    }

    /// Sends what has arrived of a request's body.
    fn send_request(&mut self, with: &mut ProxyContext<N>, transfer: usize) {
        let step = self.upstreams.step(with.net, with.timers.now(), transfer);
        self.follow_upload(with, transfer);
        self.take_step(with, transfer, step);
        self.release(with);
    }

    /// Resumes reading a request's body from a client that had to wait.
    fn go_on_reading(&mut self, with: &mut ProxyContext<N>, transfer: usize) {
        let Some(transfer) = self.upstreams.get(transfer).filter(|transfer| transfer.is_wanting()) else { return };
        let Some(id) = with.connections.exchange_id(transfer.owner) else { return };
        let now = with.timers.client_now();
        if with.connections[id.at].is_multiplexed() {
            return self.pass_on_stream(with, id);
        }
        let passing = with.connections[id.at].http1().passing();
        if passing.is_some_and(|passing| passing.go_on(now)) {
            with.connections.wake(id.at);
        }
    }

    /// Handles an event of a connection to an upstream.
    pub fn on_upstream(&mut self, with: &mut ProxyContext<N>, connection: usize, flags: EventFlags) {
        if let Some(transfer) = self.upstreams.on_ready(with.net, with.timers.now(), connection, flags) {
            return self.go_on_with(with, transfer);
        }
        self.release(with);
    }

    /// Continues a transfer as far as it can.
    pub fn go_on_with(&mut self, with: &mut ProxyContext<N>, transfer: usize) {
        self.send_request(with, transfer);
        self.go_on_reading(with, transfer);
    }

    fn take_step(&mut self, with: &mut ProxyContext<N>, transfer: usize, mut step: Step) {
        while let Step::Interim(head) = step {
            let owner = self.upstreams.get(transfer).map(|transfer| transfer.owner);
            if let Some(id) = owner.and_then(|owner| with.connections.exchange_id(owner)) {
                let response = head.into_response(());
                let sent_bytes = with.transmitter.send_interim(
                    with.timers.now(),
                    with.timers.date(),
                    with.connections,
                    id.at,
                    id.stream,
                    response,
                );
                with.service.admission.spend(with.connections[id.at].client_of(id.stream), sent_bytes);
            }
            step = self.upstreams.step(with.net, with.timers.now(), transfer);
        }
        if self.upstreams.get(transfer).is_some_and(|transfer| transfer.is_probe()) {
            return self.take_probe(with, transfer, step);
        }
        let step = match step {
            Step::Head(head) => self.begin_response(with, transfer, head),
            Step::Wait => self.pass_body(with, transfer),
            step => step,
        };
        self.on_step(with, transfer, step);
    }

    fn on_step(&mut self, with: &mut ProxyContext<N>, transfer: usize, step: Step) {
        match step {
            Step::Wait => {
                self.note_starved(with, transfer);
                self.relieve(with, transfer);
            }
            Step::Head(_) | Step::Interim(_) => {}
            Step::Done => self.end_transfer(with, transfer, true),
            Step::Unwanted => self.end_transfer(with, transfer, false),
            Step::Failed(fault) => self.fail_transfer(with, transfer, fault),
        }
    }

    /// Passes on the rest of a body under way.
    fn pass_body(&mut self, with: &mut ProxyContext<N>, transfer: usize) -> Step {
        let now = with.timers.now();
        let Some(job) = self.upstreams.get(transfer).and_then(|transfer| transfer.job) else { return Step::Wait };
        let mut sink = (Producer::of(with.transmitter, with.connections, job), now);
        self.upstreams.read_body(now, transfer, &mut sink)
    }

    /// Begins the response when its head has arrived. The part of the body that has arrived is read first, so that the
    /// size is known if the body is complete.
    fn begin_response(&mut self, with: &mut ProxyContext<N>, transfer: usize, head: UpstreamHead) -> Step {
        let now = with.timers.now();
        let owner = self.upstreams.get(transfer).expect("it has just had a head").owner;
        let Some(id) = with.connections.exchange_id(owner) else { return Step::Unwanted };
        if let Some(file) = self.upstreams.named_file(transfer, &head) {
            return self.begin_named(with, (transfer, id), head, file);
        }
        let mut pipe = pipe_of(head.framing, with.connections[id.at].held.responses());
        let step = match &mut pipe {
            Some(pipe) => self.upstreams.read_body(now, transfer, pipe),
            None => Step::Done,
        };
        if let Step::Failed(_) = step
            && pipe.as_ref().is_some_and(|pipe| pipe.queued().is_empty())
        {
            return step;
        }
        let Task::PassedOn(request) = std::mem::take(&mut with.connections.exchange(id).task) else {
            unreachable!("a transfer without a response has its request")
        };
        self.upstreams.on_head(transfer, &request.view(), &head);
        let size_from = size_from(head.framing, &step);
        let prediction = self.upstreams.prediction(transfer, matches!(step, Step::Done));
        self.note_line(with, transfer, |line| line.answered(now, size_from, prediction));
        let is_multiplexed = with.connections[id.at].is_multiplexed();
        let trailing = match is_multiplexed {
            true => Trailing::InFrames,
            false if takes_trailers(&request.view()) => Trailing::InChunks,
            false => Trailing::Never,
        };
        let response = responding(head, pipe, trailing, matches!(step, Step::Done));
        self.push_reply(with, id, &request, Some(step), |handler, to, request| {
            handler.passed_on(to, request, response)
        });
        Step::Wait
    }

    /// Queues a reply for the event loop to send.
    pub(super) fn push_reply(
        &mut self,
        with: &mut ProxyContext<N>,
        id: ExchangeId,
        request: &KeptRequest,
        rest: Option<Step>,
        reply: impl FnOnce(&mut Handler, To, &Request) -> Reply,
    ) {
        let request = request.view();
        let to = with.service.handler.to(&with.connections[id.at], &request);
        let reply = reply(&mut with.service.handler, to, &request);
        let class = with.service.handler.class_of(&with.connections[id.at], id.stream, to.site, &request);
        let exchange = with.connections.exchange(id);
        exchange.class = class;
        self.handler.push_back(ProxyReply { owner: exchange.owner, reply: Box::new(reply), rest });
    }

    /// Continues a transfer after the event loop has sent its reply or made it a job.
    pub fn on_sent(&mut self, with: &mut ProxyContext<N>, owner: u64, mut step: Step) {
        let Some(transfer) = self.upstreams.of(owner) else { return };
        let job = job_of(with.connections, owner);
        if let Some(begun) = self.upstreams.get(transfer) {
            begun.job = job;
        }
        if let Some(job) = job {
            let curve = self.upstreams.curve(transfer);
            if let Some(line) = line_of(with.connections, owner).and_then(|line| line.passed_on.as_mut()) {
                line.guess_size(curve.is_some());
            }
            Producer::of(with.transmitter, with.connections, job).expect(curve);
        }
        if job.is_none() && !matches!(step, Step::Done) {
            // The reply was sent completely, or its client has left.
            step = Step::Unwanted;
        }
        self.on_step(with, transfer, step);
        self.release(with);
    }

    fn end_transfer(&mut self, with: &mut ProxyContext<N>, transfer: usize, is_whole: bool) {
        self.note_line(with, transfer, |line| line);
        let prediction = self.upstreams.prediction(transfer, is_whole);
        let Some(ending) = self.upstreams.get(transfer) else { return };
        let (owner, body_bytes) = (ending.owner, ending.body_bytes());
        if let Some(line) = line_of(with.connections, owner) {
            line.passed_on.iter_mut().for_each(|passed_on| passed_on.measure(prediction.quantile));
            // Its head may not have given the length, and a stage changes it.
            if !line.is_staged {
                line.body_bytes = line.body_bytes.max(body_bytes);
            }
        }
        self.upstreams.end(with.net, with.timers.now(), transfer, is_whole);
    }

    /// Handles the failure of an upstream. Before the response begins the client gets an error status; afterwards the
    /// response is cut.
    pub fn fail_transfer(&mut self, with: &mut ProxyContext<N>, transfer: usize, fault: Fault) {
        let Some((owner, job)) = self.upstreams.get(transfer).map(|transfer| (transfer.owner, transfer.job)) else {
            return;
        };
        if self.upstreams.get(transfer).is_some_and(|transfer| transfer.is_probe()) {
            return self.take_probe(with, transfer, Step::Failed(fault));
        }
        let name = self.upstreams.name(transfer);
        note_fault(with, &name, &fault);
        self.end_transfer(with, transfer, false);
        let now = with.timers.now();
        if let Some(job) = job {
            return Producer::of(with.transmitter, with.connections, job).fail(now);
        }
        let Some(id) = with.connections.exchange_id(owner) else { return };
        let Task::PassedOn(request) = std::mem::take(&mut with.connections.exchange(id).task) else { return };
        self.push_reply(with, id, &request, None, |handler, to, request| {
            handler.unanswered(to, request, fault.status())
        });
    }

    /// Completes the upstream part of the access log line, unless it exists already.
    fn note_line(
        &mut self,
        with: &mut ProxyContext<N>,
        transfer: usize,
        complete: impl FnOnce(PassedOnLine) -> PassedOnLine,
    ) {
        let Some(noted) = self.upstreams.get(transfer) else { return };
        let (owner, attempt, queued_at) = (noted.owner, noted.attempt, noted.queued.turn.since);
        let was_chosen = noted.peer != usize::MAX;
        let Some(line) = line_of(with.connections, owner).filter(|line| line.log.is_some()) else { return };
        if line.passed_on.is_none() && was_chosen {
            let noted = complete(PassedOnLine::new(self.upstreams.name(transfer), queued_at, attempt));
            line.passed_on = Some(Box::new(noted));
        }
    }

    /// Returns the transfer for an exchange that still exists.
    fn transfer_on(&mut self, with: &mut ProxyContext<N>, id: ExchangeId) -> Option<usize> {
        let owner = with.connections[id.at].protocol.exchange(id.stream)?.owner;
        self.upstreams.of(owner)
    }

    /// Ends the transfer of an exchange that needs no upstream any more: its client has left, its request is refused
    /// after all, or its response has departed.
    pub fn leave(&mut self, with: &mut ProxyContext<N>, id: ExchangeId) {
        if let Some(transfer) = self.transfer_on(with, id) {
            self.note_line(with, transfer, |line| line);
            let task = &mut with.connections.exchange(id).task;
            if matches!(task, Task::PassedOn(_)) {
                *task = Task::None;
            }
            self.upstreams.end(with.net, with.timers.now(), transfer, false);
            self.release(with);
        }
    }

    /// Returns true if an upstream works for this exchange, or will, and must stop if its client has left. A tunnel
    /// handles the end of either side itself.
    pub fn needs_client(&self, owner: u64) -> bool {
        let transfer = self.upstreams.of(owner).and_then(|at| self.upstreams.transfer(at));
        transfer.is_some_and(|transfer| !transfer.group.ignores_client_abort && !transfer.is_tunnel())
    }

    /// Returns true if this exchange is a tunnel.
    pub fn has_tunnel(&self, owner: u64) -> bool {
        let transfer = self.upstreams.of(owner).and_then(|at| self.upstreams.transfer(at));
        transfer.is_some_and(Transfer::is_tunnel)
    }

    /// Continues transfers whose responses have room again.
    pub fn refill(&mut self, with: &mut ProxyContext<N>) {
        note_failure(with);
        let mut jobs: VecDeque<JobId> = with.transmitter.reads.refills().collect();
        while let Some(job) = jobs.pop_front() {
            let reader = Producer::of(with.transmitter, with.connections, job).reader();
            let id = reader.and_then(|(owner, stream)| Some(ExchangeId { at: with.connections.slot(owner)?, stream }));
            if let Some(transfer) = id.and_then(|id| self.transfer_on(with, id)) {
                self.go_on_with(with, transfer);
            }
            // A response that continues into a file has room at once, and no more until that is written.
            jobs.extend(with.transmitter.reads.refills());
        }
    }

    /// Begins transfers that have waited for others to end.
    pub fn release(&mut self, with: &mut ProxyContext<N>) {
        while let Some((transfer, begun)) = self.upstreams.release(with.net, with.timers.now()) {
            match begun {
                // A new connection reports its room as an event. A reused one has room already, also for the waiting
                // part of the request's body.
                Ok(()) => self.go_on_with(with, transfer),
                Err(fault) => self.fail_transfer(with, transfer, fault),
            }
        }
    }

    /// Once a second: ends transfers whose upstream is too slow, and checks the health of upstreams.
    pub fn look_after(&mut self, with: &mut ProxyContext<N>) {
        self.check(with);
        for transfer in self.upstreams.late(with.net, with.timers.now()) {
            if let Some(fault) = self.upstreams.get(transfer).map(|transfer| transfer.timed_out()) {
                self.fail_transfer(with, transfer, fault);
            }
        }
        self.release(with);
        self.relieve_all(with);
    }
}

#[cfg(test)]
impl<N: Net> Proxy<N> {
    pub fn upstreams(&self) -> &Upstreams<N> {
        debug_assert!(self.handler.is_empty(), "they are sent at once");
        &self.upstreams
    }
}

fn note_fault<N: Net>(with: &mut ProxyContext<N>, name: &str, fault: &Fault) {
    with.service.journal.fail(with.timers.now(), Kind::Upstream, format_args!("{name}: {fault}"));
}

/// Returns the log data of an exchange.
pub(super) fn line_of(connections: &mut Connections<impl Socket>, owner: u64) -> Option<&mut Line> {
    let id = connections.exchange_id(owner)?;
    connections.exchange(id).line.as_deref_mut()
}

/// Returns the job of an exchange's response, if it is being sent.
fn job_of(connections: &mut Connections<impl Socket>, owner: u64) -> Option<JobId> {
    let id = connections.exchange_id(owner)?;
    match connections.exchange(id).task {
        Task::Sending(job) => Some(job),
        _ => None,
    }
}

/// Logs a disk write failure, if there was one.
fn note_failure<N: Net>(with: &mut ProxyContext<N>) {
    if let Some(error) = with.transmitter.reads.take_write_failure() {
        with.service.journal.fail(with.timers.now(), Kind::Spool, error);
    }
}
