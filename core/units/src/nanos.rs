use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

use crate::{ParseError, split_quantity};

/// A span of time in nanoseconds, or an instant as nanoseconds since an epoch the caller chose.
///
/// Both operations saturate. Callers treat an instant in the past as "now", so a difference is at least zero. A sum
/// ends at [`Nanos::MAX`], 584 years on, which means "never". Sizes that peers send are divided by rates and added to
/// the clock; saturation keeps them from overflowing and ending the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Nanos(pub u64);

impl Nanos {
    pub const ZERO: Nanos = Nanos(0);
    pub const MAX: Nanos = Nanos(u64::MAX);

    pub const fn from_micros(micros: u64) -> Nanos {
        Nanos(micros.saturating_mul(1_000))
    }
    pub const fn from_millis(millis: u64) -> Nanos {
        Nanos(millis.saturating_mul(1_000_000))
    }
    pub const fn from_secs(secs: u64) -> Nanos {
        Nanos(secs.saturating_mul(1_000_000_000))
    }
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Nanos) {
        *self = *self + other;
    }
}

impl Sub for Nanos {
    type Output = Nanos;
    fn sub(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(other.0))
    }
}

impl From<Duration> for Nanos {
    fn from(duration: Duration) -> Nanos {
        Nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for Duration {
    fn from(nanos: Nanos) -> Duration {
        Duration::from_nanos(nanos.0)
    }
}

/// Parses a duration such as `10s`, `250ms`, `1.5s`, `2m`, `40us`.
pub fn parse_duration(text: &str) -> Result<Duration, ParseError> {
    let error = || ParseError {
        what: "duration",
        given: text.into(),
        right: "write a number and a unit of ns, us, ms, s, m or h, for example 250ms or 10s",
    };
    let (millionths, unit) = split_quantity(text).ok_or_else(error)?;
    let unit_ns: u128 = match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return Err(error()),
    };
    let ns = millionths.checked_mul(unit_ns).ok_or_else(error)? / 1_000_000;
    u64::try_from(ns).map(Duration::from_nanos).map_err(|_| error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_end_at_never() {
        assert_eq!(Nanos(1) + Nanos::MAX, Nanos::MAX);
        assert_eq!(Nanos::MAX - Nanos(1) + Nanos(1), Nanos::MAX);
        assert_eq!(Nanos(1) - Nanos(2), Nanos::ZERO);
        assert_eq!([Nanos::from_micros, Nanos::from_millis, Nanos::from_secs].map(|of| of(u64::MAX)), [Nanos::MAX; 3]);
    }

    #[test]
    fn durations_as_written() {
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("0s"), Ok(Duration::ZERO));
    }

    #[test]
    fn wrong_durations_say_what_is_right() {
        for wrong in ["", "10", "s", "-1s", "1e3s", "1.s", ".5s", "1.2.3s", "10 s", "99999999999999999h"] {
            let said = parse_duration(wrong).unwrap_err().to_string();
            assert!(said.contains(&format!("`{wrong}`")) && said.contains("250ms"), "{said}");
        }
    }

    #[test]
    fn subtraction_saturates() {
        assert_eq!(Nanos(3) - Nanos(5), Nanos::ZERO);
    }
}
