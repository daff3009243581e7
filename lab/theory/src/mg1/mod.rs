//! The M/G/1 queue: Poisson arrivals, one link, any distribution of sizes. Mean response time and slowdown in closed
//! form, for the policies that have one.
//!
//! A simulation can be wrong in ways that look like results. If there is a formula, the simulation must agree with it,
//! for all jobs together and for each size. This module shares only the distribution with the scheduler and the
//! simulator.
//!
//! Service takes size / link, preemption costs nothing, and arrivals have the rate lambda = rho link / mean size. Every
//! formula also holds if single sizes have positive probability (a trace, or all sizes equal). Tied jobs are then
//! served in order of arrival, so a job waits for tied ones before it and not for those after it.
//!
//! ```
//! use theory::mg1::{Mg1, Policy};
//! let queue = Mg1::new("exponential:mean=5000".parse().unwrap(), 0.8, "10mbit".parse().unwrap()).unwrap();
//! // 4 ms alone on the link, 1 / (1 - rho) times as long with the others.
//! assert!((queue.solve(&Policy::Ps).response_ms() - 20.0).abs() < 1e-9);
//! ```

mod formula;
mod policy;
pub(crate) mod quadrature;
mod soap;
#[cfg(test)]
mod tests;

pub use policy::{BANDS_MAX, Policy, PolicyError};
pub use soap::{Knows, Served};

use units::Rate;
use workload::Distribution;

use formula::Formula;
pub(crate) use formula::Residence;

/// A link and its arrivals.
#[derive(Debug, Clone)]
pub struct Mg1 {
    pub(crate) sizes: Distribution,
    pub(crate) rho: f64,
    pub(crate) link: Rate,
}

/// The reason why there is no result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Mg1Error {
    /// More work arrives than the link can do.
    #[error("rho is {rho}: there is no steady state, the queue grows for ever; it must be below 1")]
    NoSteadyState { rho: f64 },
    /// Not a load at all.
    #[error("rho is {rho}: it must be a number above 0 and below 1")]
    NotALoad { rho: f64 },
}

impl Mg1 {
    /// Creates the queue for sizes in bytes that arrive at a load of `rho`, between 0 and 1 exclusive, at this link.
    pub fn new(sizes: Distribution, rho: f64, link: Rate) -> Result<Mg1, Mg1Error> {
        if rho >= 1.0 {
            return Err(Mg1Error::NoSteadyState { rho });
        }
        if rho.is_nan() || rho <= 0.0 {
            return Err(Mg1Error::NotALoad { rho });
        }
        Ok(Mg1 { sizes, rho, link })
    }

    /// The mean arrivals per second.
    pub fn lambda_per_s(&self) -> f64 {
        self.lambda() * self.bytes_per_ms() * 1e3
    }

    pub fn sizes(&self) -> &Distribution {
        &self.sizes
    }

    /// The mean size in bytes.
    pub fn mean_size_bytes(&self) -> f64 {
        self.sizes.mean()
    }

    /// The response times under a policy.
    pub fn solve(&self, policy: &Policy) -> Solution<'_> {
        let cuts = match policy {
            Policy::SrptBands(cuts) => cuts.clone(),
            _ => Vec::new(),
        };
        let edges = quadrature::edges(&self.sizes, &[&cuts[..], &quadrature::whole_bytes_end()].concat());
        let formula = Formula::new(self, policy, &cuts, &edges);
        Solution { queue: self, formula, edges, cuts }
    }

    /// The response times under a rank: the job with the lowest rank is served, and jobs of equal rank in order of
    /// arrival. The rank is a function of the size and the bytes sent, as far as it uses them. If it jumps at a size,
    /// that size should be among `cuts`.
    pub fn solve_rank(&self, knows: Knows, cuts: &[f64], rank: &dyn Fn(Served) -> f64) -> Solution<'_> {
        let formula = Formula::Points(soap::response(self, knows, cuts, rank));
        let edges = quadrature::edges(&self.sizes, &quadrature::whole_bytes_end());
        Solution { queue: self, formula, edges, cuts: Vec::new() }
    }

    /// The mean number of arrivals while the link sends one byte.
    pub(crate) fn lambda(&self) -> f64 {
        self.rho / self.sizes.mean()
    }

    /// The load of the jobs up to this size: rho(x) = lambda E[X; X <= x].
    pub(crate) fn load(&self, x: f64) -> f64 {
        self.lambda() * self.sizes.partial_moment(1, x)
    }

    pub(crate) fn bytes_per_ms(&self) -> f64 {
        self.link.bits_per_s() as f64 / 8e3
    }
}

/// Response times and slowdowns of one policy at one load.
#[derive(Debug, Clone)]
pub struct Solution<'a> {
    queue: &'a Mg1,
    formula: Formula,
    /// The edges of the integration panels.
    edges: Vec<f64>,
    cuts: Vec<f64>,
}

impl Solution<'_> {
    /// The mean response time in ms.
    pub fn response_ms(&self) -> f64 {
        self.expectation(|x| self.response(x)) / self.queue.bytes_per_ms()
    }

    /// The mean response time in ms of the jobs of this many bytes.
    pub fn response_ms_at(&self, size_bytes: f64) -> f64 {
        self.response(size_bytes) / self.queue.bytes_per_ms()
    }

    /// The mean slowdown: the response time divided by the time alone on the link. Sizes are whole bytes, as they are
    /// drawn.
    pub fn slowdown_mean(&self) -> f64 {
        quadrature::slowdown(&self.queue.sizes, &self.edges, |x| self.slowdown_at(x))
    }

    /// The mean slowdown of the jobs of this many bytes.
    pub fn slowdown_at(&self, size_bytes: f64) -> f64 {
        self.response(size_bytes) / size_bytes
    }

    /// The cut points between the bands in bytes; empty for policies without bands.
    pub fn cuts_bytes(&self) -> &[f64] {
        &self.cuts
    }

    /// E[T(x)] in the bytes that the link could send in that time.
    pub(crate) fn response(&self, x: f64) -> f64 {
        self.formula.response(self.queue, x)
    }

    fn expectation(&self, f: impl Fn(f64) -> f64) -> f64 {
        quadrature::expectation(&self.queue.sizes, &self.edges, f)
    }
}
