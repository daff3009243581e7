//! From what an operator writes to a policy.

use std::fmt;
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
            return Err(PolicyError(format!("policy `{spec}`: classes cannot stand above classes")));
        }
        Ok(PolicySpec::new(classes_above(spec, classes, inner)?, order(inner)?))
    }
}

/// The classes of this spec, above the order `inner`.
fn classes_above(spec: &str, classes: &str, inner: &str) -> Result<Classes, PolicyError> {
    let (name, option) = classes.split_once('=').map_or((classes, None), |(name, option)| (name, Some(option)));
    let wrong = match (name, option) {
        ("strict", None) => return Ok(Classes::Strict),
        ("weighted", Some(option)) => return Ok(Classes::Weighted(list(name, option, weight)?)),
        ("minimum", Some(option)) => {
            let shares = list(name, option, share)?;
            if shares.iter().sum::<u32>() <= WHOLE {
                return Ok(Classes::Minimum(shares));
            }
            format!("the shares `{option}` of policy `minimum` are more than 1 together")
        }
        ("strict", Some(_)) => format!("policy `{spec}`: strict takes no option; write strict/{inner}"),
        ("weighted", None) => format!("policy `{spec}` needs weights: write weighted=3,1/{inner}"),
        ("minimum", None) => format!("policy `{spec}` needs shares: write minimum=0.2,0/{inner}"),
        _ => format!("unknown classes `{classes}` in policy `{spec}`: choose one of {}", CLASS_NAMES.join(", ")),
    };
    Err(PolicyError(wrong))
}

/// A policy without classes.
fn order(spec: &str) -> Result<Order, PolicyError> {
    let (name, option) = spec.split_once(':').map_or((spec, None), |(name, option)| (name, Some(option)));
    let plain = |order: Order| match option {
        None => Ok(order),
        Some(option) => Err(PolicyError(format!("policy `{name}` takes no option, and `{option}` was given"))),
    };
    match name {
        "fair" => plain(Order::Fair),
        "fcfs" => plain(Order::Fcfs),
        "srpt" => plain(Order::Srpt),
        "psjf" => plain(Order::Psjf),
        "las" => plain(Order::Las),
        "srpt-bands" => Ok(Order::SrptBands(
            option.map_or(Ok(BandSpec::learned(BANDS_USUAL)), |option| bands(name, option, "B", size))?,
        )),
        "quick-fix" => Ok(Order::QuickFix { cut_bytes: option.map_or(Ok(QuickFix::CUT_BYTES), size)? }),
        "fcf" => Ok(Order::Fcf { beta_permille: option.map_or(Ok(Fcf::BETA_PERMILLE), beta)? }),
        "srrt" => match option {
            None => Ok(Order::Srrt),
            Some(option) => Ok(Order::SrrtBands(bands(name, option, "ms", time)?)),
        },
        "fsp" => plain(Order::Fsp),
        _ => {
            let (known, above) = (NAMES.join(", "), CLASS_NAMES.join(", "));
            Err(PolicyError(format!(
                "unknown policy `{spec}`: choose one of {known}, or {above} and a slash before one"
            )))
        }
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

/// As many as Harchol-Balter et al. used (2000, section 3.3).
const BANDS_USUAL: usize = 5;

/// A number alone is how many bands; sizes or times are the cut points. A single cut is told from a number by its unit.
fn bands(
    name: &str,
    option: &str,
    unit: &str,
    cut: fn(&str) -> Result<u64, PolicyError>,
) -> Result<BandSpec, PolicyError> {
    let is_number = !option.is_empty() && option.bytes().all(|byte| byte.is_ascii_digit());
    match option.parse::<usize>() {
        Ok(bands) if (1..=BANDS_MAX).contains(&bands) => return Ok(BandSpec::learned(bands)),
        _ if is_number => {
            return Err(PolicyError(format!(
                "policy `{name}` of {option} bands: write 1 to {BANDS_MAX}, or for a single cut its unit too, {name}:{option}{unit}"
            )));
        }
        _ => {}
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
    Ok(BandSpec::at(cuts, option.to_string()))
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

/// In thousandths.
fn beta(text: &str) -> Result<u32, PolicyError> {
    let beta = text.parse::<f64>().ok().filter(|beta| (1.0..=1e6).contains(beta));
    let beta =
        beta.ok_or_else(|| PolicyError(format!("the beta `{text}` of policy `fcf` is not a number from 1 up")))?;
    Ok((beta * 1000.0).round() as u32)
}

/// One number per class.
fn list(name: &str, option: &str, read: fn(&str) -> Result<u32, PolicyError>) -> Result<Vec<u32>, PolicyError> {
    let numbers = option.split(',').map(read).collect::<Result<Vec<u32>, PolicyError>>()?;
    if (2..=CLASSES_MAX).contains(&numbers.len()) {
        return Ok(numbers);
    }
    Err(PolicyError(format!("policy `{name}` has 2 to {CLASSES_MAX} classes, and {} were given", numbers.len())))
}

fn weight(text: &str) -> Result<u32, PolicyError> {
    let weight = text.parse::<u32>().ok().filter(|weight| (1..=1000).contains(weight));
    weight.ok_or_else(|| PolicyError(format!("the weight `{text}` is not a whole number from 1 to 1000")))
}

/// In millionths.
fn share(text: &str) -> Result<u32, PolicyError> {
    let share = text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
    let share = share.ok_or_else(|| PolicyError(format!("the share `{text}` is not a number from 0 to 1")))?;
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
                "at most 16 bands, so 15 cut",
            ),
            ("srpt-bands:1,2".to_string(), "srpt-bands:2,2".to_string(), "have to increase"),
            (format!("weighted={}/las", ones(16)), format!("weighted={}/las", ones(17)), "has 2 to 16 classes, and 17"),
            ("weighted=1000,1/las".to_string(), "weighted=1001,1/las".to_string(), "from 1 to 1000"),
            ("minimum=0.7,0.3/las".to_string(), "minimum=0.7,0.300001/las".to_string(), "more than 1 together"),
            ("minimum=1,0/las".to_string(), "minimum=1.1,0/las".to_string(), "from 0 to 1"),
            ("fcf:1".to_string(), "fcf:0.9999".to_string(), "from 1 up"),
            ("fcf:1e6".to_string(), "fcf:1000001".to_string(), "from 1 up"),
        ] {
            assert!(parse(&right).is_ok(), "{right}");
            let error = parse(&wrong).map(|policy| policy.name().to_string()).unwrap_err().to_string();
            assert!(error.contains(said), "{wrong}: {error}");
        }
        // A number is how many bands, a cut alone has a unit.
        assert_eq!(["16", "17B"].map(|option| parse(&format!("srpt-bands:{option}")).unwrap().bands()), [16, 2]);
        assert_eq!(PolicyError("why".to_string()).to_string(), "why");
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
            ("srpt-bands:0", "policy `srpt-bands` of 0 bands: write 1 to 16, or for a single cut"),
            (
                "srpt-bands:17",
                "policy `srpt-bands` of 17 bands: write 1 to 16, or for a single cut its unit too, srpt-bands:17B",
            ),
            ("srpt-bands:99999999999999999999", "of 99999999999999999999 bands"),
            ("srrt:17", "policy `srrt` of 17 bands: write 1 to 16, or for a single cut its unit too, srrt:17ms"),
            ("quick-fix:0", "a cut point of 0 bytes"),
            ("srrt:50ms,10", "`10` is not a duration"),
            ("fcf:0.9", "the beta `0.9` of policy `fcf` is not a number from 1 up"),
            ("fcf:NaN", "the beta `NaN`"),
            ("strict/", "unknown policy ``"),
            ("strict/nothing", "unknown policy `nothing`"),
            ("strict=2/srpt", "strict takes no option"),
            ("strict/strict/srpt", "classes cannot stand above classes"),
            ("lax/srpt", "unknown classes `lax` in policy `lax/srpt`: choose one of strict, weighted, minimum"),
            ("weighted/srpt", "needs weights: write weighted=3,1/srpt"),
            ("weighted=3/srpt", "policy `weighted` has 2 to 16 classes, and 1 were given"),
            ("weighted=3,0/srpt", "the weight `0` is not a whole number from 1 to 1000"),
            ("minimum/srpt", "needs shares: write minimum=0.2,0/srpt"),
            ("minimum=0.6,0.6/srpt", "are more than 1 together"),
            ("minimum=NaN,0/srpt", "the share `NaN` is not a number from 0 to 1"),
            ("minimum=-1,0/srpt", "the share `-1`"),
        ] {
            let error = parse(spec).map(|policy| policy.name().to_string()).unwrap_err().to_string();
            assert!(error.contains(said), "{spec}: {error}");
            assert!(!error.contains('\n') && !error.ends_with('.'), "{error}");
        }
    }
}
