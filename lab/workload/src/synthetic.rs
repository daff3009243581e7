//! Synthetic requests: Poisson arrivals of heavy-tailed sizes, because no real log may be shipped.
//!
//! Sizes have a lognormal body and a Pareto tail, the shape that Barford and Crovella measured for files on the Web and
//! used in SURGE (1998). The tail is bounded, so that a mean exists for any index, and is drawn by inversion.

use std::f64::consts::TAU;

use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use units::Nanos;

use crate::{BadLines, Format, Log, Request};

/// Jobs drawn from `seed`. The same seed gives the same jobs, and a larger number of jobs begins with the same ones.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Synthetic {
    pub seed: u64,
    pub jobs: usize,
    /// The mean arrivals per second.
    pub rate_per_s: f64,
    pub sizes: Sizes,
}

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

    fn draw(&self, rng: &mut ChaCha8Rng) -> u64 {
        let size = if unit(rng) < self.tail_share { self.tail(unit(rng)) } else { self.body(rng) };
        size.round() as u64
    }

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

impl Synthetic {
    /// The trace that the project ships. At rho 0.8 on 10 Mbit/s it lasts 146 s, at 0.95 still two minutes. Of the
    /// seeds 1 to 39, this one has the first minute that is then most similar to the whole: 12,245 jobs, measured load
    /// 0.80.
    pub const SHIPPED: Synthetic = Synthetic { seed: 30, jobs: 30_000, rate_per_s: 200.0, sizes: Sizes::SHIPPED };

    /// The log of these jobs, with times to the microsecond from 0 on and without statuses.
    pub fn log(&self) -> Log {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        let mut at = Nanos::ZERO;
        let requests = (0..self.jobs).map(|_| {
            let request = Request { at, size_bytes: self.sizes.draw(&mut rng), status: None, client: None };
            at += self.gap(&mut rng);
            request
        });
        Log { format: Format::Csv, requests: requests.collect(), whole_seconds: false, bad: BadLines::default() }
    }

    /// An exponential gap, rounded to a microsecond, so that a difference between mathematical libraries in the last
    /// bit of a logarithm hardly ever matters.
    fn gap(&self, rng: &mut ChaCha8Rng) -> Nanos {
        let seconds = -(1.0 - unit(rng)).ln() / self.rate_per_s;
        Nanos::from_micros((seconds * 1e6).round() as u64)
    }
}

/// A uniform number in [0, 1) from the high 53 bits, fixed here so that no version of `rand` changes a trace.
pub(crate) fn unit(rng: &mut ChaCha8Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn synthetic(seed: u64, jobs: usize) -> Synthetic {
        Synthetic { seed, jobs, ..Synthetic::SHIPPED }
    }

    #[test]
    fn the_seed_is_the_trace() {
        assert_eq!(synthetic(1, 1000).log(), synthetic(1, 1000).log());
        assert_ne!(synthetic(1, 1000).log(), synthetic(2, 1000).log());
        assert_eq!(synthetic(1, 1000).log().requests[..10], synthetic(1, 10).log().requests);
        assert!(synthetic(1, 0).log().requests.is_empty());
    }

    #[test]
    fn the_trace_in_the_repository_is_the_one_described() {
        let shipped = include_bytes!("../../../traces/synthetic.csv.gz");
        let found = crate::read(&shipped[..], &crate::ReadOptions::default()).unwrap();
        assert_eq!(found, Synthetic::SHIPPED.log(), "traces/synthetic.csv.gz is of another version");
    }

    #[test]
    fn the_trace_in_the_repository_lasts_two_minutes_at_any_load_measured() {
        let trace = Synthetic::SHIPPED.log().trace(0);
        let scaling = |rho, seconds| crate::Scaling {
            load: crate::LoadProfile::constant(rho).unwrap(),
            link: "10mbit".parse().unwrap(),
            seconds: Some(seconds),
            per_connection: 1,
            repeat: None,
        };
        for rho in [0.6, 0.8, 0.95] {
            assert_eq!(crate::schedule(&trace, &scaling(rho, 120.0)).unwrap().warning, None);
        }
        let minute = scaling(0.8, 60.0);
        let schedule = crate::schedule(&trace, &minute).unwrap();
        assert_eq!(schedule.jobs.len(), 12_245);
        assert!((0.79..0.81).contains(&schedule.rho_measured), "{}", schedule.rho_measured);
    }

    #[test]
    fn arrivals_are_poisson() {
        let arrivals = synthetic(5, 100_000).log().trace(0).arrivals;
        let gaps: Vec<f64> = arrivals.windows(2).map(|pair| (pair[1].at - pair[0].at).as_secs_f64()).collect();
        let mean_of = |f: fn(f64) -> f64| gaps.iter().copied().map(f).sum::<f64>() / gaps.len() as f64;
        let mean = mean_of(|gap| gap);
        let scv = mean_of(|gap| gap * gap) / (mean * mean) - 1.0;
        // Relative standard errors: 1/sqrt(n) of the rate, about sqrt(8/n) of the variation; five of each.
        assert!((mean * 200.0 - 1.0).abs() < 0.016 && (scv - 1.0).abs() < 0.045, "{mean} s, SCV {scv}");
    }

    #[test]
    fn the_tail_falls_as_its_index_says() {
        let sizes = Sizes::SHIPPED;
        let log = synthetic(6, 200_000).log();
        let above = |x: f64| log.requests.iter().filter(|request| request.size_bytes as f64 > x).count() as f64;
        let tail = |x: f64| {
            let (l, a) = (sizes.tail_from, sizes.tail_alpha);
            200_000.0 * sizes.tail_share * ((l / x).powf(a) - (l / sizes.max).powf(a)) / (1.0 - (l / sizes.max).powf(a))
        };
        for x in [10_000.0, 50_000.0, 200_000.0, 1_000_000.0] {
            let (found, expected) = (above(x), tail(x));
            assert!((found - expected).abs() < 5.0 * expected.sqrt(), "above {x}: {found}, expected {expected}");
        }
        let range = log.requests.iter().all(|request| (60..=2_000_000).contains(&request.size_bytes));
        assert!(range, "a size outside its bounds");
    }
}
