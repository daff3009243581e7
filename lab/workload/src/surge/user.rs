use std::f64::consts::TAU;

use rand::RngCore;
use rand_chacha::ChaCha8Rng;
use units::Nanos;

use crate::sizes::unit;

/// Pareto: P(X > x) = (least / x)^alpha. Values above `most` are drawn as `most`, so that a mean and a variance exist
/// for any alpha.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pareto {
    pub least: f64,
    pub alpha: f64,
    pub most: f64,
}

impl Pareto {
    pub fn draw(&self, rng: &mut ChaCha8Rng) -> f64 {
        (self.least / (1.0 - unit(rng)).powf(1.0 / self.alpha)).min(self.most)
    }
}

/// A distribution whose logarithm is normal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lognormal {
    pub mu: f64,
    pub sigma: f64,
}

impl Lognormal {
    pub fn draw(&self, rng: &mut ChaCha8Rng) -> f64 {
        // The method of Box and Muller.
        let radius = (-2.0 * (1.0 - unit(rng)).ln()).sqrt();
        (self.mu + self.sigma * radius * (TAU * unit(rng)).cos()).exp()
    }
}

/// Weibull: P(X > x) = exp(−(x / scale)^shape), truncated at `most` by drawing only from below it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weibull {
    pub scale: f64,
    pub shape: f64,
    pub most: f64,
}

impl Weibull {
    pub fn draw(&self, rng: &mut ChaCha8Rng) -> f64 {
        let below = 1.0 - (-(self.most / self.scale).powf(self.shape)).exp();
        self.scale * (-(1.0 - unit(rng) * below).ln()).powf(1.0 / self.shape)
    }
}

/// The times of one user's requests, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UserModel {
    /// The number of files of a Web object, rounded down, including the first: SURGE's own program for objects counts
    /// in this way.
    pub embedded: Pareto,
    /// The time before each embedded file.
    pub active_off_s: Weibull,
    /// The time between Web objects.
    pub inactive_off_s: Pareto,
}

impl UserModel {
    /// The published parameters (Barford & Crovella 1998, table 2). Times are truncated according to their definitions:
    /// an OFF time of more than one second is by definition inactive. The maximum absence is 1,000 s, which shortens
    /// the mean of 3 s by 2 %, and an object has at most 100 embedded files.
    pub const PUBLISHED: UserModel = UserModel {
        embedded: Pareto { least: 1.0, alpha: 2.43, most: 100.0 },
        active_off_s: Weibull { scale: 1.46, shape: 0.382, most: 1.0 },
        inactive_off_s: Pareto { least: 1.0, alpha: 1.5, most: 1000.0 },
    };

    pub fn embedded(&self, rng: &mut ChaCha8Rng) -> u32 {
        self.embedded.draw(rng) as u32
    }

    pub fn active_off(&self, rng: &mut ChaCha8Rng) -> Nanos {
        span(self.active_off_s.draw(rng))
    }

    pub fn inactive_off(&self, rng: &mut ChaCha8Rng) -> Nanos {
        span(self.inactive_off_s.draw(rng))
    }

    /// The instant at which a user starts, drawn within the first ten seconds, so that not all start at the same time.
    pub fn start(&self, rng: &mut ChaCha8Rng) -> Nanos {
        Nanos(rng.next_u64() % Nanos::from_secs(10).0)
    }
}

fn span(seconds: f64) -> Nanos {
    Nanos((seconds * 1e9).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    const DRAWS: usize = 200_000;

    fn mean(mut draw: impl FnMut(&mut ChaCha8Rng) -> f64) -> f64 {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        (0..DRAWS).map(|_| draw(&mut rng)).sum::<f64>() / DRAWS as f64
    }

    #[test]
    fn users_are_the_published_ones() {
        let model = UserModel::PUBLISHED;
        // For floor(X): the sum of n^-2.43 over n from 1 to 100 = 1.3716.
        let embedded = mean(|rng| f64::from(model.embedded(rng)));
        assert!((embedded - 1.37).abs() < 0.02, "{embedded} embedded files");
        // least · (3 − 2 · (least / most)^0.5) for alpha 1.5, with the rest at `most`.
        let inactive = mean(|rng| model.inactive_off(rng).as_secs_f64());
        assert!((inactive - 2.937).abs() < 0.15, "{inactive} s");
        // P(X > 0.1) = (exp(−0.3592) − exp(−0.8654)) / (1 − exp(−0.8654)) = 0.4795.
        let late = mean(|rng| f64::from(model.active_off(rng).as_secs_f64() > 0.1));
        assert!((late - 0.4795).abs() < 0.01, "{late} of active OFF times exceed 100 ms");
    }

    #[test]
    fn active_is_shorter_than_inactive() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let model = UserModel::PUBLISHED;
        for _ in 0..10_000 {
            assert!(model.active_off(&mut rng) <= Nanos::from_secs(1));
            assert!((1..=1000).contains(&(model.inactive_off(&mut rng).0 / 1_000_000_000)));
        }
    }
}
