use units::{Nanos, Rate};

/// A leaky bucket that drains at the limit's rate (generic cell rate algorithm, ITU-T I.371). It contains the bytes
/// sent to a client that have not drained yet. Sent bytes cannot be taken back, so the bucket may be overfull.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bucket {
    bytes: u64,
    /// The time up to which the bytes have drained.
    at: Nanos,
}

/// The minimum burst, in bytes, so that small pages never wait.
pub const BURST_BYTES_MIN: u64 = 64 << 10;
/// The burst, as time at the limit's rate.
const BURST_FOR: Nanos = Nanos::from_millis(100);

/// The maximum level, in bytes. Any excess is not counted.
const BYTES_MAX: u64 = 1 << 40;

impl Bucket {
    /// Adds bytes, possibly none. Returns the time from which more may be sent, or `None` if more may be sent now.
    pub fn fill(&mut self, bytes: u64, now: Nanos, rate: Rate) -> Option<Nanos> {
        // Less than a millisecond of draining is left to the next call, so that rounding loses nothing.
        if now - self.at >= Nanos::from_millis(1) {
            self.bytes = self.bytes.saturating_sub(rate.bytes_in(now - self.at));
            self.at = now;
        }
        self.bytes = self.bytes.saturating_add(bytes).min(BYTES_MAX);
        let over_bytes = self.bytes.saturating_sub(rate.bytes_in(BURST_FOR).max(BURST_BYTES_MIN));
        (over_bytes > 0).then(|| self.at + rate.time_for(over_bytes).max(Nanos::from_millis(1))).filter(|at| *at > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_free_and_the_rest_waits_for_its_turn() {
        let rate: Rate = "8mbit".parse().unwrap();
        let (mut bucket, at) = (Bucket::default(), Nanos::from_millis);
        // 100 KB in a tenth of a second.
        assert_eq!(bucket.fill(100_000, at(1000), rate), None);
        assert_eq!(bucket.fill(1_000, at(1000), rate), Some(at(1001)));
        assert_eq!(bucket.fill(0, at(1000), rate), Some(at(1001)));
        assert_eq!(bucket.fill(0, at(1001), rate), None);
        assert_eq!(bucket.fill(50_000, at(1011), rate), Some(at(1051)));
        assert!(bucket.fill(u64::MAX, at(1051), rate).is_some());
        let slow: Rate = "1mbit".parse().unwrap();
        assert_eq!(Bucket::default().fill(BURST_BYTES_MIN, at(9), slow), None);
    }

    /// The long-run average is the rate, whenever the bucket is asked.
    #[test]
    fn the_rate_is_kept() {
        let rate: Rate = "8mbit".parse().unwrap();
        let (mut bucket, mut now, mut sent) = (Bucket::default(), Nanos::from_secs(1), 0u64);
        while now < Nanos::from_secs(11) {
            sent += 1448;
            match bucket.fill(1448, now, rate) {
                Some(at) => now = at + Nanos(7),
                None => now += Nanos::from_micros(10),
            }
        }
        assert!((9_900_000..10_200_000).contains(&sent), "{sent} bytes in 10 s at 1 MB/s");
    }
}
