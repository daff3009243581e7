//! What the connections tell of the line while we pace blind, and the pace that follows from it.
//!
//! Mostly it costs no system call: what the kernel says of a connection is asked for the byte ledger anyhow.

use sched::line::{Bounds, Change, Estimator, Look, Status as LineStatus};
use sched::{Presence, Reading};
use units::{Nanos, Rate};

use super::pipe::Load;
use super::{Gauge, Notice, Queued, Socket, Transmitter};

/// A line from which on a core is the bottleneck: one serves 5 to 10 Gbit/s of large responses, and a segment takes such a line less than
/// the system call that hands it down.
const FAST: u64 = 3_000_000_000;

/// A line that is found to carry this is not paced: responses would wait for a core, not for the line.
pub fn is_fast(rate: Rate) -> bool {
    rate.bits_per_s() >= FAST
}

#[derive(Debug)]
pub(super) struct Observer {
    bounds: Bounds,
    estimator: Estimator,
    #[cfg(test)]
    pub script: Option<Script>,
}

/// What a test has in place of the estimator.
#[cfg(test)]
#[derive(Debug, Default)]
pub(super) struct Script {
    pub is_due: bool,
    pub change: Option<Change>,
    /// All looks so far, with what had been charged.
    pub looks: Vec<(u64, Look)>,
}

impl Observer {
    pub fn new(bounds: Bounds) -> Observer {
        Observer {
            bounds,
            estimator: Estimator::new(bounds),
            #[cfg(test)]
            script: None,
        }
    }

    /// The same line, which carries so much as far as is known.
    fn from(&self, rate: Rate) -> Observer {
        let first = Some(self.bounds.most.map_or(rate, |most| rate.min(most)));
        Observer { bounds: self.bounds, ..Observer::new(Bounds { first, ..self.bounds }) }
    }

    /// The kernel was asked about a connection of this client.
    fn on_look(&mut self, now: Nanos, charged_bytes: u64, client: u32, look: Look) {
        #[cfg(test)]
        if let Some(script) = &mut self.script {
            script.looks.push((charged_bytes, look));
        }
        // Neighbours are not to meet in one place of a table: the odd multiplier is 2^64 over the golden ratio.
        let key = || u64::from(client).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_right(32);
        self.estimator.on_look(now, charged_bytes, key, look);
    }

    fn is_due(&self, now: Nanos) -> bool {
        #[cfg(test)]
        if let Some(script) = &self.script {
            return script.is_due;
        }
        self.estimator.is_due(now)
    }

    fn judge(&mut self, now: Nanos, charged_bytes: u64) -> Option<Change> {
        #[cfg(test)]
        if let Some(script) = &mut self.script {
            return script.change.take();
        }
        self.estimator.judge(now, charged_bytes)
    }
}

/// What is known of the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// The rate of a shaper, whose queue is read, at this interface.
    Read { interface: String, rate: Option<Rate> },
    /// It is found by what is acknowledged.
    Found(LineStatus),
}

impl Line {
    /// It was found to be faster than a core, and nobody said the most: see [`is_fast`].
    pub fn is_unpaced(&self) -> bool {
        matches!(self, Line::Found(LineStatus { rate: Some(rate), bounds, .. }) if is_fast(*rate) && bounds.most.is_none())
    }
}

impl<S: Socket> Transmitter<S> {
    /// The same, with an uplink whose rate is searched between these, or known from a queue.
    pub fn with_bounds(self, bounds: Option<Bounds>) -> Transmitter<S> {
        Transmitter { observer: bounds.map(Observer::new), ..self }
    }

    /// We decide what leaves and when; how fast may not be known yet.
    pub fn is_paced(&self) -> bool {
        self.observer.is_some()
    }

    pub(super) fn has_pace(&self) -> bool {
        self.drain.pace().rate.is_some()
    }

    /// The line's rate is not known yet: bytes leave as fast as sockets take them.
    pub fn is_searching(&self) -> bool {
        self.is_paced() && !self.has_pace()
    }

    /// What is known of the line; `None` where nothing is paced.
    pub fn line(&self, now: Nanos) -> Option<Line> {
        let observer = self.observer.as_ref()?;
        match self.gauge.as_ref().filter(|_| !self.is_blind()) {
            Some(gauge) => Some(Line::Read { interface: gauge.name().into(), rate: self.drain.pace().rate }),
            None => Some(Line::Found(observer.estimator.status(now))),
        }
    }

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
            let own_bytes = self.below.bytes(&self.pipes);
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
        let payload_bytes = pipe.newly_sent_bytes();
        self.below.on_written(at, &self.pipes);
        if self.drain.ledger().foreign().presence() == Presence::Absent || payload_bytes == 0 {
            return;
        }
        self.below.look(payload_bytes, &self.pipes);
        if self.drain.wants_watch() && self.below.watch() {
            self.drain.on_watched(now);
        }
    }

    /// Nothing says how long the queue below is.
    pub(super) fn is_blind(&self) -> bool {
        self.gauge.as_ref().is_none_or(Gauge::is_lost)
    }

    /// What is acknowledged is looked at.
    fn is_observed(&self) -> bool {
        self.is_paced() && self.is_blind()
    }

    /// Whether what the estimator says is held to by pacing: one that was told is. A queue is not drained where the line is fast.
    fn is_worth_pacing(&self, now: Nanos, pace: Rate) -> bool {
        let Some(observer) = &self.observer else { return true };
        let rate = observer.estimator.status(now).rate;
        observer.bounds.most.is_some() || !is_fast(rate.unwrap_or(pace))
    }

    /// Ends the interval where one is over, and sets the pace that the line allows.
    pub(super) fn follow(&mut self, now: Nanos) {
        if !self.is_blind() {
            return;
        }
        let Some(observer) = &self.observer else { return };
        let is_due = observer.is_due(now);
        if !is_due && self.unacknowledged.look_at().is_none_or(|at| at > now) {
            return;
        }
        self.look_around(now);
        self.unacknowledged.rearm(now);
        let charged_bytes = self.drain.ledger().charged_bytes();
        let change = self.observer.as_mut().filter(|_| is_due).and_then(|observer| observer.judge(now, charged_bytes));
        if let Some(Change { pace, notice }) = change {
            let kept_to = pace.filter(|pace| self.is_worth_pacing(now, *pace));
            self.drain.set_pace(now, kept_to);
            self.notices.extend(notice.filter(|_| kept_to == pace).map(Notice::Pace));
        }
    }

    /// Tells the estimator that no response waits: an interval without a backlog says nothing of the line's rate.
    pub(super) fn note_idle(&mut self) {
        if self.drain.is_empty()
            && let Some(observer) = &mut self.observer
        {
            observer.estimator.on_idle();
        }
    }

    /// Looks at those that have unacknowledged bytes; while the rate is searched, each in its turn where the search can do without.
    fn look_around(&mut self, now: Nanos) {
        let (is_searching, mut is_spent) = (self.is_searching(), false);
        for at in self.unacknowledged.begin_round() {
            let may_look = !is_searching || self.pipes[at].was_full || self.unacknowledged.spend_look_in_turn();
            if may_look {
                self.look_at(now, at);
            } else if !std::mem::replace(&mut is_spent, true) {
                self.unacknowledged.go_on_with(self.pipes[at].listed);
            }
            let pipe = &self.pipes[at];
            if may_look && !pipe.is_unacknowledged || self.unacknowledged.is_over(now, pipe.listed) {
                self.unlist(at);
            }
        }
    }

    fn look_at(&mut self, now: Nanos, at: usize) {
        let pipe = &mut self.pipes[at];
        if !matches!(pipe.load, Load::Single(None)) {
            return self.settle(now, at);
        }
        let (client, look) = (pipe.client, pipe.look_on(now));
        self.observe(now, client, look);
    }

    /// Whether the kernel may be asked about a connection: while the rate is searched, not about all that only have small responses.
    pub(super) fn may_look(&mut self, at: usize) -> bool {
        !self.is_searching() || self.pipes[at].was_full || self.unacknowledged.spend_look()
    }

    /// Something was handed down on a connection.
    pub(super) fn note_unacknowledged(&mut self, now: Nanos, at: usize) {
        if self.is_observed() {
            self.unacknowledged.list(now, at, &mut self.pipes[at].listed);
        }
    }

    /// A connection is acknowledged, or ends.
    pub(super) fn unlist(&mut self, at: usize) {
        let pipe = &mut self.pipes[at];
        pipe.was_full = false;
        if let Some((moved, place)) = self.unacknowledged.unlist(&mut pipe.listed) {
            self.pipes[moved].listed = place;
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

    /// A queue below was found, lost or changed: the line carries so much.
    pub(super) fn pace_from(&mut self, now: Nanos, rate: Rate) {
        self.drain.set_pace(now, Some(rate));
        self.observer = self.observer.take().map(|observer| observer.from(rate));
    }
}
