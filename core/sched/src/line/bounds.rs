use std::str::FromStr;

use units::{ParseError, Rate};

use crate::UplinkRate;
use crate::pacing::pace::BLIND_PERMILLE;

/// The slowest pace, in bits per second.
pub(crate) const FLOOR: u64 = 64_000;

/// The rate above which a core is the bottleneck: a core serves 5 to 10 Gbit/s of large responses, and a line this fast
/// sends a segment faster than the system call can hand one down.
const FAST: u64 = 3_000_000_000;

/// Returns whether a line of this rate is sent unpaced, because responses would wait for a core, not for the line.
pub fn is_fast(rate: Rate) -> bool {
    rate.bits_per_s() >= FAST
}

/// The bounds between which the line's rate is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bounds {
    /// The minimum pace.
    pub least: Option<Rate>,
    /// The rate at which the search begins; without it, the search begins as fast as sockets take bytes.
    pub first: Option<Rate>,
    /// The maximum pace.
    pub most: Option<Rate>,
}

impl Bounds {
    /// Returns the bounds for a configured rate: the first guess and the maximum are nearly that rate.
    pub fn told(rate: Rate) -> Bounds {
        let most = Some(rate.permille(BLIND_PERMILLE));
        Bounds { least: None, first: most, most }
    }

    /// Returns the minimum pace, in bits per second.
    pub(super) fn floor(&self) -> u64 {
        self.least.map_or(FLOOR, Rate::bits_per_s)
    }
}

/// The reason why a text cannot be parsed as bounds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BoundsError {
    #[error("`{0}`: expected auto, off, a rate or two rates, for example 10mbit or 2mbit..20mbit ({1})")]
    Rate(String, #[source] ParseError),
    #[error("`{0}`: expected 64kbit or more")]
    Slow(String),
    #[error("`{least}..{most}`: expected the lower rate first and a higher one behind it, for example 2mbit..20mbit")]
    Order { least: Rate, most: Rate },
    #[error(
        "`off`: expected auto, a rate or two rates, for example 10mbit or 2mbit..20mbit: nothing is searched without order"
    )]
    Off,
}

impl FromStr for Bounds {
    type Err = BoundsError;

    /// Parses the same text as [`UplinkRate`], except `off`, which has no bounds.
    fn from_str(text: &str) -> Result<Bounds, BoundsError> {
        match text.parse()? {
            UplinkRate::Off => Err(BoundsError::Off),
            uplink => Ok(uplink.bounds()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_those_of_the_words_and_off_has_none() {
        assert_eq!("auto".parse(), Ok(Bounds::default()));
        assert_eq!("10mbit".parse(), Ok(Bounds::told("10mbit".parse().unwrap())));
        let rate = |text: &str| text.parse::<Rate>().ok();
        let range = Bounds { least: rate("8mbit"), first: rate("12mbit"), most: rate("12mbit") };
        assert_eq!("8mbit..12mbit".parse(), Ok(range));
        assert_eq!("off".parse::<Bounds>(), Err(BoundsError::Off));
        assert!(matches!("fast".parse::<Bounds>(), Err(BoundsError::Rate(text, _)) if text == "fast"));
    }
}
