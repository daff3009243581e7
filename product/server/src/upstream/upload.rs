//! How fast the client of a stream sends the body of its request. Over HTTP/1.1 the connection sees to that.

use std::num::NonZeroU64;

use units::Nanos;

/// Counts the time in which the client is waited for, and no other: while the upstream lags, the client is held.
#[derive(Debug)]
pub struct Upload {
    /// A pause may last so long, and the whole that much beyond its time at the least rate.
    timeout: Nanos,
    rate_bytes_per_s_min: u64,
    bytes: u64,
    /// Since when it is waited for, and how many bytes had come then.
    since: Option<(Nanos, u64)>,
    /// Before that.
    waited: Nanos,
}

impl Upload {
    pub fn new(timeout: Nanos, rate_bytes_per_s_min: u64) -> Upload {
        Upload { timeout, rate_bytes_per_s_min, bytes: 0, since: None, waited: Nanos::ZERO }
    }

    pub fn on_bytes(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// All that came has gone on. When the client has taken too long.
    pub fn wait(&mut self, now: Nanos) -> Nanos {
        let since = match self.since {
            Some((since, bytes)) if bytes == self.bytes => since,
            _ => {
                self.end_wait(now);
                self.since = Some((now, self.bytes));
                now
            }
        };
        let Some(rate) = NonZeroU64::new(self.rate_bytes_per_s_min) else { return since + self.timeout };
        let whole = Nanos::from_secs(self.bytes / rate) + self.timeout;
        since + self.timeout.min(Nanos(whole.0.saturating_sub(self.waited.0)))
    }

    /// The upstream is waited for.
    pub fn end_wait(&mut self, now: Nanos) {
        if let Some((since, _)) = self.since.take() {
            self.waited += now - since;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(second: u64) -> Nanos {
        Nanos::from_secs(second)
    }

    #[test]
    fn a_pause_ends_whatever_else_happens() {
        let mut upload = Upload::new(second(20), 500);
        assert_eq!(upload.wait(second(100)), second(120));
        assert_eq!(upload.wait(second(110)), second(120), "nothing has come");
        upload.on_bytes(10_000);
        assert_eq!(upload.wait(second(110)), second(130));
    }

    #[test]
    fn a_trickle_has_its_time_at_the_least_rate_and_an_upstream_that_lags_costs_none_of_it() {
        let mut upload = Upload::new(second(20), 500);
        upload.wait(second(0));
        for (now, ends_at) in [(10, 10 + 2 + 20 - 10), (18, 18 + 4 + 20 - 18), (23, 23 + 6 + 20 - 23)] {
            upload.on_bytes(1000);
            assert_eq!(upload.wait(second(now)), second(ends_at).min(second(now + 20)));
        }
        let mut upload = Upload::new(second(20), 500);
        upload.wait(second(0));
        upload.on_bytes(1000);
        upload.end_wait(second(1));
        assert_eq!(upload.wait(second(1000)), second(1020));
    }
}
