//! A line whose rate never rests, as a radio's does: `[rate_model]`, another rate every 100 ms, drawn from a seed.

use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;
use units::Rate;

/// A scheduler's and a rate control's decisions are faster, a path's mean over this is what a server could follow.
const EVERY: Duration = Duration::from_millis(100);
/// No rate is below this part of the link's.
const LEAST: f64 = 0.08;
/// Around this part of the link's rate, LTE's moves.
const LTE_MEDIAN: f64 = 0.4;
/// Standard deviation of the logarithm of LTE's rate: a factor of 1.65.
const LTE_DEVIATION: f64 = 0.5;
/// After this time LTE's rate remembers 1/e of what it was.
const LTE_MEMORY: Duration = Duration::from_secs(2);
/// The rates of Wi-Fi, in parts of the link's.
const WIFI_LEVELS: [f64; 7] = [LEAST, 0.16, 0.26, 0.4, 0.6, 0.8, 1.0];
/// The chance that Wi-Fi goes one level up or down in a step.
const WIFI_MOVES: f64 = 0.15;
/// The chance that others take the channel in a step, and that they leave it in one: 300 ms in the mean.
const WIFI_TAKEN: f64 = 0.03;
const WIFI_LEFT: f64 = 1.0 / 3.0;

/// The movement of the line's rate while the load goes on, at most as fast as the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateModel {
    pub kind: RateKind,
    /// Unset is that of the load.
    pub seed: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RateKind {
    /// A Gauss-Markov process of the rate's logarithm, cut off at 8 % of the link's rate and at all of it.
    Lte,
    /// A walk over seven levels, and moments in which others have the channel and the least level is left.
    Wifi,
}

impl RateModel {
    /// When the line gets which rate, up to `lasts`.
    pub(crate) fn steps(&self, link: Rate, load_seed: u64, lasts: Duration) -> Vec<(Duration, Rate)> {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed.unwrap_or(load_seed));
        let mut state = State { log: LTE_MEDIAN.ln(), level: WIFI_LEVELS.len() / 2, is_taken: false };
        let count = u32::try_from(lasts.as_millis() / EVERY.as_millis()).unwrap_or(u32::MAX);
        let step = |number| {
            let part = match self.kind {
                RateKind::Lte => state.lte(&mut random),
                RateKind::Wifi => state.wifi(&mut random),
            };
            let bits = (link.bits_per_s() as f64 * part).round() as u64;
            Some((EVERY * number, Rate::from_bits_per_s(bits)?))
        };
        (0..count).filter_map(step).collect()
    }
}

struct State {
    /// The logarithm of the part of the link's rate, for LTE.
    log: f64,
    level: usize,
    is_taken: bool,
}

impl State {
    fn lte(&mut self, random: &mut ChaCha8Rng) -> f64 {
        let kept = (-EVERY.as_secs_f64() / LTE_MEMORY.as_secs_f64()).exp();
        let moved = LTE_DEVIATION * (1.0 - kept * kept).sqrt() * normal(random);
        let median = LTE_MEDIAN.ln();
        self.log = (median + kept * (self.log - median) + moved).clamp(LEAST.ln(), 0.0);
        self.log.exp()
    }

    fn wifi(&mut self, random: &mut ChaCha8Rng) -> f64 {
        let turns = if self.is_taken { WIFI_LEFT } else { WIFI_TAKEN };
        self.is_taken ^= random.random::<f64>() < turns;
        if random.random::<f64>() < WIFI_MOVES {
            let is_up = random.random::<bool>();
            let level = if is_up { self.level + 1 } else { self.level.saturating_sub(1) };
            self.level = level.min(WIFI_LEVELS.len() - 1);
        }
        if self.is_taken { LEAST } else { WIFI_LEVELS[self.level] }
    }
}

/// Draws from the standard normal distribution (Box and Muller).
fn normal(random: &mut ChaCha8Rng) -> f64 {
    // `random` is below 1, so the logarithm is of something above 0.
    let (radius, turn) = (1.0 - random.random::<f64>(), random.random::<f64>());
    (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * turn).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn mbit(kind: RateKind, seed: Option<u64>, load_seed: u64) -> Vec<f64> {
        let steps = RateModel { kind, seed }.steps("25mbit".parse().unwrap(), load_seed, HOUR);
        assert_eq!((steps.len(), steps[7].0), (36_000, Duration::from_millis(700)));
        steps.iter().map(|(_, rate)| rate.bits_per_s() as f64 / 1e6).collect()
    }

    #[test]
    fn the_same_seed_is_the_same_line() {
        for kind in [RateKind::Lte, RateKind::Wifi] {
            assert_eq!(mbit(kind, Some(3), 1), mbit(kind, None, 3));
            assert_ne!(mbit(kind, None, 1), mbit(kind, None, 2));
        }
    }

    #[test]
    fn a_line_of_25_mbit_moves_between_2_and_25_around_10() {
        for kind in [RateKind::Lte, RateKind::Wifi] {
            let rates = mbit(kind, None, 1);
            let mean = rates.iter().sum::<f64>() / rates.len() as f64;
            assert!(rates.iter().all(|rate| (2.0..=25.0).contains(rate)), "{kind:?}");
            assert!((9.5..12.5).contains(&mean), "{kind:?}: {mean}");
        }
        let mut rates = mbit(RateKind::Lte, None, 1);
        rates.sort_by(f64::total_cmp);
        // A factor of exp(0.5 x 0.6745) either way holds half of the values.
        let quartiles = [9_000, 18_000, 27_000].map(|at| rates[at]);
        assert!((6.5..8.0).contains(&quartiles[0]) && (9.3..10.7).contains(&quartiles[1]), "{quartiles:?}");
        assert!((13.0..15.0).contains(&quartiles[2]), "{quartiles:?}");
    }

    /// Else a server could not follow it at all, and would have nothing to follow.
    #[test]
    fn lte_remembers_for_seconds_and_wifi_is_taken_at_times() {
        let logs: Vec<f64> = mbit(RateKind::Lte, None, 1).iter().map(|rate| (rate / 10.0).ln()).collect();
        let apart = |steps: usize| {
            let products: f64 = logs.iter().zip(&logs[steps..]).map(|(one, other)| one * other).sum();
            products / logs.iter().map(|one| one * one).sum::<f64>()
        };
        assert!((0.92..0.98).contains(&apart(1)) && (0.25..0.5).contains(&apart(20)), "{} {}", apart(1), apart(20));
        let taken = mbit(RateKind::Wifi, None, 1).iter().filter(|rate| **rate == 2.0).count();
        assert!((4_000..12_000).contains(&taken), "{taken}");
    }
}
