//! What the connections tell of the line while we pace blind.
//!
//! Mostly it costs no system call: what the kernel says of a connection is asked for the byte ledger anyhow.

use sched::Lateness;
use sched::line::{Bounds, Change, Estimator, Look, Status as LineStatus};
use units::{Nanos, Rate};

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
    pub fn from(&self, rate: Rate) -> Observer {
        let first = Some(self.bounds.most.map_or(rate, |most| rate.min(most)));
        Observer { bounds: self.bounds, ..Observer::new(Bounds { first, ..self.bounds }) }
    }

    pub fn status(&self, now: Nanos) -> LineStatus {
        self.estimator.status(now)
    }

    /// No response waits.
    pub fn on_idle(&mut self) {
        self.estimator.on_idle();
    }

    /// The kernel was asked about a connection of this client.
    pub fn on_look(&mut self, now: Nanos, charged_bytes: u64, client: u32, look: Look) {
        #[cfg(test)]
        if let Some(script) = &mut self.script {
            script.looks.push((charged_bytes, look));
        }
        // Neighbours are not to meet in one place of a table: the odd multiplier is 2^64 over the golden ratio.
        let key = || u64::from(client).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_right(32);
        self.estimator.on_look(now, charged_bytes, key, look);
    }

    pub fn is_due(&self, now: Nanos) -> bool {
        #[cfg(test)]
        if let Some(script) = &self.script {
            return script.is_due;
        }
        self.estimator.is_due(now)
    }

    /// Ends the interval, in which the sender ran this late.
    pub fn judge(&mut self, now: Nanos, charged_bytes: u64, lateness: &Lateness) -> Option<Change> {
        #[cfg(test)]
        if let Some(script) = &mut self.script {
            return script.change.take();
        }
        self.estimator.on_sender(lateness.ahead(), lateness.lost());
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
    /// What is sent at, where that is known and held to.
    pub fn pace(&self) -> Option<Rate> {
        match self {
            Line::Read { rate, .. } => *rate,
            Line::Found(LineStatus { pace, .. }) => pace.filter(|_| !self.is_unpaced()),
        }
    }

    /// It was found to be faster than a core, and nobody said the most: see [`is_fast`].
    pub fn is_unpaced(&self) -> bool {
        matches!(self, Line::Found(LineStatus { rate: Some(rate), bounds, .. }) if is_fast(*rate) && bounds.most.is_none())
    }
}
