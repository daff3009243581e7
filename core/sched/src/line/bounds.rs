use std::str::FromStr;

use units::Rate;

use crate::pace::BLIND_PERMILLE;

/// Between what the line's rate is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bounds {
    /// Never slower than this.
    pub least: Option<Rate>,
    /// The search begins here, instead of as fast as sockets take bytes.
    pub first: Option<Rate>,
    /// Never faster.
    pub most: Option<Rate>,
}

impl Bounds {
    /// Of a line that was told: nearly that rate is the first guess, and the ceiling.
    pub fn told(rate: Rate) -> Bounds {
        let most = Some(rate.permille(BLIND_PERMILLE));
        Bounds { least: None, first: most, most }
    }
}

/// Why a text says no bounds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BoundsError {
    #[error("`{0}` is no rate; expected auto, a rate such as 10mbit, or two such as 8mbit..12mbit")]
    Rate(String),
    #[error("`{0}` has its bounds the wrong way round; expected the slower rate first, such as 8mbit..12mbit")]
    Order(String),
}

impl FromStr for Bounds {
    type Err = BoundsError;

    /// `auto`, `RATE` (a first guess and a ceiling) or `RATE..RATE`.
    fn from_str(text: &str) -> Result<Bounds, BoundsError> {
        let rate = |part: &str| part.parse::<Rate>().map_err(|_| BoundsError::Rate(text.to_owned()));
        if text == "auto" {
            return Ok(Bounds::default());
        }
        let Some((least, most)) = text.split_once("..") else { return Ok(Bounds::told(rate(text)?)) };
        let (least, most) = (rate(least)?, rate(most)?);
        if least >= most {
            return Err(BoundsError::Order(text.to_owned()));
        }
        Ok(Bounds { least: Some(least), first: Some(most), most: Some(most) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_first_guess_and_a_ceiling_and_two_are_bounds() {
        let rate = |text: &str| text.parse::<Rate>().ok();
        assert_eq!("auto".parse(), Ok(Bounds::default()));
        let told = Bounds { least: None, first: rate("9.8mbit"), most: rate("9.8mbit") };
        assert_eq!("10mbit".parse(), Ok(told));
        let range = Bounds { least: rate("8mbit"), first: rate("12mbit"), most: rate("12mbit") };
        assert_eq!("8mbit..12mbit".parse(), Ok(range));
    }

    #[test]
    fn mistakes_name_what_was_written() {
        for text in ["", "fast", "8mbit..", "..8mbit", "0"] {
            assert_eq!(text.parse::<Bounds>(), Err(BoundsError::Rate(text.to_owned())));
        }
        for text in ["12mbit..8mbit", "8mbit..8mbit"] {
            assert_eq!(text.parse::<Bounds>(), Err(BoundsError::Order(text.to_owned())));
        }
    }
}
