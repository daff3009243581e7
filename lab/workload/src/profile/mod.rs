//! Load that changes: a link that is overloaded for a while and then has time to recover.
//!
//! Schroeder and Harchol-Balter ("Web servers under overload", 2003, section 3) alternate between a low and a high load
//! and name ten such workloads W1 to W10; all except the persistent overloads are stable on average.

mod parse;

use units::Nanos;

pub use parse::ProfileError;

/// The load offered at each instant.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadProfile {
    /// The phases, one or two, which repeat.
    phases: Vec<Phase>,
    /// The total length of all phases.
    turn_ns: u64,
    mean_rho: f64,
    /// The load, if it never changes.
    constant: Option<f64>,
}

/// A period with one load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Phase {
    /// The length, at least 1 ns.
    pub lasts: Nanos,
    /// Above 0.
    pub rho: f64,
}

/// The maximum length of a phase, a month. Longer phases are no alternation, and loads outside the range no experiment.
const SECONDS_MAX: f64 = 2_678_400.0;
const RHO: std::ops::RangeInclusive<f64> = 1e-9..=1e3;

impl LoadProfile {
    /// Creates a constant load. The error states what would be right.
    pub fn constant(rho: f64) -> Result<LoadProfile, ProfileError> {
        Ok(LoadProfile::of(vec![Phase::new(1.0, rho)?]))
    }

    /// Creates an alternation of `low_s` seconds at `low_rho` and `high_s` at `high_rho`.
    pub fn alternating(low_s: f64, high_s: f64, low_rho: f64, high_rho: f64) -> Result<LoadProfile, ProfileError> {
        Ok(LoadProfile::of(vec![Phase::new(low_s, low_rho)?, Phase::new(high_s, high_rho)?]))
    }

    fn of(phases: Vec<Phase>) -> LoadProfile {
        let turn_ns: u64 = phases.iter().map(|phase| phase.lasts.0).sum();
        let (work_ns, lasts_ns) = phases
            .iter()
            .fold((0.0, 0.0), |(work, lasts), phase| (work + phase.work(phase.lasts.0), lasts + phase.lasts.0 as f64));
        let first = phases[0].rho;
        let is_constant = phases.iter().all(|phase| phase.rho == first);
        LoadProfile { phases, turn_ns, mean_rho: work_ns / lasts_ns, constant: is_constant.then_some(first) }
    }

    /// The phases in order; the first begins at zero.
    pub fn phases(&self) -> &[Phase] {
        &self.phases
    }

    /// The mean load over a whole turn.
    pub fn mean_rho(&self) -> f64 {
        self.mean_rho
    }

    /// The load, if it never changes.
    pub fn as_constant(&self) -> Option<f64> {
        self.constant
    }

    /// The work, in nanoseconds of the link, that is offered on average before this instant.
    pub fn offered(&self, before: Nanos) -> f64 {
        let (turns, mut left) = (before.0 / self.turn_ns, before.0 % self.turn_ns);
        let within = self.phases.iter().map(|phase| {
            let into = left.min(phase.lasts.0);
            left -= into;
            phase.work(into)
        });
        turns as f64 * self.turn_work() + within.sum::<f64>()
    }

    /// Returns the instant at which this much work (in nanoseconds of the link) has been offered on average from `at`
    /// on.
    ///
    /// With exponential amounts of work the instants form a Poisson process whose rate follows the load exactly: an
    /// amount begun in one phase is completed at the rate of the next.
    pub fn after(&self, at: Nanos, work_ns: f64) -> Nanos {
        if let Some(rho) = self.constant {
            return at + nearest(work_ns / rho);
        }
        // Whole turns are skipped first, so that the loop below ends after at most one more step than there are phases.
        let turns = (work_ns / self.turn_work()).floor();
        let mut at = at + Nanos((turns * self.turn_ns as f64) as u64);
        let mut work_ns = work_ns - turns * self.turn_work();
        for _ in 0..=self.phases.len() {
            let (phase, into) = self.phase_at(at);
            let work_left = phase.work(phase.lasts.0 - into);
            if work_ns <= work_left {
                return at + nearest(work_ns / phase.rho);
            }
            work_ns -= work_left;
            at += phase.lasts - Nanos(into);
        }
        at
    }

    fn turn_work(&self) -> f64 {
        self.turn_ns as f64 * self.mean_rho
    }

    /// The phase at this instant, and the time since its beginning.
    fn phase_at(&self, at: Nanos) -> (&Phase, u64) {
        let mut into = at.0 % self.turn_ns;
        for phase in &self.phases {
            if into < phase.lasts.0 {
                return (phase, into);
            }
            into -= phase.lasts.0;
        }
        (&self.phases[0], 0)
    }
}

impl Phase {
    /// A phase of `seconds` at this load.
    fn new(seconds: f64, rho: f64) -> Result<Phase, ProfileError> {
        if !(1e-9..=SECONDS_MAX).contains(&seconds) {
            return Err(ProfileError::Seconds(seconds));
        }
        if !RHO.contains(&rho) {
            return Err(ProfileError::Rho(rho));
        }
        Ok(Phase { lasts: Nanos((seconds * 1e9).round() as u64), rho })
    }

    /// The nanoseconds of the link that it offers in this time.
    fn work(&self, ns: u64) -> f64 {
        ns as f64 * self.rho
    }
}

/// Rounds without a call of `round`, because every job of a simulation needs this.
fn nearest(ns: f64) -> Nanos {
    Nanos((ns + 0.5) as u64)
}

#[cfg(test)]
mod tests;
