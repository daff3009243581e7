//! What the connections tell of the line while we pace blind, and the pace that follows from it.
//!
//! It costs no system call: what the kernel says of a connection is asked for the byte ledger anyhow.

use sched::feedback::{Change, Look, Notice as PaceNotice};
use sched::{Feedback, Presence, Reading};
use units::{Nanos, Rate};

use super::{Gauge, Notice, Queued, Socket, Transmitter};

#[derive(Debug)]
pub(super) struct Observer {
    feedback: Feedback,
}

impl Observer {
    pub fn new(ceiling: Rate) -> Observer {
        Observer { feedback: Feedback::new(ceiling) }
    }

    /// The kernel was asked about a connection of this client.
    pub fn on_look(&mut self, now: Nanos, charged_bytes: u64, client: u32, look: Look) {
        // Neighbours are not to meet in one place of a table: the odd multiplier is 2^64 over the golden ratio.
        let key = || u64::from(client).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_right(32);
        self.feedback.on_look(now, charged_bytes, key, look);
    }

    /// The pace, where it changes, and what to tell of it.
    pub fn poll(&mut self, now: Nanos, charged_bytes: u64) -> Option<(Rate, Option<PaceNotice>)> {
        let Change { rate, notice } = self.feedback.poll(now, charged_bytes)?;
        Some((rate, notice))
    }
}

impl<S: Socket + Clone> Transmitter<S> {
    /// Lets the queue below correct the drain's idea of it, when that is about to matter.
    pub(super) fn measure(&mut self, now: Nanos, clock: &impl Fn() -> Nanos) {
        let Some(gauge) = &mut self.gauge else { return };
        if self.drain.poll_timeout().is_none_or(|at| at > now) {
            return;
        }
        let Some(Queued { bytes, drops }) = gauge.read(now, clock) else { return };
        let reading = if self.drain.is_explained(now, bytes) {
            Reading { drops, ..Reading::own(bytes) }
        } else {
            let own_bytes = self.below.bytes();
            Reading { queued_bytes: bytes, own_bytes, drops, watched: self.below.watched() }
        };
        self.drain.on_reading(now, reading);
    }

    /// Something was handed down on this pipe, and charged. Where others wait below us one hand-down at a time is watched.
    pub(super) fn note_below(&mut self, now: Nanos, at: usize) {
        if self.gauge.as_ref().is_none_or(Gauge::is_lost) {
            return;
        }
        let pipe = &mut self.pipes[at];
        self.below.on_written(pipe.owner, &pipe.socket);
        let payload_bytes = pipe.newly_sent_bytes();
        if self.drain.ledger().foreign().presence() == Presence::Absent || payload_bytes == 0 {
            return;
        }
        self.below.look(payload_bytes);
        if self.drain.wants_watch() && self.below.watch() {
            self.drain.on_watched(now);
        }
    }

    /// Lets the drain see whose requests are on their way, when a grant could be made.
    pub(super) fn expect(&mut self, now: Nanos) {
        let Some(outlet) = &mut self.outlet else { return };
        if self.drain.poll_timeout().is_some_and(|at| at <= now)
            && let Some(passed) = outlet.read(now)
        {
            self.drain.on_passed(now, passed);
        }
    }

    /// Nothing says how long the queue below is.
    pub(super) fn is_blind(&self) -> bool {
        self.gauge.as_ref().is_none_or(Gauge::is_lost)
    }

    /// Sets the pace that the line allows.
    pub(super) fn follow(&mut self, now: Nanos) {
        if !self.is_blind() {
            return;
        }
        let Some(observer) = &mut self.observer else { return };
        if let Some((rate, notice)) = observer.poll(now, self.drain.ledger().charged_bytes()) {
            self.drain.set_pace(now, Some(rate));
            self.notices.extend(notice.map(Notice::Pace));
        }
    }

    pub(super) fn observe(&mut self, now: Nanos, client: u32, look: Look) {
        if !self.is_blind() {
            return;
        }
        if let Some(observer) = &mut self.observer {
            observer.on_look(now, self.drain.ledger().charged_bytes(), client, look);
        }
    }
}
