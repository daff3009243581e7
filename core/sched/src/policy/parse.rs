//! Parsing of the policy specs that an operator writes.

use std::str::FromStr;

use super::{BANDS_MAX, BandSpec, Fcf, Order, Policy, PolicySpec, QuickFix, RankError};

/// The names of all policies, in the order of the help texts. Each is a spec; [`FORMS`] lists the options that may
/// follow.
pub const NAMES: &[&str] = &["fair", "fcfs", "srpt", "psjf", "las", "srpt-bands", "quick-fix", "fcf", "srrt", "fsp"];

/// The forms of all [`NAMES`] and of an expression, for help texts.
pub const FORMS: &str = "fair, fcfs, srpt, psjf, las, srpt-bands[:BANDS|:SIZE,...], quick-fix[:SIZE], fcf[:FACTOR], \
    srrt[:BANDS|:TIME,...], fsp, rank:EXPRESSION";

/// Returns the policy of this spec. The error states the mistake and the accepted forms.
pub fn parse(spec: &str) -> Result<Box<dyn Policy>, PolicyError> {
    Ok(spec.parse::<PolicySpec>()?.build())
}

impl FromStr for PolicySpec {
    type Err = PolicyError;

    fn from_str(spec: &str) -> Result<PolicySpec, PolicyError> {
        if let Some(text) = spec.strip_prefix(RANK) {
            return Ok(Order::Rank(Box::new(text.parse()?)).into());
        }
        if spec.contains('/') {
            return Err(PolicyError::Classes(spec.into()));
        }
        Ok(order(spec)?.into())
    }
}

/// The prefix of an expression.
const RANK: &str = "rank:";

fn order(spec: &str) -> Result<Order, PolicyError> {
    let (name, option) = spec.split_once(':').map_or((spec, None), |(name, option)| (name, Some(option)));
    let plain = |order: Order| match option {
        None => Ok(order),
        Some(_) => Err(PolicyError::NoOption { spec: spec.into(), right: name.into() }),
    };
    match name {
        "fair" => plain(Order::Fair),
        "fcfs" => plain(Order::Fcfs),
        "srpt" => plain(Order::Srpt),
        "psjf" => plain(Order::Psjf),
        "las" => plain(Order::Las),
        "srpt-bands" => {
            Ok(Order::SrptBands(option.map_or(Ok(BandSpec::learned(BANDS_USUAL)), |option| bands(option, "B", size))?))
        }
        "quick-fix" => Ok(Order::QuickFix { cut_bytes: option.map_or(Ok(QuickFix::CUT_BYTES), size)? }),
        "fcf" => Ok(Order::Fcf { beta_permille: option.map_or(Ok(Fcf::BETA_PERMILLE), beta)? }),
        "srrt" => match option {
            None => Ok(Order::Srrt),
            Some(option) => Ok(Order::SrrtBands(bands(option, "ms", time)?)),
        },
        "fsp" => plain(Order::Fsp),
        _ => Err(PolicyError::Unknown(spec.into())),
    }
}

/// The reason why a spec is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    #[error("unknown policy `{0}`: choose one of {names}, or write rank:EXPRESSION", names = NAMES.join(", "))]
    Unknown(String),
    #[error("policy `{0}`: classes above a policy are gone: write [[class]] tables in weir.toml (docs/policies.md)")]
    Classes(String),
    #[error("policy `{spec}` has an option that it does not take: write {right}")]
    NoOption { spec: String, right: String },
    /// A part of a spec.
    #[error("{noun} `{given}`: write {right}")]
    Value { noun: &'static str, given: String, right: String },
    #[error(transparent)]
    Rank(#[from] RankError),
    #[error(transparent)]
    Quantity(#[from] units::ParseError),
}

impl PolicyError {
    fn value(noun: &'static str, given: &str, right: impl Into<String>) -> PolicyError {
        PolicyError::Value { noun, given: given.into(), right: right.into() }
    }
}

/// The number of bands that Harchol-Balter et al. used (2000, section 3.3).
const BANDS_USUAL: usize = 5;

/// Parses the option of bands: a number without a unit is the number of bands; sizes or times are the cut points. The
/// unit distinguishes a single cut from a number.
fn bands(option: &str, unit: &str, cut: fn(&str) -> Result<u64, PolicyError>) -> Result<BandSpec, PolicyError> {
    let is_number = !option.is_empty() && option.bytes().all(|byte| byte.is_ascii_digit());
    match option.parse::<usize>() {
        Ok(bands) if (1..=BANDS_MAX).contains(&bands) => return Ok(BandSpec::learned(bands)),
        _ if is_number => {
            let right = format!("1 to {BANDS_MAX}, or one cut point with its unit, {option}{unit}");
            return Err(PolicyError::value("bands", option, right));
        }
        _ => {}
    }
    let cuts = option.split(',').map(cut).collect::<Result<Vec<u64>, PolicyError>>()?;
    if !cuts.is_sorted_by(|a, b| a < b) {
        return Err(PolicyError::value("cut points", option, "points that increase"));
    }
    if cuts.len() >= BANDS_MAX {
        let right = format!("{} at most, for {BANDS_MAX} bands", BANDS_MAX - 1);
        return Err(PolicyError::value("cut points", option, right));
    }
    Ok(BandSpec::at(cuts, option.to_string()))
}

fn size(text: &str) -> Result<u64, PolicyError> {
    match units::parse_size(text)? {
        0 => Err(PolicyError::value("cut point", text, "1 byte or more")),
        bytes => Ok(bytes),
    }
}

fn time(text: &str) -> Result<u64, PolicyError> {
    Ok(units::Nanos::from(units::parse_duration(text)?).0)
}

/// Parses a beta, returned in thousandths.
fn beta(text: &str) -> Result<u32, PolicyError> {
    let beta = text.parse::<f64>().ok().filter(|beta| (1.0..=1e6).contains(beta));
    let beta = beta.ok_or_else(|| PolicyError::value("beta", text, "a number from 1 to 1000000"))?;
    Ok((beta * 1000.0).round() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_spec_and_has_a_form() {
        let forms: Vec<&str> = FORMS.split(", ").map(|form| form.split('[').next().unwrap_or(form)).collect();
        let [names @ .., expression] = &forms[..] else { panic!("no forms") };
        assert_eq!((names, *expression), (NAMES, "rank:EXPRESSION"));
        for name in NAMES {
            let policy = parse(name).unwrap();
            assert!(policy.name().starts_with(name), "{} is not {name}", policy.name());
        }
    }

    /// The name of a policy is a spec that makes the same policy again.
    #[test]
    fn names_are_specs_with_everything_written_out() {
        for (spec, name) in [
            ("srpt-bands", "srpt-bands:5"),
            ("srpt-bands:1000,2KB,50000", "srpt-bands:1000,2KB,50000"),
            ("quick-fix", "quick-fix:1000"),
            ("fcf", "fcf:2"),
            ("fcf:1.5", "fcf:1.5"),
            ("srrt", "srrt"),
            ("srrt:5", "srrt:5"),
            ("srrt:50ms,1s", "srrt:50ms,1s"),
            ("rank: left / 2 ", "rank:left / 2"),
        ] {
            assert_eq!(parse(spec).unwrap().name(), name);
            assert_eq!(parse(name).unwrap().name(), name);
        }
    }

    /// Tests the last value that is accepted and the first that is not.
    #[test]
    fn bounds_are_where_the_errors_say() {
        let numbers = |count: u32| (1..=count).map(|number| number.to_string()).collect::<Vec<_>>().join(",");
        for (right, wrong, said) in [
            (
                format!("srpt-bands:{}", numbers(15)),
                format!("srpt-bands:{}", numbers(16)),
                "write 15 at most, for 16 bands",
            ),
            (
                "srpt-bands:1,2".to_string(),
                "srpt-bands:2,2".to_string(),
                "cut points `2,2`: write points that increase",
            ),
            ("fcf:1".to_string(), "fcf:0.9999".to_string(), "from 1 to 1000000"),
            ("fcf:1e6".to_string(), "fcf:1000001".to_string(), "from 1 to 1000000"),
        ] {
            assert!(parse(&right).is_ok(), "{right}");
            let error = parse(&wrong).map(|policy| policy.name().to_string()).unwrap_err().to_string();
            assert!(error.contains(said), "{wrong}: {error}");
        }
        // A bare number is the number of bands; a single cut has a unit.
        assert_eq!(["16", "17B"].map(|option| parse(&format!("srpt-bands:{option}")).unwrap().bands()), [16, 2]);
    }

    #[test]
    fn wrong_specs_say_what_is_right() {
        for (spec, said) in [
            ("sprt", "unknown policy `sprt`: choose one of fair, fcfs, srpt, psjf, las"),
            ("", "unknown policy ``"),
            ("srpt:5", "policy `srpt:5` has an option that it does not take: write srpt"),
            ("srpt-bands:1000,500", "cut points `1000,500`: write points that increase"),
            ("srpt-bands:1000,x", "`x` is not a size"),
            ("srpt-bands:", "`` is not a size"),
            ("srpt-bands:0", "bands `0`: write 1 to 16, or one cut point with its unit, 0B"),
            ("srpt-bands:17", "bands `17`: write 1 to 16, or one cut point with its unit, 17B"),
            ("srpt-bands:99999999999999999999", "bands `99999999999999999999`"),
            ("srrt:17", "bands `17`: write 1 to 16, or one cut point with its unit, 17ms"),
            ("quick-fix:0", "cut point `0`: write 1 byte or more"),
            ("srrt:50ms,10", "`10` is not a duration"),
            ("fcf:0.9", "beta `0.9`: write a number from 1 to 1000000"),
            ("fcf:NaN", "beta `NaN`"),
            (
                "strict/srpt",
                "policy `strict/srpt`: classes above a policy are gone: write [[class]] tables in weir.toml",
            ),
            ("weighted=3,1/srpt", "policy `weighted=3,1/srpt`: classes above a policy are gone"),
        ] {
            let error = parse(spec).map(|policy| policy.name().to_string()).unwrap_err().to_string();
            assert!(error.contains(said), "{spec}: {error}");
            assert!(!error.contains('\n') && !error.ends_with('.'), "{error}");
        }
    }
}
