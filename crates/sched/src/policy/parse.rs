//! From what an operator writes to a policy.

use std::fmt;

use super::{BANDS_MAX, Bands, Fair, Fcfs, Las, Policy, Psjf, QuickFix, Rank, Ranked, Srpt, Srrt};

/// All policies by name, in the order help texts list them. Each is a spec; [`FORMS`] says what may follow it.
pub const NAMES: &[&str] = &["fair", "fcfs", "srpt", "psjf", "las", "quick-fix", "srrt"];

/// What may be written, for help texts.
pub const FORMS: &str = "fair, fcfs, srpt, psjf, las, srpt-bands[:BANDS|:SIZE,SIZE,...], quick-fix[:SIZE], \
    srrt[:BANDS|:TIME,TIME,...]";

/// The policy of this spec. The error says what is wrong with it and what would be right.
pub fn parse(spec: &str) -> Result<Box<dyn Policy>, PolicyError> {
    let (name, option) = match spec.split_once(':') {
        Some((name, option)) => (name, Some(option)),
        None => (spec, None),
    };
    let plain = |policy: Box<dyn Policy>| match option {
        None => Ok(policy),
        Some(option) => Err(PolicyError(format!("policy `{name}` takes no option, and `{option}` was given"))),
    };
    match name {
        "fair" => plain(Box::new(Fair::default())),
        "fcfs" => plain(Box::new(Ranked::new(Fcfs))),
        "srpt" => plain(Box::new(Ranked::new(Srpt))),
        "psjf" => plain(Box::new(Ranked::new(Psjf))),
        "las" => plain(Box::new(Ranked::new(Las))),
        "srpt-bands" => bands(Srpt, name, option.unwrap_or(BANDS_USUAL), size),
        "quick-fix" => Ok(Box::new(QuickFix::new(option.map_or(Ok(QuickFix::CUT_BYTES), size)?))),
        "srrt" => option.map_or_else(|| plain(Box::new(Ranked::new(Srrt))), |option| bands(Srrt, name, option, time)),
        _ => Err(PolicyError(format!("unknown policy `{spec}`: choose one of {}", NAMES.join(", ")))),
    }
}

/// What is wrong with a spec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyError(String);

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PolicyError {}

/// As many as Harchol-Balter et al. used (2003, section 3.3).
const BANDS_USUAL: &str = "5";

/// A number up to [`BANDS_MAX`] is how many bands, anything else are the cut points.
fn bands<R: Rank + 'static>(
    rank: R,
    name: &str,
    option: &str,
    cut: fn(&str) -> Result<u64, PolicyError>,
) -> Result<Box<dyn Policy>, PolicyError> {
    if option.parse::<usize>().is_ok_and(|bands| bands <= BANDS_MAX) {
        return Err(PolicyError(format!("policy `{name}:{option}`: cut points are not learned yet, write them")));
    }
    let cuts = option.split(',').map(cut).collect::<Result<Vec<u64>, PolicyError>>()?;
    if !cuts.is_sorted_by(|a, b| a < b) {
        return Err(PolicyError(format!("the cut points `{option}` of policy `{name}` have to increase")));
    }
    if cuts.len() >= BANDS_MAX {
        return Err(PolicyError(format!(
            "policy `{name}` has at most {BANDS_MAX} bands, so {} cut points, and {} were given",
            BANDS_MAX - 1,
            cuts.len()
        )));
    }
    Ok(Box::new(Bands::at(format!("{name}:{option}"), rank, cuts)))
}

fn size(text: &str) -> Result<u64, PolicyError> {
    match units::parse_size(text) {
        Ok(0) => Err(PolicyError("a cut point of 0 bytes has nothing below it: write at least 1".to_string())),
        Ok(bytes) => Ok(bytes),
        Err(error) => Err(PolicyError(error.to_string())),
    }
}

fn time(text: &str) -> Result<u64, PolicyError> {
    let span = units::parse_duration(text).map_err(|error| PolicyError(error.to_string()))?;
    Ok(units::Nanos::from(span).0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_spec() {
        for name in NAMES {
            let policy = parse(name).unwrap();
            assert!(policy.name().starts_with(name), "{} is not {name}", policy.name());
            assert!(FORMS.contains(name), "{name} is not in the help");
        }
    }

    #[test]
    fn wrong_specs_say_what_is_right() {
        for (spec, said) in [
            ("sprt", "unknown policy `sprt`: choose one of fair, fcfs, srpt, psjf, las"),
            ("", "unknown policy ``"),
            ("srpt:5", "policy `srpt` takes no option, and `5` was given"),
            ("srpt-bands:1000,500", "the cut points `1000,500` of policy `srpt-bands` have to increase"),
            ("srpt-bands:1000,x", "`x` is not a size"),
            ("srpt-bands:", "`` is not a size"),
            ("quick-fix:0", "a cut point of 0 bytes"),
            ("srrt:50ms,10", "`10` is not a duration"),
        ] {
            let error = parse(spec).map(|policy| policy.name().to_string()).unwrap_err().to_string();
            assert!(error.contains(said), "{spec}: {error}");
            assert!(!error.contains('\n') && !error.ends_with('.'), "{error}");
        }
    }
}
