//! Objectives for response times: `p99 of responses <= 64KiB under 200ms`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use units::Nanos;

use crate::keys::Form;
use crate::value_forms::{FromText, Wrong};

/// A percentile of the response times and its limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Objective {
    /// The percentile, in tenths of a percent.
    pub permille: u32,
    /// The maximum size of a response that counts.
    pub size_bytes_max: Option<u64>,
    pub under: Duration,
}

impl FromText for Objective {
    const FORM: Form = Form::Objective;

    fn from_text(text: &str) -> Result<Objective, Wrong> {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let (percentile, size, under) = match words[..] {
            [percentile, "of", "responses", "under", time] => (percentile, None, time),
            [percentile, "of", "responses", "<=", size, "under", time] => (percentile, Some(size), time),
            _ => return Err(Wrong::Form),
        };
        let permille = percentile.strip_prefix('p').and_then(permille);
        let permille = permille.ok_or_else(|| Wrong::Expected("a percentile from p1 to p99.9".into()))?;
        let under = units::parse_duration(under).map_err(|error| Wrong::Said(error.to_string()))?;
        if under.is_zero() {
            return Err(Wrong::Expected("a time above zero".into()));
        }
        let size = size.map(units::parse_size).transpose().map_err(|error| Wrong::Said(error.to_string()))?;
        if size == Some(0) {
            return Err(Wrong::Expected("a size above zero".into()));
        }
        Ok(Objective { permille, size_bytes_max: size, under })
    }
}

/// Reads `99.9` as 999: from 1 to 99.9, with at most one decimal.
fn permille(text: &str) -> Option<u32> {
    let (whole, tenth) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str, length: usize| {
        (1..=length).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    let right = digits(whole, 2) && digits(tenth, 1);
    let permille = right.then(|| Some(whole.parse::<u32>().ok()? * 10 + tenth.parse::<u32>().ok()?))??;
    (10..=999).contains(&permille).then_some(permille)
}

impl Objective {
    /// The maximum size of a response that counts, as text.
    pub fn size(&self) -> Option<String> {
        self.size_bytes_max.map(|bytes| whole(bytes, &[(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")], "B"))
    }

    /// The time, as text.
    pub fn time(&self) -> String {
        whole(Nanos::from(self.under).0, &[(1_000_000_000, "s"), (1_000_000, "ms"), (1000, "us")], "ns")
    }
}

impl FromStr for Objective {
    type Err = String;

    fn from_str(text: &str) -> Result<Objective, String> {
        Objective::from_text(text).map_err(|wrong| {
            let expected = match wrong {
                Wrong::Said(said) => return said,
                Wrong::Expected(expected) => expected,
                Wrong::Form => Form::Objective.expected(),
            };
            format!("`{text}`: expected {expected}")
        })
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.size().map_or(String::new(), |size| format!(" <= {size}"));
        let percent = f64::from(self.permille) / 10.0;
        write!(f, "p{percent} of responses{size} under {}", self.time())
    }
}

/// Formats a number in the largest unit that divides it.
fn whole(number: u64, units: &[(u64, &str)], least: &str) -> String {
    let found = units.iter().find(|(unit, _)| number.is_multiple_of(*unit));
    found.map_or_else(|| format!("{number}{least}"), |(unit, name)| format!("{}{name}", number / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        for (text, written) in [
            ("p99 of responses <= 65536 under 0.2s", "p99 of responses <= 64KiB under 200ms"),
            ("p99.9 of  responses under 1s", "p99.9 of responses under 1s"),
            ("p50 of responses <= 1000B under 1500ns", "p50 of responses <= 1000B under 1500ns"),
        ] {
            let objective = Objective::from_text(text).unwrap();
            assert_eq!(objective.to_string(), written);
            assert_eq!(Objective::from_text(written), Ok(objective));
        }
    }

    #[test]
    fn wrong_aims_say_what_is_right() {
        for (text, said) in [
            ("p100 of responses under 1s", "a percentile from p1 to p99.9"),
            ("p0.9 of responses under 1s", "a percentile"),
            ("99 of responses under 1s", "a percentile"),
            ("p99 of responses under 1", "`1` is not a duration"),
            ("p99 of responses under 0s", "a time above zero"),
            ("p99 of responses <= 64kib under 1s", "`64kib` is not a size"),
            ("p99 of responses <= 0 under 1s", "a size above zero"),
        ] {
            let Err(Wrong::Expected(error) | Wrong::Said(error)) = Objective::from_text(text) else { panic!("{text}") };
            assert!(error.contains(said), "{text}: {error}");
        }
        assert_eq!(Objective::from_text("p99 under 1s"), Err(Wrong::Form));
        let said = "p99 under 1s".parse::<Objective>().unwrap_err();
        assert!(said.starts_with("`p99 under 1s`: expected `pN of responses under TIME`"), "{said}");
    }
}
