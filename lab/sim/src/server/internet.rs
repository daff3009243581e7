//! The paths between clients and server: table 1 of Murta and Corlassoli (2002).

use rand::RngCore;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use units::{Nanos, Rate};

use super::config::{Internet, rate};

/// Clients of similar bandwidth.
#[derive(Debug, Clone, Copy)]
pub struct BandwidthClass {
    pub bits_per_s: u64,
    pub percent: u32,
    /// The minimum round-trip times, with equal probability.
    pub rtt_ms: [u64; 2],
}

const fn class(bits_per_s: u64, percent: u32, rtt_ms: [u64; 2]) -> BandwidthClass {
    BandwidthClass { bits_per_s, percent, rtt_ms }
}

/// Table 1.
pub const BANDWIDTHS: [BandwidthClass; 8] = [
    class(14_000, 2, [90, 280]),
    class(28_000, 4, [90, 280]),
    class(33_000, 12, [90, 280]),
    class(56_000, 34, [90, 280]),
    class(128_000, 19, [20, 50]),
    class(1_000_000, 13, [20, 50]),
    class(4_000_000, 9, [20, 50]),
    class(10_000_000, 7, [20, 50]),
];

/// The location of a client. Its access link has the same rate in both directions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// An index into [`BANDWIDTHS`].
    pub class: u8,
    pub bandwidth: Rate,
    pub rtt_least: Nanos,
}

/// Returns locations in proportions as near to the percentages as the number of users allows; the assignment is random.
pub(super) fn places(users: u32, rng: &mut ChaCha8Rng) -> Vec<Place> {
    let mut percent = 0;
    let mut places = Vec::with_capacity(users as usize);
    for (index, class) in BANDWIDTHS.iter().enumerate() {
        percent += class.percent;
        let upto = (u64::from(users) * u64::from(percent)).div_ceil(100) as usize;
        while places.len() < upto {
            let rtt_least = Nanos::from_millis(class.rtt_ms[places.len() % 2]);
            places.push(Place { class: index as u8, bandwidth: rate(class.bits_per_s), rtt_least });
        }
    }
    places.shuffle(rng);
    places
}

/// The randomness of the network.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weather {
    /// A draw below this is a loss; with 2^32 every draw would be.
    loss_below: u64,
    rtt_alpha: f64,
    rtt_spread: f64,
}

impl Weather {
    pub fn new(internet: &Internet) -> Weather {
        let loss_below = (internet.loss * 2f64.powi(32)).round() as u64;
        Weather { loss_below, rtt_alpha: internet.rtt_alpha, rtt_spread: internet.rtt_spread }
    }

    pub fn is_lost(&self, rng: &mut ChaCha8Rng) -> bool {
        self.loss_below > 0 && u64::from(rng.next_u32()) < self.loss_below
    }

    /// The round-trip time of a transfer: bounded Pareto, F(x) = (1 − (L/x)^alpha) / (1 − (L/H)^alpha), solved for x.
    pub fn rtt(&self, least: Nanos, rng: &mut ChaCha8Rng) -> Nanos {
        let unit = f64::from(rng.next_u32()) / 2f64.powi(32);
        let below = 1.0 - self.rtt_spread.powf(-self.rtt_alpha);
        let times = (1.0 - unit * below).powf(-1.0 / self.rtt_alpha);
        Nanos((least.0 as f64 * times) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn users_are_spread_as_in_table_1() {
        for users in [70, 210, 700] {
            let places = places(users, &mut ChaCha8Rng::seed_from_u64(1));
            assert_eq!(places.len(), users as usize);
            for (index, class) in BANDWIDTHS.iter().enumerate() {
                let here: Vec<_> = places.iter().filter(|place| usize::from(place.class) == index).collect();
                let wanted = f64::from(users * class.percent) / 100.0;
                assert!((here.len() as f64 - wanted).abs() < 1.0, "{users} users: {} for {wanted}", here.len());
                let near = here.iter().filter(|place| place.rtt_least == Nanos::from_millis(class.rtt_ms[0])).count();
                assert!(near.abs_diff(here.len() - near) <= 1);
            }
        }
    }

    #[test]
    fn round_trips_are_bounded_pareto() {
        let weather = Weather::new(&Internet::default());
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let least = Nanos::from_millis(100);
        let rtts: Vec<Nanos> = (0..100_000).map(|_| weather.rtt(least, &mut rng)).collect();
        assert!(rtts.iter().all(|&rtt| rtt >= least && rtt <= Nanos::from_millis(800)));
        // alpha / (alpha − 1) · (1 − 8^(1 − alpha)) / (1 − 8^−alpha) = 2.0915.
        let mean = rtts.iter().map(|rtt| rtt.as_millis_f64()).sum::<f64>() / rtts.len() as f64;
        assert!((mean / 209.15 - 1.0).abs() < 0.01, "{mean} ms");
    }

    #[test]
    fn losses_are_as_many_as_said() {
        let weather = Weather::new(&Internet { loss: 0.05, ..Internet::default() });
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let lost = (0..100_000).filter(|_| weather.is_lost(&mut rng)).count();
        assert!((4_750..5_250).contains(&lost), "{lost}");
    }
}
