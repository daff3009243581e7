use rand_chacha::ChaCha8Rng;

use super::bounded_pareto::BoundedPareto;
use super::lognormal::Lognormal;
use super::{Distribution, Empirical};
use crate::sizes::unit;

/// Draws sizes by inversion: one uniform number gives one size, so the same seed gives the same jobs whatever else is
/// drawn between them. Values that do not depend on the number are computed once.
#[derive(Debug, Clone)]
pub struct Sampler {
    form: Form,
}

#[derive(Debug, Clone)]
enum Form {
    Deterministic {
        size: f64,
    },
    Exponential {
        mean: f64,
    },
    BoundedPareto(Tail),
    Lognormal(Lognormal),
    Hyperexponential {
        p: f64,
        mean1: f64,
        mean2: f64,
    },
    /// With a probability of `in_body` the body between two values of its cdf, otherwise the tail.
    Surge {
        in_body: f64,
        body: Lognormal,
        body_cdf: (f64, f64),
        tail: Tail,
    },
    Empirical(Guide),
}

impl Sampler {
    pub(super) fn new(distribution: &Distribution) -> Sampler {
        let form = match *distribution {
            Distribution::Deterministic { size } => Form::Deterministic { size },
            Distribution::Exponential { mean } => Form::Exponential { mean },
            Distribution::BoundedPareto { alpha, min, max } => {
                Form::BoundedPareto(Tail::of(&BoundedPareto { alpha, min, max }))
            }
            Distribution::Lognormal { mu, sigma } => Form::Lognormal(Lognormal { mu, sigma }),
            Distribution::Hyperexponential { p, mean1, mean2 } => Form::Hyperexponential { p, mean1, mean2 },
            Distribution::Surge(sizes) => {
                let (body, tail) = super::surge_parts(&sizes);
                let body_cdf = (body.partial_moment(0, sizes.min), body.partial_moment(0, sizes.tail_from));
                Form::Surge { in_body: 1.0 - sizes.tail_share, body, body_cdf, tail: Tail::of(&tail) }
            }
            Distribution::Empirical(ref empirical) => Form::Empirical(Guide::of(empirical)),
        };
        Sampler { form }
    }

    /// Draws the next size in bytes: rounded to the nearest, at least 1.
    pub fn sample(&self, rng: &mut ChaCha8Rng) -> u64 {
        (self.draw(unit(rng)) + 0.5).max(1.0) as u64
    }

    /// Returns the size for a number u, 0 <= u < 1. It is the quantile, except if u first chooses a branch.
    fn draw(&self, u: f64) -> f64 {
        match self.form {
            Form::Deterministic { size } => size,
            Form::Exponential { mean } => -mean * (1.0 - u).ln(),
            Form::BoundedPareto(ref tail) => tail.quantile(u),
            Form::Lognormal(ref lognormal) => lognormal.quantile(u),
            // The same number chooses the branch and, rescaled, the size in it.
            Form::Hyperexponential { p, mean1, .. } if u < p => -mean1 * (1.0 - u / p).ln(),
            Form::Hyperexponential { p, mean2, .. } => -mean2 * (1.0 - (u - p) / (1.0 - p)).ln(),
            Form::Surge { in_body, ref tail, .. } if u >= in_body => tail.quantile((u - in_body) / (1.0 - in_body)),
            Form::Surge { in_body, ref body, body_cdf: (from, to), .. } => {
                body.quantile(from + u / in_body * (to - from))
            }
            Form::Empirical(ref guide) => guide.quantile(u),
        }
    }
}

/// A bounded Pareto distribution: min, the share below the bound, and -1 / alpha.
#[derive(Debug, Clone)]
struct Tail {
    min: f64,
    max: f64,
    covered: f64,
    power: f64,
}

impl Tail {
    fn of(&BoundedPareto { alpha, min, max }: &BoundedPareto) -> Tail {
        Tail { min, max, covered: 1.0 - (min / max).powf(alpha), power: -1.0 / alpha }
    }

    fn quantile(&self, u: f64) -> f64 {
        (self.min * (1.0 - u * self.covered).powf(self.power)).min(self.max)
    }
}

/// Observed sizes with a table of starting points for the search, so that a draw takes the same time for any number of
/// sizes (the method of guide tables: Chen & Asau 1974).
#[derive(Debug, Clone)]
struct Guide {
    sizes: Vec<f64>,
    /// P(size <= x) for each size x.
    cdf: Vec<f64>,
    /// For each of equal steps of u, the first size that is possible.
    begin: Vec<u32>,
}

impl Guide {
    fn of(empirical: &Empirical) -> Guide {
        let sizes = empirical.atoms();
        let cdf: Vec<f64> = sizes.iter().map(|&size| empirical.partial_moment(0, size)).collect();
        let steps = sizes.len();
        let first = |step: usize| cdf.partition_point(|&up_to| up_to * (steps as f64) <= step as f64) as u32;
        Guide { begin: (0..steps).map(first).collect(), sizes, cdf }
    }

    fn quantile(&self, u: f64) -> f64 {
        let step = (u * self.begin.len() as f64) as usize;
        let mut at = self.begin[step.min(self.begin.len() - 1)] as usize;
        while at + 1 < self.sizes.len() && self.cdf[at] <= u {
            at += 1;
        }
        self.sizes[at]
    }
}
