//! The time until which a request waits for its upstream.

use units::Nanos;

use crate::clock::{ClientClock, ClientTime};

/// A deadline on the clients' clock, so that time in which this process does not run does not count against upstreams
/// either.
#[derive(Debug)]
pub struct Deadline {
    clock: ClientClock,
    at: ClientTime,
}

impl Default for Deadline {
    fn default() -> Deadline {
        Deadline { clock: ClientClock::default(), at: ClientTime::NEVER }
    }
}

impl Deadline {
    /// Uses this clock from now on.
    pub fn keep_by(&mut self, clock: &ClientClock) {
        self.clock = clock.clone();
    }

    pub fn set(&mut self, now: Nanos, span: Nanos) {
        self.at = self.clock.at(now) + span;
    }

    /// Sets the deadline to `span` after `now` if that is earlier.
    pub fn hasten(&mut self, now: Nanos, span: Nanos) {
        self.at = self.at.min(self.clock.at(now) + span);
    }

    /// Removes the time limit.
    pub fn clear(&mut self) {
        self.at = ClientTime::NEVER;
    }

    pub fn is_set(&self) -> bool {
        self.at != ClientTime::NEVER
    }

    pub fn is_over(&self, now: Nanos) -> bool {
        self.clock.at(now) >= self.at
    }
}
