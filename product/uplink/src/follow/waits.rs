//! Estimates how long packets wait in each band: a band's backlog divided by the rate at which bytes have left it. Which
//! packets of another host wait here, and which are on their way, only this shows.

use std::collections::BTreeMap;

use units::Nanos;

use super::handed::part;
use crate::Counted;

/// The time after which the rate is that of new bytes.
const RATE_FOR: Nanos = Nanos::from_millis(300);

/// The time without an acknowledgement that is no sign of a delay: clients acknowledge late, and radio links by bursts.
const SILENCE_MIN: Nanos = Nanos::from_millis(100);

/// Returns how long ago the oldest bytes in flight were handed to the bands: when the last bytes were acknowledged, it was
/// a round trip.
pub fn age(rtt: Nanos, since_acked: Nanos) -> Nanos {
    rtt + (since_acked - SILENCE_MIN)
}

/// The waits in the bands of an interface, by the priority of their packets.
#[derive(Debug, Default)]
pub struct Waits {
    bands: BTreeMap<u32, Band>,
    seen_at: Option<Nanos>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Band {
    /// The band's counter of bytes that have left it.
    counter: u64,
    backlog_bytes: u64,
    /// The bytes that left it, and the time in which they did, both fading.
    left_bytes: f64,
    ns: f64,
}

impl Waits {
    /// Reads the counters of all bands.
    pub fn see(&mut self, now: Nanos, bands: impl Iterator<Item = (u32, Counted)>) {
        let lasted = self.seen_at.replace(now).map_or(Nanos::ZERO, |before| now - before);
        let kept = 1.0 - (lasted.0 as f64 / RATE_FOR.0 as f64).min(1.0);
        let before = std::mem::take(&mut self.bands);
        for (priority, counted) in bands {
            // The counter of a new band begins at zero.
            let band = before.get(&priority).copied().unwrap_or(Band { counter: counted.bytes, ..Band::default() });
            let left = counted.bytes.checked_sub(band.counter).unwrap_or(counted.bytes);
            let band = Band {
                counter: counted.bytes,
                backlog_bytes: counted.backlog_bytes,
                left_bytes: band.left_bytes * kept + left as f64,
                ns: band.ns * kept + lasted.0 as f64,
            };
            self.bands.insert(priority, band);
        }
    }

    /// Returns how many of these bytes wait in the band, if the oldest of them were handed to it `age` ago, and the
    /// youngest `idle` ago.
    pub fn waiting_bytes(&self, priority: u32, bytes: u64, age: Nanos, idle: Nanos) -> u64 {
        let wait = self.bands.get(&priority).map_or(Nanos::ZERO, Band::wait);
        let handed_for = (age - idle).max(Nanos(1));
        part(bytes, (wait - idle).min(handed_for).0, handed_for.0)
    }
}

impl Band {
    fn wait(&self) -> Nanos {
        // Nothing has left: all that it was given waits.
        let ns = self.backlog_bytes as f64 * self.ns / self.left_bytes.max(1.0);
        Nanos(if self.backlog_bytes > 0 && self.left_bytes < 1.0 { u64::MAX } else { ns as u64 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(bytes: u64, backlog_bytes: u64) -> Counted {
        Counted { bytes, backlog_bytes, ..Counted::default() }
    }

    #[test]
    fn a_part_waits_as_long_as_the_band_takes_to_send_it() {
        let mut waits = Waits::default();
        for turn in 0..100u64 {
            let bands = [(1, counted(10_000 + 1000 * turn, 4000)), (2, counted(0, 50)), (3, counted(77 * turn, 0))];
            waits.see(Nanos::from_millis(10 * turn), bands.into_iter());
        }
        let with = |priority, age_ms, idle_ms| {
            waits.waiting_bytes(priority, 9000, Nanos::from_millis(age_ms), Nanos::from_millis(idle_ms))
        };
        let of = |priority, age_ms| with(priority, age_ms, 0);
        // 1000 bytes leave in 10 ms, so 4000 take 40 ms.
        assert_eq!([40, 80, 400].map(|age_ms| of(1, age_ms)), [9000, 4500, 900]);
        assert_eq!((of(1, 0), of(1, 20)), (9000, 9000));
        assert_eq!((of(2, 500), of(3, 500), of(4, 500)), (9000, 0, 0), "nothing leaves, nothing waits, no such band");
        assert_eq!([with(1, 80, 10), with(1, 80, 40), with(1, 80, 500)], [3857, 0, 0], "the youngest have left");
    }

    #[test]
    fn bands_made_anew_count_from_zero() {
        let mut waits = Waits::default();
        for (at_ms, bytes) in [(0, 1_000_000), (100, 1_010_000), (200, 0), (300, 1000), (400, 2000), (700, 5000)] {
            waits.see(Nanos::from_millis(at_ms), [(1, counted(bytes, 1000))].into_iter());
        }
        assert_eq!(waits.waiting_bytes(1, 1000, Nanos::from_millis(1000), Nanos::ZERO), 100);
    }
}
