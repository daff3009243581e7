//! Measures how long the bytes of all connections stay beyond the interface, from departure to acknowledgement.

use std::collections::VecDeque;

use units::Nanos;

use super::handed::part;

/// The maximum number of sights that are remembered. A longer stay is not measured.
const SIGHTS_MAX: usize = 256;
/// The size of a full packet with its Ethernet header.
const PACKET_BYTES: u64 = 1514;
/// The bytes, and the time, over which the mean of the minima and the usual excess are taken.
const MEAN_BYTES: f64 = 40.0 * PACKET_BYTES as f64;
const MEAN_FOR: Nanos = Nanos::from_millis(100);
/// Bytes are late if they stay longer than twice the usual excess and this: more than round trips vary by themselves.
const LATE_MIN: Nanos = Nanos::from_millis(25);

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
    excesses: Excesses,
    /// The usual excess of the last sights.
    usual: Nanos,
    stay: Option<Nanos>,
}

/// A connection's bytes in flight.
#[derive(Debug, Clone, Copy, Default)]
pub struct Flight {
    pub bytes: u64,
    /// The part of them that waits here, as estimated.
    pub waiting_bytes: u64,
    /// The age of the oldest of them.
    pub age: Nanos,
    /// The bytes acknowledged since the last sight.
    pub acked_bytes: u64,
    /// The minimum round trip, if it is known.
    pub least: Option<Nanos>,
}

/// Acknowledged bytes, and the sum of their connections' minimum round trips.
#[derive(Debug, Clone, Copy, Default)]
struct Minima {
    acked_bytes: f64,
    byte_ns: f64,
}

impl Beyond {
    /// Adds a connection to the sight. Bytes that are late, because the client has a slow link of its own or has gone,
    /// count as if they stayed as long as usual.
    pub fn add(&mut self, flight: &Flight) {
        if let Some(least) = flight.least {
            self.next.acked_bytes += flight.acked_bytes as f64;
            self.next.byte_ns += flight.acked_bytes as f64 * least.0 as f64;
        }
        if flight.bytes > 0 {
            let late_bytes = self.late_bytes(flight);
            self.bytes = self.bytes.saturating_add_unsigned(flight.bytes.saturating_sub(late_bytes));
        }
    }

    /// Records by how much a connection's bytes stay longer than its minimum. Returns the bytes that are in flight because
    /// they are late.
    fn late_bytes(&mut self, flight: &Flight) -> u64 {
        let beyond_bytes = flight.bytes.saturating_sub(flight.waiting_bytes);
        let stay = Nanos(part(flight.age.0, beyond_bytes, flight.bytes));
        let least = flight.least.unwrap_or_else(|| self.minima.mean());
        self.excesses.add(stay - least, flight.acked_bytes);
        let as_usual = least + self.usual;
        let is_late = stay > as_usual + self.usual + LATE_MIN;
        if is_late { part(beyond_bytes, (stay - as_usual).0, stay.0) } else { 0 }
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
        self.usual = self.excesses.usual();
        self.excesses.fade(lasted);
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

/// The acknowledged bytes by their stay beyond the minimum, fading: four classes for each doubling of a millisecond and
/// more.
#[derive(Debug)]
struct Excesses([f64; EXCESSES]);

/// The number of classes; the last one begins at 55 s.
const EXCESSES: usize = 64;
const CLASSES_EACH: f64 = 4.0;
/// The part of the bytes whose excess is less than the usual one: a queue that all share delays most of them, and the
/// minima of some may include an earlier queue.
const USUAL_PART: f64 = 0.4;

impl Default for Excesses {
    fn default() -> Excesses {
        Excesses([0.0; EXCESSES])
    }
}

impl Excesses {
    fn add(&mut self, excess: Nanos, bytes: u64) {
        let ms = excess.0 as f64 / 1e6;
        let class = ((1.0 + ms).log2() * CLASSES_EACH) as usize;
        self.0[class.min(EXCESSES - 1)] += bytes as f64;
    }

    fn usual(&self) -> Nanos {
        let mut rest = self.0.iter().sum::<f64>() * USUAL_PART;
        let class = self.0.iter().position(|bytes| {
            rest -= bytes;
            rest < 0.0
        });
        class.map_or(Nanos::ZERO, |class| Nanos((((class as f64 + 0.5) / CLASSES_EACH).exp2() * 1e6 - 1e6) as u64))
    }

    fn fade(&mut self, lasted: Nanos) {
        let all = self.0.iter().sum::<f64>();
        let by_time = 1.0 - (lasted.0 as f64 / MEAN_FOR.0 as f64).min(1.0);
        // On a slow line, MEAN_BYTES take longer.
        let kept = by_time.max(MEAN_BYTES / all.max(MEAN_BYTES));
        self.0.iter_mut().for_each(|bytes| *bytes *= kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    fn flight(bytes: u64, acked_bytes: u64) -> Flight {
        Flight { bytes, acked_bytes, ..Flight::default() }
    }

    /// Returns the excess that the last of these sights shows, in milliseconds. Each comes 10 ms after the one before and
    /// has the bytes that left since then, and the bytes beyond the interface without the next packet to arrive.
    fn excess_ms(sights: &[(u64, u64)]) -> Option<u64> {
        let mut beyond = Beyond::default();
        for (at, (left_bytes, bytes)) in (0..).zip(sights) {
            beyond.add(&Flight { least: Some(Nanos::ZERO), ..flight(bytes + PACKET_BYTES + 500, 1000) });
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
                beyond.add(&flight(6000 + PACKET_BYTES, 0));
                let acked = |(acked_bytes, least): &(u64, _)| Flight { least: *least, ..flight(0, *acked_bytes) };
                connections.iter().map(acked).for_each(|flight| beyond.add(&flight));
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

    /// Nine of ten packets stay for 20 ms. Returns the stay if the others, of another client, stay for `late_ms`.
    fn stay_ms(late_ms: u64, least: Option<Nanos>) -> u64 {
        let mut beyond = Beyond::default();
        for at in 0..200 {
            let of = |packets: u64, ms: u64, least: Option<Nanos>| {
                // As many bytes wait here, for 10 ms.
                let (bytes_per_ms, waiting_bytes) = (packets * PACKET_BYTES, 10 * packets * PACKET_BYTES);
                let (bytes, age) = (bytes_per_ms * ms + waiting_bytes, MS(ms + 10));
                Flight { bytes, waiting_bytes, age, acked_bytes: 10 * bytes_per_ms, least }
            };
            beyond.add(&of(9, 20, Some(MS(10))));
            beyond.add(&of(1, late_ms, least));
            beyond.end_sight(MS(10 * at), 100 * PACKET_BYTES, 100 * PACKET_BYTES);
        }
        beyond.round_trip(None).unwrap().0.div_ceil(1_000_000)
    }

    #[test]
    fn bytes_of_a_slow_client_count_as_if_they_stayed_as_long_as_others() {
        for least in [None, Some(MS(10))] {
            // Below the bound, they count as they are.
            assert_eq!([20, 50, 80, 300, 2000].map(|ms| stay_ms(ms, least)), [20, 23, 20, 20, 20], "{least:?}");
        }
        // A longer path is not a delay.
        assert_eq!(stay_ms(120, Some(MS(110))), 30);
    }

    /// Bytes that are needlessly sent again wait here and are in flight already.
    #[test]
    fn nothing_is_known_if_more_waits_than_is_in_flight_or_nothing_does() {
        let mut beyond = Beyond::default();
        for (at, here_bytes) in (0..).zip([999, 1000, 1001, 0, 1000]) {
            beyond.add(&Flight { least: Some(Nanos::ZERO), ..flight(1000, 1000) });
            beyond.end_sight(MS(10 * at), here_bytes, 1000);
            assert_eq!(beyond.round_trip(None).is_some(), [999, 1000].contains(&here_bytes), "{here_bytes}");
        }
    }
}
