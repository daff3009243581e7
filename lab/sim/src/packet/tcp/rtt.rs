use units::Nanos;

/// The estimated round-trip time and the retransmission timeout derived from it (RFC 6298, with Linux's constant: the
/// variance term, and not the whole timeout, has a minimum).
#[derive(Debug, Clone, Copy)]
pub struct Rtt {
    smoothed: Option<Nanos>,
    variance: Nanos,
    least: Nanos,
    initial_rto: Nanos,
    min_rto: Nanos,
}

/// The maximum timeout, Linux's TCP_RTO_MAX. RFC 6298 (2.5) allows 60 s or more.
pub const RTO_MAX: Nanos = Nanos::from_secs(120);

impl Rtt {
    pub fn new(initial_rto: Nanos, min_rto: Nanos) -> Rtt {
        Rtt { smoothed: None, variance: Nanos::ZERO, least: Nanos::MAX, initial_rto, min_rto }
    }

    pub fn sample(&mut self, rtt: Nanos) {
        self.least = self.least.min(rtt);
        let Some(smoothed) = self.smoothed else {
            self.smoothed = Some(rtt);
            self.variance = Nanos(rtt.0 / 2);
            return;
        };
        self.variance = Nanos((3 * self.variance.0 + smoothed.0.abs_diff(rtt.0)) / 4);
        self.smoothed = Some(Nanos((7 * smoothed.0 + rtt.0) / 8));
    }

    pub fn smoothed(&self) -> Option<Nanos> {
        self.smoothed
    }

    /// The minimum round trip so far; `Nanos::MAX` before the first.
    pub fn least(&self) -> Nanos {
        self.least
    }

    /// The timeout after this many consecutive timeouts.
    pub fn timeout(&self, backoffs: u32) -> Nanos {
        let once = match self.smoothed {
            Some(smoothed) => smoothed + self.min_rto.max(Nanos(4 * self.variance.0)),
            None => self.initial_rto,
        };
        Nanos(once.0.saturating_mul(1 << backoffs.min(20))).min(RTO_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_starts_as_told_doubles_and_then_follows_the_round_trips() {
        let mut rtt = Rtt::new(Nanos::from_secs(3), Nanos::from_millis(200));
        assert_eq!((rtt.timeout(0), rtt.timeout(2)), (Nanos::from_secs(3), Nanos::from_secs(12)));
        assert_eq!(rtt.timeout(60), RTO_MAX);
        rtt.sample(Nanos::from_millis(40));
        assert_eq!(rtt.timeout(0), Nanos::from_millis(240));
        rtt.sample(Nanos::from_millis(440));
        // Variance (3 * 20 + 400) / 4 = 115 ms, smoothed (7 * 40 + 440) / 8 = 90 ms.
        assert_eq!(rtt.timeout(0), Nanos::from_millis(90 + 460));
        assert_eq!(rtt.least(), Nanos::from_millis(40));
    }
}
