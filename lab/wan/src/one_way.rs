use std::collections::VecDeque;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use serde::Serialize;
use units::Nanos;

use crate::Conditions;
use crate::jitter::unit;

/// Packets in flight one way of a path: 200 Mbit/s of full packets for 1.2 s, and at most 30 MB.
pub const PACKETS_MAX: usize = 20_000;
/// Packets that may wait for the rate of a path: the FIFO that the papers have at a bottleneck.
pub const RATE_QUEUE_PACKETS: usize = 100;
/// Connections whose order is kept apart; two that share a slot keep a common order, which delays some packets a little.
const FLOW_SLOTS: usize = 4096;

/// What became of the packets of one way of a path. Each is counted once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Counts {
    /// Those that were given a departure.
    pub passed: u64,
    /// Lost at random, as asked.
    pub lost: u64,
    /// Dropped for want of room: [`RATE_QUEUE_PACKETS`] before the rate, [`PACKETS_MAX`] in flight.
    pub queue_drops: u64,
}

/// One way of a path: gives each packet its fate.
#[derive(Debug)]
pub(crate) struct OneWay {
    conditions: Conditions,
    rng: ChaCha8Rng,
    /// When the latest packet of each connection departs, by the connection's slot.
    latest: Box<[Nanos]>,
    /// When those that wait for the rate have been sent, in order.
    waiting: VecDeque<Nanos>,
    in_flight: usize,
    counts: Counts,
}

impl OneWay {
    /// `stream` tells ways apart that share a seed.
    pub fn new(conditions: Conditions, seed: u64, stream: u64) -> OneWay {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(stream);
        let latest = vec![Nanos::ZERO; FLOW_SLOTS].into();
        OneWay { conditions, rng, latest, waiting: VecDeque::new(), in_flight: 0, counts: Counts::default() }
    }

    /// When a packet that came `now` leaves; `None` if it never does. `now` never runs backward.
    pub fn send(&mut self, now: Nanos, flow: u64, size_bytes: u64) -> Option<Nanos> {
        if self.conditions.loss > 0.0 && unit(&mut self.rng) < self.conditions.loss {
            self.counts.lost += 1;
            return None;
        }
        let has_room = self.in_flight < PACKETS_MAX;
        let Some(sent) = has_room.then(|| self.queue(now, size_bytes)).flatten() else {
            self.counts.queue_drops += 1;
            return None;
        };
        let at = sent + self.draw_delay();
        self.counts.passed += 1;
        self.in_flight += 1;
        if self.conditions.reorder {
            return Some(at);
        }
        let latest = &mut self.latest[flow as usize % FLOW_SLOTS];
        *latest = at.max(*latest);
        Some(*latest)
    }

    /// A packet that was given a departure has left.
    pub fn departed(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// When the rate has let the packet through; `None` where too many wait for it already.
    fn queue(&mut self, now: Nanos, size_bytes: u64) -> Option<Nanos> {
        let Some(rate) = self.conditions.rate else { return Some(now) };
        while self.waiting.front().is_some_and(|sent| *sent <= now) {
            self.waiting.pop_front();
        }
        if self.waiting.len() >= RATE_QUEUE_PACKETS {
            return None;
        }
        let free_at = self.waiting.back().map_or(now, |last| now.max(*last));
        let sent = free_at + rate.time_for(size_bytes);
        self.waiting.push_back(sent);
        Some(sent)
    }

    fn draw_delay(&mut self) -> Nanos {
        let Conditions { delay, jitter, shape, .. } = self.conditions;
        if jitter == Nanos::ZERO {
            return delay;
        }
        let drawn = delay.0 as f64 + shape.draw(&mut self.rng) * jitter.0 as f64;
        // A cast from below zero is zero: a packet cannot arrive before it was sent.
        Nanos(drawn as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Shape;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn conditions(delay_ms: u64, jitter_ms: u64) -> Conditions {
        let (delay, jitter) = (Nanos::from_millis(delay_ms), Nanos::from_millis(jitter_ms));
        Conditions { delay, jitter, shape: Shape::Normal, loss: 0.0, rate: None, reorder: false }
    }

    /// Delays of packets one second apart, ms.
    fn delays_ms(conditions: Conditions, count: u64) -> Vec<f64> {
        let mut way = OneWay::new(conditions, 7, 0);
        let send = |second| {
            let now = Nanos::from_secs(second);
            let at = way.send(now, 1, 1500)?;
            way.departed();
            Some((at - now).as_millis_f64())
        };
        (0..count).filter_map(send).collect()
    }

    fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
        (mean, variance.sqrt())
    }

    #[test]
    fn delays_have_the_mean_and_the_spread_asked_for() {
        let (mean, deviation) = mean_and_deviation(&delays_ms(conditions(100, 20), 50_000));
        // Standard errors 0.09 and 0.06 ms: five of them.
        assert!((mean - 100.0).abs() < 0.45 && (deviation - 20.0).abs() < 0.32, "{mean} {deviation}");
        assert!(delays_ms(conditions(50, 0), 100).iter().all(|delay| *delay == 50.0));
    }

    /// With a spread as large as the delay, what would arrive early arrives at once.
    #[test]
    fn no_delay_is_below_zero() {
        let delays = delays_ms(conditions(10, 10), 10_000);
        assert!(delays.iter().all(|delay| *delay >= 0.0) && delays.contains(&0.0));
    }

    #[test]
    fn loss_is_as_asked_and_independent() {
        let mut way = OneWay::new(Conditions { loss: 0.05, ..conditions(0, 0) }, 3, 0);
        let mut is_lost = |ns| {
            let fate = way.send(Nanos(ns), 1, 100);
            way.departed();
            fate.is_none()
        };
        let is_lost: Vec<bool> = (0..100_000).map(&mut is_lost).collect();
        let lost = is_lost.iter().filter(|lost| **lost).count();
        assert_eq!(way.counts(), Counts { passed: 100_000 - lost as u64, lost: lost as u64, queue_drops: 0 });
        // 5,000 expected, standard deviation 69; of pairs 250, 16: five of them.
        assert!((4655..=5345).contains(&lost), "{lost}");
        let pairs = is_lost.windows(2).filter(|pair| pair[0] && pair[1]).count();
        assert!((170..=330).contains(&pairs), "{pairs}");
    }

    #[test]
    fn a_rate_spaces_packets_and_drops_what_has_no_room() {
        let rate = "12mbit".parse().ok();
        let mut way = OneWay::new(Conditions { rate, ..conditions(10, 0) }, 1, 0);
        // A packet of 1,500 bytes takes a millisecond.
        let at: Vec<_> = (0..RATE_QUEUE_PACKETS as u64 + 5).map(|flow| way.send(Nanos::ZERO, flow, 1500)).collect();
        for (number, at) in at.iter().enumerate().take(RATE_QUEUE_PACKETS) {
            assert_eq!(*at, Some(Nanos::from_millis(11 + number as u64)));
        }
        assert_eq!(way.counts(), Counts { passed: RATE_QUEUE_PACKETS as u64, lost: 0, queue_drops: 5 });
        // When the link has been idle it starts anew.
        assert_eq!(way.send(Nanos::from_secs(5), 1, 1500), Some(Nanos(5_011 * MS)));
    }

    #[test]
    fn packets_in_flight_are_bounded() {
        let mut way = OneWay::new(conditions(100, 0), 1, 0);
        let fates: Vec<_> = (0..=PACKETS_MAX as u64).map(|ns| way.send(Nanos(ns), 1, 40)).collect();
        assert_eq!((fates[PACKETS_MAX - 1].is_some(), fates[PACKETS_MAX]), (true, None));
        way.departed();
        assert!(way.send(Nanos(1_000_000), 1, 40).is_some());
    }

    /// One connection keeps its order, and costs another nothing.
    #[test]
    fn connections_do_not_wait_for_each_other() {
        let mut way = OneWay::new(conditions(100, 20), 9, 0);
        let mut total_ms = 0.0;
        // 800 packets a second, each of another connection: 10 Mbit/s of full packets.
        for number in 0..4000 {
            let now = Nanos(number * 1_250_000);
            total_ms += (way.send(now, number, 1500).unwrap() - now).as_millis_f64();
            way.departed();
        }
        // Standard error 0.3 ms. In one common order the mean would be 40 ms longer.
        assert!((total_ms / 4000.0 - 100.0).abs() < 2.0, "{}", total_ms / 4000.0);
    }

    #[test]
    fn packets_overtake_only_when_asked() {
        let mut way = OneWay::new(Conditions { reorder: true, ..conditions(100, 20) }, 1, 0);
        let at: Vec<_> = (0..1000).map(|ms| way.send(Nanos(ms * MS), 1, 1500)).collect();
        assert!(!at.is_sorted());
    }

    #[test]
    fn the_same_seed_makes_the_same_link() {
        let run = |seed, stream| {
            let mut way = OneWay::new(Conditions { loss: 0.1, ..conditions(100, 20) }, seed, stream);
            (0..200).map(|ms| way.send(Nanos(ms * MS), ms, 1500)).collect::<Vec<_>>()
        };
        assert_eq!(run(1, 0), run(1, 0));
        assert_ne!(run(1, 0), run(2, 0));
        assert_ne!(run(1, 0), run(1, 1));
    }

    proptest! {
        #[test]
        fn a_connection_keeps_its_order(
            gaps_us in prop::collection::vec(0u64..5_000, 1..200), jitter_ms in 0u64..50, seed: u64,
            rate in prop::option::of(100_000u64..1_000_000_000), pareto: bool,
        ) {
            let shape = if pareto { Shape::Pareto } else { Shape::Normal };
            let rate = rate.and_then(units::Rate::from_bits_per_s);
            let mut way = OneWay::new(Conditions { shape, rate, ..conditions(50, jitter_ms) }, seed, 0);
            let (mut now, mut last) = (Nanos::ZERO, Nanos::ZERO);
            for gap_us in gaps_us {
                now += Nanos::from_micros(gap_us);
                if let Some(at) = way.send(now, 5, 1500) {
                    prop_assert!(at >= last && at >= now);
                    last = at;
                }
            }
        }

        /// No window of departures carries more than the rate.
        #[test]
        fn the_rate_is_never_exceeded(
            packets in prop::collection::vec((0u64..2_000, 40u64..1500), 1..200), bits in 100_000u64..100_000_000,
        ) {
            let rate = units::Rate::from_bits_per_s(bits).unwrap();
            let mut way = OneWay::new(Conditions { rate: Some(rate), ..conditions(5, 0) }, 0, 0);
            let (mut now, mut last) = (Nanos::ZERO, None);
            for (gap_us, size_bytes) in packets {
                now += Nanos::from_micros(gap_us);
                if let Some(at) = way.send(now, size_bytes, size_bytes) {
                    prop_assert!(last.is_none_or(|last| at >= last + rate.time_for(size_bytes)));
                    last = Some(at);
                }
            }
        }
    }
}
