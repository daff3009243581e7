//! Whether a client reads what is sent to it.

use units::Nanos;

use super::Patience;

pub(super) struct Reader {
    /// When it began to be watched for slowness, and what had been sent then.
    window: (Nanos, u64),
    /// What had been sent at the last look, but for multiples of 4 GiB.
    looked_at_bytes: u32,
    /// In how many looks till then, one after another, it took too little.
    slow_looks: u8,
}

impl Reader {
    pub fn new(now: Nanos) -> Reader {
        Reader { window: (now, 0), looked_at_bytes: 0, slow_looks: 0 }
    }

    /// It is watched from now on.
    pub fn watch(&mut self, now: Nanos, sent_bytes: u64) {
        self.window = (now, sent_bytes);
    }

    /// Leaves this long out of the window.
    pub fn excuse(&mut self, paused: Nanos) {
        self.window.0 += paused;
    }

    /// A look, about once a second: whether it took too little in a whole window.
    pub fn is_stalled(&mut self, now: Nanos, sent_bytes: u64, is_waited_for: bool, patience: &Patience) -> bool {
        let taken_bytes =
            (sent_bytes as u32).wrapping_sub(std::mem::replace(&mut self.looked_at_bytes, sent_bytes as u32));
        let is_slow = is_waited_for && u64::from(taken_bytes) < patience.rate_bytes_per_s_min.max(1);
        self.slow_looks = if is_slow { self.slow_looks.saturating_add(1) } else { 0 };
        if !is_waited_for {
            self.watch(now, sent_bytes);
            return false;
        }
        let (since, bytes_then) = self.window;
        if now - since < patience.window {
            return false;
        }
        self.watch(now, sent_bytes);
        let least = u128::from(patience.rate_bytes_per_s_min) * u128::from((now - since).0) / 1_000_000_000;
        u128::from(sent_bytes - bytes_then) < least
    }

    /// At how many looks, one after another, it took less in a second than the least rate.
    pub fn slow_looks(&self) -> u8 {
        self.slow_looks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_count_while_it_is_waited_for_and_takes_too_little() {
        let patience = Patience { rate_bytes_per_s_min: 500, window: Nanos::from_secs(30) };
        let mut reader = Reader::new(Nanos::ZERO);
        let mut look = |second, sent_bytes, is_waited_for| {
            let is_stalled = reader.is_stalled(Nanos::from_secs(second), sent_bytes, is_waited_for, &patience);
            (reader.slow_looks(), is_stalled)
        };
        assert_eq!(look(1, 6000, true), (0, false), "it was sent much");
        assert_eq!([look(2, 6499, true), look(3, 6499, true)], [(1, false), (2, false)]);
        assert_eq!(
            [look(4, 6999, true), look(5, 6999, true), look(6, 6999, false)],
            [(0, false), (1, false), (0, false)]
        );
        assert_eq!((look(35, 7000, true), look(36, 21_000, true)), ((1, false), (0, true)));
    }
}
