//! Load that changes: a link that is overloaded for a while and then has time to recover.
//!
//! Schroeder and Harchol-Balter ("Web servers under overload", 2003, section 3) alternate between a low and a high load
//! and name ten such workloads W1 to W10; all but the persistent overloads are stable on average.

use std::str::FromStr;

use units::Nanos;

/// The load offered at each instant: one value for ever, or low and high by turns, low first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadProfile {
    low: Phase,
    high: Phase,
}

/// A time of one load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Phase {
    /// At least 1 ns.
    pub lasts: Nanos,
    /// Above 0.
    pub rho: f64,
}

/// Low seconds, high seconds, low load, high load.
const NAMED: [(&str, [f64; 4]); 10] = [
    ("W1", [25.0, 25.0, 0.2, 1.2]),
    ("W2", [10.0, 10.0, 0.2, 1.2]),
    ("W3", [50.0, 50.0, 0.2, 1.6]),
    ("W4", [25.0, 25.0, 0.4, 1.4]),
    ("W5", [10.0, 10.0, 0.4, 1.4]),
    ("W6", [40.0, 40.0, 0.1, 1.7]),
    ("W7", [63.0, 6.0, 0.4, 5.0]),
    ("W8", [63.0, 10.0, 0.45, 3.0]),
    ("W9", [20.0, 3.0, 0.735, 2.0]),
    ("W10", [13.3, 2.0, 0.735, 2.0]),
];

/// Phases longer than a month are no alternation, and loads beyond these no experiment.
const SECONDS_MAX: f64 = 2_678_400.0;
const RHO: std::ops::RangeInclusive<f64> = 1e-6..=1e3;

impl LoadProfile {
    /// The same load for ever. The error names what would be right.
    pub fn constant(rho: f64) -> Result<LoadProfile, ProfileError> {
        LoadProfile::alternating(1.0, 1.0, rho, rho)
    }

    /// `low_s` seconds at `low_rho`, then `high_s` at `high_rho`, and again.
    pub fn alternating(low_s: f64, high_s: f64, low_rho: f64, high_rho: f64) -> Result<LoadProfile, ProfileError> {
        let phase = |seconds: f64, rho: f64| {
            if !(1e-9..=SECONDS_MAX).contains(&seconds) {
                return Err(ProfileError::Seconds(seconds));
            }
            if !RHO.contains(&rho) {
                return Err(ProfileError::Rho(rho));
            }
            Ok(Phase { lasts: Nanos((seconds * 1e9).round() as u64), rho })
        };
        Ok(LoadProfile { low: phase(low_s, low_rho)?, high: phase(high_s, high_rho)? })
    }

    /// The phase it begins with.
    pub fn low(&self) -> Phase {
        self.low
    }

    /// The phase behind it.
    pub fn high(&self) -> Phase {
        self.high
    }

    /// The load over a whole turn.
    pub fn mean_rho(&self) -> f64 {
        let work = |phase: Phase| phase.lasts.0 as f64 * phase.rho;
        (work(self.low) + work(self.high)) / (self.low.lasts.0 as f64 + self.high.lasts.0 as f64)
    }

    /// Whether the load never changes.
    pub fn is_constant(&self) -> bool {
        self.low.rho == self.high.rho
    }

    /// The instant at which, from `at` on, this much work (in nanoseconds of the link) has been offered on average.
    ///
    /// With exponential amounts of work this makes the instants a Poisson process whose rate follows the load exactly:
    /// an amount begun in one phase is used up at the pace of the next.
    pub fn after(&self, at: Nanos, work_ns: f64) -> Nanos {
        if self.is_constant() {
            return at + nearest(work_ns / self.low.rho);
        }
        let mut at = at;
        let mut work_ns = work_ns;
        let turn = self.low.lasts.0 + self.high.lasts.0;
        // A whole turn at a time first, so that the loop below ends within two phases.
        let turn_work = turn as f64 * self.mean_rho();
        let turns = (work_ns / turn_work).floor();
        at += Nanos((turns * turn as f64) as u64);
        work_ns -= turns * turn_work;
        for _ in 0..3 {
            let into = at.0 % turn;
            let (phase, left) = match into < self.low.lasts.0 {
                true => (self.low, self.low.lasts.0 - into),
                false => (self.high, turn - into),
            };
            if work_ns <= left as f64 * phase.rho {
                return at + nearest(work_ns / phase.rho);
            }
            work_ns -= left as f64 * phase.rho;
            at += Nanos(left);
        }
        at
    }
}

/// Without the call that `round` is: this stands on the path of every job of a simulation.
fn nearest(ns: f64) -> Nanos {
    Nanos((ns + 0.5) as u64)
}

impl FromStr for LoadProfile {
    type Err = ProfileError;

    /// `W1` to `W10`, or `LOW_S,HIGH_S,LOW_RHO,HIGH_RHO`.
    fn from_str(text: &str) -> Result<LoadProfile, ProfileError> {
        let wrong = || ProfileError::Form(text.into());
        let numbers = match NAMED.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)) {
            Some((_, numbers)) => numbers.to_vec(),
            None => text.split(',').map(|word| word.trim().parse().map_err(|_| wrong())).collect::<Result<_, _>>()?,
        };
        let [low_s, high_s, low_rho, high_rho] = numbers[..] else { return Err(wrong()) };
        LoadProfile::alternating(low_s, high_s, low_rho, high_rho)
    }
}

/// Why this is no load.
#[derive(Debug, Clone, PartialEq)]
pub enum ProfileError {
    Form(String),
    Seconds(f64),
    Rho(f64),
}

impl std::fmt::Display for ProfileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ProfileError::Form(text) => write!(
                f,
                "`{text}` is no load profile: write W1 to W10, or low seconds, high seconds, low load, high load, such as \
                 25,25,0.2,1.2"
            ),
            ProfileError::Seconds(seconds) => {
                write!(f, "a phase of {seconds} s makes no sense: write seconds above 0 and up to {SECONDS_MAX}")
            }
            ProfileError::Rho(rho) => {
                write!(f, "a load of {rho} makes no sense: write a rho above 0 and up to {}, such as 0.8", RHO.end())
            }
        }
    }
}

impl std::error::Error for ProfileError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_workloads_are_stable_on_average() {
        for (name, [low_s, high_s, low_rho, high_rho]) in NAMED {
            let profile: LoadProfile = name.parse().unwrap();
            assert_eq!(profile, LoadProfile::alternating(low_s, high_s, low_rho, high_rho).unwrap());
            assert!((0.69..0.92).contains(&profile.mean_rho()), "{name}: {}", profile.mean_rho());
        }
        assert_eq!("25,25,.2,1.2".parse::<LoadProfile>(), "w1".parse());
    }

    #[test]
    fn work_is_offered_at_the_pace_of_the_phase() {
        let profile: LoadProfile = "10,20,0.5,2".parse().unwrap();
        let after = |at_s, work_s| profile.after(Nanos::from_secs(at_s), work_s * 1e9).as_secs_f64();
        assert_eq!(after(0, 2.0), 4.0);
        // 5 s of work by the end of the low phase, the other 10 in half the time.
        assert_eq!(after(0, 15.0), 15.0);
        // A whole turn offers 45 s of work.
        assert_eq!(after(0, 45.0), 30.0);
        assert_eq!(after(5, 45.0 * 3.0), 95.0);
        assert_eq!(after(25, 10.0 + 5.0 + 4.0), 42.0);
        assert_eq!(LoadProfile::constant(0.5).unwrap().after(Nanos(7), 10.0), Nanos(27));
    }

    #[test]
    fn what_is_no_profile_says_what_is_right() {
        for (text, said) in [
            ("W11", "`W11` is no load profile"),
            ("1,2,3", "such as 25,25,0.2,1.2"),
            ("1,0,0.5,1", "a phase of 0 s"),
            ("1,1,-0.5,1", "a load of -0.5"),
            ("1,1,nan,1", "a load of NaN"),
        ] {
            let error = text.parse::<LoadProfile>().unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
