//! Once a second: looks at every connection, closes those past their deadline, ends responses whose readers are too slow and books what
//! was sent. A look costs a few nanoseconds, and no bookkeeping when a connection is used; many looks, and all that may end with one, are
//! spread over turns.

use units::Nanos;

use super::Worker;
use super::proxy::Proxy;
use crate::config::Limits;
use crate::http1::{Http1, Late};
use crate::net::Net;
use crate::transmit::{Socket, Stream, Transport};

/// Places that are looked at in every turn of a sweep, however little time is left.
const LOOKS_PER_TURN_MIN: usize = 16;

impl<N: Net> Worker<N> {
    /// Begins a sweep once a second, and goes on with the one that is under way until the turn is over.
    pub(super) fn sweep(&mut self) {
        if self.timers.begin_sweep() {
            self.look_around();
        }
        let Some(begin) = self.timers.take_sweep() else { return };
        // Places taken meanwhile behind the last one are for the next sweep.
        for at in begin..self.conns.capacity() {
            if (at - begin).is_multiple_of(LOOKS_PER_TURN_MIN) && at > begin && self.timers.is_turn_over(self.net.now())
            {
                self.timers.interrupt_sweep(at);
                break;
            }
            self.look_at(at);
        }
        self.transmit();
    }

    /// What is not of a connection.
    fn look_around(&mut self) {
        self.sender.transmitter.link.check(self.timers.now(), &self.sender.transmitter.connections);
        self.with_upstreams(Proxy::look_after);
        self.service.leave_found_rate(self.timers.now(), &self.sender.transmitter.link);
        while let Some(notice) = self.service.admission.notice(self.timers.now()) {
            self.service.journal.error(notice);
        }
        self.service.journal.log_failures(self.timers.now());
        if let Some(line) = self.service.replies.slow_disk(self.timers.now()) {
            self.service.journal.error(line);
        }
        if self.sender.has_memory_to_give(&self.conns) && self.timers.begin_giving_back() {
            self.buffers.departures.shrink_to_fit();
            self.sender.give_back_memory(&mut self.conns);
        }
        if let Err(error) = self.accept_again() {
            self.service
                .journal
                .error(format_args!("cannot accept connections on worker {}: {error}", self.setup.number));
        }
    }

    fn look_at(&mut self, at: usize) {
        if self.conns.get(at).is_some_and(|conn| self.timers.now() >= conn.deadline()) {
            self.on_late(at);
        }
        if !self.conns.contains(at) {
            return;
        }
        self.sender.transmitter.end_stalled(self.timers.now(), at);
        self.service.book_spent(self.timers.now(), &self.conns[at], &mut self.sender.transmitter.sendings);
        self.take_departures();
        self.weigh(at);
    }

    pub(super) fn on_late(&mut self, at: usize) {
        if self.conns[at].is_multiplexed() {
            return self.leave_streams(at);
        }
        if self.sender.waits_for_its_turn(self.timers.now(), &self.conns[at]) {
            return;
        }
        let (now, limits) = (self.timers.now(), &self.setup.limits);
        let socket = self.sender.transmitter.connections.socket(at);
        if takes_the_rest(&mut self.conns[at].http1, socket, now, limits) {
            return;
        }
        match self.conns[at].http1.on_deadline() {
            Some(Late::Refused { reject, shown }) => {
                self.refuse(at.into(), reject, &shown, false);
                self.flush(at);
            }
            Some(Late::Close) => {
                self.service.note_late_handshake(self.timers.now(), &self.conns[at]);
                self.close(at);
            }
            None => {}
        }
    }

    /// Whether nothing is left to do. The first call begins the stopping: no new connections, idle ones closed.
    pub(super) fn is_stopped(&mut self) -> bool {
        if self.timers.stop(self.setup.limits.stop_timeout.into()) {
            self.acceptor.pause(&self.net);
            self.service.admission.wait_no_more();
            self.acceptor.refuse(&self.net);
            for at in self.conns.slots(|conn| !conn.http1.is_answering()) {
                match self.conns[at].is_multiplexed() {
                    true => self.leave_streams(at),
                    false => self.close(at),
                }
            }
            // Those being answered learn that nothing is read behind the response.
            self.conns.stop();
        }
        if self.timers.is_time_up() {
            // What is still being sent is cut, so that its line says how far it came.
            for at in self.conns.slots(|conn| conn.exchanges.iter().any(|exchange| exchange.is_logged())) {
                self.abandon(at);
            }
            self.transmit();
        }
        self.conns.is_empty() || self.timers.is_time_up()
    }
}

/// It was sent all, and its client has not acknowledged all but goes on taking.
fn takes_the_rest<N: Net>(http1: &mut Http1, socket: &Transport<N>, now: Nanos, limits: &Limits) -> bool {
    let Some(socket) = socket.tcp().filter(|_| http1.is_lingering()) else { return false };
    let status = socket.status();
    status.is_unacknowledged && http1.linger_on(now, status.acked_bytes, limits.patience.rate_bytes_per_s_min)
}
