//! Load that changes: a link that is overloaded for a while and then has time to recover.
//!
//! Schroeder and Harchol-Balter ("Web servers under overload", 2003, section 3) alternate between a low and a high load
//! and name ten such workloads W1 to W10; all except the persistent overloads are stable on average. A profile here
//! consists of any number of phases, each with a constant or a linearly changing load, and repeats after the last.

mod parse;

use std::fmt;

use units::Nanos;

pub use parse::ProfileError;

/// The load offered at each instant.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadProfile {
    /// The phases, at least one.
    phases: Vec<Phase>,
    /// The total length of all phases.
    turn_ns: u64,
    mean_rho: f64,
    /// The load, if it never changes.
    constant: Option<f64>,
}

/// A period with a constant or a linearly changing load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Phase {
    /// The length, at least 1 ns.
    pub lasts: Nanos,
    /// The load at its beginning; above 0.
    pub from_rho: f64,
    /// The load at its end; above 0.
    pub to_rho: f64,
}

/// The maximum length of a phase, a month. Longer phases are no alternation, and loads outside the range no experiment.
const SECONDS_MAX: f64 = 2_678_400.0;
const RHO: std::ops::RangeInclusive<f64> = 1e-9..=1e3;

/// The maximum number of phases. More would be a trace, and would be searched for every job.
pub const PHASES_MAX: usize = 1000;

impl LoadProfile {
    /// Creates a constant load. The error states what would be right.
    pub fn constant(rho: f64) -> Result<LoadProfile, ProfileError> {
        LoadProfile::new(vec![Phase::new(1.0, rho, rho)?])
    }

    /// Creates an alternation of `low_s` seconds at `low_rho` and `high_s` at `high_rho`.
    pub fn alternating(low_s: f64, high_s: f64, low_rho: f64, high_rho: f64) -> Result<LoadProfile, ProfileError> {
        LoadProfile::new(vec![Phase::new(low_s, low_rho, low_rho)?, Phase::new(high_s, high_rho, high_rho)?])
    }

    /// Creates a repetition of these phases.
    pub fn new(phases: Vec<Phase>) -> Result<LoadProfile, ProfileError> {
        if !(1..=PHASES_MAX).contains(&phases.len()) {
            return Err(ProfileError::Phases(phases.len()));
        }
        for phase in &phases {
            Phase::new(phase.lasts.as_secs_f64(), phase.from_rho, phase.to_rho)?;
        }
        let turn_ns: u64 = phases.iter().map(|phase| phase.lasts.0).sum();
        let (work_ns, lasts_ns) = phases.iter().fold((0.0, 0.0), |(work, lasts), phase| {
            (work + phase.work_between(0, phase.lasts.0), lasts + phase.lasts.0 as f64)
        });
        let first = phases[0].from_rho;
        let is_constant = phases.iter().all(|phase| phase.from_rho == first && phase.to_rho == first);
        Ok(LoadProfile { phases, turn_ns, mean_rho: work_ns / lasts_ns, constant: is_constant.then_some(first) })
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
            phase.work_between(0, into)
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
            let work_left = phase.work_between(into, phase.lasts.0);
            if work_ns <= work_left {
                return at + phase.time_for(work_ns, into);
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
    /// A phase of `seconds` in which the load changes linearly from one value to the other.
    pub fn new(seconds: f64, from_rho: f64, to_rho: f64) -> Result<Phase, ProfileError> {
        if !(1e-9..=SECONDS_MAX).contains(&seconds) {
            return Err(ProfileError::Seconds(seconds));
        }
        match [from_rho, to_rho].into_iter().find(|rho| !RHO.contains(rho)) {
            Some(rho) => Err(ProfileError::Rho(rho)),
            None => Ok(Phase { lasts: Nanos((seconds * 1e9).round() as u64), from_rho, to_rho }),
        }
    }

    fn is_level(&self) -> bool {
        self.from_rho == self.to_rho
    }

    fn rho_at(&self, into: u64) -> f64 {
        self.from_rho + (self.to_rho - self.from_rho) * (into as f64 / self.lasts.0 as f64)
    }

    /// The nanoseconds of the link offered between two instants of the phase: the trapezium under the load.
    fn work_between(&self, from: u64, to: u64) -> f64 {
        let rho = if self.is_level() { self.from_rho } else { (self.rho_at(from) + self.rho_at(to)) / 2.0 };
        (to - from) as f64 * rho
    }

    /// The time from `into` until this much work has been offered: `rho t + slope t² / 2` solved for t, in the form
    /// without subtraction.
    fn time_for(&self, work_ns: f64, into: u64) -> Nanos {
        if self.is_level() {
            return nearest(work_ns / self.from_rho);
        }
        let rho = self.rho_at(into);
        let slope = (self.to_rho - self.from_rho) / self.lasts.0 as f64;
        // At the very end of a falling phase a rounding error may leave a negative number.
        let root = (rho * rho + 2.0 * slope * work_ns).max(0.0).sqrt();
        nearest(2.0 * work_ns / (rho + root)).min(self.lasts - Nanos(into))
    }
}

/// Formats the text that is parsed: `constant:0.8`, or phases such as `25s@0.2,60s@0.5-1.4`.
impl fmt::Display for LoadProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(rho) = self.constant {
            return write!(f, "constant:{rho}");
        }
        for (number, phase) in self.phases.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            // Durations are parsed to a millionth of their unit.
            match phase.lasts.0 % 1000 {
                0 => write!(f, "{comma}{}s@{}", phase.lasts.as_secs_f64(), phase.from_rho)?,
                _ => write!(f, "{comma}{}ns@{}", phase.lasts.0, phase.from_rho)?,
            }
            if !phase.is_level() {
                write!(f, "-{}", phase.to_rho)?;
            }
        }
        Ok(())
    }
}

/// Rounds without a call of `round`, because every job of a simulation needs this.
fn nearest(ns: f64) -> Nanos {
    Nanos((ns + 0.5) as u64)
}

#[cfg(test)]
mod tests;
