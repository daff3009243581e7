//! Detects whether a client reads what it is sent, by the bytes that its socket takes. If those are few, it considers
//! how many of the bytes in the socket, which may hold a megabyte, are acknowledged.

use crate::clock::ClientTime;
use crate::limits::Patience;

/// The state of one reader. It is small, because each connection has one.
pub struct Reader {
    /// The time at which the current window began.
    since: ClientTime,
    /// The bytes handed down when the window began. The next field is the value at the last look. Both are modulo 4
    /// GiB.
    bytes_then: u32,
    looked_at_bytes: u32,
    /// Present once the reader has taken too little in the current window.
    acked: Option<Box<Acked>>,
}

/// The acknowledgements of a reader whose socket has taken too little.
struct Acked {
    since: ClientTime,
    bytes_then: u64,
    looked_at_bytes: u64,
    /// The number of consecutive looks, including the last, at which the reader had acknowledged too little.
    slow_looks: u8,
}

impl Acked {
    fn new(now: ClientTime, bytes: u64) -> Acked {
        Acked { since: now, bytes_then: bytes, looked_at_bytes: bytes, slow_looks: 0 }
    }

    /// Updates the count with the acknowledged bytes; `is_slow` is true if the socket has taken too little.
    fn look(&mut self, bytes: u64, is_slow: bool, rate_bytes_per_s: u64) {
        let acked_bytes = bytes.saturating_sub(std::mem::replace(&mut self.looked_at_bytes, bytes));
        let is_slow = is_slow && acked_bytes < rate_bytes_per_s.max(1);
        self.slow_looks = if is_slow { self.slow_looks.saturating_add(1) } else { 0 };
    }
}

/// Returns true if `bytes` since this time are below this rate.
fn is_below(bytes: u64, since: ClientTime, now: ClientTime, rate_bytes_per_s: u64) -> bool {
    u128::from(bytes) < u128::from(rate_bytes_per_s) * u128::from((now - since).0) / 1_000_000_000
}

impl Reader {
    pub fn new(now: ClientTime) -> Reader {
        Reader { since: now, bytes_then: 0, looked_at_bytes: 0, acked: None }
    }

    /// Begins a new window.
    pub fn watch(&mut self, now: ClientTime, sent_bytes: u64) {
        (self.since, self.bytes_then, self.acked) = (now, sent_bytes as u32, None);
    }

    /// Checks the reader, about once a second. Returns whether the reader took too little in a whole window.
    /// `acked_bytes` costs a system call.
    pub fn is_stalled(
        &mut self,
        now: ClientTime,
        sent_bytes: u64,
        acked_bytes: impl FnOnce() -> u64,
        is_waited_for: bool,
        patience: &Patience,
    ) -> bool {
        let (rate, sent_bytes_now) = (patience.rate_bytes_per_s_min, sent_bytes as u32);
        let taken_bytes = sent_bytes_now.wrapping_sub(std::mem::replace(&mut self.looked_at_bytes, sent_bytes_now));
        let is_slow = u64::from(taken_bytes) < rate.max(1);
        let is_over = now - self.since >= patience.window;
        let is_little = is_over && is_below(sent_bytes_now.wrapping_sub(self.bytes_then).into(), self.since, now, rate);
        if !is_waited_for || is_over && !is_little {
            self.watch(now, sent_bytes);
        }
        if !is_waited_for || !is_slow && !is_little {
            self.acked.iter_mut().for_each(|acked| acked.slow_looks = 0);
            return false;
        }
        let acked_bytes = acked_bytes();
        let acked = self.acked.get_or_insert_with(|| Box::new(Acked::new(now, acked_bytes)));
        acked.look(acked_bytes, is_slow, rate);
        let newly_acked_bytes = acked_bytes.saturating_sub(acked.bytes_then);
        let is_stalled = is_little && is_below(newly_acked_bytes, acked.since, now, rate);
        if is_little {
            (self.since, self.bytes_then) = (now, sent_bytes_now);
            (acked.since, acked.bytes_then) = (now, acked_bytes);
        }
        is_stalled
    }

    /// The number of consecutive looks at which the reader took less than the minimum rate.
    pub fn slow_looks(&self) -> u8 {
        self.acked.as_ref().map_or(0, |acked| acked.slow_looks)
    }
}

#[cfg(test)]
mod tests {
    use units::Nanos;

    use super::*;

    const PATIENCE: Patience = Patience { rate_bytes_per_s_min: 500, window: Nanos::from_secs(30) };

    fn at(second: u64) -> ClientTime {
        ClientTime::after(Nanos::from_secs(second))
    }

    #[test]
    fn looks_count_while_it_is_waited_for_and_takes_too_little() {
        let mut reader = Reader::new(at(0));
        let mut look = |second, sent_bytes, is_waited_for| {
            let is_stalled = reader.is_stalled(at(second), sent_bytes, || 0, is_waited_for, &PATIENCE);
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

    /// The socket has taken a megabyte, and takes nothing more while the client reads that.
    #[test]
    fn one_that_acknowledges_is_not_slow_whatever_its_socket_takes() {
        for (rate, is_slow) in [(10_000, false), (500, false), (499, true)] {
            let mut reader = Reader::new(at(0));
            reader.watch(at(0), 0);
            let mut looks =
                (1..=100).map(|second| reader.is_stalled(at(second), 1 << 20, || rate * second, true, &PATIENCE));
            assert_eq!(looks.any(|is_stalled| is_stalled), is_slow, "{rate}");
            assert_eq!(reader.slow_looks() > 0, is_slow, "{rate}");
        }
    }
}
