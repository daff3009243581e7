use std::fmt;
use std::str::FromStr;

use crate::{ParseError, split_quantity};

/// A share of a whole, from 0 % to 100 % in steps of a tenth of a percent; written `1%` or `0.5%`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share {
    permille: u16,
}

/// The whole, in thousandths.
const PERMILLE_MAX: u16 = 1000;

impl Share {
    /// Makes a share; returns `None` above 1000.
    pub const fn from_permille(permille: u16) -> Option<Share> {
        if permille <= PERMILLE_MAX { Some(Share { permille }) } else { None }
    }

    pub const fn permille(self) -> u16 {
        self.permille
    }
}

impl FromStr for Share {
    type Err = ParseError;

    /// Parses a share. A number without `%` is refused, because it may be a percentage, a fraction or a number of
    /// thousandths.
    fn from_str(text: &str) -> Result<Share, ParseError> {
        let error = || ParseError {
            what: "share",
            given: text.into(),
            right: "write a percentage from 0% to 100% with one decimal or none, for example 1% or 0.5%",
        };
        let (millionths, unit) = split_quantity(text).ok_or_else(error)?;
        // A thousandth of the whole is a tenth of a percent.
        let (permille, rest) = (millionths / 100_000, millionths % 100_000);
        if unit != "%" || rest > 0 {
            return Err(error());
        }
        u16::try_from(permille).ok().and_then(Share::from_permille).ok_or_else(error)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.permille / 10, self.permille % 10) {
            (whole, 0) => write!(f, "{whole}%"),
            (whole, tenths) => write!(f, "{whole}.{tenths}%"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn shares_as_written() {
        for (text, permille, shown) in
            [("0%", 0, "0%"), ("0.5%", 5, "0.5%"), ("1%", 10, "1%"), ("12.50%", 125, "12.5%"), ("100%", 1000, "100%")]
        {
            let share: Share = text.parse().unwrap();
            assert_eq!((share.permille(), share.to_string().as_str()), (permille, shown), "{text}");
        }
    }

    #[test]
    fn wrong_shares_say_what_is_right() {
        for wrong in
            ["", "%", "10", "0.01", "1 %", "1%%", "-1%", "+1%", "0.05%", "100.1%", "1.%", "99999999999999999999%"]
        {
            assert!(wrong.parse::<Share>().unwrap_err().to_string().contains("for example 1% or 0.5%"), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn a_share_is_read_as_it_is_shown(permille in 0..=PERMILLE_MAX) {
            let share = Share::from_permille(permille).unwrap();
            prop_assert_eq!(share.to_string().parse(), Ok(share));
            let number = share.to_string().replace('%', "");
            prop_assert!(number.parse::<Share>().is_err(), "a number alone is refused");
        }

        #[test]
        fn no_text_panics_and_what_is_read_is_at_most_the_whole(text in "[0-9]{0,4}(\\.[0-9]{0,3})?%?|\\PC{0,8}") {
            if let Ok(share) = text.parse::<Share>() {
                let number: f64 = text.strip_suffix('%').unwrap().parse().unwrap();
                prop_assert!(share.permille() <= PERMILLE_MAX);
                prop_assert!((number * 10.0 - f64::from(share.permille())).abs() < 1e-9, "{}", text);
            }
        }
    }
}
