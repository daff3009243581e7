//! The uplink's rate as an operator writes it: the values of `--uplink`, of `[uplink] rate`, and of `told` in an
//! experiment.

use std::fmt;
use std::str::FromStr;

use units::Rate;

use crate::line::{Bounds, BoundsError, FLOOR};

/// A value of the uplink's rate: `auto`, `off`, `10mbit` or `2mbit..20mbit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UplinkRate {
    /// The rate is searched, without bounds.
    #[default]
    Auto,
    /// Responses are not ordered.
    Off,
    /// The rate is searched; this rate is the first guess and the maximum.
    Told(Rate),
    /// The rate is searched between these two, starting from the first, which is the lower one.
    Between(Rate, Rate),
}

impl UplinkRate {
    /// Returns the maximum that the line carries, if stated.
    pub fn most(self) -> Option<Rate> {
        match self {
            UplinkRate::Auto | UplinkRate::Off => None,
            UplinkRate::Told(rate) | UplinkRate::Between(_, rate) => Some(rate),
        }
    }

    /// Returns the bounds between which the rate is searched.
    pub fn bounds(self) -> Bounds {
        match self {
            UplinkRate::Auto | UplinkRate::Off => Bounds::default(),
            UplinkRate::Told(rate) => Bounds::told(rate),
            UplinkRate::Between(least, most) => Bounds { least: Some(least), first: Some(most), most: Some(most) },
        }
    }
}

impl FromStr for UplinkRate {
    type Err = BoundsError;

    fn from_str(text: &str) -> Result<UplinkRate, BoundsError> {
        let rate = |part: &str| match part.parse::<Rate>() {
            Ok(rate) if rate.bits_per_s() < FLOOR => Err(BoundsError::Slow(text.into())),
            Ok(rate) => Ok(rate),
            Err(error) => Err(BoundsError::Rate(text.into(), error)),
        };
        match (text, text.split_once("..")) {
            ("auto", _) => Ok(UplinkRate::Auto),
            ("off", _) => Ok(UplinkRate::Off),
            (_, None) => rate(text).map(UplinkRate::Told),
            (_, Some((least, most))) => match (rate(least)?, rate(most)?) {
                (least, most) if least < most => Ok(UplinkRate::Between(least, most)),
                (least, most) => Err(BoundsError::Order { least, most }),
            },
        }
    }
}

impl fmt::Display for UplinkRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UplinkRate::Auto => f.write_str("auto"),
            UplinkRate::Off => f.write_str("off"),
            UplinkRate::Told(rate) => write!(f, "{rate}"),
            UplinkRate::Between(least, most) => write!(f, "{least}..{most}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(text: &str) -> Rate {
        text.parse().unwrap()
    }

    #[test]
    fn what_is_written_is_read_back() {
        for (text, read) in [
            ("auto", UplinkRate::Auto),
            ("off", UplinkRate::Off),
            ("10mbit", UplinkRate::Told(rate("10mbit"))),
            ("2mbit..20mbit", UplinkRate::Between(rate("2mbit"), rate("20mbit"))),
            ("1.5mbit..2mbit", UplinkRate::Between(rate("1.5mbit"), rate("2mbit"))),
        ] {
            assert_eq!(text.parse(), Ok(read), "{text}");
            assert_eq!(read.to_string(), text);
        }
    }

    #[test]
    fn wrong_ones_say_what_is_right() {
        for text in
            ["", "on", "AUTO", "10", "..", "1mbit..", "..1mbit", "1mbit..2", "1mbit...2mbit", "1mbit..2mbit..3mbit"]
        {
            let said = text.parse::<UplinkRate>().unwrap_err().to_string();
            assert!(said.starts_with(&format!("`{text}`: expected auto, off, a rate")), "{said}");
        }
        for text in ["1bit", "63kbit", "1kbit..2mbit"] {
            let said = text.parse::<UplinkRate>().unwrap_err().to_string();
            assert_eq!(said, format!("`{text}`: expected 64kbit or more"));
        }
        for text in ["20mbit..2mbit", "2mbit..2mbit", "2mbit..2000kbit"] {
            let said = text.parse::<UplinkRate>().unwrap_err().to_string();
            let (least, most) = text.split_once("..").unwrap();
            let named = [least, most].map(|part| rate(part).to_string());
            assert!(named.iter().all(|rate| said.contains(rate)) && said.contains("the lower rate first"), "{said}");
        }
    }

    #[test]
    fn a_told_rate_is_a_ceiling_and_of_two_the_search_begins_at_the_greater() {
        let bounds = |text: &str| text.parse::<UplinkRate>().unwrap().bounds();
        assert_eq!((bounds("auto"), bounds("off")), (Bounds::default(), Bounds::default()));
        let told = Some(rate("9.8mbit"));
        assert_eq!(bounds("10mbit"), Bounds { least: None, first: told, most: told });
        let (least, most) = (Some(rate("2mbit")), Some(rate("20mbit")));
        assert_eq!(bounds("2mbit..20mbit"), Bounds { least, first: most, most });
    }
}
