use std::fmt;
use std::str::FromStr;

use super::Distribution;
use crate::surge::FileModel;
use crate::{SIZE_BYTES_MAX, Sizes};

/// Why there is no such distribution.
#[derive(Debug, Clone, PartialEq)]
pub enum DistributionError {
    UnknownForm(String),
    /// A trace is a file, which the caller reads.
    TraceIsAFile,
    MissingField {
        form: &'static str,
        field: &'static str,
    },
    UnknownField {
        form: &'static str,
        field: String,
    },
    FieldTwice {
        form: &'static str,
        field: &'static str,
    },
    NotANumber {
        field: &'static str,
        given: String,
    },
    OutOfRange {
        field: &'static str,
        given: f64,
        right: &'static str,
    },
    InfiniteMean {
        alpha: f64,
    },
    NoSizes,
    TooManySizes(usize),
    SizeOutOfRange(u64),
}

impl fmt::Display for DistributionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use DistributionError::*;
        match self {
            UnknownForm(given) => write!(f, "unknown distribution `{given}`: write one of {}", Distribution::FORMS),
            TraceIsAFile => write!(f, "a trace cannot be read here; write one of {}", Distribution::FORMS),
            MissingField { form, field } => {
                write!(f, "{form} needs the field `{field}`: write {}", Distribution::FORMS)
            }
            UnknownField { form, field } => write!(f, "{form} has no field `{field}`: write {}", Distribution::FORMS),
            FieldTwice { form, field } => write!(f, "{form} has the field `{field}` twice: write it once"),
            NotANumber { field, given } => write!(f, "{field} is `{given}`, which is not a number"),
            OutOfRange { field, given, right } => write!(f, "{field} is {given}: it must be {right}"),
            InfiniteMean { alpha } if *alpha <= 1.0 => {
                write!(f, "max is missing and alpha is {alpha}, so the mean size is infinite: give a max")
            }
            InfiniteMean { .. } => write!(f, "max is missing or infinite: a Pareto tail needs a bound, give a max"),
            NoSizes => write!(f, "the trace has no sizes: a distribution needs at least one"),
            TooManySizes(sizes) => write!(f, "the trace has {sizes} sizes, more than {}: cut it", crate::REQUESTS_MAX),
            SizeOutOfRange(size) => {
                write!(f, "the trace has a size of {size} bytes: sizes must be 1 to {SIZE_BYTES_MAX}")
            }
        }
    }
}

impl std::error::Error for DistributionError {}

impl FromStr for Distribution {
    type Err = DistributionError;

    fn from_str(text: &str) -> Result<Distribution, DistributionError> {
        let (form, rest) = text.split_once(':').unwrap_or((text, ""));
        match form {
            "deterministic" => {
                let [size] = fields("deterministic", ["size"], rest)?;
                Ok(Distribution::Deterministic { size: size_field("size", size)? })
            }
            "exponential" => {
                let [mean] = fields("exponential", ["mean"], rest)?;
                Ok(Distribution::Exponential { mean: size_field("mean", mean)? })
            }
            "bounded-pareto" | "pareto" => bounded_pareto(rest),
            "lognormal" => lognormal(rest),
            "hyperexponential" => {
                let [p, mean1, mean2] = fields("hyperexponential", ["p", "mean1", "mean2"], rest)?;
                let p = in_range("p", p, |p| p > 0.0 && p < 1.0, "between 0 and 1")?;
                let (mean1, mean2) = (size_field("mean1", mean1)?, size_field("mean2", mean2)?);
                Ok(Distribution::Hyperexponential { p, mean1, mean2 })
            }
            "surge" if rest.is_empty() => Ok(Distribution::Surge(Sizes::SHIPPED)),
            "surge" if rest == "murta-2002" => Ok(Distribution::Surge(FileModel::MURTA_2002.sizes)),
            "surge" => Err(DistributionError::UnknownField { form: "surge", field: rest.into() }),
            "trace" => Err(DistributionError::TraceIsAFile),
            _ => Err(DistributionError::UnknownForm(form.into())),
        }
    }
}

fn bounded_pareto(rest: &str) -> Result<Distribution, DistributionError> {
    if !rest.split(',').any(|pair| pair.trim_start().starts_with("max=")) {
        let [alpha, _] = fields("bounded-pareto", ["alpha", "min"], rest)?;
        return Err(DistributionError::InfiniteMean { alpha });
    }
    let [alpha, min, max] = fields("bounded-pareto", ["alpha", "min", "max"], rest)?;
    let alpha = in_range("alpha", alpha, |alpha| alpha > 0.0 && alpha <= 100.0, "above 0 and at most 100")?;
    if max == f64::INFINITY {
        return Err(DistributionError::InfiniteMean { alpha });
    }
    let (min, max) = (size_field("min", min)?, size_field("max", max)?);
    in_range("max", max, |max| max > min, "above min")?;
    Ok(Distribution::BoundedPareto { alpha, min, max })
}

fn lognormal(rest: &str) -> Result<Distribution, DistributionError> {
    let [mu, sigma] = fields("lognormal", ["mu", "sigma"], rest)?;
    // Beyond these the mean exceeds any size there is.
    let mu = in_range("mu", mu, |mu| (0.0..=34.0).contains(&mu), "0 to 34 (the natural logarithm of bytes)")?;
    let sigma = in_range("sigma", sigma, |sigma| sigma > 0.0 && sigma <= 6.0, "above 0 and at most 6")?;
    Ok(Distribution::Lognormal { mu, sigma })
}

/// The values of `a=1,b=2`, in the order of `names`; each exactly once, and no others.
fn fields<const N: usize>(
    form: &'static str,
    names: [&'static str; N],
    text: &str,
) -> Result<[f64; N], DistributionError> {
    let mut found = [None; N];
    for pair in text.split(',').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let unknown = || DistributionError::UnknownField { form, field: name.trim().into() };
        let at = names.iter().position(|known| *known == name.trim()).ok_or_else(unknown)?;
        let number: f64 = value
            .trim()
            .parse()
            .ok()
            .filter(|number: &f64| !number.is_nan())
            .ok_or_else(|| DistributionError::NotANumber { field: names[at], given: value.trim().into() })?;
        if found[at].replace(number).is_some() {
            return Err(DistributionError::FieldTwice { form, field: names[at] });
        }
    }
    let mut values = [0.0; N];
    for (at, value) in found.into_iter().enumerate() {
        values[at] = value.ok_or(DistributionError::MissingField { form, field: names[at] })?;
    }
    Ok(values)
}

fn size_field(field: &'static str, given: f64) -> Result<f64, DistributionError> {
    in_range(field, given, |size| (1.0..=SIZE_BYTES_MAX as f64).contains(&size), "1 byte to 1 PiB")
}

fn in_range(
    field: &'static str,
    given: f64,
    is_right: impl Fn(f64) -> bool,
    right: &'static str,
) -> Result<f64, DistributionError> {
    if is_right(given) { Ok(given) } else { Err(DistributionError::OutOfRange { field, given, right }) }
}
