//! Heavy-tailed sizes: a lognormal body and a Pareto tail, the shape that Barford and Crovella measured for files on the
//! Web and used in SURGE (1998). The tail is bounded, so that a mean exists for any index, and is drawn by inversion.

use std::f64::consts::TAU;

use rand::RngCore;
use rand_chacha::ChaCha8Rng;

/// The distribution of sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sizes {
    /// The median of the body before it is cut at `min` and `tail_from`.
    pub body_median: f64,
    /// The standard deviation of the logarithm of the body.
    pub body_sigma: f64,
    pub min: f64,
    /// The share of requests whose size is drawn from the tail.
    pub tail_share: f64,
    pub tail_from: f64,
    /// The tail's index alpha: P(size > x) falls as x^-alpha. Below 2 the bound determines the variance.
    pub tail_alpha: f64,
    pub max: f64,
}

impl Sizes {
    /// A mean of 4.3 KB, half of the sizes below 1 KB, 2 MB at most, and 2 % that carry half of the bytes: the
    /// proportions of the World Cup window in Harchol-Balter, Schroeder, Bansal and Agrawal (2003).
    pub const SHIPPED: Sizes = Sizes {
        body_median: 900.0,
        body_sigma: 1.0,
        min: 60.0,
        tail_share: 0.07,
        tail_from: 9_300.0,
        tail_alpha: 1.1,
        max: 2_000_000.0,
    };

    /// The bounded Pareto distribution F(x) = (1 − (L/x)^α) / (1 − (L/H)^α), solved for x.
    pub(crate) fn tail(&self, u: f64) -> f64 {
        let below = 1.0 - (self.tail_from / self.max).powf(self.tail_alpha);
        self.tail_from / (1.0 - u * below).powf(1.0 / self.tail_alpha)
    }

    /// A lognormal size by Box–Muller, drawn again if outside the body.
    pub(crate) fn body(&self, rng: &mut ChaCha8Rng) -> f64 {
        let mut draws = (0..BODY_DRAWS_MAX).map(|_| {
            let radius = (-2.0 * (1.0 - unit(rng)).ln()).sqrt();
            let normal = radius * (TAU * unit(rng)).cos();
            self.body_median * (self.body_sigma * normal).exp()
        });
        draws.find(|size| (self.min..self.tail_from).contains(size)).unwrap_or(self.min)
    }
}

/// The maximum number of draws. With [`Sizes::SHIPPED`] 2 % of draws fall outside the body; 20 in a row do so for one
/// job in 10^34.
const BODY_DRAWS_MAX: usize = 20;

/// A uniform number in [0, 1) from the high 53 bits, fixed here so that no version of `rand` changes a trace.
pub(crate) fn unit(rng: &mut ChaCha8Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn the_tail_falls_as_its_index_says() {
        let sizes = Sizes::SHIPPED;
        let mut random = ChaCha8Rng::seed_from_u64(6);
        let drawn: Vec<f64> = (0..14_000).map(|_| sizes.tail(unit(&mut random))).collect();
        let above = |x: f64| drawn.iter().filter(|size| **size > x).count() as f64;
        let tail = |x: f64| {
            let (l, a) = (sizes.tail_from, sizes.tail_alpha);
            14_000.0 * ((l / x).powf(a) - (l / sizes.max).powf(a)) / (1.0 - (l / sizes.max).powf(a))
        };
        for x in [10_000.0, 50_000.0, 200_000.0, 1_000_000.0] {
            let (found, expected) = (above(x), tail(x));
            assert!((found - expected).abs() < 5.0 * expected.sqrt(), "above {x}: {found}, expected {expected}");
        }
        let bodies = (0..14_000).map(|_| sizes.body(&mut random));
        assert!(bodies.chain(drawn).all(|size| (60.0..=2_000_000.0).contains(&size)), "a size outside its bounds");
    }
}
