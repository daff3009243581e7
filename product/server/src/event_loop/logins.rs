//! Requests whose clients must be authorized first, by a password or by an authentication server
//! ([`super::forward_auth`]). A request is stored as it arrived; after the verdict it is answered as if it had just
//! arrived. Its body stays at the client and is not read.

use http::http1::Head;
use http::{BodyLength, Request};

use super::responder::Responder;
use crate::access::{Question, Verdict};
use crate::answer::To;
use crate::connection::{Deciding, KeptRequest, Task};
use crate::exchange_id::ExchangeId;
use crate::net::Net;

impl<N: Net> Responder<N> {
    /// Starts to verify a request's password. `came` is the request as received, `request` the request to answer.
    pub(super) fn verify(
        &mut self,
        id: ExchangeId,
        to: To,
        (came, request): (&Request, &Request),
        head: Option<&Head>,
        question: Question,
    ) {
        if head.is_some_and(|head| self.must_postpone(id.slot(), head)) {
            return;
        }
        let (now, conn) = (self.timers.now(), &mut self.connections[id]);
        let client = (conn.client_of(id.stream), conn.address_of(id.stream));
        if let Err(refused) = self.service.handler.begin_verification(now, client, question, id) {
            let reply = self.service.handler.unverified(to, request, refused);
            return self.follow(id, to, (request, head), reply.into());
        }
        self.wait_for_verdict(id, to, came, head);
    }

    /// Returns true if an exchange waits for the decision whether to admit its client.
    pub(super) fn is_deciding(&self, id: ExchangeId) -> bool {
        self.connections.resolve(id).is_some_and(|(_, exchange)| matches!(exchange.task, Task::Deciding(_)))
    }

    /// Ends the wait of a request that will be answered without a verdict.
    pub(super) fn undecided(&mut self, id: ExchangeId, deciding: &Deciding) -> Box<KeptRequest> {
        let came = deciding.request();
        if came.body != BodyLength::None {
            self.connections.leave_body(id);
        }
        let conn = &self.connections[id];
        let to = self.service.handler.to(conn, id.stream, &came);
        let rewritten = self.service.handler.rewrite(to, &came).ok().flatten();
        let path = rewritten.as_ref().map(|rewritten| (&rewritten.path[..], rewritten.query.as_deref()));
        let request = path.map_or(came, |(path, query)| came.with_path(path, query));
        Box::new(KeptRequest::new(&request, conn.held.account()))
    }

    /// Stores a request until the verdict about it arrives.
    pub(super) fn wait_for_verdict(&mut self, id: ExchangeId, to: To, came: &Request, head: Option<&Head>) {
        let (now, conn) = (self.timers.now(), &mut self.connections[id]);
        // The rules that decide who is let in apply to the path after a rewrite.
        let rewritten = self.service.handler.rewrite(to, came).ok().flatten();
        let path = rewritten.as_ref().map(|rewritten| (&rewritten.path[..], rewritten.query.as_deref()));
        let request = path.map_or(*came, |(path, query)| came.with_path(path, query));
        self.service.note(now, conn, id.stream, to.site, &request, head.map_or(0, |head| head.minor_version));
        let deciding = Deciding::new(came, head, conn.held.account());
        conn.exchange(id.stream).task = Task::Deciding(Box::new(deciding));
        if came.body != BodyLength::None {
            self.connections.hold_body(id, self.timers.client_now());
        }
    }

    /// Answers the requests whose passwords were verified, until the turn ends.
    pub(super) fn answer_decided(&mut self) {
        while let Some((id, verdict)) = self.service.handler.next_decided() {
            self.decide(id, verdict);
            if self.timers.is_turn_over(self.net.now()) {
                return;
            }
        }
    }

    pub(super) fn decide(&mut self, id: ExchangeId, verdict: Verdict) {
        // There is no exchange if the client has left since.
        let Some(exchange) = self.connections.find(id) else { return };
        let deciding = match std::mem::take(&mut exchange.task) {
            Task::Deciding(deciding) => deciding,
            other => return exchange.task = other,
        };
        let (conn, now) = (&mut self.connections[id], self.timers.client_now());
        let is_held = conn.let_send(now);
        let has_body = conn.keeps_bodies() && deciding.request().body != BodyLength::None;
        let head = deciding.head();
        self.answer_with(id, &deciding.request(), head.as_ref(), Some(verdict));
        if has_body {
            self.take_or_leave_body(id);
        }
        // The gathered responses may include the last of a connection.
        let Some(at) = self.connections.slot(id.token()) else { return };
        self.flush(at);
        self.connections.count(at);
        self.connections.go_on(at);
        if is_held && self.connections.slot(id.token()).is_some() {
            self.connections.wake(at);
        }
    }

    /// Starts to read the body of a request on a stream if the body is needed now; discards it if it is never needed.
    fn take_or_leave_body(&mut self, id: ExchangeId) {
        let Some(exchange) = self.connections.find(id) else { return };
        match exchange.task {
            Task::PassedOn(_) | Task::Receiving(_) => self.take_stream_data(id),
            Task::Deciding(_) => {}
            Task::LookingUp(ref pending) if self.service.handler.may_run(&pending.request.view()) => {}
            Task::None | Task::LookingUp(_) | Task::Sending(_) => self.connections.leave_body(id),
        }
    }
}
