//! Sending: passes responses to the write path, and handles their departure.

use units::Nanos;

use super::responder::Responder;
use crate::answer::Reply;
use crate::body::{Body, Failure};
use crate::connection::{Departure, Outgoing};
use crate::exchange_id::ExchangeId;
use crate::journal::{Kind, ResponseEnd};
use crate::net::Net;
use crate::send::Direct;
use crate::send::SentNow;

/// The log message about a client that is too slow to receive the answer to its handshake.
const SLOW_HANDSHAKE: &str = "a handshake slower than --min-send-rate (limits.min_send_rate)";

impl<N: Net> Responder<N> {
    /// Sends a reply to a request: on a stream as a job, and over HTTP/1.1 on the shortest path that the order permits.
    pub(super) fn send(&mut self, id: ExchangeId, reply: Reply) {
        if let Some(error) = &reply.trouble {
            // The server is at fault. A client may trigger the error as often as it likes, so it is counted by kind.
            self.service.journal.fail(self.timers.now(), Kind::Unreadable, error);
        }
        if self.connections[id].only_exchange().is_some() {
            let response = (reply.response, reply.is_last);
            let (body, is_last) = self.transmitter.encode(&mut self.connections[id], response, self.timers.date());
            return self.send_encoded(id.slot(), body, is_last);
        }
        let (head, body) = reply.response.into_head(self.timers.date());
        let exchange = self.connections.exchange(id);
        let body = if exchange.has_body { body } else { Body::default() };
        exchange.note_encoded(head.status(), head.bytes() as usize, &body);
        self.transmitter.respond(&mut self.connections, self.timers.now(), id, Outgoing::on_stream(head, body));
    }

    /// Sends the encoded head, followed by this body.
    pub(super) fn send_encoded(&mut self, at: usize, body: Body, is_last: bool) {
        // Nothing else is ready in this turn.
        let is_alone = self.budget.to_come == 0 && self.connections.queued() == 0;
        let sent =
            self.transmitter.send_encoded(&mut self.connections, self.timers.now(), at, (body, is_last), is_alone);
        sent.into_iter().for_each(|sent| self.on_sent_now(at, sent));
    }

    /// Sends the responses that were gathered for this connection.
    pub(super) fn flush(&mut self, at: usize) {
        let sent = self.transmitter.flush(&mut self.connections, self.timers.now(), at);
        sent.into_iter().for_each(|sent| self.on_sent_now(at, sent));
    }

    fn on_sent_now(&mut self, at: usize, SentNow { bytes, outcome }: SentNow) {
        self.budget.on_sent(bytes);
        self.service.admission.spend(self.connections[at].client_of(0), bytes);
        let id = self.connections[at].exchange_id(0);
        match outcome {
            Direct::Sent(_) => self.on_end(id, ResponseEnd::now(), bytes, None),
            Direct::Begun(job) => {
                self.connections[at].note_first_byte(bytes, || self.net.now());
                self.connections[at].hold(0, job, self.timers.client_now());
            }
            Direct::Failed(failure) => {
                self.connections[at].note_first_byte(bytes, || self.net.now());
                self.on_end(id, ResponseEnd::now(), bytes, Some(failure));
            }
        }
    }

    /// Runs the transmitter. Called once per turn, and when a grant is due.
    pub(super) fn transmit(&mut self) {
        if self.transmitter.is_idle(&self.connections, self.timers.now()) {
            self.connections.wake_due();
            return;
        }
        self.transmitter.run(&mut self.connections, &|| self.net.now());
        for notice in self.transmitter.link.notices() {
            self.service.journal.error(notice);
        }
        if self.transmitter.is_paced() {
            // The transmitter's clock never goes back.
            self.read_clock(Some(Nanos::ZERO));
        }
        self.take_departures();
        self.refill();
        self.connections.wake_due();
    }

    /// Handles responses that have ended.
    pub(super) fn take_departures(&mut self) {
        let mut departures = std::mem::take(&mut self.buffers.departures);
        departures.extend(self.transmitter.departures());
        for departure in departures.drain(..) {
            self.on_departure(departure);
        }
        self.buffers.departures = departures;
    }

    fn on_departure(&mut self, departure: Departure) {
        let id = departure.exchange;
        let at = self.connections.slot(id.token()).expect("a connection outlives its response");
        self.service.admission.spend(self.connections[at].client_of(id.stream), departure.unreported_bytes);
        let failure = &departure.failure;
        if self.connections[at].channel.is_in_flight {
            // No response has ended, so there is nothing for the log and the objectives.
            if let Some(Failure::Stalled) = failure {
                self.service.fail(self.timers.now(), &self.connections[at], Kind::Tls, SLOW_HANDSHAKE);
            }
            self.end(at, |sender, connections, at, with| sender.end_flight(connections, at, failure.is_some(), with));
            return self.connections.go_on(at);
        }
        self.leave_upstream(id);
        debug_assert!(self.connections.exchange(id).is_sending(), "a response departs once");
        self.connections[id].end_task();
        self.on_end(id, ResponseEnd::of(&departure), departure.sent_bytes, departure.failure);
        self.connections.go_on(at);
    }

    /// Handles the end of a response after `sent_bytes` were sent. Either the response failed, or the kernel has
    /// accepted all of it and, after the last response, the end of the connection.
    fn on_end(&mut self, id: ExchangeId, ending: ResponseEnd, sent_bytes: u64, failure: Option<Failure>) {
        let (now, conn) = (self.timers.now(), &mut self.connections[id]);
        let ending = match &failure {
            Some(failure) => ending.cut(sent_bytes, self.service.report(&self.timers, conn, failure, sent_bytes)),
            None => {
                conn.exchange(id.stream).line.iter_mut().for_each(|line| line.on_whole(sent_bytes));
                ending
            }
        };
        self.service.log(&self.net, now, conn, id.stream, ending, &self.transmitter.link);
        if conn.only_exchange().is_none() {
            return self.end_response_on_stream(id, failure.as_ref());
        }
        if failure.is_some() {
            return self.close(id.slot());
        }
        self.service.forget_origin(now, conn, 0);
        conn.has_answered = true;
        conn.on_sent(self.timers.client_now(), &self.limits);
        self.connections.count(id.slot());
    }

    fn end_response_on_stream(&mut self, id: ExchangeId, failure: Option<&Failure>) {
        if failure.is_some() {
            self.connections.with_engine(id.slot(), |engine| engine.cancel(id.stream));
        }
        if let Some(Failure::Stalled) = failure {
            self.abandon(id.slot());
        }
        if let Some(conn) = self.connections.get_mut(id.slot()) {
            conn.has_answered = true;
            self.end_stream(id);
        }
    }
}
