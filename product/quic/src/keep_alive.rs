//! While a response waits for its turn nothing is sent, and a client would take the connection for dead (RFC 9000 section 10.1.2): a silent
//! client of open requests is sent a PING now and then.

use units::Nanos;

/// A third of the timeout that most clients have; a third of ours, if that is less, but not for nothing.
const EVERY_MAX: Nanos = Nanos::from_secs(10);
const EVERY_MIN: Nanos = Nanos::from_millis(100);

#[derive(Debug)]
pub struct KeepAlive {
    every: Nanos,
    /// The client was heard, or sent a PING.
    since: Nanos,
}

impl KeepAlive {
    pub fn new(idle_timeout: Nanos) -> KeepAlive {
        KeepAlive { every: Nanos(idle_timeout.0 / 3).clamp(EVERY_MIN, EVERY_MAX), since: Nanos::ZERO }
    }

    pub fn on_heard(&mut self, now: Nanos) {
        self.since = now;
    }

    /// When a PING is due, if requests are open.
    pub fn due_at(&self, has_requests: bool) -> Option<Nanos> {
        has_requests.then(|| self.since + self.every)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_of_the_timeout_within_bounds() {
        for (idle, every) in [(6_000, 2_000), (60_000, 10_000), (30, 100)] {
            let mut keep_alive = KeepAlive::new(Nanos::from_millis(idle));
            keep_alive.on_heard(Nanos::from_secs(1));
            assert_eq!(keep_alive.due_at(true), Some(Nanos::from_secs(1) + Nanos::from_millis(every)), "{idle}");
        }
    }
}
