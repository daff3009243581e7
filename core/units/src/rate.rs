use std::fmt;
use std::str::FromStr;

use crate::{Nanos, ParseError, split_quantity};

/// A link rate in bits per second, never zero; written as `tc` writes it: `10mbit`, `1gbit`, `1.5mbit`. `10M`, `10
/// Mbit/s` and similar forms are accepted too; `10mbps` and `10MB/s` are not, because some people use them for bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate {
    bits_per_s: u64,
}

/// The maximum rate: above any device that Linux supports (800 Gbit/s Ethernet), and low enough that no product below
/// overflows.
const BITS_PER_S_MAX: u64 = 10_000_000_000_000;

impl Rate {
    /// Makes a rate; returns `None` for zero and for more than 10 Tbit/s.
    pub fn from_bits_per_s(bits_per_s: u64) -> Option<Rate> {
        (1..=BITS_PER_S_MAX).contains(&bits_per_s).then_some(Rate { bits_per_s })
    }

    pub fn bits_per_s(self) -> u64 {
        self.bits_per_s
    }

    /// Returns the time for which these bytes occupy the link, rounded up to a nanosecond.
    pub fn time_for(self, bytes: u64) -> Nanos {
        let bit_ns = u128::from(bytes) * 8_000_000_000;
        Nanos(u64::try_from(bit_ns.div_ceil(u128::from(self.bits_per_s))).unwrap_or(u64::MAX))
    }

    /// Returns the number of whole bytes that the link carries in this time.
    pub fn bytes_in(self, span: Nanos) -> u64 {
        let bytes = u128::from(span.0) * u128::from(self.bits_per_s) / 8_000_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// Returns the rate times `permille` / 1000, at least 1 bit/s.
    pub fn permille(self, permille: u32) -> Rate {
        let scaled = u128::from(self.bits_per_s) * u128::from(permille) / 1000;
        Rate { bits_per_s: u64::try_from(scaled).unwrap_or(BITS_PER_S_MAX).clamp(1, BITS_PER_S_MAX) }
    }
}

impl FromStr for Rate {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Rate, ParseError> {
        let wrong = |right| ParseError { what: "rate", given: text.into(), right };
        let error = || {
            wrong("write a number and a unit of bit, kbit, mbit or gbit (bits per second), for example 10mbit or 1gbit")
        };
        let (millionths, unit) = split_quantity(text.trim()).ok_or_else(error)?;
        let unit = unit.trim_start().to_ascii_lowercase();
        let scale: u128 = match unit.strip_suffix("/s").filter(|unit| unit.ends_with("bit")).unwrap_or(&unit) {
            "" => return Err(wrong("which unit? 10mbit is ten million bits per second")),
            "bit" => 1,
            "kbit" => 1_000,
            "mbit" => 1_000_000,
            "gbit" => 1_000_000_000,
            "tbit" => 1_000_000_000_000,
            _ => return Err(error()),
        };
        let bits = millionths.checked_mul(scale).ok_or_else(error)? / 1_000_000;
        u64::try_from(bits).ok().and_then(Rate::from_bits_per_s).ok_or_else(error)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (scale, unit) in [(1_000_000_000, "gbit"), (1_000_000, "mbit"), (1_000, "kbit")] {
            if self.bits_per_s >= scale && self.bits_per_s.is_multiple_of(scale / 1000) {
                return write!(f, "{}{unit}", self.bits_per_s as f64 / scale as f64);
            }
        }
        write!(f, "{}bit", self.bits_per_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn written_as_tc_writes_it() {
        for (text, bits) in
            [("10mbit", 10_000_000), ("1gbit", 1_000_000_000), ("1.5mbit", 1_500_000), ("56Kbit", 56_000), ("7bit", 7)]
        {
            assert_eq!(text.parse::<Rate>().unwrap().bits_per_s(), bits);
        }
        assert_eq!("1500kbit".parse::<Rate>().unwrap().to_string(), "1.5mbit");
    }

    #[test]
    fn read_as_people_write_it() {
        for text in ["10Mbit", "10 mbit", " 10 Mbit/s ", "0.01gbit", "10000 kbit/s"] {
            assert_eq!(text.parse::<Rate>().unwrap().to_string(), "10mbit", "{text}");
        }
        let said = "10".parse::<Rate>().unwrap_err().to_string();
        assert_eq!(said, "`10` is not a rate: which unit? 10mbit is ten million bits per second");
    }

    #[test]
    fn wrong_rates_say_what_is_right() {
        // In nginx, 10m is ten mebibytes per second.
        for wrong in
            ["10m", "10G", "10mb/s", "10", "10m/s", "10MB", "mbit", "0mbit", "-1mbit", "10mbps", "11tbit", "1e6bit"]
        {
            let said = wrong.parse::<Rate>().unwrap_err().to_string();
            assert!(said.contains(&format!("`{wrong}`")) && said.contains("10mbit"), "{said}");
        }
    }

    proptest! {
        #[test]
        fn display_reads_back(bits in 1..=BITS_PER_S_MAX) {
            let rate = Rate::from_bits_per_s(bits).unwrap();
            prop_assert_eq!(rate.to_string().parse::<Rate>().unwrap(), rate);
        }

        #[test]
        fn time_and_bytes_are_inverse(bits in 1..=BITS_PER_S_MAX, bytes in 0..1u64 << 30) {
            let rate = Rate::from_bits_per_s(bits).unwrap();
            let back = rate.bytes_in(rate.time_for(bytes));
            prop_assert!(back >= bytes && back <= bytes + bits / 8_000_000_000 + 1);
        }
    }
}
