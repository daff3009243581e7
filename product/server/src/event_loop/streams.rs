//! HTTP/2 and HTTP/3 connections. They carry several requests at the same time, and each is answered as over HTTP/1.1.
//! Each response is a job on the connection.
//!
//! The engine belongs to the transmitter, which makes its frames. The worker passes received bytes to the engine and
//! answers its requests.

use http::{Method, Refused, Reject, Status};
use http2::{Broken, Event, PREFACE};

use super::responder::Responder;
use crate::body::Failure;
use crate::connection::Task;
use crate::exchange_id::ExchangeId;
use crate::journal::Kind;
use crate::net::Net;
use crate::send::Transmitter;

/// The minimum length of a preface that cannot be the start of an HTTP/1 request.
const PREFACE_BYTES_MIN: usize = 16;

/// The status, in the log and the metrics, of a connection that ended because of a mistake by its client.
const BROKEN: Reject = Reject { status: Status::BAD_REQUEST, reason: "a mistake that ends the connection" };

/// Returns whether a client starts with HTTP/2 without negotiation (RFC 9113 section 3.3); `None` if too few bytes have
/// arrived to decide.
pub fn is_preface(bytes: &[u8]) -> Option<bool> {
    let is_part = PREFACE.iter().zip(bytes).all(|(preface, byte)| preface == byte);
    if is_part && bytes.len() < PREFACE_BYTES_MIN { None } else { Some(is_part) }
}

impl<N: Net> Responder<N> {
    /// Takes bytes that have just arrived, or continues with earlier ones.
    pub(super) fn take_frames(&mut self, at: usize, bytes: &[u8]) {
        self.connections[at].input.is_cut = false;
        let taken = self.transmitter.take_in(&mut self.connections, self.timers.now(), at, bytes, &self.limits);
        self.take_events(at);
        if self.timers.is_stopping() {
            // A client of a stopping server receives a GOAWAY with its first request.
            self.end_without_request(at);
        }
        if let Err(broken) = &taken
            && self.connections.contains(at)
        {
            self.note_broken(at, broken);
        }
        let Some(conn) = self.connections.get_mut(at).filter(|conn| conn.takes_frames()) else { return };
        if taken.is_err() {
            self.end(at, Transmitter::end_broken);
        } else if conn.is_over() {
            self.end(at, Transmitter::end_streams);
        }
    }

    /// Takes a turn's share of events. A connection that has more waits for the next turn.
    fn take_events(&mut self, at: usize) {
        while let Some(conn) = self.connections.get_mut(at).filter(|conn| conn.takes_frames()) {
            if self.budget.is_spent() {
                conn.input.is_cut = true;
                return;
            }
            match self.connections[at].engine().event() {
                None => return,
                Some(Event::Request { stream, request }) => {
                    match self.service.admission.why_full(self.connections.streams()) {
                        Some(why) => {
                            // The client must retry.
                            self.service.fail(self.timers.now(), &self.connections[at], Kind::Crowded, why);
                            return self.abandon(at);
                        }
                        None => {
                            let id = self.connections.begin_stream(at, stream);
                            self.connections.count(at);
                            match request {
                                Ok(request) => {
                                    let request = request.view();
                                    self.connections.exchange(id).has_body = request.method != Method::Head;
                                    self.answer(id, &request, None);
                                }
                                Err(refused) => self.refuse(id, refused.reject, &refused.shown, false),
                            }
                        }
                    }
                }
                Some(Event::Body { stream }) => {
                    let id = self.connections[at].exchange_id(stream);
                    self.take_stream_data(id);
                }
                Some(Event::Malformed { stream, refused }) => self.note_malformed(at, stream, &refused),
                Some(Event::Priority { stream }) => self.transmitter.prefer(&mut self.connections[at], stream),
                Some(Event::Closed { stream }) => self.leave_stream(self.connections[at].exchange_id(stream)),
            }
        }
    }

    /// Logs a malformed request, whose stream is reset. If its response has begun, it is logged when the response ends.
    fn note_malformed(&mut self, at: usize, stream: u32, refused: &Refused) {
        self.budget.on_request();
        let id = self.connections[at].exchange_id(stream);
        let (now, link) = (self.timers.now(), &self.transmitter.link);
        match self.connections.find(id).map(|exchange| exchange.is_sending()) {
            None => {
                self.service.log_malformed(&self.net, now, &mut self.connections[at], (refused, None), link);
            }
            Some(false) => {
                let (conn, reject) = (&mut self.connections[at], refused.reject);
                self.service.log_malformed_rest(&self.net, now, conn, stream, reject, link);
                self.leave_stream(id);
            }
            Some(true) => {}
        }
    }

    /// Logs the mistake that ends a connection: in the access log for each connection, and in the error log once for
    /// many of them.
    fn note_broken(&mut self, at: usize, broken: &Broken) {
        let (now, conn) = (self.timers.now(), &mut self.connections[at]);
        if !conn.channel.is_handshaking {
            let (refused, why) = (Refused::unseen(BROKEN), broken.to_string());
            let link = &self.transmitter.link;
            self.service.log_malformed(&self.net, now, conn, (&refused, Some(&why)), link);
        }
        let conn = &self.connections[at];
        self.service.fail(now, conn, Kind::of_frames(conn.version(0)), broken);
    }

    /// Handles a closed stream: its response was made completely, or the client no longer wants it.
    pub(super) fn leave_stream(&mut self, id: ExchangeId) {
        let Some(exchange) = self.connections.find(id) else { return };
        match exchange.task {
            Task::Sending(job) => {
                self.transmitter.abort(&mut self.connections, self.timers.now(), job, Failure::Disconnected)
            }
            Task::Deciding(_) | Task::LookingUp(_) | Task::PassedOn(_) | Task::Receiving(_) | Task::None => {
                self.leave_upstream(id);
                self.service.leave(
                    &self.net,
                    &self.timers,
                    &mut self.connections[id],
                    id.stream,
                    &self.transmitter.link,
                );
                self.end_stream(id);
            }
        }
    }

    pub(super) fn end_stream(&mut self, id: ExchangeId) {
        // A client that has ended its sending side makes no more requests.
        let has_ended = self.connections[id].has_peer_ended();
        self.service.forget_origin(self.timers.now(), &mut self.connections[id], id.stream);
        let (now, limits) = (self.timers.client_now(), &self.limits);
        if let Some(streams) = self.connections[id].protocol.streams_mut() {
            streams.end(id.stream, now, limits);
            if (streams.is_leaving || has_ended) && streams.is_idle() {
                self.end(id.slot(), Transmitter::end_streams);
            }
            self.connections.count(id.slot());
        }
    }
}
