//! A link that alternates between overload and recovery: an approximation of the mean response time for each size.
//!
//! Schroeder & Harchol-Balter ("Web servers under overload", 2003, section 6.3) compare their measurements with an
//! M/GI/1 queue that alternates between two loads, and refer to a technical report (CMU-CS-01-134) for its derivation.
//! This derivation is our own and follows the reasoning of their section 6.2. While the link is overloaded, the queue
//! grows as a fluid, at the rate by which arrivals exceed departures. The fluid ignores the wait of a job among similar
//! ones in a stable queue, which is added from the exact formulas of [`crate::mg1`].
//!
//! - FCFS ([`fcfs`]): every job waits for the backlog that it finds.
//! - PS ([`fair`]): the number of jobs grows in proportion to time, so each job is served ever more slowly; after the
//!   load drops, the number falls according to a renewal equation.
//! - SRPT ([`srpt`]): smaller jobs, whose load stays below 1, hardly notice; a larger job waits until the backlog of
//!   jobs up to its size has drained.
//!
//! The approximation is exact if neither load overloads the link and the phases are long, or if the phases are so long
//! that chance does not matter. Otherwise, with sizes as heavy-tailed as those of the Web, chance does matter: one job
//! of 10 MB is a phase in itself. Compared with `weirlab sim` (W1, W2, W4, W5, W9, W10; bounded Pareto, alpha 1.1, 100
//! B to 1 MB; 10 Mbit/s; 3 million jobs), the mean is 0.92 to 1.01 times the simulated one under PS, 0.87 to 1.00 under
//! FCFS, and 1.06 to 1.23 under SRPT, where sizes just above x* fare better than in the fluid, because chance lets them
//! through.
//!
//! ```
//! use theory::{alternating::Alternating, mg1::Policy};
//! let sizes = "bounded-pareto:alpha=1.1,min=100,max=1e7".parse().unwrap();
//! let queue = Alternating::new(sizes, &"W1".parse().unwrap(), "10mbit".parse().unwrap()).unwrap();
//! let [fair, srpt] = [Policy::Ps, Policy::Srpt].map(|policy| queue.solve(&policy).unwrap().response_ms());
//! assert!(srpt < fair);
//! ```

mod fair;
mod fcfs;
mod srpt;
#[cfg(test)]
mod tests;

use units::Rate;
use workload::{Distribution, LoadProfile, Phase};

use crate::mg1::{Mg1, Policy, PolicyError, quadrature};
use fair::Fair;
use fcfs::Fcfs;
use srpt::Srpt;

/// A link and its arrivals over time.
#[derive(Debug, Clone)]
pub struct Alternating {
    /// The phase of the higher load; times are in bytes of the link.
    high: Period,
    low: Period,
}

/// One phase as a separate queue; its rho may be above 1.
#[derive(Debug, Clone)]
struct Period {
    queue: Mg1,
    /// The bytes that the link can send in it.
    lasts: f64,
}

/// The reason why there is no result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AlternatingError {
    /// The backlog of the high load does not drain during the low load.
    #[error("the mean load is {rho}: there is no steady state, the queue grows for ever; it must be below 1")]
    NoSteadyState { rho: f64 },
}

impl Alternating {
    /// Creates the queue for sizes in bytes that arrive at the loads of this profile.
    pub fn new(sizes: Distribution, profile: &LoadProfile, link: Rate) -> Result<Alternating, AlternatingError> {
        let rho = profile.mean_rho();
        if rho >= 1.0 {
            return Err(AlternatingError::NoSteadyState { rho });
        }
        let period = |phase: &Phase| {
            let lasts = phase.lasts.as_secs_f64() * link.bits_per_s() as f64 / 8.0;
            Period { queue: Mg1 { sizes: sizes.clone(), rho: phase.rho, link }, lasts }
        };
        let phases = profile.phases();
        let (mut high, mut low) = (period(&phases[phases.len() - 1]), period(&phases[0]));
        if high.queue.rho < low.queue.rho {
            std::mem::swap(&mut high, &mut low);
        }
        Ok(Alternating { high, low })
    }

    /// The approximation for this policy: `fcfs`, `ps` or `srpt`.
    pub fn solve(&self, policy: &Policy) -> Result<Solution<'_>, PolicyError> {
        let model = match policy {
            Policy::Fcfs => Model::Fcfs(Fcfs::new(self)),
            Policy::Ps => Model::Fair(Fair::new(self)),
            Policy::Srpt => Model::Srpt(Srpt::new(self)),
            other => return Err(PolicyError::NoApproximation(other.name())),
        };
        let edges = quadrature::edges(&self.low.queue.sizes, &quadrature::whole_bytes_end());
        Ok(Solution { queue: self, model, edges })
    }

    fn is_overloaded(&self) -> bool {
        self.high.queue.rho >= 1.0
    }

    /// The bytes of the link in one turn.
    fn turn(&self) -> f64 {
        self.high.lasts + self.low.lasts
    }

    /// The share of the jobs that arrive in the phase of high load.
    fn high_share(&self) -> f64 {
        let [high, low] = [&self.high, &self.low].map(|period| period.queue.rho * period.lasts);
        high / (high + low)
    }

    /// The mean over the instants at which jobs arrive, counted from the beginning of the high load.
    fn mean_over_arrivals(&self, f: impl Fn(f64) -> f64) -> f64 {
        let mean = |from: f64, lasts: f64| {
            let steps =
                (0..ARRIVAL_STEPS).map(|step| f(from + lasts * (f64::from(step) + 0.5) / f64::from(ARRIVAL_STEPS)));
            steps.sum::<f64>() / f64::from(ARRIVAL_STEPS)
        };
        let share = self.high_share();
        share * mean(0.0, self.high.lasts) + (1.0 - share) * mean(self.high.lasts, self.low.lasts)
    }
}

/// The number of arrival instants per phase, in the middle of equal steps; the response time is nearly linear between
/// them.
const ARRIVAL_STEPS: u32 = 128;

/// Approximate response times of one policy.
#[derive(Debug, Clone)]
pub struct Solution<'a> {
    queue: &'a Alternating,
    model: Model<'a>,
    edges: Vec<f64>,
}

#[derive(Debug, Clone)]
enum Model<'a> {
    Fcfs(Fcfs),
    Fair(Fair<'a>),
    Srpt(Srpt<'a>),
}

impl Solution<'_> {
    /// The mean response time in ms.
    pub fn response_ms(&self) -> f64 {
        let sizes = &self.queue.low.queue.sizes;
        self.in_ms(quadrature::expectation(sizes, &self.edges, |x| self.response(x)))
    }

    /// The mean response time in ms of the jobs of this many bytes.
    pub fn response_ms_at(&self, size_bytes: f64) -> f64 {
        self.in_ms(self.response(size_bytes))
    }

    /// The mean slowdown, with sizes in whole bytes.
    pub fn slowdown_mean(&self) -> f64 {
        quadrature::slowdown(&self.queue.low.queue.sizes, &self.edges, |x| self.slowdown_at(x))
    }

    /// The mean slowdown of the jobs of this many bytes.
    pub fn slowdown_at(&self, size_bytes: f64) -> f64 {
        self.response(size_bytes) / size_bytes
    }

    /// The number of jobs in the backlog when the load drops, beyond those of a stable queue; 0 if there is no backlog.
    pub fn backlog_jobs(&self) -> f64 {
        if !self.queue.is_overloaded() {
            return 0.0;
        }
        match &self.model {
            Model::Fcfs(_) => fcfs::backlog_jobs(self.queue),
            Model::Fair(fair) => fair.backlog_jobs(),
            Model::Srpt(srpt) => srpt.backlog_jobs(),
        }
    }

    fn response(&self, x: f64) -> f64 {
        match &self.model {
            Model::Fcfs(fcfs) => fcfs.response(x),
            Model::Fair(fair) => fair.response(x),
            Model::Srpt(srpt) => srpt.response(x),
        }
    }

    fn in_ms(&self, bytes: f64) -> f64 {
        bytes / self.queue.low.queue.bytes_per_ms()
    }
}
