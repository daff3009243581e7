//! The event loop's part in a proxy, first half: passes requests, their bodies and events to the proxy.

use std::sync::Arc;

use http::http1::Head;
use http::{BodyLength, Request, Status};
use http2::BodyRead;

use super::responder::Responder;
use super::service::Answered;
use crate::answer::{Answer, Reply, To};
use crate::connection::{KeptRequest, Task};
use crate::exchange_id::ExchangeId;
use crate::journal::Kind;
use crate::net::Net;
use crate::send::Producer;
use crate::upstream::{Group, PassOn};

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The maximum number of bytes of a request body taken from its stream in one step.
const REQUEST_PART_BYTES: usize = 16 << 10;

impl<N: Net> Responder<N> {
    /// Passes a request on. Returns the error reply if no upstream can take it; `None` if it was passed on, must wait,
    /// or its client has left.
    pub(super) fn pass_request(
        &mut self,
        id: ExchangeId,
        (pass_on, to): (PassOn, To),
        request: &Request,
        (head, minor_version): (Option<&Head>, u8),
    ) -> Option<Box<Reply>> {
        let group = Arc::clone(&pass_on.group);
        if let Some(status) = refusal_of(&group, request.body) {
            return Some(Box::new(self.service.handler.unanswered(to, request, status)));
        }
        if self.must_wait_for_leave(id, head) {
            return None;
        }
        // Field lines are split once: later code reads the copy, which stores the fields with their lengths.
        let mut kept = KeptRequest::new(request, self.connections[id].held.account());
        let request = &kept.view();
        let upload = self.upload_of(id, &group, request);
        let transfer = self.transfer_of(id, pass_on, (request, minor_version), to, upload.is_some());
        if let Err((fault, upstream)) = self.proxy.begin(&self.net, self.timers.now(), transfer) {
            self.note_fault(&upstream, &fault);
            return Some(Box::new(self.service.handler.unanswered(to, request, fault.status())));
        }
        self.connections.want_body(id, request, self.timers.date());
        self.note_passed(id, to, request, minor_version);
        kept.upload = upload;
        self.connections.exchange(id).task = Task::PassedOn(Box::new(kept));
        self.follow_begun(id);
        None
    }

    /// Stores the data of a request that logs need, unless that was done when the request started to wait for its file.
    fn note_passed(&mut self, id: ExchangeId, to: To, request: &Request, minor_version: u8) {
        let conn = &mut self.connections[id];
        if conn.exchange(id.stream).line.is_none() {
            self.service.note(self.timers.now(), conn, id.stream, to.site, request, minor_version);
        }
    }

    /// Sends the answer to a request that has waited for its file.
    pub(super) fn send_answered(&mut self, id: ExchangeId, answered: Answered) {
        let Answered { answer, to, request, minor_version } = answered;
        let reply = match answer {
            Answer::Reply(reply) => reply,
            Answer::Upstream(pass_on) => {
                match self.pass_request(id, (pass_on, to), &request.view(), (None, minor_version)) {
                    Some(reply) => *reply,
                    None => return,
                }
            }
            _ => unreachable!("nothing else follows a lookup"),
        };
        if request.view().body != BodyLength::None {
            self.connections.leave_body(id);
        }
        self.send(id, reply);
    }

    /// Makes the body of a request that may be for a script wait at the client while the file is looked up. Returns
    /// true if the request was postponed.
    pub(super) fn hold_body(&mut self, id: ExchangeId, request: &Request, head: Option<&Head>) -> bool {
        if request.body == BodyLength::None || !self.service.handler.may_run(request) {
            return false;
        }
        if self.must_wait_for_leave(id, head) {
            return true;
        }
        if !self.connections.contains(id.slot()) {
            return true;
        }
        self.connections.hold_body(id, self.timers.client_now());
        false
    }

    /// Sends 100 Continue to an HTTP/1.1 client that waits for it (RFC 9110 section 10.1.1). Returns true if the
    /// request must be postponed because the client's socket is full; 100 Continue is then sent later.
    pub(super) fn must_wait_for_leave(&mut self, id: ExchangeId, head: Option<&Head>) -> bool {
        let Some(head) = head.filter(|head| head.expect_continue && head.request.body != BodyLength::None) else {
            return false;
        };
        self.transmitter.gathered.push(CONTINUE);
        self.must_postpone(id.slot(), head)
    }

    /// Passes on more of a request's body over HTTP/1.1. Bytes that the upstream does not take in time wait at the
    /// client.
    pub(super) fn pass_on(&mut self, at: usize, bytes: &[u8], is_last: bool) {
        let id = self.connections[at].exchange_id(0);
        self.with_proxy(|proxy, _, _| proxy.push_request(id, bytes, is_last));
        let (now, is_full) = (self.timers.client_now(), self.proxy.request_room(id) == Some(0));
        if let Some(conn) = self.connections.get_mut(at).filter(|_| is_full) {
            conn.hold_body(now);
        }
    }

    /// Passes on more of the body on a stream, whose engine holds the client back by flow control.
    pub(super) fn pass_on_stream(&mut self, id: ExchangeId) {
        if self.take_from_stream(id).is_some() {
            self.with_proxy(|proxy, _, _| proxy.refill(id));
        }
    }

    /// Takes as much of a request's body from its stream as the upstream has room for. Returns `None` if the request is
    /// not being passed on any more.
    fn take_from_stream(&mut self, id: ExchangeId) -> Option<()> {
        let mut room = self.proxy.request_room(id)?;
        let (now, mut bytes) = (self.timers.client_now(), Vec::new());
        while room > 0 {
            bytes.clear();
            let read = self.connections[id].engine().read_body(id.stream, &mut bytes, REQUEST_PART_BYTES);
            if !bytes.is_empty() || read == BodyRead::End {
                self.proxy.push_request(id, &bytes, read == BodyRead::End);
            }
            let upload = self.connections.exchange(id).upload();
            upload.into_iter().for_each(|upload| upload.on_bytes(now, bytes.len()));
            // The end of the stream reports a body that was cut off.
            if read != BodyRead::More {
                break;
            }
            room = self.proxy.request_room(id)?;
        }
        self.connections.queue_output(id.slot());
        Some(())
    }

    /// Resumes reading a request's body from a client that had to wait.
    pub(super) fn go_on_reading(&mut self, id: ExchangeId) {
        if !self.connections.is_open(id) {
            return;
        }
        if self.connections[id].keeps_bodies() {
            self.take_from_stream(id);
            return;
        }
        let now = self.timers.client_now();
        if self.connections[id].let_send(now) {
            self.connections.wake(id.slot());
        }
    }

    /// Ends the transfer of an exchange that no longer needs an upstream, if it has one.
    pub(super) fn leave_upstream(&mut self, id: ExchangeId) {
        self.with_proxy(|proxy, net, now| proxy.leave(net, now, id));
    }

    /// Continues transfers whose responses have room again.
    pub(super) fn refill(&mut self) {
        if let Some(error) = self.transmitter.reads.take_write_failure() {
            self.service.journal.fail(self.timers.now(), Kind::Spool, error);
        }
        // A response that continues into a file has room immediately, and no more until that is written.
        while let Some(job) = self.transmitter.reads.next_refill() {
            if let Some(id) = Producer::of(&mut self.transmitter, &mut self.connections, job).exchange() {
                self.with_proxy(|proxy, _, _| proxy.refill(id));
            }
        }
    }

    /// Checks the health of upstreams, and ends transfers whose upstream is too slow. Called once a second.
    pub(super) fn look_after_upstreams(&mut self) {
        for check in self.proxy.due_checks(self.timers.now(), self.service.handler.groups()) {
            self.with_proxy(|proxy, net, now| proxy.begin_check(net, now, check));
        }
        self.with_proxy(|proxy, net, now| proxy.end_late(net, now));
        self.with_proxy(|proxy, _, _| proxy.relieve_all());
        self.refill();
    }
}

/// Returns the status for a body that cannot be passed to any upstream.
fn refusal_of(group: &Group, body: BodyLength) -> Option<Status> {
    group.refuses_body(body).then_some(Status::CONTENT_TOO_LARGE)
}
