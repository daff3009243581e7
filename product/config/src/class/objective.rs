//! Aims for response times: `p99 of responses <= 64KiB under 200ms`.

use std::fmt;
use std::time::Duration;

use units::Nanos;

use crate::form::{FromText, Wrong};
use crate::keys::Form;

/// So many of the responses take less than a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Objective {
    /// In tenths of a percent.
    pub permille: u32,
    /// The largest response that counts.
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

/// `99.9` as 999: with one decimal at most, between the first and the last.
fn permille(text: &str) -> Option<u32> {
    let (whole, tenth) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str, length: usize| {
        (1..=length).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    let right = digits(whole, 2) && digits(tenth, 1);
    let permille = right.then(|| Some(whole.parse::<u32>().ok()? * 10 + tenth.parse::<u32>().ok()?))??;
    (10..=999).contains(&permille).then_some(permille)
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.size_bytes_max.map_or(String::new(), |size| format!(" <= {size}B"));
        let percent = f64::from(self.permille) / 10.0;
        write!(f, "p{percent} of responses{size} under {}ns", Nanos::from(self.under).0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        for (text, written) in [
            ("p99 of responses <= 64KiB under 200ms", "p99 of responses <= 65536B under 200000000ns"),
            ("p99.9 of  responses under 1s", "p99.9 of responses under 1000000000ns"),
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
    }
}
