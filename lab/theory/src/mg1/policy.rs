//! The policies with a closed form, by their names in the scheduler.

use std::str::FromStr;

/// A policy whose mean response time has a closed form.
#[derive(Debug, Clone, PartialEq)]
pub enum Policy {
    /// First come, first served.
    Fcfs,
    /// Processor sharing: every job has the same share of the link at every instant.
    Ps,
    /// Shortest remaining processing time first.
    Srpt,
    /// Preemptive shortest job first: like SRPT, but ordered by the initial size.
    Psjf,
    /// Least attained service first, shared equally by the jobs with the least (foreground-background).
    Las,
    /// Priority bands of the remaining size, each first come, first served, with these cut points in bytes, increasing.
    /// A remaining size equal to a cut point belongs to the band below it.
    SrptBands(Vec<f64>),
}

/// The scheduler's maximum number of bands. It interprets a single number up to it as the number of bands, and finds
/// the cut points itself.
pub const BANDS_MAX: usize = 16;

/// The number of bands of Harchol-Balter et al. (2000, section 3.3).
const BANDS_USUAL: usize = 5;

impl Policy {
    /// The accepted forms, for help texts and errors.
    pub const FORMS: &str = "fcfs, ps (or fair), srpt, psjf, las, srpt-bands:SIZE,SIZE,...";

    /// The name, without cut points.
    pub fn name(&self) -> &'static str {
        match self {
            Policy::Fcfs => "fcfs",
            Policy::Ps => "ps",
            Policy::Srpt => "srpt",
            Policy::Psjf => "psjf",
            Policy::Las => "las",
            Policy::SrptBands(_) => "srpt-bands",
        }
    }
}

/// The reason why there is no formula.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    #[error("unknown policy `{0}`: choose one of {forms}", forms = Policy::FORMS)]
    Unknown(String),
    /// The scheduler has the policy, but no formula for it is known.
    #[error("no closed form is known for policy `{0}`: simulate it, or choose one of {forms}", forms = Policy::FORMS)]
    NoClosedForm(String),
    /// The policy has a closed form only at a constant load.
    #[error("no approximation is known for policy `{0}` under an alternating load: choose fcfs, ps or srpt")]
    NoApproximation(&'static str),
    #[error("srpt-bands:{given}: {reason}")]
    Bands { given: String, reason: &'static str },
}

impl FromStr for Policy {
    type Err = PolicyError;

    /// Does not accept a count of bands, because no formula defines their cut points.
    fn from_str(text: &str) -> Result<Policy, PolicyError> {
        Ok(match text {
            "fcfs" => Policy::Fcfs,
            "ps" | "fair" => Policy::Ps,
            "srpt" => Policy::Srpt,
            "psjf" => Policy::Psjf,
            "las" => Policy::Las,
            _ => match text.split_once(':') {
                Some(("srpt-bands", cuts)) => Policy::SrptBands(parse_cuts(cuts)?),
                _ => return Err(without_formula(text)),
            },
        })
    }
}

impl Policy {
    /// Parses a spec. `srpt-bands` without cut points, with or without a count, is cut by `cuts_of`, as in the
    /// scheduler.
    pub fn parse(text: &str, cuts_of: impl Fn(usize) -> Vec<u64>) -> Result<Policy, PolicyError> {
        let count = match text.split_once(':') {
            None if text == "srpt-bands" => Some(BANDS_USUAL),
            Some(("srpt-bands", given)) => given.parse().ok().filter(|count| (1..=BANDS_MAX).contains(count)),
            _ => None,
        };
        let cuts = |count| cuts_of(count).into_iter().map(|cut| cut as f64).collect();
        count.map_or_else(|| text.parse(), |count| Ok(Policy::SrptBands(cuts(count))))
    }
}

fn parse_cuts(given: &str) -> Result<Vec<f64>, PolicyError> {
    let wrong = |reason| PolicyError::Bands { given: given.to_string(), reason };
    let places = "write where the bands are cut, in bytes, such as 1000,64KiB";
    if given.bytes().all(|byte| byte.is_ascii_digit()) {
        let is_count = given.parse::<usize>().is_ok_and(|count| count <= BANDS_MAX);
        return Err(wrong(if is_count {
            places
        } else {
            "1 to 16 bands; a single cut has its unit too, such as 1000B"
        }));
    }
    let cuts = given.split(',').map(units::parse_size).collect::<Result<Vec<u64>, _>>().map_err(|_| wrong(places))?;
    if cuts[0] == 0 || !cuts.is_sorted_by(|a, b| a < b) {
        return Err(wrong("cut points are above 0 and increase"));
    }
    if cuts.len() >= BANDS_MAX {
        return Err(wrong("at most 16 bands, so 15 cut points"));
    }
    Ok(cuts.into_iter().map(|cut| cut as f64).collect())
}

/// The names of further policies of the scheduler.
const WITHOUT_FORMULA: [&str; 7] = ["quick-fix", "fcf", "srrt", "fsp", "strict", "weighted", "minimum"];

fn without_formula(text: &str) -> PolicyError {
    let name = text.split([':', '=', '/']).next().unwrap_or_default();
    match WITHOUT_FORMULA.contains(&name) {
        true => PolicyError::NoClosedForm(text.to_string()),
        false => PolicyError::Unknown(text.to_string()),
    }
}
