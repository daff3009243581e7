//! Reads bytes and parses requests. A connection gets only its share of a turn; if it has more to read, it is queued
//! for the next turn.

use http::http1::Head;
use http::{Reject, Request, Shown};
use rustix::io::Errno;
use tls::REFUSAL;

use super::proxy_header::Refused;
use super::responder::Responder;
use super::service::Before;
use super::streams::is_preface;
use crate::access::Verdict;
use crate::answer::{self, Answer, To};
use crate::body::Body;
use crate::connection::Task;
use crate::connection::http1::{Event, Received};
use crate::exchange_id::ExchangeId;
use crate::journal::Kind;
use crate::net::Net;
use crate::send::Transmitter;
#[cfg(test)]
use crate::simulation::planted;

/// The reason in the error log for refusing a client that uses TLS on a plain HTTP listener.
const SPEAKS_TLS: &str = "the client speaks TLS and this listener does not; for HTTPS set tls = true in its [[listener]], or --cert and --key";

impl<N: Net> Responder<N> {
    /// Reads the bytes that have arrived, within the connection's share of the turn, as long as the connection is in a
    /// state that reads.
    pub(super) fn read(&mut self, at: usize) {
        self.budget.begin_connection();
        if self.connections[at].input.is_cut {
            self.take(at, &[]);
        }
        let mut scratch = std::mem::take(&mut self.buffers.scratch);
        while let Some(conn) = self.connections.get(at) {
            if !conn.is_reading() || !conn.input.is_left() {
                break;
            }
            let must_wait = conn.channel.is_handshaking && !self.budget.has_handshake_left();
            if conn.input.is_cut || must_wait || self.budget.is_read_enough() {
                self.connections.queue(at);
                break;
            }
            self.receive(at, &mut scratch);
        }
        self.buffers.scratch = scratch;
        if let Some(conn) = self.connections.get_mut(at) {
            let has_part = conn.has_part();
            conn.note_part(has_part, self.timers.client_now() + self.limits.head_timeout);
        }
        self.connections.count(at);
        self.end_part(at);
    }

    fn receive(&mut self, at: usize, scratch: &mut [u8]) {
        self.budget.on_receive();
        if self.connections[at].has_peer_ended() {
            return self.end_input(at);
        }
        let conn = &mut self.connections[at];
        match conn.receive(scratch) {
            Ok(0) => self.end_input(at),
            Ok(bytes) => {
                // A short read has emptied the socket, except for the end of the stream; later bytes cause a new event.
                conn.input.is_readable = bytes == scratch.len() || conn.input.has_ended;
                self.transmitter.link.on_received(self.timers.now(), conn, bytes);
                let (timers, scheduler) = (&self.timers, self.transmitter.link.scheduler_mut());
                let (fresh, limits, awaits_header) = (&scratch[..bytes], &self.limits, conn.awaits_header());
                let fresh = match self.service.behind_header(timers, conn, fresh, scheduler, limits) {
                    Ok(Some(fresh)) => fresh,
                    Ok(None) => return,
                    Err(Refused) => return self.close(at),
                };
                if awaits_header {
                    self.transmitter.link.begin(conn);
                }
                if conn.channel.is_tls() {
                    self.receive_sealed(at, fresh);
                    return self.note_end_of_tls(at);
                }
                self.take(at, fresh);
                let Some(conn) = self.connections.get_mut(at) else { return };
                let has_part = conn.has_request_part();
                if conn.input.on_received(bytes, has_part) {
                    conn.acknowledge();
                }
            }
            Err(Errno::AGAIN) => conn.input.is_readable = false,
            Err(Errno::INTR) => {}
            Err(_) => self.close(at),
        }
    }

    /// Handles the end of the client's TLS. No event reports it, and the end of TCP may never follow. On an HTTP/1.1
    /// connection, bytes before it are still read after the response in progress. Over HTTP/2 the responses in progress
    /// are finished, unless there is a tunnel, whose only end this is.
    fn note_end_of_tls(&mut self, at: usize) {
        #[cfg(test)]
        if planted::strikes(planted::Fault::EndOfTlsUnnoticed) {
            return;
        }
        let Some(conn) = self.connections.get_mut(at) else { return };
        if !conn.has_peer_ended() {
            return;
        }
        let Some(streams) = conn.protocol.streams() else {
            conn.input.is_readable = true;
            return;
        };
        if streams.is_idle() {
            return self.end(at, Transmitter::end_streams);
        }
        if conn.protocol.exchanges().any(|exchange| self.proxy.has_tunnel(exchange.id)) {
            self.close(at);
        }
    }

    /// Handles the end of the client's bytes. In a tunnel, the end is passed on to the upstream, which may continue to
    /// send: `docker exec -i` gets its answer at that point. Once the upstream has ended, the rest of its response is
    /// still sent.
    fn end_input(&mut self, at: usize) {
        let conn = &mut self.connections[at];
        let id = conn.only_exchange();
        if conn.is_sending() && id.is_some_and(|id| !self.proxy.has_transfer(id)) {
            conn.input.is_readable = false;
            return;
        }
        if id.is_none_or(|id| !self.proxy.has_tunnel(id)) {
            return self.close(at);
        }
        conn.input.is_readable = false;
        self.pass_on(at, &[], true);
    }

    /// Answers the requests in the stored and newly received bytes, and stores the rest.
    pub(super) fn take(&mut self, at: usize, fresh: &[u8]) {
        if self.connections[at].takes_frames() {
            return self.take_frames(at, fresh);
        }
        let connection = &mut self.connections[at];
        connection.input.is_cut = false;
        let may_be_http2 = !connection.channel.is_tls() && !connection.has_answered && connection.http1().is_unasked();
        let mut received = connection.http1().receive(fresh);
        if may_be_http2 {
            match is_preface(received.rest()) {
                Some(true) => {
                    let begin = self.http2_begin();
                    self.transmitter.begin_http2(&mut self.connections, self.timers.now(), at, &begin);
                    return self.take_frames(at, received.rest());
                }
                None => return connection.http1().keep(received),
                Some(false) => {}
            }
        }
        self.take_requests(at, &mut received);
        if let Some(connection) = self.connections.get_mut(at) {
            connection.http1().keep(received);
        }
        self.flush(at);
    }

    /// Answers the HTTP/1.1 requests that have arrived, within the connection's share of the turn.
    fn take_requests(&mut self, at: usize, received: &mut Received) {
        while let Some(conn) = self.connections.get_mut(at) {
            if self.budget.is_spent() && !received.is_empty() && conn.http1().is_reading() {
                conn.input.is_cut = true;
                return;
            }
            let is_wanted = self.service.handler.takes_body(conn.security());
            match conn.http1().next(self.timers.client_now(), &self.limits, received, is_wanted) {
                Some(Event::Body) => {}
                Some(Event::Request { head }) => {
                    // The client may send the body although it was not told to.
                    conn.input.is_readable |= head.expect_continue;
                    let id = conn.exchange_id(0);
                    self.answer(id, &head.request, Some(&head));
                }
                Some(Event::Data { bytes, is_last }) => {
                    self.take_data(at, bytes, is_last);
                }
                Some(Event::Refused { reject, shown, is_tls }) => {
                    let id = conn.exchange_id(0);
                    self.refuse(id, reject, &shown, is_tls);
                }
                None => return,
            }
        }
    }

    /// Answers a request; `head` is the HTTP/1.1 head.
    pub(super) fn answer(&mut self, id: ExchangeId, request: &Request, head: Option<&Head>) {
        self.budget.on_request();
        let scheduler = self.transmitter.link.scheduler_mut();
        self.service.identify(self.timers.now(), &mut self.connections[id], id.stream, request, scheduler);
        self.answer_with(id, request, head, None);
    }

    /// Answers a request as received. `verdict` is present if the request has waited for one.
    pub(super) fn answer_with(
        &mut self,
        id: ExchangeId,
        came: &Request,
        head: Option<&Head>,
        verdict: Option<Verdict>,
    ) {
        let (now, conn) = (self.timers.now(), &self.connections[id]);
        let to = self.service.handler.to(conn, id.stream, came);
        let rewritten = self.service.handler.rewrite(to, came);
        let (rewritten, refusal) = rewritten.map_or_else(|reply| (None, Some(reply)), |rewritten| (rewritten, None));
        let path = rewritten.as_ref().map(|rewritten| (&rewritten.path[..], rewritten.query.as_deref()));
        let request = &path.map_or(*came, |(path, query)| came.with_path(path, query));
        let answer = self.service.answer(now, conn, id.stream, to, request, Before { refusal, verdict });
        match answer {
            Answer::Verify(question) => self.verify(id, to, (came, request), head, *question),
            Answer::Ask(server) => self.ask(id, to, (came, request), head, &server),
            answer => self.follow(id, to, (request, head), answer),
        }
    }

    /// Replies to a request, or starts the work that must precede the reply.
    pub(super) fn follow(
        &mut self,
        id: ExchangeId,
        to: To,
        (request, head): (&Request, Option<&Head>),
        answer: Answer,
    ) {
        let minor_version = head.map_or(0, |head| head.minor_version);
        let reply = match answer {
            Answer::Reply(reply) => reply,
            Answer::Verify(_) | Answer::Ask(_) => unreachable!("its client is let in before"),
            _ if head.is_some_and(|head| self.must_postpone(id.slot(), head)) => return,
            Answer::Upstream(pass_on) => match self.pass_request(id, (pass_on, to), request, (head, minor_version)) {
                Some(reply) => *reply,
                None => return self.hint(id, to, (request, head)),
            },
            Answer::Upload => match self.receive_body(id, to, request, head) {
                Some(reply) => reply,
                None => return,
            },
            Answer::Lookup(..) if self.hold_body(id, request, head) => return,
            Answer::Lookup(awaited, scripts) => {
                let (now, conn) = (self.timers.now(), &mut self.connections[id]);
                match self.service.look_up(now, conn, id.stream, (awaited, scripts), (request, minor_version)) {
                    Ok(()) => {
                        self.service.note(now, conn, id.stream, to.site, request, minor_version);
                        return self.hint(id, to, (request, head));
                    }
                    Err(missing) => self.service.handler.reply_with(to, request, Err(missing)),
                }
            }
        };
        let (now, conn) = (self.timers.now(), &mut self.connections[id]);
        self.service.note(now, conn, id.stream, to.site, request, minor_version);
        conn.exchange(id.stream).class = self.service.handler.class_of(conn, id.stream, to.site, request);
        self.send(id, reply);
    }

    /// Sends early hints for a request whose response is not ready, if its site has some. Over HTTP/1.1 browsers ignore
    /// them.
    fn hint(&mut self, id: ExchangeId, to: To, (request, head): (&Request, Option<&Head>)) {
        if head.is_some() || !self.connections.is_open(id) {
            return;
        }
        let Some(hints) = self.service.handler.hints(to, request) else { return };
        let (now, date) = (self.timers.now(), self.timers.date());
        let sent_bytes = self.transmitter.send_interim(&mut self.connections, now, date, id, hints);
        self.service.admission.spend(self.connections[id].client_of(id.stream), sent_bytes);
    }

    /// Returns true if a request that waits for a disk must be postponed. Responses gathered before it are sent first;
    /// if that is impossible now, the request is handled later or never.
    pub(super) fn must_postpone(&mut self, at: usize, head: &Head) -> bool {
        self.flush(at);
        let Some(conn) = self.connections.get_mut(at) else { return true };
        if conn.is_sending() {
            self.service.admission.on_postponed(conn.client_of(0));
            conn.http1().postpone(head);
            return true;
        }
        false
    }

    /// Answers an invalid request. Over HTTP/1.1, nothing more is read.
    pub(super) fn refuse(&mut self, id: ExchangeId, reject: Reject, shown: &Shown, is_tls: bool) {
        self.budget.on_request();
        // The fault may lie in the body of the request, or in its slowness.
        self.leave_upstream(id);
        let task = &mut self.connections.exchange(id).task;
        if matches!(task, Task::Receiving(_) | Task::PassedOn(_)) {
            *task = Task::None;
        }
        self.service.note_refused(self.timers.now(), &mut self.connections[id], id.stream, shown, reject.reason);
        self.connections.exchange(id).class = self.service.handler.default_class();
        let conn = &mut self.connections[id];
        if conn.on_refused(is_tls) {
            self.service.fail(self.timers.now(), conn, Kind::Tls, SPEAKS_TLS);
            conn.http1().answering.refuse_aside();
            conn.exchange(0).note_encoded(reject.status, REFUSAL.len(), &Body::default());
            self.transmitter.gathered.push(&REFUSAL);
            return self.send_encoded(id.slot(), Body::default(), true);
        }
        self.send(id, answer::reject(reject));
    }
}
