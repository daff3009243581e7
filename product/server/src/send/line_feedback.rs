//! Estimates the line's rate from the connections, if responses are paced and no queue can be read.
//!
//! Mostly this costs no system call, because the byte ledger queries the kernel about each connection anyway.

use sched::Lateness;
use sched::line::{Bounds, Change, Estimator, Look, Status as LineStatus, is_fast};
use units::{Nanos, Rate};

#[derive(Debug)]
pub(super) struct Observer {
    bounds: Bounds,
    estimator: Estimator,
    #[cfg(test)]
    pub script: Option<Script>,
}

/// A replacement of the estimator for tests.
#[cfg(test)]
#[derive(Debug, Default)]
pub(super) struct Script {
    pub is_due: bool,
    pub change: Option<Change>,
    /// All looks so far, with the bytes charged before each.
    pub looks: Vec<(u64, Look)>,
    /// The number of times that no response was reported waiting.
    pub idle: u32,
    /// The bytes received.
    pub received_bytes: u64,
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

    /// Restarts the estimate for the same line, starting at this rate.
    pub fn from(&self, rate: Rate) -> Observer {
        let first = Some(self.bounds.most.map_or(rate, |most| rate.min(most)));
        Observer { bounds: self.bounds, ..Observer::new(Bounds { first, ..self.bounds }) }
    }

    pub fn status(&self, now: Nanos) -> LineStatus {
        self.estimator.status(now)
    }

    /// Records that no response is waiting.
    pub fn on_idle(&mut self) {
        #[cfg(test)]
        if let Some(script) = &mut self.script {
            script.idle += 1;
        }
        self.estimator.on_idle();
    }

    /// Records bytes that clients have sent.
    pub fn on_received(&mut self, bytes: u64) {
        #[cfg(test)]
        if let Some(script) = &mut self.script {
            script.received_bytes += bytes;
        }
        self.estimator.on_received(bytes);
    }

    /// Passes the kernel's report on a connection of this client to the estimator.
    pub fn on_look(&mut self, now: Nanos, charged_bytes: u64, client: u32, look: Look) {
        #[cfg(test)]
        if let Some(script) = &mut self.script {
            script.looks.push((charged_bytes, look));
        }
        // Neighbouring indices must not collide in a table: the odd multiplier is 2^64 divided by the golden ratio.
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

    /// Ends the interval. `lateness` is that of the sender during the interval.
    pub fn judge(&mut self, now: Nanos, charged_bytes: u64, lateness: &Lateness) -> Option<Change> {
        #[cfg(test)]
        if let Some(script) = &mut self.script {
            return script.change.take();
        }
        self.estimator.on_sender(lateness.ahead(), lateness.lost());
        self.estimator.judge(now, charged_bytes)
    }
}

/// What is known about the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// The rate of a shaper at this interface, whose queue is read.
    Read { interface: String, rate: Option<Rate> },
    /// The rate is estimated from acknowledgements.
    Found(LineStatus),
}

impl Line {
    /// The pace of sending, if there is one and it is enforced.
    pub fn pace(&self) -> Option<Rate> {
        match self {
            Line::Read { rate, .. } => *rate,
            Line::Found(LineStatus { pace, .. }) => pace.filter(|_| !self.is_unpaced()),
        }
    }

    /// Returns true if the line was found to be faster than one core can serve and no maximum is configured: see
    /// [`is_fast`].
    pub fn is_unpaced(&self) -> bool {
        matches!(self, Line::Found(LineStatus { rate: Some(rate), bounds, .. }) if is_fast(*rate) && bounds.most.is_none())
    }
}
