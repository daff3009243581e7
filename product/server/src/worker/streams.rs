//! Connections of HTTP/2 and HTTP/3: several requests at a time, each answered as one of HTTP/1.1 is, its response a job on the connection's carrier.
//!
//! The engine lives with the transmitter, which makes its frames; the worker gives it what came and answers its requests.

use http::{Method, OwnedRequest, Refused};
use mux::{Broken, Event, PREFACE};
use sched::grow::reserve_one;
use units::Nanos;

use super::Worker;
use super::conn::Conn;
use super::ending::Ending;
use super::exchange::{Exchange, Place, Task};
use super::line::Line;
use super::measured::Measured;
use crate::config::Limits;
use crate::reply::{self, Reply};
use crate::transmit::{Body, Departure, Failure, Opening, Outgoing, PipeId, Sink, Stream as Begun};

/// As much of the preface as no request of HTTP/1 begins with.
const PREFACE_BYTES_MIN: usize = 16;

/// Idle connections keep room for so many.
const STREAMS_KEPT: usize = 4;

pub struct Multiplexed {
    pub pipe: PipeId,
    /// Those that are open, at most [`mux::STREAMS_MAX`].
    /// By number.
    pub streams: Vec<Stream>,
    /// Nothing is expected before this instant.
    pub deadline: Nanos,
    /// It ends when its last stream has.
    pub is_leaving: bool,
    /// Of one over datagrams whose client has not acknowledged everything: it ends then at the latest.
    #[cfg(feature = "http3")]
    pub ends_at: Option<Nanos>,
}

/// A request and its response.
pub struct Stream {
    pub number: u32,
    /// Its name among finds.
    pub owner: u64,
    pub exchange: Exchange,
    /// False for HEAD: no body follows the head.
    has_body: bool,
    pub measured: Option<Box<Measured>>,
}

/// Open streams of all connections of a worker, each with one job at most.
pub(super) struct OpenStreams {
    pub count: usize,
    pub max: usize,
}

impl OpenStreams {
    /// As many as the drain may have jobs beside one of each of so many connections.
    pub fn beside(connections_max: usize) -> OpenStreams {
        OpenStreams { count: 0, max: sched::JOBS_MAX.saturating_sub(connections_max) }
    }

    fn is_full(&self) -> bool {
        self.count >= self.max
    }
}

impl Multiplexed {
    pub fn new(pipe: PipeId, deadline: Nanos) -> Multiplexed {
        Multiplexed {
            pipe,
            streams: Vec::new(),
            deadline,
            is_leaving: false,
            #[cfg(feature = "http3")]
            ends_at: None,
        }
    }

    pub fn stream(&mut self, number: u32) -> Option<&mut Stream> {
        let at = self.place_of(number)?;
        self.streams.get_mut(at)
    }

    fn place_of(&self, number: u32) -> Option<usize> {
        self.streams.binary_search_by_key(&number, |stream| stream.number).ok()
    }

    /// Nothing is asked of us.
    pub fn is_idle(&self) -> bool {
        self.streams.is_empty()
    }

    fn begin(&mut self, number: u32, owner: u64) {
        let exchange = Exchange::default();
        // Datagrams may overtake each other, and requests with them.
        let at = self.streams.partition_point(|stream| stream.number < number);
        reserve_one(&mut self.streams);
        self.streams.insert(at, Stream { number, owner, exchange, has_body: true, measured: None });
        self.deadline = Nanos::MAX;
    }

    /// Says whether it was there.
    fn end(&mut self, number: u32, now: Nanos, limits: &Limits) -> bool {
        let place = self.place_of(number);
        if let Some(at) = place {
            self.streams.remove(at);
        }
        if self.streams.is_empty() {
            self.deadline = now + limits.idle_timeout;
            if self.streams.capacity() > STREAMS_KEPT {
                self.streams = Vec::new();
            }
        }
        place.is_some()
    }
}

impl Conn {
    pub fn stream_on(&mut self, number: Option<u32>) -> Option<&mut Stream> {
        self.multiplexed.as_mut()?.stream(number?)
    }
}

/// Whether a client begins with HTTP/2, without having asked for it (RFC 9113 section 3.3).
pub fn is_preface(bytes: &[u8]) -> bool {
    bytes.len() >= PREFACE_BYTES_MIN && PREFACE.iter().zip(bytes).all(|(preface, byte)| preface == byte)
}

impl Worker {
    /// From now on the client speaks HTTP/2.
    pub(super) fn begin_http2(&mut self, at: usize) {
        let settings = mux::Settings { request: self.parts.limits.request, streams_max: mux::STREAMS_MAX };
        let conn = &mut self.conns[at];
        let opening = Opening {
            owner: conn.owner,
            socket: conn.socket.clone(),
            client: conn.client,
            pipe: conn.pipe,
            secure: conn.secure.clone(),
            engine: mux::Session::new(&settings).into(),
        };
        let pipe = self.parts.transmitter.open_framed(self.now, opening);
        let deadline = self.now + self.parts.limits.head_timeout;
        self.conns[at].multiplexed = Some(Box::new(Multiplexed::new(pipe, deadline)));
    }

    pub(super) fn pipe(&self, at: usize) -> PipeId {
        self.conns[at].multiplexed.as_ref().expect("it is multiplexed").pipe
    }

    /// Takes what has come, or goes on with what came before.
    pub(super) fn take_frames(&mut self, at: usize, bytes: &[u8]) {
        self.conns[at].is_cut = false;
        let pipe = self.pipe(at);
        let taken = self.take_in(at, pipe, bytes);
        self.take_events(at);
        if let Err(broken) = &taken
            && self.conns.contains(at)
        {
            self.tell_broken(at, broken);
        }
        let is_there = self.conns.get(at).is_some_and(|conn| conn.multiplexed.is_some());
        if is_there && (taken.is_err() || self.parts.transmitter.has_ended(pipe) || self.is_farewell_over(at)) {
            self.end_streams(at);
        }
    }

    #[cfg(not(feature = "http3"))]
    fn take_in(&mut self, _at: usize, pipe: PipeId, bytes: &[u8]) -> Result<(), Broken> {
        self.parts.transmitter.receive(self.now, pipe, bytes)
    }

    #[cfg(not(feature = "http3"))]
    fn is_farewell_over(&self, _at: usize) -> bool {
        false
    }

    /// Those of a turn: a connection that asks for more waits for the next.
    fn take_events(&mut self, at: usize) {
        while let Some(multiplexed) = self.conns.get(at).and_then(|conn| conn.multiplexed.as_ref()) {
            let pipe = multiplexed.pipe;
            if self.budget.is_spent() {
                self.conns[at].is_cut = true;
                return;
            }
            match self.parts.transmitter.event(pipe) {
                None => return,
                Some(Event::Request { .. }) if self.streams.is_full() => return self.refuse_streams(at),
                Some(Event::Request { stream, request }) => self.begin_stream(at, stream, request),
                Some(Event::Priority { stream }) => self.prefer(at, stream),
                Some(Event::Closed { stream }) => self.leave_stream(at, stream),
            }
        }
    }

    /// There are as many streams as there may be; one that asks for more beside them has to come again.
    fn refuse_streams(&mut self, at: usize) {
        let why = format_args!("{} requests of others are open", self.streams.max);
        self.secured.crowded.add(self.conns[at].peer(), why);
        self.tell_failures();
        self.abandon_streams(at);
    }

    fn begin_stream(&mut self, at: usize, number: u32, request: Result<Box<OwnedRequest>, Box<Refused>>) {
        let owner = self.owners.next(at);
        self.conns[at].multiplexed.as_mut().expect("it is multiplexed").begin(number, owner);
        self.streams.count += 1;
        self.budget.requests -= 1;
        match request {
            Ok(request) => self.answer_on_stream(at, number, request),
            Err(refused) => self.refuse_on_stream(at, number, &refused),
        }
    }

    fn answer_on_stream(&mut self, at: usize, number: u32, owned: Box<OwnedRequest>) {
        let request = owned.view();
        let place = Place { at, stream: Some(number) };
        self.stream(at, number).has_body = request.method != Method::Head;
        let to = self.to(at, &request);
        self.note(place, to.site, &request, self.version(at));
        let reply = match self.refuse_frequent(at, to, &request) {
            Some(reply) => reply,
            None => match self.parts.replier.reply(to, &request, self.now) {
                Ok(reply) => reply,
                Err(find) => match self.begin_find(place, find) {
                    Ok(key) => return self.wait_for_find(place, key, owned),
                    Err(missing) => self.parts.replier.reply_with(to, &request, Err(missing)),
                },
            },
        };
        self.exchange(place).class = self.class_of(at, to.site, &request);
        self.send_on_stream(at, number, reply);
    }

    /// Answers what is no request.
    fn refuse_on_stream(&mut self, at: usize, number: u32, refused: &Refused) {
        let place = Place { at, stream: Some(number) };
        if let Some(log) = self.parts.replier.log(None) {
            let Refused { reject, shown } = refused;
            let line = Line::refused(shown, self.version(at), reject.reason, log.clone(), self.now);
            self.exchange(place).line = Some(Box::new(line));
        }
        let class = self.parts.replier.default_class().unwrap_or(0);
        self.exchange(place).class = class;
        self.send_on_stream(at, number, reply::reject(refused.reject));
    }

    fn stream(&mut self, at: usize, number: u32) -> &mut Stream {
        self.conns[at].stream_on(Some(number)).expect("its stream is open")
    }

    /// Makes a job of a reply.
    pub(super) fn send_on_stream(&mut self, at: usize, number: u32, reply: Reply) {
        self.note_trouble(&reply);
        let (head, body) = reply.response.into_head(&self.date);
        let (status, head_bytes) = (head.status(), head.bytes());
        let stream = self.conns[at].stream_on(Some(number)).expect("its stream is open");
        let body = if stream.has_body { body } else { Body::default() };
        if let Some(line) = &mut stream.exchange.line {
            line.status = status.0;
            line.body_bytes = body.len();
            line.head_bytes = head_bytes;
        }
        if let Some(measured) = &mut stream.measured {
            measured.encoded(status, head_bytes as usize, body.len());
        }
        let (class, pipe) = (stream.exchange.class, self.pipe(at));
        let precedence = self.parts.transmitter.precedence(pipe, number);
        let begun = Begun { number, outgoing: Outgoing::on_stream(head, body), class, precedence };
        let job = self.parts.transmitter.dispatch_on(self.now, pipe, begun);
        let job = job.expect("a client has no more streams than a carrier may have jobs");
        self.stream(at, number).exchange.task = Task::Sending(job);
    }

    /// The client wishes a response sooner or later than it did.
    fn prefer(&mut self, at: usize, number: u32) {
        let pipe = self.pipe(at);
        let Some(Task::Sending(job)) = self.conns[at].stream_on(Some(number)).map(|stream| &stream.exchange.task)
        else {
            return;
        };
        let job = *job;
        let precedence = self.parts.transmitter.precedence(pipe, number);
        self.parts.transmitter.on_precedence(job, precedence);
    }

    /// The stream is closed. Its response is all made, or its client does not want it any more.
    fn leave_stream(&mut self, at: usize, number: u32) {
        let place = Place { at, stream: Some(number) };
        let Some(stream) = self.conns[at].stream_on(Some(number)) else { return };
        match stream.exchange.task {
            Task::Sending(job) | Task::Flight(job) => {
                self.parts.transmitter.abort(self.now, job, Failure::Disconnected)
            }
            Task::Finding(_) | Task::None => {
                self.leave_find(place);
                self.log_unanswered(place);
                self.end_stream(at, number);
            }
        }
    }

    fn end_stream(&mut self, at: usize, number: u32) {
        // One that sends no more asks for no more.
        let has_ended = self.has_ended(at);
        let (now, limits) = (self.now, &self.parts.limits);
        if let Some(multiplexed) = &mut self.conns[at].multiplexed {
            self.streams.count -= usize::from(multiplexed.end(number, now, limits));
            if (multiplexed.is_leaving || has_ended) && multiplexed.is_idle() {
                self.end_streams(at);
            }
        }
    }

    /// A response has ended.
    pub(super) fn on_stream_departure(&mut self, at: usize, departure: Departure) {
        let number = departure.stream;
        let place = Place { at, stream: Some(number) };
        let ending = Ending::of(&departure);
        match departure.failure {
            None => self.log(place, ending),
            Some(failure) => {
                self.report(place, &failure, departure.sent_bytes, ending);
                let pipe = self.pipe(at);
                self.parts.transmitter.cancel(pipe, number);
                if matches!(failure, Failure::Stalled) {
                    self.abandon_streams(at);
                }
            }
        }
        if let Some(conn) = self.conns.get_mut(at) {
            conn.has_answered = true;
            self.end_stream(at, number);
        }
    }

    /// The client is gone, or has had its time: nothing of it is worth sending. The connection ends when the last response has departed.
    pub(super) fn abandon_streams(&mut self, at: usize) {
        let conn = &mut self.conns[at];
        // What it said besides is of no use to anybody.
        (conn.is_readable, conn.is_cut) = (false, false);
        let Some(multiplexed) = &mut conn.multiplexed else { return };
        multiplexed.is_leaving = true;
        let pipe = multiplexed.pipe;
        let unanswered: Vec<u32> = multiplexed
            .streams
            .iter()
            .filter(|stream| !stream.exchange.is_sending())
            .map(|stream| stream.number)
            .collect();
        let is_empty = multiplexed.streams.is_empty();
        self.parts.transmitter.abandon(self.now, pipe);
        for number in unanswered {
            self.leave_stream(at, number);
        }
        if is_empty {
            self.close(at);
        }
    }

    /// Takes no new requests; the connection ends when the last response has departed.
    pub(super) fn leave_streams(&mut self, at: usize) {
        let Some(multiplexed) = &mut self.conns[at].multiplexed else { return };
        multiplexed.is_leaving = true;
        let (pipe, is_idle) = (multiplexed.pipe, multiplexed.is_idle());
        self.parts.transmitter.go_away(pipe);
        if is_idle {
            self.end_streams(at);
        }
    }

    /// Closes an idle connection at once, with a word of farewell.
    pub(super) fn give_up(&mut self, at: usize) {
        if let Some(multiplexed) = &self.conns[at].multiplexed {
            self.parts.transmitter.go_away(multiplexed.pipe);
        }
        self.close(at);
    }

    /// Nothing more is said. What the client sends is read and thrown away until it has seen that: a reset could cost it our reason.
    fn end_streams(&mut self, at: usize) {
        if !self.conns[at].multiplexed.as_ref().is_some_and(|multiplexed| multiplexed.is_idle()) {
            return self.abandon_streams(at);
        }
        #[cfg(feature = "http3")]
        if self.conns[at].socket.is_quic() {
            return self.end_http3(at);
        }
        self.detach_streams(at);
        self.end_sealed(at);
        let conn = &mut self.conns[at];
        conn.socket.finish();
        conn.http1.refuse_aside();
        conn.http1.on_sent(self.now, &self.parts.limits);
        conn.is_readable = true;
        self.queue(at);
    }

    /// The transmitter has no more to do with the connection.
    pub(super) fn detach_streams(&mut self, at: usize) {
        if let Some(multiplexed) = self.conns[at].multiplexed.take() {
            debug_assert!(multiplexed.is_idle(), "its responses have departed");
            self.conns[at].pipe = self.parts.transmitter.detach(self.now, multiplexed.pipe);
        }
    }

    fn tell_broken(&mut self, at: usize, broken: &Broken) {
        let (peer, is_quic) = (self.conns[at].peer(), self.conns[at].socket.is_quic());
        let failures = if is_quic { &mut self.secured.broken_http3 } else { &mut self.secured.broken };
        failures.add(peer, broken);
        self.tell_failures();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request of HTTP/3 that was lost comes behind later ones. It ended the worker.
    #[test]
    fn streams_are_found_in_whatever_order_they_began() {
        let mut multiplexed = Multiplexed::new(PipeId::of_tests(), Nanos::ZERO);
        [5, 1, 9, 3, 7].into_iter().for_each(|number| multiplexed.begin(number, number.into()));
        for number in [1, 3, 5, 7, 9] {
            assert_eq!(multiplexed.stream(number).map(|stream| stream.owner), Some(number.into()));
        }
        assert!(multiplexed.end(5, Nanos::ZERO, &Limits::default()));
        assert!(!multiplexed.end(5, Nanos::ZERO, &Limits::default()));
        assert!(multiplexed.stream(5).is_none() && multiplexed.stream(9).is_some() && multiplexed.stream(4).is_none());
    }
}
