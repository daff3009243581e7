//! Once a second: closes connections past their deadline. Looking at every connection costs a few nanoseconds each, and
//! no bookkeeping when they are used.

use units::Nanos;

use super::Worker;
use crate::conn::Late;

impl Worker {
    pub(super) fn sweep(&mut self) {
        let late: Vec<usize> =
            self.conns.iter().filter(|(_, conn)| self.now >= conn.deadline()).map(|(at, _)| at).collect();
        for at in late {
            self.on_late(at);
        }
        self.parts.transmitter.end_stalled(self.now);
        self.parts.transmitter.check_queue(self.now);
        self.transmit();
        self.book_spent();
        self.tell_refusals();
        self.tell_failures();
        self.tell_slow_disk();
        self.give_back_memory();
        if let Err(error) = self.accept_again() {
            self.parts.log.error(&format!("cannot accept connections on worker {}: {error}", self.parts.number));
        }
    }

    pub(super) fn on_late(&mut self, at: usize) {
        if self.conns[at].multiplexed.is_some() {
            return self.leave_streams(at);
        }
        if self.waits_for_its_turn(at) {
            return;
        }
        match self.conns[at].http1.on_deadline() {
            Some(Late::Refused { reject, received }) => {
                self.refuse(at, reject, &received);
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
            if let Some(multiplexed) = &mut conn.multiplexed {
                multiplexed.deadline = later(multiplexed.deadline);
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
                match self.conns[at].multiplexed {
                    Some(_) => self.leave_streams(at),
                    None => self.close(at),
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
