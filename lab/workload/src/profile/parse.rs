use std::str::FromStr;

use super::{LoadProfile, PHASES_MAX, Phase, RHO, SECONDS_MAX};

/// The low seconds, high seconds, low load and high load (Schroeder & Harchol-Balter 2006, table I).
pub(super) const NAMED: [(&str, [f64; 4]); 10] = [
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

/// The forms of a profile.
const FORMS: &str = "W1 to W10, constant:0.8, phases such as 25s@0.2,25s@1.2, or a ramp such as 30s@0.5,60s@0.5-1.4";

impl FromStr for LoadProfile {
    type Err = ProfileError;

    /// Parses `W1` to `W10`, `constant:RHO`, phases `TIME@RHO` or `TIME@RHO-RHO` (also written `ramp:TIME@RHO-RHO`), or
    /// `LOW_S,HIGH_S,LOW_RHO,HIGH_RHO`.
    fn from_str(text: &str) -> Result<LoadProfile, ProfileError> {
        let text = text.trim();
        if let Some((_, [low_s, high_s, low, high])) = NAMED.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)) {
            return LoadProfile::alternating(*low_s, *high_s, *low, *high);
        }
        if let Some(rho) = text.strip_prefix("constant:") {
            return LoadProfile::constant(rho.trim().parse().map_err(|_| ProfileError::Form(text.into()))?);
        }
        if text.contains('@') {
            return LoadProfile::new(text.split(',').map(|word| phase(word.trim())).collect::<Result<_, _>>()?);
        }
        let numbers: Result<Vec<f64>, _> = text.split(',').map(|word| word.trim().parse()).collect();
        match numbers.as_deref() {
            Ok(&[low_s, high_s, low_rho, high_rho]) => LoadProfile::alternating(low_s, high_s, low_rho, high_rho),
            _ => Err(ProfileError::Form(text.into())),
        }
    }
}

/// Parses `25s@1.2`, or `60s@0.5-1.4` with or without `ramp:`.
fn phase(word: &str) -> Result<Phase, ProfileError> {
    let wrong = || ProfileError::Phase(word.into());
    let (time, load) = word.strip_prefix("ramp:").unwrap_or(word).split_once('@').ok_or_else(wrong)?;
    let lasts = units::parse_duration(time.trim()).map_err(|error| ProfileError::Time(word.into(), error))?;
    let rho = |text: &str| text.trim().parse::<f64>().map_err(|_| wrong());
    // A whole number is tried first: the minus in 1e-3 does not mean a ramp.
    let (from_rho, to_rho) = match (load.trim().parse::<f64>(), load.split_once('-')) {
        (Ok(level), _) if !word.starts_with("ramp:") => (level, level),
        (_, Some((from, to))) => (rho(from)?, rho(to)?),
        _ => return Err(wrong()),
    };
    Phase::new(lasts.as_secs_f64(), from_rho, to_rho)
}

/// The reason why a text is not a load.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ProfileError {
    /// The whole text.
    #[error("`{0}` is no load profile: write {FORMS}")]
    Form(String),
    /// The text of the invalid phase.
    #[error("`{0}` is no phase: write a time and its load, such as 25s@1.2, or from and to, 60s@0.5-1.4")]
    Phase(String),
    /// The phase with an invalid time, and the fault of the time.
    #[error("phase `{0}`: {1}")]
    Time(String, #[source] units::ParseError),
    /// The number of phases, which is too high.
    #[error("{0} phases: write 1 to {PHASES_MAX}")]
    Phases(usize),
    #[error("a phase of {0} s makes no sense: write seconds above 0 and up to {SECONDS_MAX}")]
    Seconds(f64),
    #[error("a load of {0} makes no sense: write a rho above 0 and up to {most}, such as 0.8", most = RHO.end())]
    Rho(f64),
}
