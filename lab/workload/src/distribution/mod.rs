//! Distributions of size, for queueing formulas and simulators.
//!
//! One definition serves both: a closed form integrates over [`Distribution::cdf`] and
//! [`Distribution::partial_moment`], and a simulator draws through [`Sampler`]. If the two disagree, the workload is
//! not the reason. All sizes are in bytes. Every distribution has a finite mean and a finite second moment. A Pareto
//! distribution without a bound may lack them, depending on its index, and is refused.
//!
//! ```
//! let sizes: workload::Distribution = "exponential:mean=5000".parse().unwrap();
//! assert_eq!(sizes.mean(), 5000.0);
//! assert!((sizes.cdf(5000.0) - (1.0 - (-1f64).exp())).abs() < 1e-12);
//! ```

mod bounded_pareto;
mod empirical;
mod lognormal;
mod parse;
mod sampler;

pub use empirical::Empirical;
pub use parse::DistributionError;
pub use sampler::Sampler;

use statrs::function::factorial::factorial;
use statrs::function::gamma::gamma_lr;

use crate::SIZE_BYTES_MAX;
use bounded_pareto::BoundedPareto;
use lognormal::Lognormal;

/// The distribution of sizes in bytes, created by parsing a text (see [`Distribution::FORMS`]) or from observed sizes.
#[derive(Debug, Clone, PartialEq)]
pub enum Distribution {
    Deterministic {
        size: f64,
    },
    Exponential {
        mean: f64,
    },
    /// P(size > x) falls as x^-alpha between the bounds.
    BoundedPareto {
        alpha: f64,
        min: f64,
        max: f64,
    },
    /// The logarithm is normal, with mean mu and standard deviation sigma.
    Lognormal {
        mu: f64,
        sigma: f64,
    },
    /// Exponential with `mean1` with probability p, otherwise with `mean2`.
    Hyperexponential {
        p: f64,
        mean1: f64,
        mean2: f64,
    },
    /// A lognormal body and a Pareto tail, cut and bounded (Barford & Crovella 1998).
    Surge(crate::Sizes),
    /// Exactly the observed sizes, all equally likely.
    Empirical(Empirical),
}

impl Distribution {
    /// The forms of a distribution.
    pub const FORMS: &str = "deterministic:size=S, exponential:mean=M, bounded-pareto:alpha=A,min=L,max=H, \
        lognormal:mu=M,sigma=S, hyperexponential:p=P,mean1=M,mean2=M, surge (4.3 KB in the mean), surge:murta-2002 (14 KB) or trace:FILE";

    /// Returns the distribution of these observed sizes; their order does not matter.
    pub fn empirical(sizes: &[u64]) -> Result<Distribution, DistributionError> {
        Empirical::of(sizes).map(Distribution::Empirical)
    }

    /// The mean size.
    pub fn mean(&self) -> f64 {
        self.moment(1)
    }

    /// The mean of sizes as they are drawn: whole bytes, at least one ([`Sampler::sample`]). It differs considerably
    /// from [`Distribution::mean`] only if many sizes are a few bytes: 1.085 for an exponential distribution of mean 1.
    pub fn mean_drawn(&self) -> f64 {
        match *self {
            Distribution::Deterministic { size } => size.round().max(1.0),
            Distribution::Empirical(_) => self.mean(),
            _ => self.mean_rounded(),
        }
    }

    /// One more than the sum over k ≥ 1 of P(more than k bytes). Beyond [`TERMS`] bytes rounding to the nearest changes
    /// no mean, and the rest of the sum, E[(size - x)+], follows from the moments.
    fn mean_rounded(&self) -> f64 {
        let near: f64 = (1..TERMS).map(|bytes| self.survival(bytes as f64 + 0.5)).sum();
        let x = TERMS as f64;
        let far = self.mean() - self.partial_moment(1, x) - x * self.survival(x);
        1.0 + near + far.max(0.0)
    }

    /// E[size^k], for k of 0 to 3.
    pub fn moment(&self, k: u32) -> f64 {
        self.partial_moment(k, f64::INFINITY)
    }

    /// P(size <= x).
    pub fn cdf(&self, x: f64) -> f64 {
        self.partial_moment(0, x)
    }

    /// E[size^k; size <= x], for k of 0 to 3.
    pub fn partial_moment(&self, k: u32, x: f64) -> f64 {
        assert!(k <= 3, "a moment of order {k}");
        if x < 0.0 {
            return 0.0;
        }
        match *self {
            Distribution::Deterministic { size } if x < size => 0.0,
            Distribution::Deterministic { size } => size.powi(k as i32),
            Distribution::Exponential { mean } => exponential_moment(mean, k, x),
            Distribution::BoundedPareto { alpha, min, max } => BoundedPareto { alpha, min, max }.partial_moment(k, x),
            Distribution::Lognormal { mu, sigma } => Lognormal { mu, sigma }.partial_moment(k, x),
            Distribution::Hyperexponential { p, mean1, mean2 } => {
                p * exponential_moment(mean1, k, x) + (1.0 - p) * exponential_moment(mean2, k, x)
            }
            Distribution::Surge(sizes) => surge_moment(&sizes, k, x),
            Distribution::Empirical(ref empirical) => empirical.partial_moment(k, x),
        }
    }

    /// P(size > x), exact even if it is too small to be visible in 1 - cdf(x).
    pub fn survival(&self, x: f64) -> f64 {
        if x < 0.0 {
            return 1.0;
        }
        match *self {
            Distribution::Exponential { mean } => (-x / mean).exp(),
            Distribution::BoundedPareto { alpha, min, max } => BoundedPareto { alpha, min, max }.survival(x),
            Distribution::Lognormal { mu, sigma } => Lognormal { mu, sigma }.survival(x),
            Distribution::Hyperexponential { p, mean1, mean2 } => {
                p * (-x / mean1).exp() + (1.0 - p) * (-x / mean2).exp()
            }
            Distribution::Surge(sizes) if x >= sizes.tail_from => sizes.tail_share * surge_parts(&sizes).1.survival(x),
            _ => 1.0 - self.cdf(x),
        }
    }

    /// The derivative of the cdf per byte; 0 everywhere for a distribution of atoms.
    pub fn density(&self, x: f64) -> f64 {
        if x <= 0.0 {
            return 0.0;
        }
        match *self {
            Distribution::Deterministic { .. } | Distribution::Empirical(_) => 0.0,
            Distribution::Exponential { mean } => (-x / mean).exp() / mean,
            Distribution::BoundedPareto { alpha, min, max } => BoundedPareto { alpha, min, max }.density(x),
            Distribution::Lognormal { mu, sigma } => Lognormal { mu, sigma }.density(x),
            Distribution::Hyperexponential { p, mean1, mean2 } => {
                p * (-x / mean1).exp() / mean1 + (1.0 - p) * (-x / mean2).exp() / mean2
            }
            Distribution::Surge(sizes) => surge_density(&sizes, x),
        }
    }

    /// Returns the sizes at which the density jumps, ascending; integrals over it must be cut there.
    pub fn jumps(&self) -> Vec<f64> {
        match *self {
            Distribution::BoundedPareto { min, max, .. } => vec![min, max],
            Distribution::Surge(sizes) => vec![sizes.min, sizes.tail_from, sizes.max],
            _ => Vec::new(),
        }
    }

    /// The least x with cdf(x) >= u, for u in 0..1.
    pub fn quantile(&self, u: f64) -> f64 {
        assert!((0.0..1.0).contains(&u), "a quantile of {u}");
        match *self {
            Distribution::Deterministic { size } => size,
            Distribution::Exponential { mean } => -mean * (-u).ln_1p(),
            Distribution::BoundedPareto { alpha, min, max } => BoundedPareto { alpha, min, max }.quantile(u),
            Distribution::Lognormal { mu, sigma } => Lognormal { mu, sigma }.quantile(u),
            Distribution::Hyperexponential { .. } => self.quantile_by_bisection(u),
            Distribution::Surge(sizes) => surge_quantile(&sizes, u),
            Distribution::Empirical(ref empirical) => empirical.quantile(u),
        }
    }

    /// The minimum size.
    pub fn min(&self) -> f64 {
        self.quantile(0.0)
    }

    /// The maximum size; infinite if there is no bound.
    pub fn max(&self) -> f64 {
        match *self {
            Distribution::Deterministic { size } => size,
            Distribution::BoundedPareto { max, .. } => max,
            Distribution::Surge(sizes) => sizes.max,
            Distribution::Empirical(ref empirical) => empirical.max(),
            _ => f64::INFINITY,
        }
    }

    /// The sizes with positive probability, ascending; empty if the distribution is continuous.
    pub fn atoms(&self) -> Vec<f64> {
        match *self {
            Distribution::Deterministic { size } => vec![size],
            Distribution::Empirical(ref empirical) => empirical.atoms(),
            _ => Vec::new(),
        }
    }

    /// Returns a sampler, which draws sizes.
    pub fn sampler(&self) -> Sampler {
        Sampler::new(self)
    }

    fn quantile_by_bisection(&self, u: f64) -> f64 {
        let (mut below, mut above) = (0.0, self.mean());
        while self.cdf(above) < u && above < SIZE_BYTES_MAX as f64 {
            above *= 2.0;
        }
        for _ in 0..BISECTIONS {
            let middle = 0.5 * (below + above);
            if self.cdf(middle) < u { below = middle } else { above = middle }
        }
        above
    }
}

/// The size up to which every whole number of bytes is evaluated.
const TERMS: u64 = 4096;

/// The number of bisections that reduce an interval of 2^50 to the last bit of a double.
const BISECTIONS: u32 = 100;

/// k! mean^k P(k + 1, x / mean), P the regularised lower incomplete gamma function: exact for small x too.
fn exponential_moment(mean: f64, k: u32, x: f64) -> f64 {
    let share = match x / mean {
        0.0 => 0.0,
        f64::INFINITY => 1.0,
        at => gamma_lr(f64::from(k + 1), at),
    };
    factorial(u64::from(k)) * mean.powi(k as i32) * share
}

fn surge_parts(sizes: &crate::Sizes) -> (Lognormal, BoundedPareto) {
    let body = Lognormal { mu: sizes.body_median.ln(), sigma: sizes.body_sigma };
    (body, BoundedPareto { alpha: sizes.tail_alpha, min: sizes.tail_from, max: sizes.max })
}

fn surge_moment(sizes: &crate::Sizes, k: u32, x: f64) -> f64 {
    let (body, tail) = surge_parts(sizes);
    let from = |k| body.partial_moment(k, sizes.min);
    let kept = body.partial_moment(0, sizes.tail_from) - from(0);
    let in_body = (body.partial_moment(k, x.clamp(sizes.min, sizes.tail_from)) - from(k)) / kept;
    (1.0 - sizes.tail_share) * in_body + sizes.tail_share * tail.partial_moment(k, x)
}

fn surge_density(sizes: &crate::Sizes, x: f64) -> f64 {
    let (body, tail) = surge_parts(sizes);
    if x >= sizes.tail_from {
        return sizes.tail_share * tail.density(x);
    }
    let kept = body.partial_moment(0, sizes.tail_from) - body.partial_moment(0, sizes.min);
    if x < sizes.min { 0.0 } else { (1.0 - sizes.tail_share) * body.density(x) / kept }
}

fn surge_quantile(sizes: &crate::Sizes, u: f64) -> f64 {
    let (body, tail) = surge_parts(sizes);
    let in_body = 1.0 - sizes.tail_share;
    if u >= in_body {
        return tail.quantile((u - in_body) / sizes.tail_share);
    }
    let from = body.partial_moment(0, sizes.min);
    let to = body.partial_moment(0, sizes.tail_from);
    body.quantile(from + u / in_body * (to - from)).clamp(sizes.min, sizes.tail_from)
}

#[cfg(test)]
mod tests;
