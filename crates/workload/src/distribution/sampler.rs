use rand_chacha::ChaCha8Rng;

use super::Distribution;
use crate::synthetic::unit;

/// Draws sizes by inversion: one uniform number, one size, so that the same seed gives the same jobs whatever else is
/// drawn between them.
#[derive(Debug, Clone)]
pub struct Sampler {
    form: Form,
}

#[derive(Debug, Clone)]
enum Form {
    Exponential {
        mean: f64,
    },
    /// min, the share covered, and -1 / alpha, worked out once.
    BoundedPareto {
        min: f64,
        max: f64,
        covered: f64,
        power: f64,
    },
    Hyperexponential {
        p: f64,
        mean1: f64,
        mean2: f64,
    },
    ByQuantile(Distribution),
}

impl Sampler {
    pub(super) fn new(distribution: &Distribution) -> Sampler {
        let form = match *distribution {
            Distribution::Exponential { mean } => Form::Exponential { mean },
            Distribution::BoundedPareto { alpha, min, max } => {
                Form::BoundedPareto { min, max, covered: 1.0 - (min / max).powf(alpha), power: -1.0 / alpha }
            }
            Distribution::Hyperexponential { p, mean1, mean2 } => Form::Hyperexponential { p, mean1, mean2 },
            ref other => Form::ByQuantile(other.clone()),
        };
        Sampler { form }
    }

    /// The next size, bytes: rounded to the nearest, at least 1.
    pub fn sample(&self, rng: &mut ChaCha8Rng) -> u64 {
        (self.draw(rng) + 0.5).max(1.0) as u64
    }

    fn draw(&self, rng: &mut ChaCha8Rng) -> f64 {
        let u = unit(rng);
        match self.form {
            Form::Exponential { mean } => -mean * (1.0 - u).ln(),
            Form::BoundedPareto { min, max, covered, power } => (min * (1.0 - u * covered).powf(power)).min(max),
            // One number chooses the branch and, stretched, the size in it.
            Form::Hyperexponential { p, mean1, .. } if u < p => -mean1 * (1.0 - u / p).ln(),
            Form::Hyperexponential { p, mean2, .. } => -mean2 * (1.0 - (u - p) / (1.0 - p)).ln(),
            Form::ByQuantile(ref distribution) => distribution.quantile(u),
        }
    }
}
