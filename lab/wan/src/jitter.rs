use std::str::FromStr;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::RngCore;
use serde::Deserialize;

/// How far a normal delay strays, in jitters: as in the table that iproute2 gives netem.
const NORMAL_BOUND: f64 = 4.0;
/// Shape of the Pareto distribution in iproute2's table (netem/pareto.c): alpha 3, mean 1.5, cut where the table ends.
const PARETO_ALPHA: f64 = 3.0;
const PARETO_MEAN: f64 = 1.5;
const PARETO_SCALE: f64 = 4.0 / 3.0;
const PARETO_BOUND: f64 = 4.0;

/// How delays spread around their mean. Each is what netem makes of the same word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// Anything within one jitter of the mean: what netem does when no distribution is named.
    Uniform,
    /// The jitter is the standard deviation; nothing is further than four of them from the mean.
    #[default]
    Normal,
    /// Most delays a little below the mean, few far above it: bounded Pareto, from 0.67 jitters below to 4 above. Its
    /// standard deviation is 0.82 jitters, and its mean 0.03 below the delay.
    Pareto,
}

impl Shape {
    pub fn name(self) -> &'static str {
        match self {
            Shape::Uniform => "uniform",
            Shape::Normal => "normal",
            Shape::Pareto => "pareto",
        }
    }

    /// How many jitters above the mean the longest delay is.
    pub(crate) fn bound(self) -> f64 {
        match self {
            Shape::Uniform => 1.0,
            Shape::Normal => NORMAL_BOUND,
            Shape::Pareto => PARETO_BOUND,
        }
    }

    /// One deviation from the mean, in jitters.
    pub(crate) fn draw(self, rng: &mut ChaCha8Rng) -> f64 {
        match self {
            Shape::Uniform => 2.0 * unit(rng) - 1.0,
            Shape::Normal => {
                // Box and Muller; 1 - unit is above zero, so the logarithm is finite.
                let (radius, angle) = ((-2.0 * (1.0 - unit(rng)).ln()).sqrt(), std::f64::consts::TAU * unit(rng));
                (radius * angle.cos()).clamp(-NORMAL_BOUND, NORMAL_BOUND)
            }
            Shape::Pareto => {
                let value = (1.0 - unit(rng)).powf(-1.0 / PARETO_ALPHA);
                ((value - PARETO_MEAN) * PARETO_SCALE).min(PARETO_BOUND)
            }
        }
    }
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Shape, String> {
        let shapes = [Shape::Uniform, Shape::Normal, Shape::Pareto];
        let found = shapes.into_iter().find(|shape| shape.name() == text);
        found.ok_or_else(|| format!("`{text}` is not a shape of jitter: write uniform, normal or pareto"))
    }
}

/// Uniform in 0 <= x < 1, by its definition here, so that no version of `rand` changes a link.
pub(crate) fn unit(rng: &mut ChaCha8Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::rand_core::SeedableRng;

    /// Mean, standard deviation, least and most of many draws.
    fn moments(shape: Shape) -> [f64; 4] {
        const DRAWS: usize = 200_000;
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let draws: Vec<f64> = (0..DRAWS).map(|_| shape.draw(&mut rng)).collect();
        let mean = draws.iter().sum::<f64>() / DRAWS as f64;
        let variance = draws.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>() / DRAWS as f64;
        [mean, variance.sqrt(), draws.iter().copied().fold(9.0, f64::min), draws.iter().copied().fold(-9.0, f64::max)]
    }

    /// Five standard errors are 0.011 for the mean, and less than twice that for the deviation.
    #[test]
    fn each_shape_has_its_moments_and_bounds() {
        for (shape, mean, deviation, least, most) in [
            (Shape::Uniform, 0.0, 1.0 / 3f64.sqrt(), -1.0, 1.0),
            (Shape::Normal, 0.0, 1.0, -4.0, 4.0),
            // Exactly: the mean of min(X, 4.5) is 1.5 - 1/40.5, its variance 0.3790.
            (Shape::Pareto, -0.0329, 0.8209, -2.0 / 3.0, 4.0),
        ] {
            let [m, d, low, high] = moments(shape);
            assert!((m - mean).abs() < 0.011 && (d - deviation).abs() < 0.02, "{shape:?}: {m} {d}");
            assert!(low >= least && low < least + 0.5 && high <= most && high > most - 0.5, "{shape:?}: {low} {high}");
        }
    }

    #[test]
    fn a_shape_is_read_by_its_name() {
        assert_eq!("pareto".parse(), Ok(Shape::Pareto));
        assert!("Pareto".parse::<Shape>().unwrap_err().contains("`Pareto` is not a shape of jitter: write uniform"));
    }
}
