//! The instant until which a request waits for its upstream.

use units::Nanos;

use crate::clock::{ClientClock, ClientTime};

/// An instant on the clients' clock: an upstream, too, is not late because this process did not run.
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
    /// Goes by this clock from now on.
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

    /// Waits without a limit.
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
