//! Requests that upstreams answer: from a request to a transfer, and from its response to the write path.

use std::sync::Arc;

use http::http1::Head;
use http::http1::upstream::{Framing, UpstreamHead};
use http::{BodyLength, Length, Request, Response, Status};
use mux::BodyRead;
use rustix::event::epoll::EventFlags;
use sched::JobId;
use sched::routes::Route;

use super::Worker;
use super::exchange::{ExchangeId, Task};
use super::failures::Kind;
use crate::handler::Reply;
use crate::net::Net;
use crate::transmit::{Body, Pipe, Producer, Socket};
use crate::upstream::{BodySink, Fault, Group, Step, Transfer, pipe_of};

/// Of a request body so much is taken from its stream at once.
const REQUEST_PART_BYTES: usize = 16 << 10;

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

impl<S: Socket> BodySink for (Producer<'_, S>, units::Nanos) {
    fn room(&mut self) -> Option<usize> {
        self.0.room()
    }

    fn push(&mut self, bytes: &[u8]) -> bool {
        self.0.push(self.1, bytes) == Some(bytes.len())
    }

    fn finish(&mut self) {
        self.0.finish(self.1);
    }
}

impl<N: Net> Worker<N> {
    /// Has upstreams answer a request; the reply where they cannot.
    pub(super) fn begin_transfer(
        &mut self,
        id: ExchangeId,
        group: Arc<Group>,
        request: &Request,
        head: Option<&Head>,
    ) -> Result<usize, Box<Reply>> {
        let to = self.service.replies.to(&self.conns[id.at], request);
        let conn = &self.conns[id.at];
        let is_upgradable = head.is_some_and(|head| head.minor_version > 0);
        let upgrade = http::gateway::upgrade_of(request).filter(|_| is_upgradable);
        let gateway = http::gateway::Gateway {
            client: conn.address,
            client_port: Some(conn.port),
            is_secure: to.is_secure,
            is_trusted: false,
            host: group.host.as_deref().map(str::as_bytes),
            minor_version: match conn.version(head.map_or(0, |head| head.minor_version)) {
                (1, minor) => minor,
                (major, _) => major,
            },
            upgrade,
        };
        let mut out = Vec::new();
        http::gateway::encode_request(&mut out, request, &gateway, request.body);
        let owner = self.conns.exchange(id).owner;
        let transfer = Transfer::new(owner, group, request.method, out, request.body);
        let transfer = transfer.upgrading(upgrade.is_some());
        match self.upstreams.begin(&self.net, self.timers.now(), transfer) {
            Ok(transfer) => {
                self.want_body(id, request);
                self.conns.exchange(id).task = Task::PassedOn(Box::new(request.into()));
                Ok(transfer)
            }
            Err((fault, name)) => {
                self.note_fault(&name, &fault);
                Err(Box::new(self.service.replies.handler().unanswered(to, request, fault.status())))
            }
        }
    }

    /// Has a client send its body that waits for leave to (RFC 9110 section 10.1.1). False where it has left instead.
    pub(super) fn invite_body(&mut self, at: usize, head: Option<&Head>) -> bool {
        if head.is_some_and(|head| head.expect_continue && head.request.body != BodyLength::None) {
            self.buffers.out.extend_from_slice(CONTINUE);
            self.flush(at);
        }
        self.conns.get(at).is_some_and(|conn| !conn.is_sending())
    }

    /// The same on a stream.
    fn want_body(&mut self, id: ExchangeId, request: &Request) {
        if !self.conns[id.at].is_multiplexed() || request.body == BodyLength::None {
            return;
        }
        let engine = self.sender.transmitter.connections.engine(id.at);
        engine.want_body(id.stream);
        if request.values("expect").any(|value| value.eq_ignore_ascii_case(b"100-continue")) {
            let (head, ()) = Response::new(Status::CONTINUE, ()).into_head(self.timers.date());
            engine.interim(id.stream, &head);
        }
        self.sender.transmitter.connections.say(id.at);
    }

    /// More of a request's body. What an upstream does not take in time waits with the client.
    pub(super) fn pass_on(&mut self, id: ExchangeId, bytes: &[u8], is_last: bool) {
        let owner = self.conns.exchange(id).owner;
        let Some(at) = self.upstreams.of(owner) else { return };
        if let Some(transfer) = self.upstreams.get(at) {
            transfer.push_request(bytes, is_last);
        }
        self.go_on_with(at);
        let now = self.timers.now();
        if let Some(conn) = self.conns.get_mut(id.at)
            && self.upstreams.get(at).is_some_and(|transfer| transfer.room() == 0)
        {
            conn.http1.passing().into_iter().for_each(|passing| passing.hold(now));
        }
    }

    /// The same on a stream, whose engine holds its client back.
    pub(super) fn pass_on_stream(&mut self, id: ExchangeId) {
        let Some(at) = self.transfer_on(id) else { return };
        let mut bytes = Vec::new();
        while let Some(transfer) = self.upstreams.get(at).filter(|transfer| transfer.room() > 0) {
            bytes.clear();
            let read =
                self.sender.transmitter.connections.engine(id.at).read_body(id.stream, &mut bytes, REQUEST_PART_BYTES);
            if !bytes.is_empty() || read == BodyRead::End {
                transfer.push_request(&bytes, read == BodyRead::End);
            }
            // One that is cut off is told of by the end of its stream.
            if read != BodyRead::More {
                break;
            }
        }
        self.sender.transmitter.connections.say(id.at);
        self.send_request(at);
    }

    /// What came of a request's body leaves.
    fn send_request(&mut self, transfer: usize) {
        let step = self.upstreams.step(&self.net, self.timers.now(), transfer);
        self.take_step(transfer, step);
        self.release_transfers();
    }

    /// A client whose request's body had to wait may go on.
    fn go_on_reading(&mut self, transfer: usize) {
        let Some(transfer) = self.upstreams.get(transfer).filter(|transfer| transfer.is_wanting()) else { return };
        let Some(id) = self.conns.exchange_id(transfer.owner) else { return };
        let now = self.timers.now();
        if self.conns[id.at].is_multiplexed() {
            return self.pass_on_stream(id);
        }
        let passing = self.conns[id.at].http1.passing();
        if passing.is_some_and(|passing| passing.go_on(now, &self.setup.limits)) {
            self.conns.wake(id.at);
        }
    }

    /// The kernel has something to tell of a connection to an upstream.
    pub(super) fn on_upstream(&mut self, connection: usize, flags: EventFlags) {
        if let Some(transfer) = self.upstreams.on_ready(&self.net, connection, flags) {
            self.go_on_with(transfer);
        }
    }

    /// Goes on with a transfer as far as it can.
    pub(super) fn go_on_with(&mut self, transfer: usize) {
        self.send_request(transfer);
        self.go_on_reading(transfer);
    }

    fn take_step(&mut self, transfer: usize, step: Step) {
        let step = match step {
            Step::Head(head) => self.begin_response(transfer, head),
            Step::Wait => self.pass_body(transfer),
            step => step,
        };
        self.on_step(transfer, step);
    }

    fn on_step(&mut self, transfer: usize, step: Step) {
        match step {
            Step::Wait | Step::Head(_) => {}
            Step::Done => self.end_transfer(transfer, true),
            Step::Unwanted => self.end_transfer(transfer, false),
            Step::Failed(fault) => self.fail_transfer(transfer, fault),
        }
    }

    /// The rest of a body under way.
    fn pass_body(&mut self, transfer: usize) -> Step {
        let now = self.timers.now();
        let Some(job) = self.upstreams.get(transfer).and_then(|transfer| transfer.job) else { return Step::Wait };
        let mut sink = (Producer::of(&mut self.sender.transmitter, job), now);
        self.upstreams.read_body(now, transfer, &mut sink)
    }

    /// The head has come: as much of the body as is there is read, so that the size of what ends with it is known, and the response begins.
    fn begin_response(&mut self, transfer: usize, head: UpstreamHead) -> Step {
        let now = self.timers.now();
        let owner = self.upstreams.get(transfer).expect("it has just had a head").owner;
        let Some(id) = self.conns.exchange_id(owner) else { return Step::Unwanted };
        let mut pipe = pipe_of(head.framing);
        let mut step = match &mut pipe {
            Some(pipe) => self.upstreams.read_body(now, transfer, pipe),
            None => Step::Done,
        };
        if let Step::Failed(_) = step
            && pipe.as_ref().is_some_and(|pipe| pipe.queued().is_empty())
        {
            return step;
        }
        self.note_route(transfer, id, &head);
        let response = responding(head, pipe, matches!(step, Step::Done));
        let Task::PassedOn(request) = std::mem::take(&mut self.conns.exchange(id).task) else {
            unreachable!("a transfer without a response has its request")
        };
        let request = request.view();
        let to = self.service.replies.to(&self.conns[id.at], &request);
        let reply = self.service.replies.handler().passed_on(to, &request, response);
        self.conns.exchange(id).class = self.service.replies.class_of(&self.conns[id.at], to.site, &request);
        self.send(id, reply);
        self.flush(id.at);
        let job = self.job_of(owner);
        if let Some(begun) = self.upstreams.get(transfer) {
            begun.job = job;
        }
        if let Some(job) = job {
            let curve = self.upstreams.curve(transfer);
            Producer::of(&mut self.sender.transmitter, job).expect(curve);
        }
        if job.is_none() && !matches!(step, Step::Done) {
            // It went as a whole, or its client has left.
            step = Step::Unwanted;
        }
        self.go_on(id.at);
        step
    }

    /// Learns by what the response is like.
    fn note_route(&mut self, transfer: usize, id: ExchangeId, head: &UpstreamHead) {
        let Task::PassedOn(request) = &self.conns.exchange(id).task else { return };
        let request = request.view();
        let Some(group) = self.upstreams.get(transfer).map(|transfer| Arc::clone(&transfer.group)) else { return };
        let value = |name| head.values(name).next().unwrap_or_default();
        let route = Route {
            site: group.site.as_bytes(),
            method: request.method.token().as_bytes(),
            path: request.path,
            status: head.status.0,
            content_type: value("content-type"),
            coding: value("content-encoding"),
        };
        self.upstreams.on_route(transfer, &route);
    }

    /// The response of an exchange, where it is being sent.
    fn job_of(&mut self, owner: u64) -> Option<JobId> {
        let id = self.conns.exchange_id(owner)?;
        match self.conns.exchange(id).task {
            Task::Sending(job) => Some(job),
            _ => None,
        }
    }

    fn end_transfer(&mut self, transfer: usize, is_whole: bool) {
        let Some(ending) = self.upstreams.get(transfer) else { return };
        let (owner, body_bytes) = (ending.owner, ending.body_bytes());
        if let Some(id) = self.conns.exchange_id(owner) {
            let exchange = self.conns.exchange(id);
            // Its head may not have told.
            exchange.line.iter_mut().for_each(|line| line.body_bytes = line.body_bytes.max(body_bytes));
        }
        self.upstreams.end(&self.net, self.timers.now(), transfer, is_whole);
    }

    /// The upstream has failed: before its response the client is told by a status, in the midst of it by a cut.
    pub(super) fn fail_transfer(&mut self, transfer: usize, fault: Fault) {
        let Some((owner, job)) = self.upstreams.get(transfer).map(|transfer| (transfer.owner, transfer.job)) else {
            return;
        };
        let name = self.upstreams.name(transfer);
        self.note_fault(&name, &fault);
        self.end_transfer(transfer, false);
        let now = self.timers.now();
        if let Some(job) = job {
            return Producer::of(&mut self.sender.transmitter, job).fail(now, "its upstream failed");
        }
        let Some(id) = self.conns.exchange_id(owner) else { return };
        let Task::PassedOn(request) = std::mem::take(&mut self.conns.exchange(id).task) else { return };
        let request = request.view();
        let to = self.service.replies.to(&self.conns[id.at], &request);
        let reply = self.service.replies.handler().unanswered(to, &request, fault.status());
        self.conns.exchange(id).class = self.service.replies.class_of(&self.conns[id.at], to.site, &request);
        self.send(id, reply);
        self.flush(id.at);
        self.go_on(id.at);
    }

    fn note_fault(&mut self, name: &str, fault: &Fault) {
        self.service.journal.fail(self.timers.now(), Kind::Upstream, format_args!("{name}: {fault}"));
    }

    /// What brings the response of an exchange that is still there.
    fn transfer_on(&mut self, id: ExchangeId) -> Option<usize> {
        let owner = self.conns[id.at].exchanges.on(id.stream)?.owner;
        self.upstreams.of(owner)
    }

    /// The exchange needs no upstream any more: its client has left, its request is refused after all, or its response has departed.
    pub(super) fn leave_transfer(&mut self, id: ExchangeId) {
        if let Some(transfer) = self.transfer_on(id) {
            let task = &mut self.conns.exchange(id).task;
            if matches!(task, Task::PassedOn(_)) {
                *task = Task::None;
            }
            self.upstreams.end(&self.net, self.timers.now(), transfer, false);
            self.release_transfers();
        }
    }

    /// Responses have room again for what their upstreams send.
    pub(super) fn refill(&mut self) {
        let jobs: Vec<JobId> = self.sender.transmitter.reads.refills().collect();
        for job in jobs {
            let reader = Producer::of(&mut self.sender.transmitter, job).reader();
            let id = reader.and_then(|(owner, stream)| Some(ExchangeId { at: self.conns.slot(owner)?, stream }));
            if let Some(transfer) = id.and_then(|id| self.transfer_on(id)) {
                self.go_on_with(transfer);
            }
        }
    }

    /// Begins transfers that have waited for others to end.
    pub(super) fn release_transfers(&mut self) {
        while let Some((transfer, begun)) = self.upstreams.release(&self.net, self.timers.now()) {
            match begun {
                // A new connection announces its room; an old one has it.
                Ok(()) => self.send_request(transfer),
                Err(fault) => self.fail_transfer(transfer, fault),
            }
        }
    }

    /// Once a second: ends transfers whose upstream is too slow.
    pub(super) fn look_after_transfers(&mut self) {
        for transfer in self.upstreams.late(&self.net, self.timers.now()) {
            if let Some(fault) = self.upstreams.get(transfer).map(|transfer| transfer.timed_out()) {
                self.fail_transfer(transfer, fault);
            }
        }
        self.release_transfers();
    }
}

/// The response, with a body that is here as a whole or comes. What has ended has a length, whatever its head told.
fn responding(head: UpstreamHead, pipe: Option<Pipe>, is_whole: bool) -> Response<Body> {
    let is_measured = is_whole && matches!(head.framing, Framing::Chunked | Framing::Close);
    let length = pipe.as_ref().filter(|_| is_measured).map(|pipe| Length::Known(pipe.left_bytes()));
    let response = head.into_response(pipe.map_or_else(Body::default, Body::from));
    if let Some(length) = length { response.of_length(length) } else { response }
}
