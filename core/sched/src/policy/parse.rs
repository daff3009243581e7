//! From what an operator writes to a policy.

use std::str::FromStr;

use super::minimum::WHOLE;
use super::spec::Classes;
use super::{BANDS_MAX, BandSpec, CLASSES_MAX, Fcf, Order, Policy, PolicySpec, QuickFix};

/// All policies by name, in the order help texts list them. Each is a spec; [`FORMS`] says what may follow it.
pub const NAMES: &[&str] = &["fair", "fcfs", "srpt", "psjf", "las", "srpt-bands", "quick-fix", "fcf", "srrt", "fsp"];

/// What may stand above any of them, with a slash between.
pub const CLASS_NAMES: &[&str] = &["strict", "weighted", "minimum"];

/// What may be written, for help texts.
pub const FORMS: &str = "fair, fcfs, srpt, psjf, las, srpt-bands[:BANDS|:SIZE,...], quick-fix[:SIZE], fcf[:BETA], \
    srrt[:BANDS|:TIME,...], fsp; with classes strict/P, weighted=WEIGHT,.../P, minimum=SHARE,.../P";

/// The policy of this spec. The error says what is wrong with it and what would be right.
pub fn parse(spec: &str) -> Result<Box<dyn Policy>, PolicyError> {
    Ok(spec.parse::<PolicySpec>()?.build())
}

impl FromStr for PolicySpec {
    type Err = PolicyError;

    fn from_str(spec: &str) -> Result<PolicySpec, PolicyError> {
        let Some((classes, inner)) = spec.split_once('/') else {
            return Ok(PolicySpec::new(Classes::None, order(spec)?));
        };
        if inner.contains('/') {
            return Err(PolicyError::ClassesTwice(spec.into()));
        }
        Ok(PolicySpec::new(classes_above(spec, classes, inner)?, order(inner)?))
    }
}

/// The classes of this spec, above the order `inner`.
fn classes_above(spec: &str, classes: &str, inner: &str) -> Result<Classes, PolicyError> {
    let (name, option) = classes.split_once('=').map_or((classes, None), |(name, option)| (name, Some(option)));
    let missing = |noun, right| PolicyError::Missing { spec: spec.into(), noun, right: format!("{right}/{inner}") };
    match (name, option) {
        ("strict", None) => Ok(Classes::Strict),
        ("weighted", Some(option)) => Ok(Classes::Weighted(list("weights", option, weight)?)),
        ("minimum", Some(option)) => {
            let shares = list("shares", option, share)?;
            if shares.iter().sum::<u32>() > WHOLE {
                return Err(PolicyError::value("shares", option, "shares that add up to 1 at most"));
            }
            Ok(Classes::Minimum(shares))
        }
        ("strict", Some(_)) => Err(PolicyError::NoOption { spec: spec.into(), right: format!("strict/{inner}") }),
        ("weighted", None) => Err(missing("weights", "weighted=3,1")),
        ("minimum", None) => Err(missing("shares", "minimum=0.2,0")),
        _ => Err(PolicyError::UnknownClasses { classes: classes.into(), spec: spec.into() }),
    }
}

/// A policy without classes.
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

/// What is wrong with a spec.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    #[error(
        "unknown policy `{0}`: choose one of {names}, or {classes} and a slash before one",
        names = NAMES.join(", "),
        classes = CLASS_NAMES.join(", ")
    )]
    Unknown(String),
    #[error("unknown classes `{classes}` in policy `{spec}`: choose one of {}", CLASS_NAMES.join(", "))]
    UnknownClasses { classes: String, spec: String },
    #[error("policy `{0}` has classes twice: write one slash")]
    ClassesTwice(String),
    #[error("policy `{spec}` has an option that it does not take: write {right}")]
    NoOption { spec: String, right: String },
    #[error("policy `{spec}` has no {noun}: write {right}")]
    Missing { spec: String, noun: &'static str, right: String },
    /// A part of a spec.
    #[error("{noun} `{given}`: write {right}")]
    Value { noun: &'static str, given: String, right: String },
    #[error(transparent)]
    Quantity(#[from] units::ParseError),
}

impl PolicyError {
    fn value(noun: &'static str, given: &str, right: impl Into<String>) -> PolicyError {
        PolicyError::Value { noun, given: given.into(), right: right.into() }
    }
}

/// As many as Harchol-Balter et al. used (2000, section 3.3).
const BANDS_USUAL: usize = 5;

/// A number alone is how many bands; sizes or times are the cut points. A single cut is told from a number by its unit.
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

/// In thousandths.
fn beta(text: &str) -> Result<u32, PolicyError> {
    let beta = text.parse::<f64>().ok().filter(|beta| (1.0..=1e6).contains(beta));
    let beta = beta.ok_or_else(|| PolicyError::value("beta", text, "a number from 1 to 1000000"))?;
    Ok((beta * 1000.0).round() as u32)
}

/// One number per class.
fn list(noun: &'static str, option: &str, read: fn(&str) -> Result<u32, PolicyError>) -> Result<Vec<u32>, PolicyError> {
    let numbers = option.split(',').map(read).collect::<Result<Vec<u32>, PolicyError>>()?;
    if (2..=CLASSES_MAX).contains(&numbers.len()) {
        return Ok(numbers);
    }
    Err(PolicyError::value(noun, option, format!("one for each class, 2 to {CLASSES_MAX}")))
}

fn weight(text: &str) -> Result<u32, PolicyError> {
    let weight = text.parse::<u32>().ok().filter(|weight| (1..=1000).contains(weight));
    weight.ok_or_else(|| PolicyError::value("weight", text, "a whole number from 1 to 1000"))
}

/// In millionths.
fn share(text: &str) -> Result<u32, PolicyError> {
    let share = text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
    let share = share.ok_or_else(|| PolicyError::value("share", text, "a number from 0 to 1"))?;
    Ok((share * f64::from(WHOLE)).round() as u32)
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

    /// What a policy calls itself makes the same policy again.
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
            ("strict/srpt-bands", "strict/srpt-bands:5"),
            ("weighted=3,1/fcf", "weighted=3,1/fcf:2"),
            ("minimum=0.20,0/srpt", "minimum=0.2,0/srpt"),
        ] {
            assert_eq!(parse(spec).unwrap().name(), name);
            assert_eq!(parse(name).unwrap().name(), name);
        }
    }

    /// The last that is accepted and the first that is not.
    #[test]
    fn bounds_are_where_the_errors_say() {
        let numbers = |count: u32| (1..=count).map(|number| number.to_string()).collect::<Vec<_>>().join(",");
        let ones = |count: usize| vec!["1"; count].join(",");
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
            (
                format!("weighted={}/las", ones(16)),
                format!("weighted={}/las", ones(17)),
                "write one for each class, 2 to 16",
            ),
            ("weighted=1000,1/las".to_string(), "weighted=1001,1/las".to_string(), "from 1 to 1000"),
            ("minimum=0.7,0.3/las".to_string(), "minimum=0.7,0.300001/las".to_string(), "add up to 1 at most"),
            ("minimum=1,0/las".to_string(), "minimum=1.1,0/las".to_string(), "from 0 to 1"),
            ("fcf:1".to_string(), "fcf:0.9999".to_string(), "from 1 to 1000000"),
            ("fcf:1e6".to_string(), "fcf:1000001".to_string(), "from 1 to 1000000"),
        ] {
            assert!(parse(&right).is_ok(), "{right}");
            let error = parse(&wrong).map(|policy| policy.name().to_string()).unwrap_err().to_string();
            assert!(error.contains(said), "{wrong}: {error}");
        }
        // A number is how many bands, a cut alone has a unit.
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
            ("strict/", "unknown policy ``"),
            ("strict/nothing", "unknown policy `nothing`"),
            ("strict=2/srpt", "policy `strict=2/srpt` has an option that it does not take: write strict/srpt"),
            ("strict/strict/srpt", "policy `strict/strict/srpt` has classes twice"),
            ("lax/srpt", "unknown classes `lax` in policy `lax/srpt`: choose one of strict, weighted, minimum"),
            ("weighted/srpt", "policy `weighted/srpt` has no weights: write weighted=3,1/srpt"),
            ("weighted=3/srpt", "weights `3`: write one for each class, 2 to 16"),
            ("weighted=3,0/srpt", "weight `0`: write a whole number from 1 to 1000"),
            ("minimum/srpt", "policy `minimum/srpt` has no shares: write minimum=0.2,0/srpt"),
            ("minimum=0.6,0.6/srpt", "shares `0.6,0.6`: write shares that add up to 1 at most"),
            ("minimum=NaN,0/srpt", "share `NaN`: write a number from 0 to 1"),
            ("minimum=-1,0/srpt", "share `-1`"),
        ] {
            let error = parse(spec).map(|policy| policy.name().to_string()).unwrap_err().to_string();
            assert!(error.contains(said), "{spec}: {error}");
            assert!(!error.contains('\n') && !error.ends_with('.'), "{error}");
        }
    }
}
