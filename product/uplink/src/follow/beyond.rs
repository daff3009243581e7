//! Measures how long the bytes of all connections stay beyond the interface, from departure to acknowledgement.

use std::collections::VecDeque;

use units::Nanos;

/// The maximum number of sights that are remembered. A longer stay is not measured.
const SIGHTS_MAX: usize = 256;
/// The size of a full packet with its Ethernet header.
const PACKET_BYTES: u64 = 1514;
/// The bytes, and the time, over which the mean of the minima is taken.
const MEAN_BYTES: f64 = 40.0 * PACKET_BYTES as f64;
const MEAN_FOR: Nanos = Nanos::from_millis(100);

/// The stay of bytes beyond the interface. Bytes arrive in the order in which they left, so the bytes beyond the
/// interface and the history of departures give the time since the next packet to arrive has left. Little's law would
/// give too little while the pace changes.
#[derive(Debug, Default)]
pub struct Beyond {
    /// The instants of recent sights, and all bytes that had left by then.
    sights: VecDeque<(Nanos, u64)>,
    left_bytes: u64,
    /// The bytes that are beyond the interface in this sight; negative if more waits here than connections account for.
    bytes: i64,
    /// The bytes acknowledged in this sight, and the sum of their connections' minima.
    next: Minima,
    minima: Minima,
    stay: Option<Nanos>,
}

/// Acknowledged bytes, and the sum of their connections' minimum round trips.
#[derive(Debug, Clone, Copy, Default)]
struct Minima {
    acked_bytes: f64,
    byte_ns: f64,
}

impl Beyond {
    /// Adds a connection to the sight: its bytes in flight, including those that wait here, and the bytes acknowledged
    /// since the last sight. `least` is its minimum round trip, if that is known.
    pub fn add(&mut self, bytes: u64, acked_bytes: u64, least: Option<Nanos>) {
        self.bytes = self.bytes.saturating_add_unsigned(bytes);
        if let Some(least) = least {
            self.next.acked_bytes += acked_bytes as f64;
            self.next.byte_ns += acked_bytes as f64 * least.0 as f64;
        }
    }

    /// Ends the sight. `here_bytes` are the bytes that have not left, and `left_bytes` those that have left since the
    /// last sight.
    pub fn end_sight(&mut self, now: Nanos, here_bytes: u64, left_bytes: u64) {
        self.left_bytes += left_bytes;
        let bytes = std::mem::take(&mut self.bytes).saturating_sub_unsigned(here_bytes);
        let lasted = self.sights.back().map_or(MEAN_FOR, |(before, _)| now - *before);
        if self.sights.len() == SIGHTS_MAX {
            self.sights.pop_front();
        }
        self.sights.push_back((now, self.left_bytes));
        let next = std::mem::take(&mut self.next);
        self.minima.add(&next, lasted);
        // More waits here than connections account for if they needlessly send bytes again. If nothing waits, the bytes
        // beyond are few because few were sent.
        let bytes = u64::try_from(bytes).ok().filter(|_| here_bytes > 0);
        self.stay = bytes.and_then(|bytes| self.stay_of(now, bytes));
    }

    /// Returns the round trip beyond the interface of a connection with this minimum: longer by as much as bytes now
    /// stay longer than the mean of their connections' minima. If the minimum is unknown, returns the stay of all bytes.
    pub fn round_trip(&self, least: Option<Nanos>) -> Option<Nanos> {
        self.stay.map(|stay| least.map_or(stay, |least| least + (stay - self.minima.mean())))
    }

    /// Returns the time since the next packet to arrive has left, if this many bytes are beyond the interface.
    fn stay_of(&self, now: Nanos, bytes: u64) -> Option<Nanos> {
        let arrived = self.left_bytes.checked_sub(bytes.saturating_sub(PACKET_BYTES))?;
        let next = self.sights.partition_point(|(_, left_bytes)| *left_bytes <= arrived);
        let (began, from) = *self.sights.get(next.checked_sub(1)?)?;
        let left_at = self.sights.get(next).map_or(now, |(ended, until)| {
            let part = (arrived - from) as f64 / (until - from) as f64;
            began + Nanos(((*ended - began).0 as f64 * part) as u64)
        });
        Some(now - left_at)
    }
}

impl Minima {
    fn add(&mut self, next: &Minima, lasted: Nanos) {
        let part = (next.acked_bytes / MEAN_BYTES).min(lasted.0 as f64 / MEAN_FOR.0 as f64).min(1.0);
        self.acked_bytes = self.acked_bytes * (1.0 - part) + next.acked_bytes;
        self.byte_ns = self.byte_ns * (1.0 - part) + next.byte_ns;
    }

    fn mean(&self) -> Nanos {
        Nanos((self.byte_ns / self.acked_bytes.max(1.0)) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    /// Returns the excess that the last of these sights shows, in milliseconds. Each comes 10 ms after the one before and
    /// has the bytes that left since then, and the bytes beyond the interface without the next packet to arrive.
    fn excess_ms(sights: &[(u64, u64)]) -> Option<u64> {
        let mut beyond = Beyond::default();
        for (at, (left_bytes, bytes)) in (0..).zip(sights) {
            beyond.add(bytes + PACKET_BYTES + 500, 1000, Some(Nanos::ZERO));
            beyond.end_sight(MS(10 * at), 500, *left_bytes);
        }
        beyond.round_trip(Some(Nanos::ZERO)).map(|excess| excess.0 / 1_000_000)
    }

    #[test]
    fn the_stay_is_the_age_of_the_next_packet_to_arrive() {
        assert_eq!(excess_ms(&[(0, 0), (1000, 0)]), Some(0));
        assert_eq!(excess_ms(&[(0, 0), (1000, 1000)]), Some(10));
        assert_eq!(excess_ms(&[(0, 0), (1000, 1000), (1000, 1500)]), Some(15));
        // At half of the pace, the bytes in flight become fewer and their stay does not.
        assert_eq!(excess_ms(&[(0, 0), (1000, 1000), (1000, 2000), (500, 1500), (500, 1000)]), Some(20));
        assert_eq!(excess_ms(&[(0, 0), (1000, 1000), (0, 1000), (0, 1000)]), Some(30), "nothing leaves or arrives");
    }

    #[test]
    fn what_left_before_the_first_sight_has_no_known_stay() {
        assert_eq!(excess_ms(&[]), None);
        assert_eq!(excess_ms(&[(0, 5000), (1000, 4000)]), None);
        assert_eq!(excess_ms(&[(1000, 3000); 2 * SIGHTS_MAX]), Some(30));
        let mut stopped = vec![(0, 1000); 2 * SIGHTS_MAX];
        stopped[0] = (1000, 1000);
        assert_eq!(excess_ms(&stopped), None);
    }

    #[test]
    fn a_round_trip_is_longer_by_as_much_as_bytes_stay_longer_than_the_minima() {
        let round_trip_ms = |connections: &[(u64, Option<Nanos>)], least_ms: Option<u64>| {
            let mut beyond = Beyond::default();
            for at in 0..40 {
                beyond.add(6000 + PACKET_BYTES, 0, None);
                connections.iter().for_each(|(acked_bytes, least)| beyond.add(0, *acked_bytes, *least));
                beyond.end_sight(MS(10 * at), 1000, 1000);
            }
            beyond.round_trip(least_ms.map(MS)).map(|rtt| rtt.0 / 1_000_000)
        };
        // Bytes stay for 50 ms.
        assert_eq!(round_trip_ms(&[(1000, None)], Some(20)), Some(70));
        assert_eq!(round_trip_ms(&[(1000, Some(MS(10)))], Some(20)), Some(60));
        assert_eq!(round_trip_ms(&[(1000, Some(MS(10))), (3000, Some(MS(30)))], Some(20)), Some(45));
        assert_eq!(round_trip_ms(&[(1000, Some(MS(70)))], Some(20)), Some(20));
        assert_eq!(round_trip_ms(&[(1000, Some(MS(10)))], None), Some(50), "its own minimum is unknown");
    }

    /// Bytes that are needlessly sent again wait here and are in flight already.
    #[test]
    fn nothing_is_known_if_more_waits_than_is_in_flight_or_nothing_does() {
        let mut beyond = Beyond::default();
        for (at, here_bytes) in (0..).zip([999, 1000, 1001, 0, 1000]) {
            beyond.add(1000, 1000, Some(Nanos::ZERO));
            beyond.end_sight(MS(10 * at), here_bytes, 1000);
            assert_eq!(beyond.round_trip(None).is_some(), [999, 1000].contains(&here_bytes), "{here_bytes}");
        }
    }
}
