//! Keep-alive for waiting requests. Nothing is sent while a response waits in the order, and the client would consider
//! the connection dead (RFC 9000 section 10.1.2). A silent client with open requests is therefore sent a PING at
//! intervals.

use units::Nanos;

/// The limits of the interval between PINGs, which is a third of the usual idle timeout of clients, or of Weir's if
/// that is shorter.
const EVERY_MAX: Nanos = Nanos::from_secs(10);
const EVERY_MIN: Nanos = Nanos::from_millis(100);

#[derive(Debug)]
pub struct KeepAlive {
    every: Nanos,
    /// The time at which the client last sent something, or was last sent a PING.
    since: Nanos,
}

impl KeepAlive {
    pub fn new(idle_timeout: Nanos) -> KeepAlive {
        KeepAlive { every: Nanos(idle_timeout.0 / 3).clamp(EVERY_MIN, EVERY_MAX), since: Nanos::ZERO }
    }

    pub fn on_heard(&mut self, now: Nanos) {
        self.since = now;
    }

    /// Returns the time at which a PING is due, if requests are open.
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
