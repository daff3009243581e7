//! Once a second, a sweep looks at every connection, closes connections past their deadline, ends responses whose
//! readers are too slow, and adds sent bytes to the clients' accounts. A look costs a few nanoseconds, and saves
//! bookkeeping on every use of a connection. The looks, and the work that follows from them, are spread over several
//! turns.

use super::Worker;
use super::shortage::waiting;
use crate::net::Net;
use crate::send::Transmitter;

/// The minimum number of slots that a sweep examines per turn, however little time is left.
const LOOKS_PER_TURN_MIN: usize = 16;

impl<N: Net> Worker<N> {
    /// Begins a sweep once a second, and continues a sweep in progress until the turn's time is up.
    pub(super) fn sweep(&mut self) {
        if self.responder.timers.begin_sweep() {
            self.look_once_a_second();
        }
        let Some(begin) = self.responder.timers.take_sweep() else { return };
        // Slots that were taken behind the last one during the sweep are left for the next sweep.
        for at in begin..self.responder.connections.capacity() {
            if (at - begin).is_multiple_of(LOOKS_PER_TURN_MIN)
                && at > begin
                && self.responder.timers.is_turn_over(self.responder.net.now())
            {
                self.responder.timers.interrupt_sweep(at);
                break;
            }
            self.look_at(at);
        }
        self.responder.transmit();
    }

    /// Does the once-a-second work that does not concern a particular connection.
    fn look_once_a_second(&mut self) {
        let with = &mut self.responder;
        let now = with.timers.now();
        with.transmitter.link.check(&with.connections, now);
        with.look_after_upstreams();
        with.service.journal.leave_found_rate(now, &with.transmitter.link);
        while let Some(notice) = with.service.admission.notice(now) {
            with.service.journal.error(notice);
        }
        with.service.journal.log_failures(now);
        if let Some(line) = with.service.handler.slow_disk(now) {
            with.service.journal.error(line);
        }
        with.service.handler.look_after_files(now).iter().for_each(|line| with.service.journal.error(line));
        if with.transmitter.has_memory_to_give(&with.connections) && with.timers.begin_giving_back() {
            with.buffers.departures.shrink_to_fit();
            with.transmitter.give_back_memory(&mut with.connections);
        }
        if let Err(error) = self.acceptor.retry(&with.net).and_then(|()| self.acceptor.accept_again(with)) {
            let number = with.setup.number;
            with.service.journal.error(format_args!("cannot accept connections on worker {number}: {error}"));
        }
    }

    /// Examines the connection in this slot for the sweep, if there is one.
    pub(super) fn look_at(&mut self, at: usize) {
        let with = &mut self.responder;
        if with.connections.get(at).is_some_and(|conn| with.timers.client_now() >= conn.deadline()) {
            with.end(at, Transmitter::end_late);
        }
        if !with.connections.contains(at) {
            return;
        }
        if with.timers.is_stopping() {
            with.end_without_request(at);
            if !with.connections.contains(at) {
                return;
            }
        }
        with.end_slow_bodies(at);
        let requests = waiting(&with.proxy, &with.connections[at]);
        with.connections[at].held.look_at_requests(requests.bytes, requests.taken_bytes);
        with.transmitter.end_stalled(&mut with.connections, with.timers.now(), at);
        with.service.book_spent(with.timers.now(), &mut with.connections[at], &mut with.transmitter.sendings);
        with.take_departures();
        with.connections.count(at);
    }
}
