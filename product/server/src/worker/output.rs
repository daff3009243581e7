//! Sending: from replies to the write path, and what happens when a response has departed.

use sched::{JobId, Precedence};
use units::Nanos;

use super::ending::Ending;
use super::exchange::{Place, Task};
use super::input::BYTES_PER_TURN_MAX;
use super::{Order, Worker};
use crate::net::Net;
use crate::reply::Reply;
use crate::transmit::{Body, Departure, Direct, Dispatch, Failure, Outgoing};

/// Pipelined small responses are gathered up to this many bytes before they are sent.
const GATHER_BYTES_MAX: usize = 64 << 10;
/// Bodies up to this long are copied behind the head, which is cheaper than a second piece of memory for the kernel, and lets
/// pipelined responses share a system call.
const COPIED_BYTES_MAX: u64 = 2 << 10;
/// Bodies from here on take several system calls, which two more do not make dearer.
const CORK_BYTES_MIN: u64 = 1 << 20;

impl<N: Net> Worker<N> {
    /// Sends a reply to a request: on a stream as a job, otherwise by the shortest way that the order leaves.
    pub(super) fn send(&mut self, place: Place, reply: Reply) {
        self.note_trouble(&reply);
        if !self.conns[place.at].is_multiplexed() {
            let (body, is_last) = self.encode(place.at, reply);
            return self.send_encoded(place.at, body, is_last);
        }
        let (head, body) = reply.response.into_head(&self.date);
        let exchange = self.exchange(place);
        let body = if exchange.has_body { body } else { Body::default() };
        exchange.note_encoded(head.status(), head.bytes() as usize, body.len());
        self.dispatch(place, Outgoing::on_stream(head, body));
    }

    /// A file that cannot be read is our side's trouble; a client may ask for it as often as it likes.
    pub(super) fn note_trouble(&mut self, reply: &Reply) {
        if let Some(error) = &reply.trouble {
            self.secured.unreadable.note(error);
            self.tell_failures();
        }
    }

    /// Sends what is encoded, and this body behind it.
    pub(super) fn send_encoded(&mut self, at: usize, body: Body, is_last: bool) {
        let is_alone = self.is_alone();
        let is_allowed = self.parts.transmitter.allows(self.now, self.conns[at].client);
        let conn = &mut self.conns[at];
        // Each sendfile would push out what it ends with. Paced grants and bursts end where segments do, and must not wait.
        // Under TLS each call says whether more follows.
        let is_unpaced = matches!(self.parts.order, Order::Arrival | Order::Turn);
        if is_unpaced && body.len() >= CORK_BYTES_MIN && !conn.is_secure {
            self.parts.transmitter.cork(at, true);
            conn.is_corked = true;
        }
        if self.parts.order != Order::Arrival && !is_alone || !is_allowed {
            // A copy, so that no response allocates but for what it has, and waits with no more.
            let outgoing = Outgoing::new(self.out.clone(), body, conn.end());
            self.out.clear();
            return self.dispatch(at.into(), outgoing);
        }
        let gathers = body.is_empty() && !is_last && conn.exchange(0).line.is_none();
        if !gathers || self.out.len() >= GATHER_BYTES_MAX {
            self.send_now(at, body);
        } else {
            conn.http1.on_gathered();
        }
    }

    /// Appends a reply's head, and its body where that is small; gives the body that is left, and whether the connection ends behind it.
    fn encode(&mut self, at: usize, reply: Reply) -> (Body, bool) {
        let (conn, began) = (&mut self.conns[at], self.out.len());
        let has_body = conn.http1.encode(&reply.response, reply.is_last, &self.date, &mut self.out);
        let status = reply.response.status;
        let mut body = if has_body { reply.response.body } else { Body::default() };
        conn.exchange(0).note_encoded(status, self.out.len() - began, body.len());
        if body.len() <= COPIED_BYTES_MAX && body.is_in_memory() {
            let copied = body.read(self.parts.transmitter.storage(), &mut self.out, COPIED_BYTES_MAX);
            debug_assert!(copied.is_ok() && body.is_empty(), "memory does not fail");
        }
        (body, conn.http1.closes())
    }

    /// Whether the response being built is the only one that is ready in this turn: then the drain would give it the first
    /// grant, and need not be asked.
    fn is_alone(&self) -> bool {
        let is_drained = || self.parts.transmitter.drain().poll_timeout().is_none();
        let transmitter = &self.parts.transmitter;
        let is_unpaced = !transmitter.link().is_paced() || transmitter.link().is_searching();
        self.is_direct && is_unpaced && self.to_come == 0 && self.queue.is_empty() && is_drained()
    }

    /// Sends what was gathered for this connection.
    pub(super) fn flush(&mut self, at: usize) {
        if !self.out.is_empty() {
            self.send_now(at, Body::default());
        }
    }

    /// The shortest way: straight into the socket. What it does not take at once becomes a job.
    fn send_now(&mut self, at: usize, body: Body) {
        let Some(conn) = self.conns.get_mut(at) else { return self.out.clear() };
        let outgoing = Outgoing::new(std::mem::take(&mut self.out), body, conn.end());
        let dispatch = Dispatch::single(outgoing, conn.exchange(0).class);
        let (bytes, direct) = self.parts.transmitter.send_now(self.now, at, dispatch, BYTES_PER_TURN_MAX);
        self.budget.bytes = self.budget.bytes.saturating_sub(bytes);
        self.spend(at, bytes);
        match direct {
            Direct::Sent(buffer) => {
                self.reuse(buffer);
                self.on_sent(at, Ending::now());
            }
            Direct::Begun(job) => {
                self.note_first_byte(at, bytes);
                self.hold(at.into(), job);
            }
            Direct::Failed(failure) => {
                self.note_first_byte(at, bytes);
                self.report(at.into(), &failure, bytes, Ending::now());
                self.close(at);
            }
        }
    }

    /// Makes a job of a response.
    fn dispatch(&mut self, place: Place, outgoing: Outgoing) {
        let conn = &mut self.conns[place.at];
        let class = conn.exchange(place.stream).class;
        let precedence = match conn.is_multiplexed() {
            true => self.parts.transmitter.engine(place.at).precedence(place.stream),
            false => Precedence::default(),
        };
        let dispatch = Dispatch { outgoing, class, stream: place.stream, precedence };
        let job = self.parts.transmitter.dispatch(self.now, place.at, dispatch);
        self.hold(place, job.expect("a client has no more requests than its connection may have jobs"));
    }

    fn hold(&mut self, place: Place, job: JobId) {
        let conn = &mut self.conns[place.at];
        conn.exchange(place.stream).task = Task::Sending(job);
        if !conn.is_multiplexed() {
            conn.http1.on_held(self.now);
        }
    }

    fn note_first_byte(&mut self, at: usize, sent_bytes: u64) {
        if let Some(line) = self.conns[at].exchange(0).line.as_mut().filter(|_| sent_bytes > 0) {
            line.first_byte_at = Some(self.net.now());
        }
    }

    /// Keeps a buffer for the next response.
    fn reuse(&mut self, mut buffer: Vec<u8>) {
        if self.out.capacity() == 0 && buffer.capacity() <= 2 * GATHER_BYTES_MAX {
            buffer.clear();
            self.out = buffer;
        }
    }

    /// Runs the transmitter: once a turn, and where a grant is due.
    pub(super) fn transmit(&mut self) {
        if self.parts.transmitter.is_idle(self.now) {
            // Those that waited for room may have closed.
            #[cfg(feature = "http3")]
            self.look_after_datagrams();
            return;
        }
        self.parts.transmitter.run(&|| self.net.now());
        for notice in self.parts.transmitter.notices() {
            self.parts.log.error(&notice.to_string());
        }
        if self.is_paced() {
            // The transmitter's clock never goes back.
            self.read_clock(Some(Nanos::ZERO));
        }
        self.take_departures();
        #[cfg(feature = "http3")]
        self.look_after_datagrams();
    }

    /// Responses have ended.
    pub(super) fn take_departures(&mut self) {
        let mut departures = std::mem::take(&mut self.departures);
        departures.extend(self.parts.transmitter.departures());
        for departure in departures.drain(..) {
            self.on_departure(departure);
        }
        self.departures = departures;
    }

    /// Between two connections: a paced link is not to wait for the end of a turn.
    pub(super) fn transmit_due(&mut self) {
        let is_due = || self.parts.transmitter.poll_timeout().is_some_and(|at| at <= self.net.now());
        if self.is_paced() && !self.parts.transmitter.link().is_searching() && is_due() {
            self.transmit();
        }
    }

    pub(super) fn tell_longest_wait(&self) {
        if let Some(notice) = self.parts.transmitter.link().longest_wait() {
            self.parts.log.error(&notice.to_string());
        }
    }

    fn on_departure(&mut self, departure: Departure) {
        let at = self.find(departure.owner).expect("a connection outlives its response");
        self.spend(at, departure.untold_bytes);
        if self.conns[at].is_in_flight {
            return self.on_flight_departure(at, departure);
        }
        let (place, ending) = (Place { at, stream: departure.stream }, Ending::of(&departure));
        let is_multiplexed = self.conns[at].is_multiplexed();
        let exchange = self.exchange(place);
        debug_assert!(exchange.is_sending(), "a response departs once");
        if !is_multiplexed {
            exchange.task = Task::None;
        }
        match departure.failure {
            None if is_multiplexed => self.log(place, ending),
            None => {
                self.on_sent(at, ending);
                return self.go_on(at);
            }
            Some(failure) => {
                self.report(place, &failure, departure.sent_bytes, ending);
                if !is_multiplexed {
                    return self.close(at);
                }
                self.parts.transmitter.cancel(at, place.stream);
                if matches!(failure, Failure::Stalled) {
                    self.abandon(at);
                }
            }
        }
        if let Some(conn) = self.conns.get_mut(at) {
            conn.has_answered = true;
            self.end_stream(place);
        }
    }

    /// A file that ended too early is our side's trouble and worth a line; a client that left is not.
    pub(super) fn report(&mut self, place: Place, failure: &Failure, sent_bytes: u64, ending: Ending) {
        let peer = self.conns[place.at].peer();
        match failure {
            Failure::Truncated { path } => {
                let why = format_args!("became shorter while being sent to {peer}, after {sent_bytes} bytes");
                self.secured.unreadable.add(path, why);
            }
            Failure::Unreadable { path, error } => {
                self.secured
                    .unreadable
                    .add(path, format_args!("{error} (sending it to {peer}, after {sent_bytes} bytes)"));
            }
            Failure::Stalled => {
                self.secured.stalled.add(peer, format_args!("slower than --send-rate-min, after {sent_bytes} bytes"));
            }
            Failure::Blocked | Failure::Absent | Failure::Shut | Failure::Disconnected => {}
        }
        self.tell_failures();
        let outcome = self.outcome_of(failure);
        self.log(place, ending.cut(sent_bytes, outcome));
    }

    /// The kernel has all of a response, and where it is the last, the end behind it.
    fn on_sent(&mut self, at: usize, ending: Ending) {
        self.log(at.into(), ending);
        let conn = &mut self.conns[at];
        conn.has_answered = true;
        conn.http1.on_sent(self.now, &self.parts.limits);
        if !conn.http1.closes() && std::mem::take(&mut conn.is_corked) {
            self.parts.transmitter.cork(at, false);
        }
    }

    /// What came in while a response was being sent is for the connection's next turn.
    pub(super) fn go_on(&mut self, at: usize) {
        let Some(conn) = self.conns.get_mut(at).filter(|conn| !conn.is_multiplexed()) else { return };
        conn.is_cut = conn.http1.has_kept();
        if conn.is_cut || conn.is_readable {
            self.queue(at);
        }
    }
}
