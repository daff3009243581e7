use std::str::FromStr;

use super::{LoadProfile, RHO, SECONDS_MAX};

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

impl FromStr for LoadProfile {
    type Err = ProfileError;

    /// Parses `W1` to `W10`, or `LOW_S,HIGH_S,LOW_RHO,HIGH_RHO`.
    fn from_str(text: &str) -> Result<LoadProfile, ProfileError> {
        let text = text.trim();
        if let Some((_, [low_s, high_s, low, high])) = NAMED.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)) {
            return LoadProfile::alternating(*low_s, *high_s, *low, *high);
        }
        let numbers: Result<Vec<f64>, _> = text.split(',').map(|word| word.trim().parse()).collect();
        match numbers.as_deref() {
            Ok(&[low_s, high_s, low_rho, high_rho]) => LoadProfile::alternating(low_s, high_s, low_rho, high_rho),
            _ => Err(ProfileError::Form(text.into())),
        }
    }
}

/// The reason why a text is not a load.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ProfileError {
    /// The whole text.
    #[error(
        "`{0}` is no load profile: write W1 to W10, or seconds at a low and a high load and both loads, such as 25,25,0.2,1.2"
    )]
    Form(String),
    #[error("a phase of {0} s makes no sense: write seconds above 0 and up to {SECONDS_MAX}")]
    Seconds(f64),
    #[error("a load of {0} makes no sense: write a rho above 0 and up to {most}, such as 0.8", most = RHO.end())]
    Rho(f64),
}
