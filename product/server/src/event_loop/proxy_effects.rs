//! The event loop's part in a proxy, second half: applies the proxy's effects to connections, responses and logs.

use std::sync::Arc;

use http::gateway::takes_trailers;
use http::http1::upstream::UpstreamHead;
use http::{Request, Trailers};
use sched::JobId;
use units::Nanos;

use super::responder::Responder;
use super::upstream_response::{announced, responding, size_from};
use crate::answer::{Handler, Reply, To};
use crate::body::Trailing;
use crate::connection::{Exchange, KeptRequest, LogEntry, Search, Task, UpstreamEntry};
use crate::disk::Room;
use crate::exchange_id::ExchangeId;
use crate::files::CacheAnswer;
use crate::journal::Kind;
use crate::net::{Net, Socket, Transport};
use crate::proxy::{Begun, Effect, Measured, Named, Proxy, Tried};
use crate::send::Producer;
use crate::upstream::{BodySink, CodedBody, Fault, Prediction};

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

impl<N: Net> Responder<N> {
    /// Passes an input to the proxy, and applies the resulting effects until there are no more.
    pub(super) fn with_proxy<R>(&mut self, input: impl FnOnce(&mut Proxy<N>, &N, Nanos) -> R) -> R {
        let result = input(&mut self.proxy, &self.net, self.timers.now());
        while let Some(effect) = self.proxy.poll(&self.net, self.timers.now()) {
            self.apply(effect);
        }
        result
    }

    /// Applies the effects of a request that the proxy has begun, unless the client has left.
    pub(super) fn follow_begun(&mut self, id: ExchangeId) {
        if self.has_left(id.slot()) { self.abort(id.slot()) } else { self.with_proxy(|_, _, _| ()) }
    }

    fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::Interim { id, .. } if self.is_deciding(id) => {}
            Effect::Interim { id, head } => self.send_interim(id, *head),
            Effect::Respond(begun) => self.pass_or_answer(begun).into_iter().for_each(|begun| self.begin_passed(begun)),
            Effect::Named(named) => self.reply_named(*named),
            Effect::Intercepted { id, head } => self.reply_intercepted(id, *head),
            Effect::Body { id } => self.pass_body(id),
            Effect::ReadRequest { id } => self.go_on_reading(id),
            Effect::Upload { id, is_awaited } => self.follow_upload(id, is_awaited),
            Effect::Spool { id, room } => self.spool(id, &room),
            Effect::Ended { id, .. } if self.is_deciding(id) => {}
            Effect::Ended { id, tried, measured } => self.note_ended(id, tried, measured),
            Effect::Failed { id, fault, upstream, is_sending } => {
                self.note_fault(&upstream, &fault);
                self.fail_passed(id, &fault, is_sending);
            }
            Effect::Said { upstream, said } => {
                self.service.journal.fail(self.timers.now(), Kind::Program, format_args!("{upstream} says: {said}"));
            }
            Effect::Note(line) => self.service.journal.error(line),
        }
    }

    fn send_interim(&mut self, id: ExchangeId, head: UpstreamHead) {
        if !self.connections.is_open(id) {
            return;
        }
        let (now, date, response) = (self.timers.now(), self.timers.date(), head.into_response(()));
        let sent_bytes = self.transmitter.send_interim(&mut self.connections, now, date, id, response);
        self.service.admission.spend(self.connections[id].client_of(id.stream), sent_bytes);
    }

    /// Sends the response of an upstream, whose body may still be arriving.
    fn begin_passed(&mut self, begun: Box<Begun>) {
        let (now, id) = (self.timers.now(), begun.id);
        let (rest, coded) = match self.take_passed(id) {
            Some(request) => {
                let view = request.view();
                self.proxy.enter_route(&begun, &view);
                let is_logged = self.line_of(id).is_some_and(|line| line.log.is_some());
                let prediction = if is_logged { self.proxy.prediction(&begun) } else { Prediction::default() };
                let (is_whole, trailing) = (begun.is_whole(), self.trailing(id, &view));
                let Begun { head, pipe, rest, tried, .. } = *begun;
                let size_from = size_from(head.framing, is_whole);
                self.note_tried(id, tried, |line| line.answered(now, size_from, prediction));
                let length = announced(head.framing);
                let (response, mut tally) = (responding(head, pipe, trailing, is_whole), None);
                self.reply_passed(id, request, |handler, to, request| {
                    let reply = handler.passed_on(to, request, response);
                    tally = reply.response.body.tally();
                    reply
                });
                (rest, tally.map(|tally| CodedBody { length, tally }))
            }
            // The client has left while other responses were sent.
            None => (begun.rest, None),
        };
        let (job, is_coded) = (self.job_of(id), coded.as_ref().is_some_and(|coded| coded.tally.whole().is_none()));
        let curve = self.proxy.on_sent(&self.net, now, (id, rest, coded), job.is_some());
        let Some(job) = job else { return };
        if let Some(line) = self.line_of(id).and_then(|line| line.passed_on.as_mut()) {
            if is_coded {
                line.lose_size();
            }
            line.guess_size(curve.is_some());
        }
        self.producer(job).expect(curve);
    }

    fn trailing(&self, id: ExchangeId, request: &Request) -> Trailing {
        self.connections[id].trailing(takes_trailers(request))
    }

    /// Sends the file that an upstream names, or starts to look it up.
    fn reply_named(&mut self, named: Named) {
        let Named { id, head, folder, path } = named;
        let Some(request) = self.take_passed(id) else { return };
        let said = head.into_response(());
        let found = match self.service.handler.look_for_named(folder, &path, self.timers.now()) {
            CacheAnswer::Ready(found) => found,
            CacheAnswer::Offload(lookup) => {
                let client = self.connections[id].client_of(id.stream);
                match self.service.handler.begin_lookup(lookup, id, client, self.timers.now()) {
                    Ok(key) => return self.connections.exchange(id).wait_for(key, request, Search::Named(said)),
                    Err(missing) => Err(missing),
                }
            }
        };
        self.reply_passed(id, request, |handler, to, request| handler.reply_named(to, request, found, &said));
    }

    /// Sends the site's error page in place of an upstream's response.
    fn reply_intercepted(&mut self, id: ExchangeId, head: UpstreamHead) {
        let Some(request) = self.take_passed(id) else { return };
        let said = head.into_response(());
        self.reply_passed(id, request, |handler, to, request| handler.intercepted(to, request, &said));
    }

    /// Passes more of a response's body to its job.
    fn pass_body(&mut self, id: ExchangeId) {
        let Some(job) = self.job_of(id) else { return };
        let now = self.timers.now();
        let mut sink = (Producer::of(&mut self.transmitter, &mut self.connections, job), now);
        self.proxy.read_body(&self.net, now, id, &mut sink);
    }

    /// Runs the clock of an upload on a stream while the upload waits for its client, and stops it while it waits for
    /// its upstream.
    fn follow_upload(&mut self, id: ExchangeId, is_awaited: bool) {
        let now = self.timers.client_now();
        match self.connections.find(id).and_then(Exchange::upload) {
            Some(upload) if is_awaited => upload.go_on(now),
            Some(upload) => upload.hold(now),
            None => {}
        }
    }

    /// Continues to buffer a response in a spool file, if there is room for it.
    fn spool(&mut self, id: ExchangeId, room: &Arc<Room>) {
        let Some(job) = self.job_of(id) else { return };
        let mut producer = self.producer(job);
        let bytes = producer.queued_bytes();
        if producer.spool(room) {
            let line = self.line_of(id).and_then(|line| line.passed_on.as_mut());
            line.into_iter().for_each(|line| line.spooled_bytes += bytes);
            self.proxy.on_spooled(id);
        }
    }

    fn note_ended(&mut self, id: ExchangeId, tried: Option<Tried>, measured: Option<Measured>) {
        self.note_tried(id, tried, |line| line);
        let (Some(line), Some(measured)) = (self.line_of(id), measured) else { return };
        line.passed_on.iter_mut().for_each(|passed_on| passed_on.measure(measured.quantile));
        // The head may not have given the length, and a stage changes it.
        if !line.is_staged {
            line.body_bytes = line.body_bytes.max(measured.body_bytes);
        }
    }

    /// Completes the upstream's part of the access log line, unless that was done already.
    fn note_tried(
        &mut self,
        id: ExchangeId,
        tried: Option<Tried>,
        complete: impl FnOnce(UpstreamEntry) -> UpstreamEntry,
    ) {
        let Some(Tried { upstream, queued_at, attempt }) = tried else { return };
        let Some(line) = self.line_of(id).filter(|line| line.log.is_some() && line.passed_on.is_none()) else {
            return;
        };
        line.passed_on = Some(Box::new(complete(UpstreamEntry::new(upstream, queued_at, attempt))));
    }

    /// Logs that an upstream does not answer.
    pub(super) fn note_fault(&mut self, upstream: &str, fault: &Fault) {
        if !fault.is_of_client() {
            self.service.journal.fail(self.timers.now(), Kind::Upstream, format_args!("{upstream}: {fault}"));
        }
    }

    fn fail_passed(&mut self, id: ExchangeId, fault: &Fault, is_sending: bool) {
        if is_sending {
            let (now, job) = (self.timers.now(), self.job_of(id));
            return job.into_iter().for_each(|job| self.producer(job).fail(now));
        }
        let Some(request) = self.take_passed(id) else { return };
        let status = fault.status();
        if fault.is_of_client() {
            self.connections.leave_body(id);
        }
        self.reply_passed(id, request, |handler, to, request| handler.unanswered(to, request, status));
    }

    /// Takes the request of an exchange that waits for an upstream.
    fn take_passed(&mut self, id: ExchangeId) -> Option<Box<KeptRequest>> {
        let task = &mut self.connections.find(id)?.task;
        match std::mem::take(task) {
            Task::PassedOn(request) => Some(request),
            Task::Deciding(deciding) => Some(self.undecided(id, &deciding)),
            other => {
                *task = other;
                None
            }
        }
    }

    /// Sends the reply that `make` returns.
    fn reply_passed(
        &mut self,
        id: ExchangeId,
        request: Box<KeptRequest>,
        make: impl FnOnce(&mut Handler, To, &Request) -> Reply,
    ) {
        let view = request.view();
        let to = self.service.target(&mut self.connections[id], id.stream, &view);
        let reply = make(&mut self.service.handler, to, &view);
        drop(request);
        assert!(self.transmitter.gathered.is_empty(), "what was gathered for one connection is not another's");
        self.send(id, reply);
        self.flush(id.slot());
        self.connections.go_on(id.slot());
    }

    fn producer(&mut self, job: JobId) -> Producer<'_, Transport<N>> {
        Producer::of(&mut self.transmitter, &mut self.connections, job)
    }

    /// The log data of an exchange.
    fn line_of(&mut self, id: ExchangeId) -> Option<&mut LogEntry> {
        self.connections.find(id)?.line.as_deref_mut()
    }

    /// The job of an exchange's response, if it is being sent.
    fn job_of(&mut self, id: ExchangeId) -> Option<JobId> {
        match self.connections.find(id)?.task {
            Task::Sending(job) => Some(job),
            _ => None,
        }
    }
}
