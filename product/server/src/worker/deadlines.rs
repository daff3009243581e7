//! Once a second: looks at every connection, closes those past their deadline, ends responses whose readers are too slow and books what
//! was sent. A look costs a few nanoseconds, and no bookkeeping when a connection is used; many looks, and all that may end with one, are
//! spread over turns.

use units::Nanos;

use super::{SWEEP_EVERY, Worker};
use crate::conn::Late;
use crate::net::Net;

/// Places that are looked at in every turn of a sweep, however little time is left.
const LOOKS_PER_TURN_MIN: usize = 16;

#[derive(Default)]
pub(super) struct Sweep {
    pub due_at: Nanos,
    /// The place at which the one that is under way goes on.
    next: Option<usize>,
}

impl Sweep {
    pub fn is_under_way(&self) -> bool {
        self.next.is_some()
    }
}

impl<N: Net> Worker<N> {
    /// Begins a sweep once a second, and goes on with the one that is under way until the turn is over.
    pub(super) fn sweep(&mut self) {
        if !self.sweep.is_under_way() && self.now >= self.sweep.due_at {
            self.sweep = Sweep { due_at: self.now + SWEEP_EVERY, next: Some(0) };
            self.look_around();
        }
        let Some(begin) = self.sweep.next.take() else { return };
        // Places taken meanwhile behind the last one are for the next sweep.
        for at in begin..self.conns.capacity() {
            if (at - begin).is_multiple_of(LOOKS_PER_TURN_MIN) && at > begin && self.is_turn_over() {
                self.sweep.next = Some(at);
                break;
            }
            self.look_at(at);
        }
        self.transmit();
    }

    /// What is not of a connection.
    fn look_around(&mut self) {
        self.parts.transmitter.check_queue(self.now);
        self.leave_found_rate();
        self.tell_refusals();
        self.tell_failures();
        self.tell_slow_disk();
        self.give_back_memory();
        if let Err(error) = self.accept_again() {
            self.parts.log.error(&format!("cannot accept connections on worker {}: {error}", self.parts.number));
        }
    }

    fn look_at(&mut self, at: usize) {
        if self.conns.get(at).is_some_and(|conn| self.now >= conn.deadline()) {
            self.on_late(at);
        }
        if !self.conns.contains(at) {
            return;
        }
        self.parts.transmitter.end_stalled(self.now, at);
        self.book_spent(at);
        self.take_departures();
    }

    pub(super) fn on_late(&mut self, at: usize) {
        if self.conns[at].is_multiplexed() {
            return self.leave_streams(at);
        }
        if self.waits_for_its_turn(at) {
            return;
        }
        match self.conns[at].http1.on_deadline() {
            Some(Late::Refused { reject, shown }) => {
                self.refuse(at.into(), reject, &shown, false);
                self.flush(at);
            }
            Some(Late::Close) => {
                self.note_late_handshake(at);
                self.close(at);
            }
            None => {}
        }
    }

    /// This worker was not there to hear its clients: every deadline is so much later.
    pub(super) fn excuse(&mut self, paused: Nanos) {
        let later = |at: Nanos| Nanos(at.0.saturating_add(paused.0));
        for (_, conn) in &mut self.conns {
            conn.http1.excuse(paused);
            if let Some(streams) = conn.exchanges.streams_mut() {
                streams.deadline = later(streams.deadline);
            }
        }
        self.stop_at = self.stop_at.map(later);
        self.parts.transmitter.on_pause(paused);
    }

    /// Whether nothing is left to do. The first call begins the stopping: no new connections, idle ones closed.
    pub(super) fn is_stopped(&mut self) -> bool {
        if self.stop_at.is_none() {
            self.stop_at = Some(self.now + self.parts.limits.stop_timeout.into());
            self.stop_accepting();
            let idle: Vec<usize> =
                self.conns.iter().filter(|(_, conn)| !conn.http1.is_answering()).map(|(at, _)| at).collect();
            for at in idle {
                match self.conns[at].is_multiplexed() {
                    true => self.leave_streams(at),
                    false => self.close(at),
                }
            }
            // Those being answered learn that nothing is read behind the response.
            for (_, conn) in &mut self.conns {
                conn.http1.stop();
            }
        }
        if self.is_time_up() {
            self.cut_open();
        }
        self.conns.is_empty() || self.is_time_up()
    }

    /// A stopping server goes on no longer.
    pub(super) fn is_time_up(&self) -> bool {
        self.stop_at.is_some_and(|at| self.now >= at)
    }
}
