use std::str::FromStr;

use super::Distribution;
use crate::surge::FileModel;
use crate::{REQUESTS_MAX, SIZE_BYTES_MAX, Sizes};

/// The reason why a text is not a distribution.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DistributionError {
    #[error("unknown distribution `{0}`: write one of {forms}", forms = Distribution::FORMS)]
    UnknownForm(String),
    /// A trace is a file, which the caller must read.
    #[error("a trace cannot be read here; write one of {}", Distribution::FORMS)]
    TraceIsAFile,
    #[error("{form} needs the field `{field}`: write {}", Distribution::FORMS)]
    MissingField { form: &'static str, field: &'static str },
    #[error("{form} has no field `{field}`: write {}", Distribution::FORMS)]
    UnknownField { form: &'static str, field: String },
    #[error("{form} has the field `{field}` twice: write it once")]
    FieldTwice { form: &'static str, field: &'static str },
    #[error("{field} is `{given}`, which is not a number")]
    NotANumber { field: &'static str, given: String },
    #[error("{field} is {given}: it must be {right}")]
    OutOfRange { field: &'static str, given: f64, right: &'static str },
    #[error("max is missing and alpha is {alpha}, so the mean size is infinite: give a max")]
    InfiniteMean { alpha: f64 },
    #[error("max is missing or infinite: a Pareto tail needs a bound, give a max")]
    NoMax,
    #[error("the trace has no sizes: a distribution needs at least one")]
    NoSizes,
    #[error("the trace has {0} sizes, more than {REQUESTS_MAX}: cut it")]
    TooManySizes(usize),
    #[error("the trace has a size of {0} bytes: sizes must be 1 to {SIZE_BYTES_MAX}")]
    SizeOutOfRange(u64),
}

impl DistributionError {
    /// Returns the error for a Pareto distribution without a bound.
    fn no_max(alpha: f64) -> DistributionError {
        if alpha <= 1.0 { DistributionError::InfiniteMean { alpha } } else { DistributionError::NoMax }
    }
}

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
        return Err(DistributionError::no_max(alpha));
    }
    let [alpha, min, max] = fields("bounded-pareto", ["alpha", "min", "max"], rest)?;
    let alpha = in_range("alpha", alpha, |alpha| alpha > 0.0 && alpha <= 100.0, "above 0 and at most 100")?;
    if max == f64::INFINITY {
        return Err(DistributionError::no_max(alpha));
    }
    let (min, max) = (size_field("min", min)?, size_field("max", max)?);
    in_range("max", max, |max| max > min, "above min")?;
    Ok(Distribution::BoundedPareto { alpha, min, max })
}

fn lognormal(rest: &str) -> Result<Distribution, DistributionError> {
    let [mu, sigma] = fields("lognormal", ["mu", "sigma"], rest)?;
    // Beyond these values the mean exceeds every possible size.
    let mu = in_range("mu", mu, |mu| (0.0..=34.0).contains(&mu), "0 to 34 (the natural logarithm of bytes)")?;
    let sigma = in_range("sigma", sigma, |sigma| sigma > 0.0 && sigma <= 6.0, "above 0 and at most 6")?;
    Ok(Distribution::Lognormal { mu, sigma })
}

/// Parses the values of `a=1,b=2` in the order of `names`; each name must occur exactly once, and no others.
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
